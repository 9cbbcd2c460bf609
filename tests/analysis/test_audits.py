"""One planted fault for each audit; the clean twin raises nothing at all."""

import copy
import json
import math
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from analysis.judge import audits
from analysis.judge.audits import AUDITS, CONCLUSION_AUDITS
from analysis.judge.audits.evidence import few_seeds_of
from tests.analysis.builder import (
    analysed,
    as_older,
    can_tie,
    diverge,
    grid,
    pick,
    record,
    write_examples,
    write_run,
    write_sweep,
)

ARMS = pytest.mark.parametrize("arm", ["baseline", "idea"])


@pytest.fixture
def records():
    return grid()


def raised(judged, code):
    assert all(each.advice for each in judged.audits)
    return [(each.severity, each.message) for each in judged.audits if each.code == code]


def faults(judged):
    """The codes that were raised, but for the note that every grid tuned on its own seeds gets."""
    return [each.code for each in judged.audits if each.code != "tuned_on_reported_seeds"]


def only(judged, code):
    """The one fault of this comparison, which must be of this code."""
    assert faults(judged) == [code]
    [audit] = [each for each in judged.audits if each.code == code]
    assert audit.advice
    return audit.severity, audit.message


def test_clean_sweep_raises_nothing(tmp_path):
    records = grid(seeds=range(12))
    for run in records:
        run["analysis"]["tuning_seeds"] = [0, 1, 2, 3]
    [judged] = analysed(write_sweep(tmp_path, records))
    assert judged.audits == ()
    assert judged.comparison.seeds == tuple(range(4, 12))
    assert judged.verdict == "idea better (significant)"
    assert judged.confidence == 10


def test_every_audit_of_the_folder_is_found(tmp_path):
    """Also one that is put there: nothing else names it."""
    root = Path(audits.__file__).parents[3]
    for package in ("analysis", "records"):
        shutil.copytree(root / package, tmp_path / package)
    new = tmp_path / "analysis" / "judge" / "audits" / "zz_planted.py"
    new.write_text("def planted(comparison):\n    yield from ()\n\n\nCHECKS = (planted,)\n")
    code = "from analysis.judge.audits import AUDITS; print(AUDITS[-1].__name__)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout == "planted\n", done.stderr


def test_every_audit_has_a_trap():
    assert {check.__name__ for check in (*AUDITS, *CONCLUSION_AUDITS)} == {
        name.removeprefix("test_trap_") for name in globals() if name.startswith("test_trap_")
    }


@ARMS
def test_trap_unpaired_seed(tmp_path, records, arm):
    records += grid([arm], seeds=[8])
    [judged] = analysed(write_sweep(tmp_path, records))
    severity, message = only(judged, "unpaired_seed")
    assert severity == "warning"
    other = {"baseline": "idea", "idea": "baseline"}[arm]
    assert message.startswith(f"{other} (lr=0.003 gamma=1) has no run of seed 8,")
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
    assert found[2][1] == (
        "The selected configurations of baseline and idea share no seed, so nothing is paired."
    )
    assert judged.verdict == "invalid"

    records = [*(record("baseline", seed) for seed in range(2))]
    records += [record("idea", 0, 0.003), record("idea", 1, 0.006)]
    [judged] = analysed(write_sweep(tmp_path / "configurations", records))
    [(severity, message)] = raised(judged, "no_shared_seed")
    assert severity == "void"
    assert "idea could not be tuned: no seed stands in the other arm" in message
    assert "2 configurations" in message
    [judged] = analysed(tmp_path / "configurations", tuning_seeds=frozenset({0}))
    told = "idea could not be tuned: of the tuning seeds 0 none stands in the other arm"
    assert told in raised(judged, "no_shared_seed")[0][1]


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
    assert faults(judged) == []


def test_missing_runs_of_other_arms_are_no_concern(tmp_path, records):
    plan = records + grid(["other"])
    [judged] = analysed(write_sweep(tmp_path, records, plan=plan))
    assert faults(judged) == []


def test_trap_duplicate_run(tmp_path, records):
    twin = copy.deepcopy(pick(records, "idea", seed=2)[0])
    [judged] = analysed(write_sweep(tmp_path / "same", [*records, twin]))
    severity, message = only(judged, "duplicate_run")
    assert severity == "note"
    assert "idea seed=2 lr=0.003" in message
    assert judged.verdict == "idea better (significant)"

    as_older(twin)
    [judged] = analysed(write_sweep(tmp_path / "older", [*records, twin]))
    assert only(judged, "duplicate_run")[0] == "note"


@pytest.mark.parametrize(
    "where",
    [
        ("scores", "test"),
        ("secondary", "mae", "scores", "validation"),
        ("signature", "observed", "rate_distance_from_start"),
    ],
)
def test_a_run_that_came_out_otherwise_is_void(tmp_path, records, where):
    twin = copy.deepcopy(pick(records, "idea", seed=2)[0])
    *path, last = where
    part = twin
    for key in path:
        part = part[key]
    part[last] += 1e-9
    [judged] = analysed(write_sweep(tmp_path, [*records, twin]))
    severity, message = only(judged, "duplicate_run")
    assert severity == "void"
    assert "idea seed=2 lr=0.003" in message
    assert judged.verdict == "invalid"


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda text: text[: len(text) // 2], "JSON"),
        (lambda text: "", "JSON"),
        (lambda text: text.replace("{", '{"x": ' + 9999 * "[", 1), "nested too deeply"),
        (lambda text: text.replace('"threads": 1', '"threads": [1]'), "environment"),
        (lambda text: text.replace('"schema": 3', '"schema": 4'), "schema"),
        (lambda text: json.dumps(json.loads(text) | {"seed": "2"}), "seed"),
        (lambda text: text.replace('"all": 0.031', '"all": NaN'), "JSON"),
        (lambda text: text.replace('"gamma": 1.0', '"gamma": true'), "hyper"),
        (lambda text: text.replace('"parameters": 101832', '"parameters": true'), "parameters"),
        (lambda text: text.replace('"data":', '"date":'), "hashes.data"),
        (lambda text: re.sub(r'"test": [0-9.]+', '"test": null', text, count=1), "score is null"),
    ],
)
def test_trap_unreadable_record(tmp_path, records, damage, told):
    extra = record("idea", 99)
    sweep = write_sweep(tmp_path, records)
    bad = write_run(tmp_path / "extra", extra) / "result.json"
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
    assert "1 of 8 runs of idea" in message
    assert "idea seed=6 lr=0.003" in message
    assert (judged.verdict, judged.system_verdict) == ("invalid", "failed")
    assert judged.p_value is judged.effect.inert_ulps is None

    for lr in (0.0015, 0.003, 0.006):
        diverge(pick(records, "baseline", seed=1, lr=lr)[0])
    [judged] = analysed(write_sweep(tmp_path / "both", records))
    assert (judged.verdict, judged.system_verdict) == ("invalid", "invalid")


@ARMS
@pytest.mark.parametrize(
    ("other", "told"),
    [
        ({"name": "rmse"}, "rmse (lower is better)"),
        ({"direction": "max"}, "mse (higher is better)"),
    ],
)
def test_trap_metric_mismatch(tmp_path, records, arm, other, told):
    pick(records, arm, seed=5)[0]["metric"] |= other
    [judged] = analysed(write_sweep(tmp_path / "other", records, examples=False))
    [(severity, message)] = raised(judged, "metric_mismatch")
    assert severity == "void"
    assert f"{told} in {arm}" in message
    assert judged.verdict == "invalid"
    for run in records:
        run["metric"] = {"name": "mse", "direction": "min"}
    records[0]["metric"] |= {"bounds": [0, None], "can_tie": False}  # older ones do not say
    found = analysed(write_sweep(tmp_path / "older", records, examples=False))[0]
    assert raised(found, "metric_mismatch") == []


def test_trap_data_mismatch(tmp_path, records):
    pick(records, "idea", seed=5)[0]["hashes"]["data"] = "other"
    [judged] = analysed(write_sweep(tmp_path, records))
    severity, message = only(judged, "data_mismatch")
    assert severity == "void"
    assert "seed 5" in message
    assert judged.verdict == "invalid"


