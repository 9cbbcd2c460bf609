"""One planted fault for each audit; the clean twin raises nothing at all."""

import copy
import json
import re

import numpy as np
import pytest

from analysis.audits import AUDITS
from tests.analysis.builder import analysed, diverge, grid, pick, record, write_run, write_sweep


@pytest.fixture
def records():
    return grid()


def raised(judged, code):
    return [(each.severity, each.message) for each in judged.audits if each.code == code]


def only(judged, code):
    """The one audit of this comparison, which must be of this code."""
    assert [each.code for each in judged.audits] == [code]
    [audit] = judged.audits
    assert audit.advice
    return audit.severity, audit.message


def test_clean_sweep_raises_nothing(tmp_path, records):
    [judged] = analysed(write_sweep(tmp_path, records))
    assert judged.audits == ()
    assert judged.verdict == "idea better (significant)"
    assert judged.confidence == 10


def test_every_audit_has_a_trap():
    assert {check.__name__ for check in AUDITS} == {
        name.removeprefix("test_trap_") for name in globals() if name.startswith("test_trap_")
    }


def test_trap_unpaired_seed(tmp_path, records):
    records += grid(["baseline"], seeds=[8])
    [judged] = analysed(write_sweep(tmp_path, records))
    severity, message = only(judged, "unpaired_seed")
    assert severity == "warning"
    assert "idea" in message
    assert "seed 8" in message
    assert judged.comparison.seeds == tuple(range(8))


def test_unpaired_where_only_the_selected_configuration_lacks_the_seed(tmp_path, records):
    records.remove(pick(records, "idea", seed=4)[0])
    [judged] = analysed(write_sweep(tmp_path, records))
    _, message = only(judged, "unpaired_seed")
    assert "idea (lr=0.003 gamma=1) has no run of seed 4" in message


def test_trap_no_shared_seed(tmp_path):
    records = [record("baseline", 0), record("idea", 1)]
    [judged] = analysed(write_sweep(tmp_path / "arms", records))
    found = raised(judged, "no_shared_seed")
    assert [severity for severity, _ in found] == ["void"] * 3  # neither arm tuned, nothing paired
    assert judged.verdict == "invalid"

    records = [*(record("baseline", seed) for seed in range(2))]
    records += [record("idea", 0, 0.003), record("idea", 1, 0.006)]
    [judged] = analysed(write_sweep(tmp_path / "configurations", records))
    [(severity, message)] = raised(judged, "no_shared_seed")
    assert severity == "void"
    assert "idea could not be tuned" in message
    assert "2 configurations" in message


def test_trap_missing_run(tmp_path, records):
    lost = pick(records, "idea", seed=3, lr=0.006)[0]
    left = [run for run in records if run is not lost]
    sweep = write_sweep(tmp_path, left, plan=records)
    [judged] = analysed(sweep)
    severity, message = only(judged, "missing_run")
    assert severity == "void"
    assert "1 of 48" in message
    assert "idea seed=3 lr=0.006 gamma=1" in message
    assert judged.verdict == "incomplete"

    [judged] = analysed(sweep, partial=True)
    assert only(judged, "missing_run")[0] == "warning"
    assert judged.verdict == "idea better (significant)"


def test_a_run_missing_from_one_sweep_may_lie_in_another(tmp_path, records):
    sweeps = [
        write_sweep(tmp_path / "first", records[:-1], plan=records),
        write_sweep(tmp_path / "second", records[-1:]),
    ]
    [judged] = analysed(*sweeps)
    assert judged.audits == ()


def test_missing_runs_of_other_arms_are_no_concern(tmp_path, records):
    plan = records + grid(["other"])
    [judged] = analysed(write_sweep(tmp_path, records, plan=plan))
    assert judged.audits == ()


