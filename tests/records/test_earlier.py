"""Records and plans of the earlier schema are read as today's."""

import json
from pathlib import Path

import pytest

from records.earlier import upgraded
from records.probes import ABLATION, CAUSAL, LOSS_ABLATION, REACH, NotMeasured, Reach
from records.reading import Unreadable
from records.record import read_plan, read_record

DATA = Path(__file__).parent / "data"
FINISHED, DIVERGED = DATA / "schema2_finished.json", DATA / "schema2_diverged.json"


def test_a_finished_run():
    was, found = json.loads(FINISHED.read_text()), read_record(str(FINISHED))
    assert (found.status, found.variant, found.hyper) == ("finished", "idea", was["hyper"])
    assert found.scores == was["scores"]
    mae = found.secondary["mae"]
    assert mae.scores == {split: was["secondary"]["mae"][split] for split in ("validation", "test")}
    assert mae.direction == "min"
    reach, shares = was["probes"]["reach"], was["probes"]["reach_by_parameter"]
    assert found.probe(REACH) == Reach(reach, shares)
    assert found.probe(ABLATION) == was["probes"]["ablation"]
    assert found.probe(CAUSAL) is True
    assert found.config is None


def test_a_diverged_run():
    found = read_record(str(DIVERGED))
    assert found.status == "diverged"
    assert found.scores["test"] is found.probe(REACH) is found.probe(ABLATION) is None


def test_a_plan(tmp_path):
    path = tmp_path / "plan.json"
    run = {"track": "t", "variant": "v", "seed": 0, "hyper": {"lr": 1}}
    path.write_text(json.dumps({"schema": 2, "runs": [run]}))
    found = read_plan(str(path))
    assert (found.runs[0].identity, found.commands) == (("t", "v", 0, (("lr", 1.0),), 1.0), [])


@pytest.mark.parametrize(
    ("part", "value", "told"),
    [
        ("probes", [], "probes: Expected `object`"),
        ("secondary", {"mae": 1}, "secondary"),
        ("scores", None, "scores: Expected `object`"),
        ("scores", {"test": 1.0}, "scores has no validation"),
        ("hyper", {"lr": None}, "hyper"),
    ],
)
def test_a_malformed_one_is_told_in_a_line(tmp_path, part, value, told):
    path = tmp_path / "result.json"
    path.write_text(json.dumps(json.loads(FINISHED.read_text()) | {part: value}))
    with pytest.raises(Unreadable, match=told):
        read_record(str(path))


@pytest.mark.parametrize(
    ("name", "said", "ties"),
    [("mse", None, False), ("mse", True, True), ("accuracy", None, None), ([], None, None)],
)
def test_of_two_metrics_it_is_known_that_they_cannot_tie(name, said, ties):
    metric = {"name": name} | ({} if said is None else {"can_tie": said})
    was = {"metric": metric, "secondary": {"mae": {"test": 1.0}, "hits": {"test": 1.0}}}
    found = upgraded(was)
    assert found["metric"].get("can_tie") is ties
    assert found["secondary"] == {
        "mae": {"scores": {"test": 1.0}, "can_tie": False},
        "hits": {"scores": {"test": 1.0}},
    }


@pytest.mark.parametrize("found", [None, [], 1, "x", {}])
def test_what_is_no_record_is_left_to_the_reader(found):
    assert upgraded(found) == ({"schema": 3} if found == {} else found)


def test_a_probe_that_is_not_there_is_not_measured():
    was = json.loads(FINISHED.read_text())
    del was["probes"]["loss_ablation"]
    probes = upgraded(was)["probes"]
    with pytest.raises(NotMeasured, match="loss_ablation is not there"):
        LOSS_ABLATION.read(probes)
    for wrong, told in ((0.5, "Expected `object"), ({"all": -1}, "all: Expected")):
        with pytest.raises(NotMeasured, match=f"reach is malformed: {told}"):
            REACH.read(probes | {"reach": wrong})