def test_data_that_changed_between_two_sweeps(tmp_path, records):
    """Also where selection then avoids the configurations that got the other data."""
    for run in pick(records, "baseline", lr=0.006):
        run["hashes"]["data"] += "-edited"
    severity, message = only(analysed(write_sweep(tmp_path, records))[0], "data_mismatch")
    assert severity == "void"
    assert "seed 0–7" in message


@pytest.mark.parametrize("code", ["order", "init"])
def test_arms_are_compared_in_every_configuration_that_both_ran(tmp_path, records, code):
    for run in pick(records, "baseline", seed=2, lr=0.006):
        run["hashes"][code] = "other" if code == "order" else {"embed.weight 64x1": "other"}
    _, message = only(analysed(write_sweep(tmp_path, records))[0], f"{code}_mismatch")
    assert "seed 2" in message


def test_trap_order_mismatch(tmp_path, records):
    pick(records, "baseline", seed=0)[0]["hashes"]["order"] = "other"
    [judged] = analysed(write_sweep(tmp_path, records))
    severity, message = only(judged, "order_mismatch")
    assert severity == "void"
    assert "seed 0" in message
    assert judged.verdict == "invalid"


@pytest.mark.parametrize(
    ("arm", "lr", "end", "beyond"),
    [("idea", 0.006, "largest", "above"), ("baseline", 0.0015, "smallest", "below")],
)
def test_trap_grid_edge(tmp_path, records, arm, lr, end, beyond):
    for run in pick(records, arm, lr=lr):
        run["scores"]["validation"] = 0.0
    [judged] = analysed(write_sweep(tmp_path, records))
    severity, message = only(judged, "grid_edge")
    assert severity == "warning"
    assert f"best lr of {arm}, {lr}, is the {end} of its grid 0.0015, 0.003, 0.006" in message
    [advice] = [each.advice for each in judged.audits if each.code == "grid_edge"]
    assert f"grids {beyond} {lr}" in advice


def test_grid_edge_of_any_swept_key(tmp_path):
    records = grid(lrs=[0.003])  # one value has no edge
    only(analysed(write_sweep(tmp_path / "one", records))[0], "untuned")
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
    pick(records, arm, seed=7)[0]["probes"]["reach"] = reach and {"all": reach}
    [judged] = analysed(write_sweep(tmp_path, records))
    if not void:
        assert faults(judged) == []
        return
    severity, message = only(judged, "out_of_reach")
    assert severity == "void"
    assert arm in message
    assert "seed 7" in message
    assert "1 of 8" in message
    assert judged.verdict == "invalid"


@ARMS
def test_a_dead_parameter_of_a_live_mechanism_is_named(tmp_path, records, arm):
    for run in pick(records, arm):
        live, dead = "blocks.0.mixer.bias.log_rates", "blocks.1.mixer.bias.logits"
        least = 1e-7 if run["seed"] in (2, 5) else 1e-6
        run["probes"]["reach"]["by_parameter"] = {live: 0.03, dead: 0.0, "half_dead": least}
    for run in pick(records, arm, lr=0.006):  # not selected
        run["probes"]["reach"]["by_parameter"] = {"another": 0.0}
    [judged] = analysed(write_sweep(tmp_path / "live", records))
    severity, message = only(judged, "out_of_reach")
    assert severity == "warning"
    assert f"parameters of {arm}'s mechanism" in message
    assert message.endswith(
        ": blocks.1.mixer.bias.logits in 8 of 8 models (seed 0–7); "
        "half_dead in 2 of 8 models (seed 2, 5)."
    )
    for run in pick(records, arm):  # nothing of it lives: void, and said once
        run["probes"]["reach"] = {"all": 0.0 if run["seed"] != 5 else 0.03}
        run["probes"]["reach"]["by_parameter"] = {"half_dead": 0.0}
    [judged] = analysed(write_sweep(tmp_path / "dead", records))
    (void, whole), (warning, part) = raised(judged, "out_of_reach")
    assert (void, warning) == ("void", "warning")
    assert "in 7 of 8 models (seed 0–4, 6–7)" in whole
    assert part.endswith(": half_dead in 1 of 8 models (seed 5).")


PARITY = {
    "parameter_parity": ("parameters", 100_000),
    "flop_parity": ("flops_per_example", 6e6),
    "memory_parity": ("saved_bytes", 1.2e7),
}


def parity(folder, records, code, factor, ahead, found):
    """The idea has `factor` times as much; of `ahead` it is told with more, less, or none."""
    field, was = PARITY[code]
    for run in records:
        run["cost"][field] = was
    for run in pick(records, "idea", lr=None):
        run["cost"][field] = round(was * factor)
        if ahead == "baseline":
            run["scores"]["test"] += 0.1
        elif ahead is None:
            run["scores"]["test"] += 0.1 * (run["seed"] % 2)
    [judged] = analysed(write_sweep(folder, records))
    assert judged.ahead == ahead
    if found is None:
        assert faults(judged) == []
        return
    severity, message = only(judged, code)
    assert severity == found
    assert f"idea has {round(was * factor):.7g} " in message
    share = f"{100 * abs(factor - 1):.3g} % {'more' if factor > 1 else 'less'}"
    assert f"baseline {was:.7g}: {share}; " in message
    if ahead is None:
        assert "no difference of the scores is decided" in message
    else:
        assert f"{ahead} is ahead with {'more' if severity == 'warning' else 'less'}" in message


FACTORS = pytest.mark.parametrize(
    ("factor", "ahead", "found"),
    [
        (2, "idea", "warning"),
        (1.052, "idea", "warning"),  # of the idea's it is less than 5 %
        (1.05, "idea", None),
        (0.951, "idea", None),  # of the idea's it is more
        (0.94, "idea", "note"),
        (1.06, "baseline", "note"),
        (0.94, "baseline", "warning"),
        (1.06, None, "note"),
        (0.94, None, "note"),
    ],
)


@FACTORS
def test_trap_parameter_parity(tmp_path, records, factor, ahead, found):
    parity(tmp_path, records, "parameter_parity", factor, ahead, found)


@FACTORS
def test_trap_flop_parity(tmp_path, records, factor, ahead, found):
    parity(tmp_path, records, "flop_parity", factor, ahead, found)


@FACTORS
def test_trap_memory_parity(tmp_path, records, factor, ahead, found):
    parity(tmp_path, records, "memory_parity", factor, ahead, found)


def test_parity_is_of_the_mean_over_runs_and_of_nothing_too(tmp_path, records):
    pick(records, "idea", seed=0)[0]["cost"]["parameters"] += 40_000  # of one in eight: 4.9 %
    [judged] = analysed(write_sweep(tmp_path / "one", records))
    assert faults(judged) == []
    for run in pick(records, "baseline"):
        run["cost"]["parameters"] = 0
    [judged] = analysed(write_sweep(tmp_path / "nothing", records))
    assert only(judged, "parameter_parity")[1].endswith(
        "parameters, baseline 0; idea is ahead with more."
    )


def test_parity_of_a_difference_that_is_undone_by_the_family_is_a_note(tmp_path):
    """p = 2/64 of each; of two comparisons, 4/64 decides nothing."""
    for arms, severity in ((["baseline", "a"], "warning"), (["baseline", "a", "b"], "note")):
        records = grid(arms, seeds=range(6))
        for run in pick(records, "a", lr=None):
            run["cost"]["parameters"] *= 2
        judged = analysed(write_sweep(tmp_path / severity, records))
        assert [found for found, _ in raised(judged[0], "parameter_parity")] == [severity]
        order = [("void", "warning", "note").index(each.severity) for each in judged[0].audits]
        assert order == sorted(order)


def test_parity_is_of_the_selected_configurations(tmp_path, records):
    for run in pick(records, "idea", lr=0.006):
        run["cost"]["parameters"] *= 2
        run["cost"]["flops_per_example"] = None
    assert faults(analysed(write_sweep(tmp_path, records))[0]) == []


def test_what_was_not_counted_is_not_compared(tmp_path, records):
    for run in pick(records, "idea"):
        run["cost"]["flops_per_example"] = None
    assert faults(analysed(write_sweep(tmp_path, records))[0]) == []


