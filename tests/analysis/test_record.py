"""What a record, a run and its examples say, and which are refused."""

import json
import os

import msgspec
import numpy as np
import pytest

from analysis.record import (
    Criterion,
    Metric,
    Record,
    Run,
    Signature,
    Unreadable,
    read_examples,
    read_plan,
    read_record,
)
from tests.analysis.builder import as_older, can_tie, diverge, record, write_examples, write_run


def decoded(run):
    return msgspec.json.decode(json.dumps(run), type=Record)


def run_of(run, folder="", judged_by=None):
    return Run(decoded(run), str(folder), judged_by)


@pytest.mark.parametrize(
    ("op", "below", "at", "above"),
    [
        ("<", True, False, False),
        ("<=", True, True, False),
        (">", False, False, True),
        (">=", False, True, True),
    ],
)
def test_a_criterion_holds_on_its_side_of_the_value(op, below, at, above):
    criterion = Criterion("x", op, 0.5)
    assert [criterion.holds({"x": x}) for x in (0.4, 0.5, 0.6)] == [below, at, above]
    assert not criterion.holds({"x": None})
    assert not criterion.holds({"y": 0.5})


def signature(observed, start=None, certain=(), criteria=(("x", ">", 1.0), ("y", "<", 0.0))):
    return Signature(
        "words",
        [Criterion(*each) for each in criteria],
        observed,
        dict.fromkeys(certain, "why"),
        start,
    )


@pytest.mark.parametrize(
    ("observed", "start", "certain", "refuted"),
    [
        ({"x": 2, "y": -1}, {"x": 1, "y": 0}, (), []),
        ({"x": 2, "y": -1}, None, (), []),  # an older record
        ({"x": 2, "y": -1}, {"x": None}, (), []),
        ({"x": 2, "y": 0.5}, {"x": 1, "y": 0}, (), ["y = 0.5, not < 0"]),
        ({"x": None}, {}, (), ["x = –, not > 1", "y = –, not < 0"]),
        ({"x": 2, "y": -1}, {"x": 1.5, "y": 0}, (), ["x > 1 held before training (1.5)"]),
        ({"x": 1, "y": -1}, {"x": 1.5}, (), ["x = 1, not > 1"]),  # no longer: it is refuted
        ({"x": 2, "y": -1}, {"x": 1.5}, ("x",), ["x holds by construction"]),
        ({"x": 0, "y": 1}, {}, ("y",), ["x = 0, not > 1", "y holds by construction"]),
    ],
)
def test_what_a_signature_confirms(observed, start, certain, refuted):
    found = signature(observed, start, certain)
    assert found.refuted == refuted
    assert found.holds == (not refuted)


def test_a_signature_without_criteria_confirms_nothing():
    assert not signature({"x": 2}, criteria=()).holds


@pytest.mark.parametrize(
    ("name", "ties", "smooth"),
    [
        ("accuracy", True, False),
        ("mse", True, False),
        ("accuracy", False, True),
        ("mse", None, True),  # what was not recorded is known of these two alone
        ("mae", None, True),
        ("accuracy", None, False),
    ],
)
def test_which_metric_cannot_tie(name, ties, smooth):
    assert Metric(name, "min", can_tie=ties).is_smooth is smooth


def test_which_way_is_better():
    assert Metric("mse", "min").better == "lower is better"
    assert Metric("accuracy", "max").better == "higher is better"


def test_a_run_has_the_scores_of_the_metric_that_decides():
    run = record("idea", 0, validation=0.0, test=0.5)
    assert (run_of(run).validation, run_of(run).test) == (0.0, 0.5)
    by = run_of(run, judged_by=Metric("mae", "min"))
    assert (by.validation, by.test) == (0.31, 0.33)
    assert np.isnan(run_of(run, judged_by=Metric("rmse", "min")).test)
    run["secondary"]["mae"]["test"] = None
    assert np.isnan(run_of(run).score("mae", "test"))
    assert run_of(run).score("mae", "validation") == 0.31


def test_no_score_of_a_run_that_diverged_counts():
    run = record("idea", 0)
    run["status"] = "diverged"  # at its last step, after it was validated
    for by in (None, Metric("mae", "min")):
        found = run_of(run, judged_by=by)
        assert found.diverged
        assert np.isnan([found.validation, found.test]).all()