def test_trap_duplicate_run(tmp_path, records):
    twin = copy.deepcopy(pick(records, "idea", seed=2)[0])
    [judged] = analysed(write_sweep(tmp_path / "same", [*records, twin]))
    severity, message = only(judged, "duplicate_run")
    assert severity == "note"
    assert "idea seed=2 lr=0.003" in message
    assert judged.verdict == "idea better (significant)"

    twin["scores"]["test"] += 1e-9
    [judged] = analysed(write_sweep(tmp_path / "unlike", [*records, twin]))
    severity, message = only(judged, "duplicate_run")
    assert severity == "void"
    assert "idea seed=2 lr=0.003" in message
    assert judged.verdict == "invalid"


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda text: text[: len(text) // 2], "JSON"),
        (lambda text: "", "JSON"),
        (lambda text: text.replace('"schema": 2', '"schema": 3'), "schema"),
        (lambda text: json.dumps(json.loads(text) | {"seed": "2"}), "seed"),
        (lambda text: text.replace('"reach": 0.031', '"reach": NaN'), "probes.reach"),
        (lambda text: text.replace('"gamma": 1.0', '"gamma": "1.0"'), "hyper.gamma"),
        (lambda text: text.replace('"parameters": 101832', '"parameters": true'), "parameters"),
        (lambda text: text.replace('"data":', '"date":'), "hashes.data"),
        (lambda text: re.sub(r'"test": [0-9.]+', '"test": null', text, count=1), "score is null"),
    ],
)
def test_trap_unreadable_record(tmp_path, records, damage, told):
    sweep = write_sweep(tmp_path, records, planned=False)
    bad = write_run(tmp_path / "extra", record("idea", 99)) / "result.json"
    text = bad.read_text()
    assert damage(text) != text
    bad.write_text(damage(text))
    [judged] = analysed(sweep)
    severity, message = only(judged, "unreadable_record")
    assert severity == "warning"
    assert str(bad) in message
    assert told in message