def test_trap_unplanned_run(tmp_path, records):
    more = grid(seeds=[8])
    [judged] = analysed(write_sweep(tmp_path / "more", records + more, plan=records))
    severity, message = only(judged, "unplanned_run")
    assert severity == "warning"
    assert "No plan holds 6 runs: baseline seed=8 lr=0.0015" in message
    # a second sweep that planned them is no fault
    again = [write_sweep(tmp_path / "a", records), write_sweep(tmp_path / "b", more)]
    assert faults(analysed(*again)[0]) == []
    # a plan that was lost, or emptied: whether runs were left out cannot be told
    for name, sweep in (("none", {"planned": False}), ("empty", {"plan": []})):
        [judged] = analysed(write_sweep(tmp_path / name, records, **sweep))
        assert "No plan holds 48 runs" in only(judged, "unplanned_run")[1]


@pytest.mark.parametrize("starts", ["recorded", "older", "older idea"])
def test_trap_init_mismatch(tmp_path, records, starts):
    """Wherever the parameter stands; where nothing is declared, nothing explains it."""
    for run in records:
        if starts == "older" or (starts == "older idea" and run["variant"] == "idea"):
            del run["config"]
        elif starts != "recorded":
            run["config"]["variant"]["initial_stream"] = "another"
    for seed in (2, 5):
        init = pick(records, "idea", seed)[0]["hashes"]["init"]
        init |= {"embed.weight 64x1": "other", "blocks.0.mixer.query.weight 64x64": "other"}
    [judged] = analysed(write_sweep(tmp_path / "other", records))
    severity, message = only(judged, "init_mismatch")
    assert severity == "warning"
    assert "The arms start 2 parameters of one name and shape otherwise" in message
    assert "embed.weight 64x1 (seed 2, 5)" in message
    assert "blocks.0.mixer.query.weight 64x64 (seed 2, 5)" in message
    for run in pick(records, "idea"):  # of another shape, or absent, it cannot start alike
        run["hashes"]["init"] = {"embed.weight 32x1": "other", "own.weight 8x8": "x"}
    assert faults(analysed(write_sweep(tmp_path / "shape", records))[0]) == []


@ARMS
def test_a_start_that_a_variant_declares_is_a_note(tmp_path, records, arm):
    for run in pick(records, "idea", lr=None):
        run["hashes"]["init"] = {name: "other" for name in run["hashes"]["init"]}
    for run in pick(records, arm, lr=None):
        run["config"]["variant"]["initial_stream"] = "twin"
    [judged] = analysed(write_sweep(tmp_path, records))
    severity, message = only(judged, "init_mismatch")
    assert severity == "note"
    against = ("initialisation", "twin") if arm == "baseline" else ("twin", "initialisation")
    assert "The arms start 3 parameters of one name and shape otherwise" in message
    assert "head.bias 8 (seed 0–7)" in message
    assert "(initial_stream: {} against {})".format(*against) in message


@pytest.mark.parametrize("group", ["track", "model", "optimizer", "training"])
def test_trap_confounded(tmp_path, records, group):
    for run in pick(records, "idea", lr=None):
        run["hashes"]["config"][group] = "another"
    [judged] = analysed(write_sweep(tmp_path, records))
    severity, message = only(judged, "confounded")
    assert severity == "void"
    assert f"one configuration of {group}, but 2" in message
    assert "idea seed=0 lr=0.0015 gamma=1 in " in message
    assert "baseline seed=0 lr=0.0015 gamma=1 in " in message
    assert judged.verdict == "invalid"


def test_an_arm_that_is_two_variants_is_confounded(tmp_path, records):
    """Two sweeps, between which the arm's YAML was edited."""
    for run in pick(records, "idea", lr=0.006):
        run["hashes"]["config"]["variant"] = "edited"
    [judged] = analysed(write_sweep(tmp_path, records))
    severity, message = only(judged, "confounded")
    assert severity == "void"
    assert "one configuration of variant idea, but 2" in message


def test_trap_mixed_code(tmp_path, records):
    for run in pick(records, "idea", lr=None):
        run["hashes"]["code"] |= {"models/idea.py": "a file of its own is no fault"}
    assert faults(analysed(write_sweep(tmp_path / "own", records))[0]) == []
    for run in pick(records, "idea", lr=0.006):
        run["hashes"]["code"]["models/attention.py"] = "edited"
    [judged] = analysed(write_sweep(tmp_path / "edited", records))
    severity, message = only(judged, "mixed_code")
    assert severity == "warning"
    assert "models/attention.py" in message
    assert "models/idea.py" not in message


def test_of_two_sweeps_one_changed_the_code(tmp_path):
    """The second adds seeds, after an edit of a file that both arms import."""
    first, second = grid(seeds=range(4)), grid(seeds=range(4, 8))
    for run in second:
        run["hashes"]["code"]["models/attention.py"] = "edited"
    sweeps = [write_sweep(tmp_path / "a", first), write_sweep(tmp_path / "b", second)]
    only(analysed(*sweeps)[0], "mixed_code")


def test_trap_mixed_environment(tmp_path, records):
    for run in records:
        run["environment"]["commit"] = f"{run['seed']}"  # the code's own hashes say more
    assert faults(analysed(write_sweep(tmp_path / "commit", records))[0]) == []
    for run in pick(records, "baseline", seed=7, lr=None):
        run["environment"] |= {"torch": "3", "device": "NVIDIA H200"}
    [judged] = analysed(write_sweep(tmp_path / "other", records))
    severity, message = only(judged, "mixed_environment")
    assert severity == "warning"
    assert "device (NVIDIA H200, cpu)" in message or "device (cpu, NVIDIA H200)" in message
    assert "torch" in message
    assert "python" not in message


def test_trap_unequal_grid(tmp_path, records):
    fewer = [run for run in records if run not in pick(records, "idea", lr=0.0015)]
    [judged] = analysed(write_sweep(tmp_path / "fewer", fewer))
    [(severity, message)] = raised(judged, "unequal_grid")
    assert severity == "warning"
    assert "idea was tuned over 2 configurations, baseline over 3" in message
    assert "idea lacks lr=0.0015" in message
    assert judged.comparison.effect.p_selection_aware is None

    more = [run for run in records if run not in pick(records, "baseline", lr=0.0015)]
    [judged] = analysed(write_sweep(tmp_path / "more", more))
    [(severity, message)] = raised(judged, "unequal_grid")
    assert severity == "void"
    assert "baseline lacks lr=0.0015" in message
    assert judged.verdict == "invalid"

    for run in pick(records, "idea", lr=0.006):
        run["hyper"]["lr"] = 0.012
    [judged] = analysed(write_sweep(tmp_path / "other", records))
    assert only(judged, "unequal_grid")[0] == "warning"  # as many


def test_trap_unequal_budget(tmp_path, records):
    for run in pick(records, "idea"):
        run["budget"] = {"epochs": 20, "steps": 500, "examples": 16000}
    [judged] = analysed(write_sweep(tmp_path / "longer", records))
    severity, message = only(judged, "unequal_budget")
    assert severity == "warning"
    assert "baseline: 10 epochs, 250 steps, 8000 examples" in message
    assert "idea: 20 epochs" in message


def at_budget(factor, seeds, effect):
    """Runs of both arms at another budget, the idea better by `effect`, the seeds not all alike."""
    runs = [record(arm, seed, budget=factor) for seed in seeds for arm in ("baseline", "idea")]
    for one, other in zip(runs[::2], runs[1::2], strict=True):
        gain = effect + 0.002 * (one["seed"] % 3)
        other["scores"]["test"] = one["scores"]["test"] - gain
    return runs


def test_trap_budget_sensitive(tmp_path, records):
    """0.05 at budget 1: vanishing at 2, and far more at a half."""
    [judged] = analysed(write_sweep(tmp_path / "gone", records + at_budget(2, range(3), 0)))
    severity, message = only(judged, "budget_sensitive")
    assert severity == "warning"
    assert re.search(r": -0\.0\d+ at budget 1, -0\.002 at 2 \(seed 0–2; a change of 0\.0", message)
    assert judged.verdict == "idea better (significant)"

    [judged] = analysed(write_sweep(tmp_path / "turned", records + at_budget(2, range(3), -0.1)))
    assert only(judged, "budget_sensitive")
    [judged] = analysed(write_sweep(tmp_path / "half", records + at_budget(0.5, range(3), 0.2)))
    assert "-0.202 at budget 0.5, -0.0" in only(judged, "budget_sensitive")[1]


