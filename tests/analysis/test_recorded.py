"""The scores and the examples of a run that was found."""

import json
import os

import msgspec
import numpy as np
import pytest

from analysis.read.recorded import RecordedRun, read_examples
from records.reading import Unreadable
from records.record import Metric, Record
from tests.analysis.builder import can_tie, record, write_examples, write_run


def run_of(run, folder="", judged_by=None):
    return RecordedRun(msgspec.json.decode(json.dumps(run), type=Record), str(folder), judged_by)


def test_a_run_has_the_scores_of_the_metric_that_decides():
    run = record("idea", 0, validation=0.0, test=0.5)
    assert (run_of(run).validation, run_of(run).test) == (0.0, 0.5)
    by = run_of(run, judged_by=Metric("mae", "min"))
    assert (by.validation, by.test) == (0.31, 0.33)
    assert np.isnan(run_of(run, judged_by=Metric("rmse", "min")).test)
    run["secondary"]["mae"]["scores"]["test"] = None
    assert np.isnan(run_of(run).score("mae", "test"))
    assert run_of(run).score("mae", "validation") == 0.31


def test_no_score_of_a_run_that_diverged_counts():
    run = record("idea", 0)
    run["status"] = "diverged"  # at its last step, after it was validated
    for by in (None, Metric("mae", "min")):
        found = run_of(run, judged_by=by)
        assert found.diverged
        assert np.isnan([found.validation, found.test]).all()


def test_by_which_metric_runs_can_be_told_to_be_one():
    run = record("idea", 0)
    assert run_of(run).smooth == "mse"
    run["metric"]["can_tie"] = None
    assert run_of(run).smooth is None
    can_tie(run)
    assert run_of(run).smooth == "loss"
    assert run_of(run, judged_by=Metric("mae", "min", can_tie=False)).smooth == "mae"
    hits = Metric("hits", "max", can_tie=True)
    assert run_of(record("idea", 0), judged_by=hits).smooth is None  # never by another one's
    for change in ({"can_tie": True}, {"can_tie": None}, {"test": None}, {"validation": None}):
        can_tie(run)
        loss = run["secondary"]["loss"]
        (loss["scores"] if set(change) & set(loss["scores"]) else loss).update(change)
        assert run_of(run).smooth is None, change
    del run["secondary"]["loss"]
    assert run_of(run).smooth is None


LOSSES = np.array([0.25, 0.5, 0.75], dtype=np.float32)


def test_examples_are_those_of_the_metric_asked_for(tmp_path):
    run = record("idea", 0, test=0.5)
    run["secondary"]["mae"]["scores"]["test"] = 1.0
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
    run["secondary"]["mae"]["scores"]["test"] = 0.5
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