def test_a_finished_run_has_both_scores():
    for split in ("validation", "test"):
        run = record("idea", 0)
        run["scores"][split] = None
        with pytest.raises(msgspec.ValidationError, match="finished but a score is null"):
            decoded(run)
        run["status"] = "diverged"
        decoded(run)


def test_by_which_metric_runs_can_be_told_to_be_one():
    run = record("idea", 0)
    assert run_of(run).smooth == "mse"
    as_older(run)
    assert run_of(run).smooth == "mse"
    can_tie(run)
    assert run_of(run).smooth == "loss"
    assert run_of(run, judged_by=Metric("mae", "min", can_tie=False)).smooth == "mae"
    hits = Metric("hits", "max", can_tie=True)
    assert run_of(record("idea", 0), judged_by=hits).smooth is None  # never by another one's
    for change in ({"can_tie": True}, {"can_tie": None}, {"test": None}, {"validation": None}):
        can_tie(run)
        run["secondary"]["loss"] |= change
        assert run_of(run).smooth is None, change
    del run["secondary"]["loss"]
    assert run_of(run).smooth is None


LOSSES = np.array([0.25, 0.5, 0.75], dtype=np.float32)


def test_examples_are_those_of_the_metric_asked_for(tmp_path):
    run = record("idea", 0, test=0.5)
    run["secondary"]["mae"]["test"] = 1.0
    found = run_of(run, write_run(tmp_path / "run", run))
    assert read_examples(found, "mse") is None  # none were kept
    write_examples(tmp_path / "run", **{"test/mse": LOSSES, "test/mae": 2 * LOSSES})
    assert read_examples(found, "mse").tolist() == LOSSES.tolist()
    assert read_examples(found, "mae").tolist() == (2 * LOSSES).tolist()
    assert read_examples(found, "rmse") is None
    write_examples(tmp_path / "run", test=LOSSES)  # an older file
    assert read_examples(found, "mse").tolist() == LOSSES.tolist()
    assert read_examples(found, "mae") is None
    write_examples(tmp_path / "run", **{"test": 2 * LOSSES, "test/mse": LOSSES})
    assert read_examples(found, "mse").tolist() == LOSSES.tolist()
    write_examples(tmp_path / "run", train=LOSSES)
    with pytest.raises(Unreadable, match="no array `test` can be read"):
        read_examples(found, "mse")


@pytest.mark.parametrize("metric", ["mse", "mae"])
@pytest.mark.parametrize(
    ("losses", "told"),
    [
        (np.float32(LOSSES * (1 + 5e-7)), None),
        (np.float32(LOSSES * (1 + 2e-6)), "has the mean 0.500001, the run's test score is 0.5"),
        (np.float32(LOSSES * (1 - 2e-6)), "has the mean"),
        (np.float32([0.5, np.nan]), "finite float32"),
        (np.float32([0.5, np.inf]), "finite float32"),
        (np.float32([]), "finite float32"),
        (np.float64([0.5]), "finite float32"),
        (np.array([object()]), "can be read"),
    ],
)
def test_examples_are_checked_against_the_score(tmp_path, metric, losses, told):
    run = record("idea", 0, test=0.5)
    run["secondary"]["mae"]["test"] = 0.5
    found = run_of(run, write_run(tmp_path / "run", run))
    np.savez(tmp_path / "run" / "examples.npz", **{f"test/{metric}": losses})
    if told is None:
        assert read_examples(found, metric) is not None
        return
    with pytest.raises(Unreadable, match=told) as error:
        read_examples(found, metric)
    assert f"`test/{metric}`" in str(error.value)


def test_a_score_of_zero_is_a_score(tmp_path):
    run = record("idea", 0, test=0.0)
    found = run_of(run, write_run(tmp_path / "run", run, np.zeros(3)))
    assert read_examples(found, "mse").tolist() == [0, 0, 0]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_examples_in_a_pipe_are_not_waited_for(tmp_path):
    run = record("idea", 0)
    found = run_of(run, write_run(tmp_path / "run", run))
    os.mkfifo(tmp_path / "run" / "examples.npz")
    with pytest.raises(Unreadable, match="not a regular file"):
        read_examples(found, "mse")