@pytest.mark.parametrize(
    ("factor", "effect"),
    [(2, 0.05), (0.5, 0.05), (2, 0.2), (0.5, 0), (0.5, 0.07), (4, 0), (2, 0.04)],
)
def test_a_difference_that_lasts_is_not_budget_sensitive(tmp_path, records, factor, effect):
    [judged] = analysed(write_sweep(tmp_path, records + at_budget(factor, range(3), effect)))
    assert faults(judged) == []


def test_what_is_not_decided_is_not_budget_sensitive(tmp_path, records):
    for run in pick(records, "idea", lr=None):
        run["scores"]["test"] += 0.05 + 0.03 * (-1) ** run["seed"]
    [judged] = analysed(write_sweep(tmp_path, records + at_budget(2, range(3), -0.3)))
    assert judged.verdict == "inconclusive"
    assert faults(judged) == []


def test_a_run_that_diverged_early_has_no_unequal_budget(tmp_path, records):
    for arm in ("baseline", "idea"):
        for run in pick(records, arm, seed=3, lr=None):
            diverge(run)
            run["budget"] = {"epochs": 10, "steps": 7, "examples": 224}
    [judged] = analysed(write_sweep(tmp_path, records))
    assert set(faults(judged)) == {"diverged_run"}


def test_trap_tuned_on_reported_seeds(tmp_path):
    sweep = write_sweep(tmp_path / "grid", grid(seeds=range(12)))
    [judged] = analysed(sweep)
    [(severity, message)] = raised(judged, "tuned_on_reported_seeds")
    assert severity == "note"
    assert "seed 0–11" in message
    [judged] = analysed(sweep, tuning_seeds=frozenset(range(4)))
    severity, message = only(judged, "rules_changed")  # chosen with the results in sight
    assert severity == "warning"
    assert "tuning_seeds is seed 0–3, was declared none" in message
    assert judged.comparison.seeds == tuple(range(4, 12))
    single = write_sweep(tmp_path / "single", grid(lrs=[0.003]))  # nothing was chosen
    assert raised(analysed(single)[0], "tuned_on_reported_seeds") == []


def test_trap_untuned(tmp_path):
    [judged] = analysed(write_sweep(tmp_path / "one", grid(lrs=[0.003])))
    severity, message = only(judged, "untuned")
    assert severity == "note"
    assert message == (
        "Every arm has one configuration, lr=0.003 gamma=1, and which arm it suits decides."
    )
    assert faults(analysed(write_sweep(tmp_path / "clean", grid()))[0]) == []
    for arm in ("baseline", "idea"):  # one arm that is tuned alone is another matter
        other = {"baseline": "idea", "idea": "baseline"}[arm]
        records = grid([arm]) + grid([other], lrs=[0.003])
        found = faults(analysed(write_sweep(tmp_path / arm, records))[0])
        assert found == ["unequal_grid"]
    records = grid(["baseline"], lrs=[0.003]) + grid(["idea"], lrs=[0.006])
    [judged] = analysed(write_sweep(tmp_path / "unlike", records))
    [(_, message)] = raised(judged, "untuned")
    assert "one configuration, lr=0.003 gamma=1; lr=0.006 gamma=1, and" in message
    records = grid(lrs=[0.003])
    for run in records:
        run["hyper"] = {}
    [judged] = analysed(write_sweep(tmp_path / "nothing", records))
    assert "one configuration, of no tunable key, and" in only(judged, "untuned")[1]


@ARMS
def test_one_arm_that_was_tuned_on_reported_seeds(tmp_path, arm):
    other = {"baseline": "idea", "idea": "baseline"}[arm]
    records = grid([arm]) + grid([other], lrs=[0.003])
    [judged] = analysed(write_sweep(tmp_path, records))
    assert [severity for severity, _ in raised(judged, "tuned_on_reported_seeds")] == ["note"]


def test_tuning_seeds_choose_and_are_not_reported(tmp_path):
    records = grid(seeds=range(12))
    for run in pick(records, "idea", lr=0.006):  # best on the tuning seeds alone
        run["scores"]["validation"] = 0.1 if run["seed"] < 4 else 9.0
    sweep = write_sweep(tmp_path, records)
    [judged] = analysed(sweep, tuning_seeds=frozenset(range(4)))
    assert judged.comparison.idea.selection.best.hyper["lr"] == 0.006
    expect = [run["scores"]["test"] for run in pick(records, "idea", lr=0.006)][4:]
    assert judged.comparison.idea.scores.tolist() == expect
    assert judged.comparison.effect.p_selection_aware is None  # it needs no correction
    assert analysed(sweep)[0].comparison.idea.selection.best.hyper["lr"] == 0.003


def test_tuning_seeds_are_reported_too_where_that_was_declared(tmp_path):
    records = grid(seeds=range(8))
    for run in records:
        run["analysis"] |= {"tuning_seeds": [0, 1, 2, 3], "report_tuning_seeds": True}
    for run in pick(records, "idea", lr=0.006):
        run["scores"]["validation"] = 0.1 if run["seed"] < 4 else 9.0
    [judged] = analysed(write_sweep(tmp_path, records))
    assert judged.comparison.idea.selection.best.hyper["lr"] == 0.006
    assert judged.comparison.seeds == tuple(range(8))
    [(severity, message)] = raised(judged, "tuned_on_reported_seeds")
    assert severity == "note"
    assert "seed 0–3" in message


@ARMS
@pytest.mark.parametrize("ablation", [0.0, 5e-8])
def test_trap_idle_mechanism(tmp_path, records, arm, ablation):
    for run in pick(records, arm):
        run["probes"]["ablation"] = ablation
    [judged] = analysed(write_sweep(tmp_path / "idle", records))
    severity, message = only(judged, "idle_mechanism")
    assert severity == "warning"
    assert f"mechanism of {arm}" in message
    assert "all of 8 models" in message
    pick(records, arm, seed=1)[0]["probes"]["ablation"] = -1e-3
    assert faults(analysed(write_sweep(tmp_path / "one", records))[0]) == []
    for run in pick(records, arm):  # there is none to take out
        run["probes"]["ablation"] = None
    assert faults(analysed(write_sweep(tmp_path / "none", records))[0]) == []


@pytest.mark.parametrize(("ulps", "idle"), [(4, True), (5, False)])
def test_a_mechanism_is_idle_up_to_four_units_in_the_last_place(tmp_path, records, ulps, idle):
    for run in pick(records, "idea"):
        run["scores"]["test"] = 0.3
        run["probes"]["ablation"] = -ulps * 2.0**-25  # of a float32 in [0.25, 0.5)
    [judged] = analysed(write_sweep(tmp_path, records, examples=False))
    assert bool(raised(judged, "idle_mechanism")) == idle


@pytest.mark.parametrize(("loss_ablation", "idle"), [(0.0, True), (0.01, False), (None, False)])
def test_where_the_metric_can_tie_the_loss_tells_what_is_idle(
    tmp_path, records, loss_ablation, idle
):
    for run in records:
        can_tie(run, run["scores"]["test"])
        run["probes"]["ablation"] = 0.0
        run["probes"]["loss_ablation"] = loss_ablation if run["variant"] == "idea" else 0.1
    found = raised(analysed(write_sweep(tmp_path, records, examples=False))[0], "idle_mechanism")
    assert bool(found) == idle


def test_of_an_older_record_an_accuracy_that_did_not_move_tells_nothing(tmp_path, records):
    for run in records:
        as_older(run)
        run["metric"]["name"] = "accuracy"
        run["probes"]["ablation"] = 0.0
    [judged] = analysed(write_sweep(tmp_path, records, examples=False))
    assert set(faults(judged)) == {"idle_mechanism"}
    assert {severity for severity, _ in raised(judged, "idle_mechanism")} == {"note"}
    assert "Not measured: loss_ablation is not there" in raised(judged, "idle_mechanism")[0][1]