class Bomb:
    """Unpickling this would write a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


@pytest.mark.parametrize("fault", ["pickle", "truncated", "nan", "no test array"])
def test_unreadable_examples_are_named_and_never_executed(tmp_path, records, fault):
    sweep = write_sweep(tmp_path / "sweep", records)
    [path] = [p for p in sweep.glob("*-idea-3/examples.npz") if p.parent.name == "0035-idea-3"]
    if fault == "pickle":
        np.savez(path, test=np.array([Bomb(tmp_path / "executed")], dtype=object))
    elif fault == "truncated":
        path.write_bytes(path.read_bytes()[:100])
    elif fault == "nan":
        np.savez(path, test=np.full(20, np.nan, dtype=np.float32))
    else:
        np.savez(path, train=np.ones(20, dtype=np.float32))
    [judged] = analysed(sweep)
    severity, message = only(judged, "unreadable_record")
    assert severity == "warning"
    assert str(path) in message
    assert not (tmp_path / "executed").exists()


def test_trap_diverged_run(tmp_path, records):
    diverge(pick(records, "idea", seed=6, lr=0.006)[0])
    [judged] = analysed(write_sweep(tmp_path / "outside", records))
    severity, message = only(judged, "diverged_run")
    assert severity == "warning"
    assert "idea seed=6 lr=0.006" in message
    assert judged.verdict == "idea better (significant)"

    for lr in (0.0015, 0.003):
        diverge(pick(records, "idea", seed=6, lr=lr)[0])
    [judged] = analysed(write_sweep(tmp_path / "idea", records))
    [(severity, message), (other, others)] = raised(judged, "diverged_run")
    assert (severity, other) == ("void", "warning")
    assert "lr=0.003" not in others
    assert "1 of the 8 runs of idea" in message
    assert "idea seed=6 lr=0.003" in message
    assert (judged.verdict, judged.system_verdict) == ("invalid", "failed")
    assert judged.p_value is None

    for lr in (0.0015, 0.003, 0.006):
        diverge(pick(records, "baseline", seed=1, lr=lr)[0])
    [judged] = analysed(write_sweep(tmp_path / "both", records))
    assert (judged.verdict, judged.system_verdict) == ("invalid", "invalid")


def test_trap_metric_mismatch(tmp_path, records):
    pick(records, "idea", seed=5)[0]["metric"]["name"] = "mae"
    [judged] = analysed(write_sweep(tmp_path, records))
    severity, message = only(judged, "metric_mismatch")
    assert severity == "void"
    assert "mae (lower is better) in idea" in message
    assert judged.verdict == "invalid"


def test_trap_data_mismatch(tmp_path, records):
    pick(records, "idea", seed=5)[0]["hashes"]["data"] = "other"
    [judged] = analysed(write_sweep(tmp_path, records))
    severity, message = only(judged, "data_mismatch")
    assert severity == "void"
    assert "seed 5" in message
    assert judged.verdict == "invalid"


def test_trap_order_mismatch(tmp_path, records):
    pick(records, "baseline", seed=0)[0]["hashes"]["order"] = "other"
    [judged] = analysed(write_sweep(tmp_path, records))
    severity, message = only(judged, "order_mismatch")
    assert severity == "void"
    assert "seed 0" in message
    assert judged.verdict == "invalid"


@pytest.mark.parametrize(
    ("arm", "lr", "end"), [("idea", 0.006, "largest"), ("baseline", 0.0015, "smallest")]
)
def test_trap_grid_edge(tmp_path, records, arm, lr, end):
    for run in pick(records, arm, lr=lr):
        run["scores"]["validation"] = 0.0
    [judged] = analysed(write_sweep(tmp_path, records))
    severity, message = only(judged, "grid_edge")
    assert severity == "warning"
    for part in (arm, "lr", f"{lr}", end, "0.0015, 0.003, 0.006"):
        assert part in message


def test_grid_edge_of_any_swept_key(tmp_path):
    records = grid(lrs=[0.003])  # one value has no edge
    assert analysed(write_sweep(tmp_path / "one", records))[0].audits == ()
    for run in grid(lrs=[0.003]):
        run["hyper"]["gamma"] = 2
        run["scores"]["validation"] = 9.0
        records.append(run)
    [judged] = analysed(write_sweep(tmp_path / "two", records))
    assert [message.split(",")[0] for _, message in raised(judged, "grid_edge")] == [
        "The best gamma of baseline",
        "The best gamma of idea",
    ]


@pytest.mark.parametrize(
    ("reach", "void"), [(1e-8, True), (9e-7, True), (1e-6, False), (None, False)]
)
@pytest.mark.parametrize("arm", ["baseline", "idea"])
def test_trap_out_of_reach(tmp_path, records, arm, reach, void):
    pick(records, arm, seed=7)[0]["probes"]["reach"] = reach
    [judged] = analysed(write_sweep(tmp_path, records))
    if not void:
        assert judged.audits == ()
        return
    severity, message = only(judged, "out_of_reach")
    assert severity == "void"
    assert arm in message
    assert "seed 7" in message
    assert "1 of 8" in message
    assert judged.verdict == "invalid"


@pytest.mark.parametrize(
    ("factor", "apart"), [(1.06, True), (0.94, True), (1.04, False), (0.96, False)]
)
def test_trap_parameter_parity(tmp_path, records, factor, apart):
    for run in pick(records, "idea", lr=None):
        run["cost"]["parameters"] = round(run["cost"]["parameters"] * factor)
    [judged] = analysed(write_sweep(tmp_path, records))
    if not apart:
        assert judged.audits == ()
        return
    severity, message = only(judged, "parameter_parity")
    assert severity == "warning"
    assert str(round(101832 * factor)) in message
    assert "101832" in message


def test_parity_is_of_the_selected_configurations(tmp_path, records):
    for run in pick(records, "idea", lr=0.006):
        run["cost"]["parameters"] *= 2
    assert analysed(write_sweep(tmp_path, records))[0].audits == ()