ALLOWED = [
    ("schema", [2], [1, 3]),
    ("status", ["finished", "diverged"], ["failed"]),
    ("metric.direction", ["min", "max"], ["down"]),
    ("metric.bounds", [None, [0, 1], [None, 1], [None, None]], [[0], [0, 1, 2], ["0", 1], 0]),
    ("metric.can_tie", [None, True, False], [1, "no"]),
    ("secondary.mae.bounds", [None, [0, None]], [[0]]),
    ("secondary.mae.can_tie", [None, True], [0]),
    ("secondary.mae.direction", [None, "max"], ["down"]),
    ("analysis", [None], [0]),
    ("analysis.alpha", [1e-9, 0.5], [9e-10, 0.51, 0, 1]),
    ("analysis.margin_pct", [1e-9, 1e9], [0, -1]),
    ("analysis.family", ["all", "track"], ["arm"]),
    ("budget.steps", [0, 2**63 - 1], [-1, 2**63, 0.5]),
    ("cost.parameters", [0], [-1, None]),
    ("cost.flops_per_example", [0, 0.5, None], [-0.5]),
    ("probes.reach", [0, None], [-1e-9]),
    ("probes.reach_by_parameter", [None, {}, {"x": 0}], [{"x": -1e-9}, {"x": None}, 0.1]),
    ("probes.loss_ablation", [None, -0.1], ["0"]),
    ("probes.causal", [None, True], [0]),
    ("probes.split_overlap", [None, 0], [-1, 0.5]),
    ("signature", [None], [{}]),
    ("signature.observed", [{}, {"x": None}], [None, {"x": "1"}]),
    ("signature.observed_at_start", [None, {}, {"x": None}], [{"x": "1"}, 0]),
    ("signature.blocks", [None, [], [{"x": 1}, {"x": None}]], [{"x": 1}, [None], [{"x": "1"}]]),
    ("signature.criteria.0.op", ["<", "<=", ">", ">="], ["==", "!="]),
    ("starts", [None, {}, {"mixer.start": "dct", "initial_stream": None}], [[], "x"]),
    ("baseline", [None, "x"], [0]),
]


@pytest.mark.parametrize(("path", "good", "bad"), ALLOWED, ids=[each[0] for each in ALLOWED])
def test_what_each_field_may_hold(tmp_path, path, good, bad):
    *above, last = (int(key) if key.isdecimal() else key for key in path.split("."))
    file = tmp_path / "result.json"
    for value in good + bad:
        run = part = record("idea", 0)
        for key in above:
            part = part[key]
        part[last] = value
        file.write_text(json.dumps(run))
        if value in good and not any(value is each for each in bad):
            read_record(str(file))
        else:
            with pytest.raises(Unreadable):
                read_record(str(file))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no valid JSON"),
        ('{"x": ' + "[" * 9999, "nested too deeply"),
        ("{}", "schema: required, and not there"),
        ('{"schema": 2, "runs": [{"track": 1}]}', "runs[0].track: Expected `str`, got `int`"),
        ('{"schema": 2, "runs": [{"track": "x"}]}', "runs[0].variant: required, and not there"),
        ("[]", "Expected `object`, got `array`"),
    ],
)
def test_what_is_wrong_with_a_file_is_one_line(tmp_path, text, told):
    file = tmp_path / "plan.json"
    file.write_text(text)
    with pytest.raises(Unreadable) as error:
        read_plan(str(file))
    assert told in str(error.value)
    assert "\n" not in str(error.value)
    assert "$" not in str(error.value)


def test_an_identity_knows_no_order_of_keys_and_no_kind_of_number():
    one, other = record("idea", 1), record("idea", 1)
    other["hyper"] = {"gamma": 1, "lr": 3e-3}
    assert decoded(one).identity == decoded(other).identity
    for change in ({"seed": 2}, {"track": "series"}, {"variant": "x"}, {"hyper": {"lr": 0.003}}):
        assert decoded(one).identity != decoded(one | change).identity


def test_an_older_record_is_read(tmp_path):
    run = record("idea", 0)
    as_older(run)
    found = decoded(run)
    assert found.starts is found.metric.bounds is found.metric.can_tie is None
    assert found.probes.reach_by_parameter is found.probes.loss_ablation is None
    assert found.signature.observed_at_start is found.signature.blocks is None
    assert found.signature.holds
    diverge(run)
    decoded(run)