@pytest.mark.parametrize(
    ("accuracy", "told"),
    [
        (1.0, "Each of 8 test scores of {} is 1, the highest that accuracy can be: "),
        (1 - 4 * 2.0**-23, "the highest that accuracy can be"),
        (0.0, "Each of 8 test scores of {} is 0, the lowest that accuracy can be: "),
        (0.875, "Each of 8 test scores of {} is 0.875, on every seed the same: "),
        (1 - 5 * 2.0**-23, "on every seed the same"),
    ],
)
@ARMS
def test_trap_saturated(tmp_path, arm, accuracy, told):
    records = grid(lrs=[0.003])
    for run in records:
        can_tie(run, accuracy if run["variant"] == arm else 0.5 + run["seed"] / 100)
    [judged] = analysed(write_sweep(tmp_path / "all", records))
    [(severity, message)] = raised(judged, "saturated")
    assert severity == "warning"
    assert told.format(arm) in message
    [advice] = [each.advice for each in judged.audits if each.code == "saturated"]
    assert "--metric loss" in advice
    can_tie(pick(records, arm, seed=3)[0], 0.75)
    assert raised(analysed(write_sweep(tmp_path / "one", records))[0], "saturated") == []


@pytest.mark.parametrize(
    ("metric", "score", "is_saturated"),
    [
        ({"can_tie": False, "bounds": [0, None]}, 0.0, True),  # whatever it is, nothing is below
        ({"can_tie": False, "bounds": [0, None]}, 1e-12, False),
        ({"can_tie": False, "bounds": [0, None]}, 0.5, False),  # is seen by others
        ({"can_tie": False, "bounds": [None, 0.5]}, 0.5, True),
        ({"can_tie": True, "bounds": None}, 0.5, True),
        ({"can_tie": True, "bounds": [None, None]}, 0.5, True),
    ],
)
def test_what_is_saturated_depends_on_the_metric(tmp_path, records, metric, score, is_saturated):
    for run in records:
        run["metric"] |= metric
        if run["variant"] == "idea":
            run["scores"]["test"] = score
    found = raised(analysed(write_sweep(tmp_path, records, examples=False))[0], "saturated")
    assert len(found) == is_saturated


@ARMS
@pytest.mark.parametrize("direction", ["max", "min"])
def test_an_arm_that_is_perfect_by_a_count_is_saturated(tmp_path, arm, direction):
    """Its loss still differs from seed to seed, and tells how sure it is."""
    best = {"max": 1.0, "min": 0.0}[direction]
    records = grid(lrs=[0.003])
    for run in records:
        right = best if run["variant"] == arm else 0.5
        run["secondary"]["right"] = {
            "scores": {"validation": 0.5, "test": right},
            "direction": direction, "bounds": [0, 1], "can_tie": True,
        }  # fmt: skip
    [judged] = analysed(write_sweep(tmp_path / "all", records))
    [(severity, message)] = raised(judged, "saturated")
    assert severity == "warning"
    assert f"{arm} is perfect by right on every seed" in message
    pick(records, arm, seed=3)[0]["secondary"]["right"]["scores"]["test"] = 0.9
    assert raised(analysed(write_sweep(tmp_path / "one", records))[0], "saturated") == []


@ARMS
@pytest.mark.parametrize("direction", ["max", "min"])
def test_trap_worse_than_trivial(tmp_path, arm, direction):
    sign = 1 if direction == "min" else -1
    records = grid(lrs=[0.003])
    for run in records:
        run["metric"] |= {"direction": direction, "bounds": [None, None]}
        run["scores"] = {split: sign * score for split, score in run["scores"].items()}
        score = run["scores"]["test"] if run["variant"] == arm else sign * 9.0
        better = sign * 1e-3
        run["secondary"] = {
            "far": {"scores": {"validation": 0.5, "test": sign * 10.0}},
            "near": {"scores": {"validation": 0.5, "test": score - better}},
            "linear": {"scores": {"validation": 0.5, "test": sign * -9.0}, "is_fitted": True},
            "other": {"scores": {"validation": 0.5, "test": sign * -9.0}, "direction": direction,
                      "bounds": [None, None], "can_tie": False},
        }  # fmt: skip
    [judged] = analysed(write_sweep(tmp_path / "worse", records))
    [(severity, message)] = raised(judged, "worse_than_trivial")
    assert severity == "warning"
    assert message.startswith(f"{arm} scores ")
    assert "and near, which learns nothing" in message
    for run in records:
        run["secondary"]["near"]["scores"]["test"] += sign * 2e-3
    [judged] = analysed(write_sweep(tmp_path / "better", records))
    assert raised(judged, "worse_than_trivial") == []


def test_by_another_metric_nothing_is_worse_than_trivial(tmp_path, records):
    for run in records:
        run["secondary"]["persistence_mse"]["scores"]["test"] = 0.0
    folder = write_sweep(tmp_path, records)
    assert len(raised(analysed(folder)[0], "worse_than_trivial")) == 2
    assert raised(analysed(folder, metric="mae")[0], "worse_than_trivial") == []


@ARMS
def test_whether_an_arm_is_saturated_is_asked_of_its_own_metric(tmp_path, arm):
    """Not of the baseline's first record, which may be older, or of another version."""
    records = grid(lrs=[0.003])
    for run in records:
        can_tie(run, 1.0 if run["variant"] == arm else 0.5 + run["seed"] / 100)
        if run["variant"] != arm or run["seed"] == 0:
            del run["metric"]["bounds"], run["metric"]["can_tie"]
    [judged] = analysed(write_sweep(tmp_path, records, examples=False))
    [(_, message)] = raised(judged, "saturated")
    assert message.startswith(f"Each of 8 test scores of {arm} is 1, the highest that accuracy")


def test_one_pair_does_not_show_that_scores_do_not_vary(tmp_path):
    """It does that they stand at the bound."""
    for seeds, accuracy, known in (
        (1, 0.5, []),
        (1, 1.0, ["warning"] * 2),
        (2, 0.5, ["warning"] * 2),
    ):
        records = grid(seeds=range(seeds))
        for run in records:
            can_tie(run, accuracy)
        [judged] = analysed(write_sweep(tmp_path / f"{seeds} {accuracy}", records))
        assert [severity for severity, _ in raised(judged, "saturated")] == known
    for run in records:  # nothing is paired, or scored
        diverge(run)
    assert raised(analysed(write_sweep(tmp_path / "none", records))[0], "saturated") == []


@ARMS
def test_trap_future_leak(tmp_path, records, arm):
    pick(records, arm, seed=4)[0]["probes"]["causal"] = False
    [judged] = analysed(write_sweep(tmp_path, records, examples=False))
    severity, message = only(judged, "future_leak")
    assert severity == "void"
    assert f"{arm} is claimed to be causal" in message
    assert "1 of 8 models (seed 4)" in message
    assert judged.verdict == "invalid"


def test_where_nobody_claims_causality_nothing_leaks(tmp_path, records):
    for run in records:
        run["probes"]["causal"] = None
    assert faults(analysed(write_sweep(tmp_path, records, examples=False))[0]) == []


@ARMS
def test_trap_split_overlap(tmp_path, records, arm):
    for seed, count in ((4, 1), (6, 3)):
        pick(records, arm, seed=seed)[0]["probes"]["split_overlap"] = count
    [judged] = analysed(write_sweep(tmp_path, records))
    severity, message = only(judged, "split_overlap")
    assert severity == "void"
    assert f"hold up to 3 test examples of {arm} (seed 4, 6)" in message
    assert "seed 4, 6" in message
    assert judged.verdict == "invalid"


@pytest.mark.parametrize(
    ("ideas", "seeds", "few"), [(1, 5, True), (1, 6, False), (3, 6, True), (3, 7, False)]
)
def test_trap_few_seeds(tmp_path, ideas, seeds, few):
    arms = ["baseline", *"abc"[:ideas]]
    judged = analysed(write_sweep(tmp_path, grid(arms, seeds=range(seeds))))
    assert len(judged) == ideas
    for each in judged:
        assert (each.verdict == "underpowered") == few
        if few:
            severity, message = only(each, "few_seeds")
            assert severity == "warning"
            assert f"{seeds} of {seeds} pairs differ" in message
            assert f"a family of {ideas} at least {seeds + 1} must differ" in message
            assert each.audits[0].advice == f"Run at least {seeds + 1} seeds."
        else:
            assert faults(each) == []


