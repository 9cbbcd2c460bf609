"""What a record says, and which are refused."""

import json

import msgspec
import pytest

from records.reading import Unreadable
from records.record import Metric, Record, read_plan, read_record
from tests.analysis.builder import as_older, diverge, record


def decoded(run):
    return msgspec.json.decode(json.dumps(run), type=Record)


@pytest.mark.parametrize(
    ("name", "ties", "smooth"),
    [
        ("accuracy", True, False),
        ("mse", True, False),
        ("accuracy", False, True),
        ("mse", None, False),  # not known
    ],
)
def test_which_metric_cannot_tie(name, ties, smooth):
    assert Metric(name, "min", can_tie=ties).is_smooth is smooth


def test_which_way_is_better():
    assert Metric("mse", "min").better == "lower is better"
    assert Metric("accuracy", "max").better == "higher is better"


def test_a_finished_run_has_both_scores():
    for split in ("validation", "test"):
        run = record("idea", 0)
        run["scores"][split] = None
        with pytest.raises(msgspec.ValidationError, match="finished but a score is null"):
            decoded(run)
        run["status"] = "diverged"
        decoded(run)


ALLOWED = [
    ("schema", [3], [1, 4]),
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
    ("cost.evaluate_seconds", [0, 0.5, None], [-0.5]),
    ("overlap", [None, 0, 39], [-1, 0.5]),
    ("acting", [None, [], ["lr"]], ["lr", [1]]),
    ("probes", [{}, {"new": [1]}], [None, []]),
    ("scores.test@64", [0.5, None], ["0.5"]),
    ("secondary.mae.scores", [{}, {"test@64": None}], [None, {"test": "x"}]),
    ("hyper.lr", [0.1, 1, "muon"], [None, True, [1]]),
    ("config", [None, {}, {"model": [1, "x"]}], [0, "x"]),
    ("signature", [None], [{}]),
    ("signature.observed", [{}, {"x": None}], [None, {"x": "1"}]),
    ("signature.observed_at_start", [None, {}, {"x": None}], [{"x": "1"}, 0]),
    ("signature.blocks", [None, [], [{"x": 1}, {"x": None}]], [{"x": 1}, [None], [{"x": "1"}]]),
    ("signature.criteria.0.op", ["<", "<=", ">", ">="], ["==", "!="]),
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
    path = tmp_path / "result.json"
    path.write_text(json.dumps(run))
    found = read_record(str(path))
    assert found.metric.bounds is None
    assert "loss_ablation" not in found.probes
    assert found.config is None
    assert found.signature.observed_at_start is found.signature.blocks is None
    assert found.signature.holds
    diverge(run)
    path.write_text(json.dumps(run))
    read_record(str(path))