@pytest.mark.parametrize(
    ("alpha", "told", "advice"),
    [
        (1e-5, None, None),
        (0.99e-5, "only 18 to 20 seeds can reach level 9.9e-06 in a family of 1: of more than 20 "
         "pairs flips are drawn, and p is at least 1e-05.", "Run 18 to 20 seeds."),
        (2e-6, "only 20 seeds can reach level 2e-06 in a family of 1: of more than 20 "
         "pairs flips are drawn, and p is at least 1e-05.", "Run 20 seeds."),
        (1e-6, "no number of seeds can reach level 1e-06 in a family of 1: p is at least 1.91e-06 "
         "of 20 pairs, and of more than 20 pairs flips are drawn, and p is at least 1e-05.",
         "Declare a level of at least 1.91e-06, which 20 seeds can reach."),
    ],
)  # fmt: skip
def test_above_20_pairs_few_seeds_knows_what_drawn_flips_can_show(tmp_path, alpha, told, advice):
    """25 pairs, all better: p = 1/(99 999 + 1)."""
    records = grid(seeds=range(25), lrs=[0.003])
    for run in records:
        run["analysis"]["alpha"] = alpha
    [judged] = analysed(write_sweep(tmp_path, records))
    assert judged.p_value == judged.effect.p_min == 1e-5
    if told is None:
        assert judged.verdict == "idea better (significant)"
        assert raised(judged, "few_seeds") == []
        return
    assert judged.verdict == "underpowered"
    assert raised(judged, "few_seeds") == [("warning", f"25 of 25 pairs differ; {told}")]
    assert judged.audits[0].advice == advice


def test_few_seeds_of_a_plan():
    assert list(few_seeds_of(7, 3, 0.05, "7 seeds are planned")) == []
    [found] = few_seeds_of(6, 3, 0.05, "6 seeds are planned")
    assert (found.code, found.severity) == ("few_seeds", "warning")
    assert found.message == (
        "6 seeds are planned; at level 0.05 in a family of 3 at least 7 must differ, or no outcome "
        "can be significant."
    )
    assert found.advice == "Run at least 7 seeds."
    [found] = few_seeds_of(8, 3, 1e-6, "8 seeds are planned")
    level = float(found.advice.split()[6].strip(","))
    assert list(few_seeds_of(20, 3, level, "20 seeds are planned")) == []  # 5.72e-06 is too low
    [found] = few_seeds_of(8, 2, 1e-6, "8 seeds are planned")
    assert found.advice.startswith("Declare a level of at least 3.82e-06,")  # 2 · 2/2²⁰, rounded up


def test_trap_fixed_data(tmp_path, records):
    for run in records:
        run["hashes"]["data"] = "one series"
    [judged] = analysed(write_sweep(tmp_path, records))
    severity, message = only(judged, "fixed_data")
    assert severity == "note"
    assert "8 seeds" in message


def with_examples(sweep, records, spread, size=20):
    """Examples of the selected runs that differ by `spread` between the arms of a pair."""
    for i, run in enumerate(records):
        generator = np.random.default_rng([i, 2])
        found = spread * generator.normal(size=size)
        found += run["scores"]["test"] - found.mean()
        write_examples(sweep / f"{i:04d}-{run['variant']}-{run['seed']}", **{"test/mse": found})
    return sweep


def test_trap_noisy_test(tmp_path, records):
    sd = np.std(
        [i["scores"]["test"] - b["scores"]["test"]
         for b, i in zip(pick(records, "baseline"), pick(records, "idea"), strict=True)],
        ddof=1,
    )  # fmt: skip
    for share, is_noisy in ((0.8, True), (0.2, False)):
        spread = sd * math.sqrt(share * 20 / 2)  # of either arm's mean over 20 examples
        sweep = with_examples(write_sweep(tmp_path / str(share), records), records, spread)
        [judged] = analysed(sweep)
        noise = judged.comparison.effect.noise
        assert noise.share_of_examples == pytest.approx(share, abs=0.25)
        if is_noisy:
            severity, message = only(judged, "noisy_test")
            assert severity == "note"
            assert message.startswith(f"{100 * noise.share_of_examples:.0f} % of the variance")
            assert "20 test examples" in message
        else:
            assert faults(judged) == []
        assert judged.verdict == "idea better (significant)"


def test_the_advice_on_a_noisy_test_is_how_many_examples(tmp_path, records):
    [judged] = analysed(with_examples(write_sweep(tmp_path / "part", records), records, 0.011))
    noise = judged.comparison.effect.noise
    assert 0.5 < noise.share_of_examples < 1
    [audit] = [each for each in judged.audits if each.code == "noisy_test"]
    needed = 20 * 3 * noise.from_examples / noise.from_training
    [told] = re.findall(r"Test on (\d+) examples", audit.advice)
    assert needed <= int(told) <= 1.1 * needed + 1
    [judged] = analysed(with_examples(write_sweep(tmp_path / "all", records), records, 0.1))
    [audit] = [each for each in judged.audits if each.code == "noisy_test"]
    assert audit.advice.startswith("Test on ten times as many")


def test_on_fixed_data_no_test_split_is_too_small(tmp_path, records):
    for run in records:
        run["hashes"]["data"] = "one series"
    [judged] = analysed(with_examples(write_sweep(tmp_path, records), records, 0.1))
    assert faults(judged) == ["fixed_data"]
    assert judged.comparison.effect.noise.examples_interval is not None


def paired(differences):
    """Records of two arms with these differences, in seed order, of one configuration each."""
    return [
        record(arm, seed, test=1 + (change if arm == "idea" else 0), validation=0.01 * seed)
        for arm in ("baseline", "idea")
        for seed, change in enumerate(differences)
    ]


UNEVEN = (-0.02, -0.04, -0.04, -0.12, -0.24, -0.49)


@pytest.mark.parametrize("sign", [1, -1])
def test_trap_uneven_pairs(tmp_path, sign):
    [judged] = analysed(write_sweep(tmp_path / "few", paired(sign * np.array(UNEVEN))))
    [(severity, message)] = raised(judged, "uneven_pairs")
    assert severity == "note"
    left = sign * np.mean(UNEVEN[:4])
    assert message.startswith(f"Without seed 4–5 the mean difference is {left:.4g}, of all 6")
    even = sign * np.array([-0.1, -0.12, -0.15, -0.11, -0.2, -0.16])
    [judged] = analysed(write_sweep(tmp_path / "even", paired(even)))
    assert judged.verdict.ahead is not None
    assert raised(judged, "uneven_pairs") == []


def test_pairs_may_be_uneven_where_nothing_is_decided(tmp_path):
    d = [0.02, 0.04, -0.04, -0.12, 0.24, -0.9]
    [judged] = analysed(write_sweep(tmp_path, paired(d)))
    assert judged.verdict == "inconclusive"
    assert raised(judged, "uneven_pairs") == []


def test_what_is_left_may_be_of_the_other_sign(tmp_path):
    d = [0.001, 0.002, 0.003, -1.0, -1.1, 0.004]
    sweep = write_sweep(tmp_path, paired(d))
    [judged] = analysed(sweep, alpha=0.5)
    [(_, message)] = raised(judged, "uneven_pairs")
    assert message.startswith("Without seed 3–4 the mean difference is 0.0025")


@pytest.mark.parametrize(("pairs", "told"), [(4, 0), (5, 1)])
def test_of_four_pairs_two_cannot_be_left_out(tmp_path, pairs, told):
    d = [-0.01, -0.02, -0.9, -0.8, -0.03][:pairs]
    [judged] = analysed(write_sweep(tmp_path, paired(d)), alpha=0.2)
    assert judged.verdict.ahead == "idea"
    assert len(raised(judged, "uneven_pairs")) == told


def test_trap_unconfirmed_signature(tmp_path, records):
    pick(records, "idea", seed=2)[0]["signature"]["observed"]["rate_distance_from_start"] = 0.009
    del pick(records, "idea", seed=3)[0]["signature"]["observed"]["rate_distance_from_start"]
    for run in pick(records, "idea", seed=5, lr=0.006) + pick(records, "baseline", seed=5):
        run["signature"]["observed"]["rate_distance_from_start"] = 0.0  # not what is judged
    [judged] = analysed(write_sweep(tmp_path, records))
    severity, message = only(judged, "unconfirmed_signature")
    assert severity == "warning"
    assert "2 of 8 models" in message
    assert "seed 2: rate_distance_from_start = 0.009, not > 0.01" in message
    assert "seed 3: rate_distance_from_start = –, not > 0.01" in message
    assert judged.system_verdict == "partial"


@ARMS
@pytest.mark.parametrize("edit", ["prediction", "metric", "op", "value", "none"])
def test_trap_prediction_edited(tmp_path, records, arm, edit):
    """Before the last learning rate was run."""
    for run in pick(records, arm, lr=0.006):
        criterion = run["signature"]["criteria"][0]
        if edit == "prediction":
            run["signature"]["prediction"] = "they stand"
        elif edit == "none":
            run["signature"] = None
        else:
            criterion[edit] = {"metric": "another", "op": ">=", "value": 0.001}[edit]
    [judged] = analysed(write_sweep(tmp_path, records))
    severity, message = only(judged, "prediction_edited")
    assert severity == "warning"
    assert f"runs of {arm} carry 2 different predictions" in message
    assert f"{arm} seed=0 lr=0.0015 gamma=1 in " in message
    assert f"{arm} seed=0 lr=0.006 gamma=1 in " in message


def test_what_held_before_training_confirms_nothing(tmp_path, records):
    """In that run: a start that holds the criterion by luck tells nothing of training."""
    for run in pick(records, "idea"):
        start = 0.02 if run["seed"] in (1, 6) else 0.01
        run["signature"]["observed_at_start"]["rate_distance_from_start"] = start
    [judged] = analysed(write_sweep(tmp_path / "some", records))
    _, message = only(judged, "unconfirmed_signature")
    assert "fails in 2 of 8 models" in message
    assert "seed 1: rate_distance_from_start > 0.01 held before training (0.02)" in message
    assert (judged.signature_confirmed, judged.system_verdict) == (6, "partial")
    for run in records:
        as_older(run)
    assert faults(analysed(write_sweep(tmp_path / "older", records))[0]) == []


RULES = {
    "alpha": (0.1, "alpha is 0.1, was declared 0.05"),
    "margin_pct": (5.0, "margin_pct is 5.0, was declared 1.0"),
    "family": ("track", "family is track, was declared all"),
    "metric": ("mae", "metric is mae, was declared mse"),
}


@pytest.mark.parametrize("rule", RULES)
def test_trap_rules_changed(tmp_path, records, rule):
    for run in records:
        run["secondary"]["mae"]["scores"] = {k: x**0.5 for k, x in run["scores"].items()}
    sweep = write_sweep(tmp_path, records)
    value, told = RULES[rule]
    severity, message = only(analysed(sweep, **{rule: value})[0], "rules_changed")
    assert severity == "warning"
    assert told in message
    declared = {"alpha": 0.05, "margin_pct": 1.0, "family": "all", "metric": "mse"}
    assert faults(analysed(sweep, **{rule: declared[rule]})[0]) == []  # as declared


@ARMS
def test_rules_are_asked_of_both_arms(tmp_path, records, arm):
    for run in pick(records, arm, lr=None)[-1:]:  # the last one alone declared another level
        run["analysis"]["alpha"] = 0.01
    severity, message = only(analysed(write_sweep(tmp_path, records))[0], "rules_changed")
    assert severity == "warning"
    assert "alpha is 0.05, was declared 0.01" in message


def test_another_baseline_than_was_declared_is_a_note(tmp_path):
    sweep = write_sweep(tmp_path, grid(["baseline", "control", "idea"]))
    severity, message = only(analysed(sweep, baseline="control")[1], "rules_changed")
    assert severity == "note"
    assert "baseline is control, was declared baseline" in message


def test_what_runs_declared_holds_and_disagreement_is_told(tmp_path, records):
    for run in records:
        run["analysis"]["alpha"] = 2 / 512
    [judged] = analysed(write_sweep(tmp_path / "strict", records))
    assert judged.verdict == "underpowered"
    assert faults(judged) == ["few_seeds"]
    for run in pick(records, "idea", lr=None):
        run["analysis"]["alpha"] = 0.05
    [judged] = analysed(write_sweep(tmp_path / "unlike", records))
    assert "rules_changed" in faults(judged)
    for run in records:
        run["analysis"] = None  # nothing was declared: the defaults
    sweep = write_sweep(tmp_path / "none", records)
    assert faults(analysed(sweep)[0]) == []
    _, message = only(analysed(sweep, margin_pct=50.0)[0], "rules_changed")
    assert "margin_pct is 50.0, was not declared" in message


def test_pairs_that_do_not_differ_are_no_lack_of_seeds(tmp_path, records):
    for run in records:
        run["scores"]["test"] = 0.5
    [judged] = analysed(write_sweep(tmp_path, records, examples=False))
    [audit] = [each for each in judged.audits if each.code == "few_seeds"]
    assert "0 of 8 pairs differ" in audit.message
    assert "Find out why" in audit.advice


def test_a_prediction_without_criteria_confirms_nothing(tmp_path, records):
    for run in pick(records, "idea", lr=None):
        run["signature"]["criteria"] = []
    [judged] = analysed(write_sweep(tmp_path, records))
    _, message = only(judged, "unconfirmed_signature")
    assert "seed 0: nothing was predicted that could fail" in message


def test_two_scores_of_one_run_by_a_secondary_metric(tmp_path, records):
    twin = copy.deepcopy(pick(records, "idea", seed=2)[0])
    twin["secondary"]["mae"]["scores"]["test"] = 0.4
    [judged] = analysed(write_sweep(tmp_path, [*records, twin]))
    assert only(judged, "duplicate_run")[0] == "void"


def test_an_idea_that_left_nothing_keeps_its_place_in_the_family(tmp_path, records):
    plan = records + grid(["late"])
    judged = analysed(write_sweep(tmp_path / "late", records, plan=plan))
    assert [each.comparison.idea.name for each in judged] == ["idea"]
    assert (judged[0].comparison.family_size, judged[0].p_holm) == (2, 4 / 256)
    other = records + grid(["late"], track="series")
    judged = analysed(write_sweep(tmp_path / "track", records, plan=other), family="track")
    assert (judged[0].comparison.family_size, judged[0].p_holm) == (1, 2 / 256)


def test_an_unfinished_sweep_is_incomplete_whatever_its_runs_lack_so_far(tmp_path, records):
    """The baseline's runs come last: until then its grid is the smaller one."""
    for count in (26, 33, 41):
        turned = pick(records, "idea", lr=None) + pick(records, "baseline", lr=None)
        [judged] = analysed(write_sweep(tmp_path / str(count), turned[:count], plan=records))
        assert judged.verdict == "incomplete"
        assert judged.p_value is None
    judged = analysed(tmp_path / "33", partial=True)[0]
    assert judged.verdict == "invalid"  # then, the smaller grid is what there is


def test_trap_repeated_seed(tmp_path, records):
    """Four seeds, passed off as eight."""
    clean = write_sweep(tmp_path / "clean", records)
    for run in records:
        if run["seed"] >= 4:
            seed, lr = run["seed"] - 4, run["hyper"]["lr"]
            original = record(run["variant"], seed, lr)
            run["scores"], run["hashes"] = original["scores"], original["hashes"]
    [judged] = analysed(write_sweep(tmp_path / "twice", records))
    assert set(faults(judged)) == {"repeated_seed", "fixed_data"}
    [(severity, message), _] = raised(judged, "repeated_seed")
    assert severity == "void"
    assert "Seeds of baseline are one and the same run: 0, 4; 1, 5; 2, 6; 3, 7" in message
    assert judged.verdict == "invalid"
    assert faults(analysed(clean)[0]) == []


@pytest.mark.parametrize("part", ["data", "order", "validation", "test"])
def test_seeds_that_share_all_but_one_thing_are_two_runs(tmp_path, records, part):
    for run in records:
        if run["seed"] == 7:
            original = record(run["variant"], 3, run["hyper"]["lr"])
            own = run["hashes"] | run["scores"]
            run["scores"], run["hashes"] = original["scores"], original["hashes"]
            run["hashes" if part in run["hashes"] else "scores"][part] = own[part]
    [judged] = analysed(write_sweep(tmp_path, records))
    assert raised(judged, "repeated_seed") == []


@ARMS
def test_seeds_of_one_arm_that_are_one_run(tmp_path, records, arm):
    for run in pick(records, arm, lr=None):
        if run["seed"] == 7:
            original = record(arm, 3, run["hyper"]["lr"])
            run["scores"], run["hashes"] = original["scores"], original["hashes"]
    [judged] = analysed(write_sweep(tmp_path, records))
    [(severity, message)] = raised(judged, "repeated_seed")
    assert severity == "void"
    assert f"Seeds of {arm} are one and the same run: 3, 7." in message


def test_seeds_that_share_some_data(tmp_path, records):
    for run in records:
        if run["seed"] > 0:
            run["hashes"]["data"] = "one series"
    [judged] = analysed(write_sweep(tmp_path, records))
    assert "7 of 8 seeds" in only(judged, "fixed_data")[1]


def test_a_key_that_does_nothing_in_the_baseline_tunes_the_idea_alone(tmp_path, records):
    """A sweep over the mechanism's learning rate, against a baseline without a mechanism."""
    wider = copy.deepcopy(records)
    for run in wider:
        run["hyper"]["mechanism_lr_scale"] = 30.0
        if run["variant"] == "idea":
            run["scores"]["validation"] += 0.001
    for run in records:
        run["hyper"]["mechanism_lr_scale"] = 10.0
    [judged] = analysed(write_sweep(tmp_path, records + wider))
    [(severity, message)] = raised(judged, "unequal_grid")
    assert severity == "void"
    assert "idea was tuned over 6 configurations, baseline over 3" in message
    assert "3 of baseline score as others of it do" in message


@pytest.mark.parametrize("loss", ["equal", "not recorded", "can tie", "unlike", "of one seed"])
def test_equal_accuracies_do_not_show_that_a_key_does_nothing(tmp_path, records, loss):
    """A solved task; the loss tells whether the baseline's other rates acted."""
    for run in records:
        seed, lr = run["seed"], run["hyper"]["lr"]
        acted = loss == "unlike" or run["variant"] == "idea" or (loss == "of one seed" and seed > 6)
        can_tie(run, 0.9 + lr if run["variant"] == "idea" else 1.0, 0.1 + (lr if acted else 0.0))
        if loss == "not recorded":
            del run["secondary"]["loss"]
        if loss == "can tie":
            run["secondary"]["loss"]["can_tie"] = True
    [judged] = analysed(write_sweep(tmp_path, records, examples=False))
    found = [severity for severity, _ in raised(judged, "unequal_grid")]
    assert found == (["void"] if loss == "equal" else [])


@pytest.mark.parametrize("split", ["validation", "test"])
def test_a_key_acts_if_it_moves_either_split(tmp_path, records, split):
    for run in pick(records, "baseline", lr=None):
        run["scores"] = {"validation": 0.5, "test": 0.5 + run["seed"] / 10}
        run["scores"][split] += run["hyper"]["lr"]
    [judged] = analysed(write_sweep(tmp_path, records, examples=False))
    assert raised(judged, "unequal_grid") == []


def test_configurations_that_diverge_alike_were_tried_all_the_same(tmp_path, records):
    for lr in (0.0015, 0.006):
        for run in pick(records, "baseline", lr=lr):
            diverge(run)
    [judged] = analysed(write_sweep(tmp_path, records))
    assert set(faults(judged)) == {"diverged_run"}


def test_a_candidate_with_fewer_seeds_weakens_the_choice(tmp_path, records):
    """The baseline's best rate was run on one seed alone: the choice rests on that seed."""
    few = [run for run in records if run not in pick(records, "baseline", lr=0.0015)[1:]]
    [judged] = analysed(write_sweep(tmp_path, few))
    severity, message = only(judged, "unpaired_seed")
    assert severity == "warning"
    assert "baseline was tuned on 1 seed alone" in message
    assert "lr=0.0015 gamma=1 has no run of seed 1–7" in message


def test_a_criterion_that_had_to_hold_is_no_evidence(tmp_path, records):
    for run in pick(records, "idea", lr=None):
        run["signature"]["criteria"] = [
            {"metric": "bias_max_first_difference", "op": "<", "value": 0}
        ]
    [judged] = analysed(write_sweep(tmp_path, records))
    _, message = only(judged, "unconfirmed_signature")
    assert "bias_max_first_difference holds by construction" in message
    assert judged.system_verdict == "partial"


@pytest.mark.parametrize(
    "losses", [np.full(20, 0.9), np.zeros(0), np.full(20, 1e300)], ids=["other", "none", "double"]
)
def test_examples_that_are_not_those_of_the_score(tmp_path, records, losses):
    sweep = write_sweep(tmp_path, records)
    path = sweep / "0035-idea-3" / "examples.npz"
    np.savez(path, test=losses if losses.max(initial=0) > 1e38 else losses.astype(np.float32))
    _, message = only(analysed(sweep)[0], "unreadable_record")
    assert str(path) in message


@pytest.mark.parametrize(
    ("probe", "code"),
    [
        ("causal", "future_leak"),
        ("reach", "out_of_reach"),
        ("ablation", "idle_mechanism"),
        ("split_overlap", "split_overlap"),
    ],
)
@pytest.mark.parametrize("how", ["absent", "malformed"])
def test_what_was_not_measured_is_noted_by_the_audit_that_needs_it(
    tmp_path, records, probe, code, how
):
    run = pick(records, "idea", seed=3)[0]
    if how == "absent":
        del run["probes"][probe]
    else:
        run["probes"][probe] = "much"
    [judged] = analysed(write_sweep(tmp_path, records))
    severity, message = only(judged, code)
    assert severity == "note"
    assert message.startswith(f"Not measured: {probe} is {'not there' if how == 'absent' else how}")
    assert "(records of idea, seed 3)" in message
    assert judged.verdict == "idea better (significant)"


def test_a_key_may_be_tuned_over_names(tmp_path):
    """They have no edge, and are sorted beside numbers."""
    records = []
    for name in ("adamw", "muon", 0.5):
        for run in grid(lrs=[0.003]):
            run["hyper"]["optimizer"] = name
            run["scores"]["validation"] += 0.1 * (name != "muon")
            records.append(run)
    [judged] = analysed(write_sweep(tmp_path / "even", records, examples=False))
    assert faults(judged) == []
    assert judged.comparison.idea.selection.best.hyper["optimizer"] == "muon"
    uneven = [r for r in records if r["variant"] == "idea" or r["hyper"]["optimizer"] == "muon"]
    [judged] = analysed(write_sweep(tmp_path / "uneven", uneven, examples=False))
    [(severity, message)] = raised(judged, "unequal_grid")
    assert severity == "void"
    assert "baseline lacks lr=0.003 gamma=1 optimizer=0.5; " in message
    assert "optimizer=adamw" in message


@pytest.mark.parametrize(
    ("group", "key", "value", "told"),
    [
        ("model", "model.dim", 32, "(64, 32)"),
        # beside the group, and hashed with it
        ("training", "precision", "bfloat16", "(float32, bfloat16)"),
        ("training", "compile", True, "(False, True)"),
        ("training", "mechanism_lr_scale", 3.0, "(not there, 3.0)"),
    ],
)
def test_what_confounds_is_named_with_both_values(tmp_path, records, group, key, value, told):
    for run in pick(records, "idea", lr=None):
        run["hashes"]["config"][group] = "another"
        *above, last = key.split(".")
        (run["config"][above[0]] if above else run["config"])[last] = value
        run["config"]["variant"]["positions"] = "none"  # what the arms are compared in
    [judged] = analysed(write_sweep(tmp_path / "key", records))
    severity, message = only(judged, "confounded")
    assert severity == "void"
    assert f"differ in {key} {told}: " in message
    for run in records:
        run["hyper"][key] = 64  # tuned, whatever it resolved to
    [judged] = analysed(write_sweep(tmp_path / "tuned", records))
    assert f"{key} (" not in raised(judged, "confounded")[0][1]


def test_a_duplicate_that_was_set_up_otherwise_names_the_key(tmp_path, records):
    twin = copy.deepcopy(pick(records, "idea", seed=2)[0])
    twin["config"]["optimizer"]["weight_decay"] = 0.1
    twin["scores"]["test"] += 0.1
    [judged] = analysed(write_sweep(tmp_path, [*records, twin]))
    [(severity, message)] = raised(judged, "duplicate_run")
    assert severity == "void"
    assert "(optimizer.weight_decay: 0.01 against 0.1)" in message
