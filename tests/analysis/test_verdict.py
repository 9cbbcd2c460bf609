"""Verdicts in their order, over a family, and what follows from them."""

import json
from pathlib import Path

import numpy as np
import pytest

from analysis.audits.audit import Audit
from tests.analysis.builder import (
    analysed,
    conclusion,
    diverge,
    grid,
    pick,
    record,
    write_run,
    write_sweep,
)

GOLDEN = json.loads((Path(__file__).parent / "data" / "statistics_golden.json").read_text())
CASES = {name: case for name, case in GOLDEN["cases"].items() if "verdict" in case["expect"]}


def void(code):
    return Audit(code, "void", "why", "what to do")


def paired(baseline, idea, **fields):
    """Records of two arms with these test scores, one configuration each."""
    return [
        record(arm, seed, test=score, validation=0.5, **fields)
        for arm, scores in (("baseline", baseline), ("idea", idea))
        for seed, score in enumerate(scores)
    ]


def test_the_first_that_applies():
    """Everything applies at first; the reason for each verdict is then taken away."""
    facts = {}
    order = []
    for audits in ([void("data_mismatch"), void("missing_run")], [void("missing_run")], []):
        order.append(conclusion(*audits).verdict)
    for change in (
        {"inert_ulps": 4.1},
        {"delta_mean": 0.1},
        {"p_equivalence_holm": 0.06},
        {"p_holm": 0.06, "p_equivalence_holm": 0.05},
        {"p_equivalence_holm": None},
        {"p_min": 0.05},
        {"family_size": 2},
    ):
        facts |= change
        order.append(conclusion(**facts).verdict)
    assert order == [
        "invalid",
        "incomplete",
        "inert",
        "idea better (significant), negligible",
        "idea worse (significant), negligible",
        "idea worse (significant)",
        "equivalent",
        "underpowered",
        "inconclusive",
        "underpowered",
    ]
    assert conclusion(inert_ulps=4.0).verdict == "inert"
    assert conclusion(inert_ulps=None, p_holm=0.05).verdict.startswith("idea better")


def test_warnings_and_notes_void_nothing():
    audits = [Audit("missing_run", "warning", "", ""), Audit("duplicate_run", "note", "", "")]
    assert conclusion(*audits).verdict == "inert"


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_golden_verdicts(tmp_path, case):
    d = [0.0 if value is None else value for value in case["d"]]
    baseline = case.get("baseline", [0.0] * len(d))
    idea = case.get("idea", [score + each for score, each in zip(baseline, d, strict=True)])
    records = paired(baseline, idea)
    for seed, value in enumerate(case["d"]):
        if value is None:
            diverge(pick(records, "idea", seed)[0])
    [judged] = analysed(write_sweep(tmp_path, records, examples=False))
    assert judged.verdict == case["expect"]["verdict"]


@pytest.mark.parametrize(("change", "practical"), [(0.1, "hurts"), (-0.1, "helps")])
def test_direction_decides_what_is_better(tmp_path, change, practical):
    baseline = np.linspace(0.5, 0.6, 8)
    records = paired(baseline, baseline + change * np.linspace(1, 2, 8))
    [judged] = analysed(write_sweep(tmp_path / "min", records))
    assert judged.practical_verdict == practical
    for run in records:
        run["metric"] = {"name": "accuracy", "direction": "max"}
    [judged] = analysed(write_sweep(tmp_path / "max", records))
    assert judged.practical_verdict != practical
    assert judged.comparison.effect.delta_mean == pytest.approx(change * 1.5)  # plain sign
    wins = judged.comparison.effect.counts.wins
    assert wins == (8 if change > 0 else 0)


def test_inert_is_judged_on_per_example_losses_where_both_have_them(tmp_path):
    records = paired([0.5] * 8, [0.5] * 8)  # the scores are one
    losses = np.linspace(0.25, 0.75, 10, dtype=np.float32)  # of mean 0.5, turned round or not
    for i, run in enumerate(records):
        write_run(tmp_path / str(i), run, losses[::-1] if run["variant"] == "idea" else losses)
    [judged] = analysed(tmp_path)
    assert judged.effect.inert_ulps > 1000
    assert {each.code for each in judged.audits} == {"few_seeds", "unplanned_run"}
    (tmp_path / "0" / "examples.npz").unlink()
    assert analysed(tmp_path)[0].effect.inert_ulps > 1000  # one pair on its scores, others not
    for path in tmp_path.glob("*/examples.npz"):
        path.unlink()
    assert analysed(tmp_path)[0].verdict == "inert"


def test_one_active_pair_is_enough_not_to_be_inert(tmp_path):
    records = paired([0.5] * 8, [0.5] * 7 + [0.6])
    assert analysed(write_sweep(tmp_path, records, examples=False))[0].verdict != "inert"


def test_holm_over_the_family_and_a_void_place_in_it(tmp_path):
    records = grid(["baseline", "idea", "other"])
    sweep = write_sweep(tmp_path / "both", records)
    first, second = analysed(sweep)
    assert (first.p_value, first.p_holm) == (2 / 256, 4 / 256)
    assert (second.p_value, second.p_holm) == (2 / 256, 4 / 256)
    single = analysed(write_sweep(tmp_path / "one", grid()))[0].comparison.effect.mde
    assert first.comparison.effect.mde > single  # at level alpha/2

    pick(records, "other", seed=0)[0]["hashes"]["data"] = "other"
    first, second = analysed(write_sweep(tmp_path / "void", records))
    assert (first.p_value, first.p_holm) == (2 / 256, 4 / 256)
    assert (second.verdict, second.p_value, second.p_holm) == ("invalid", None, None)
    assert second.comparison.effect.delta_mean < 0  # shown all the same


def test_alpha(tmp_path):
    sweep = write_sweep(tmp_path, grid())
    assert analysed(sweep, alpha=2 / 256)[0].verdict == "idea better (significant)"
    assert analysed(sweep, alpha=1.9 / 256)[0].verdict == "underpowered"


def confirm(records, count):
    for run in pick(records, "idea"):
        # what is observed decides, whatever the record says of itself
        run["signature"]["observed"]["rate_distance_from_start"] = 0.2 * (run["seed"] < count)


def test_system_verdict(tmp_path):
    records = grid()
    [judged] = analysed(write_sweep(tmp_path / "all", records))
    assert (judged.system_verdict, judged.mechanism_ok) == ("worked", True)
    confirm(records, 7)
    [judged] = analysed(write_sweep(tmp_path / "most", records))
    assert (judged.system_verdict, judged.mechanism_ok) == ("partial", False)
    assert judged.signature_confirmed == 7
    for run in pick(records, "idea", lr=None):
        run["signature"] = None
    [judged] = analysed(write_sweep(tmp_path / "none", records))
    assert (judged.system_verdict, judged.mechanism_ok) == ("partial", False)


@pytest.mark.parametrize(("confirmed", "system"), [(8, "partial"), (7, "failed")])
def test_confirmed_without_being_better(tmp_path, confirmed, system):
    records = paired([0.5, 0.6] * 4, [0.6, 0.5] * 4)
    confirm(records, confirmed)
    [judged] = analysed(write_sweep(tmp_path, records))
    assert judged.verdict == "inconclusive"
    assert (judged.system_verdict, judged.practical_verdict) == (system, "unknown")


def test_confirmed_but_inert(tmp_path):
    [judged] = analysed(write_sweep(tmp_path, paired([0.5] * 8, [0.5] * 8), examples=False))
    assert judged.mechanism_ok
    assert (judged.verdict, judged.system_verdict) == ("inert", "failed")
    assert judged.practical_verdict == "no_effect"


def test_confidence(tmp_path):
    records = grid()
    for run in pick(records, "idea", lr=0.006):
        run["scores"]["validation"] = 0.0
    [judged] = analysed(write_sweep(tmp_path / "warning", records))
    assert judged.confidence == 7  # grid_edge; the note that seeds tuned and are reported
    [judged] = analysed(write_sweep(tmp_path / "note", [*records, records[0]]))
    assert judged.confidence == 6
    pick(records, "idea", lr=0.006)[0]["hashes"]["data"] = "other"
    [judged] = analysed(write_sweep(tmp_path / "void", records))
    assert judged.confidence == 0
    assert conclusion(*[Audit("x", "warning", "", "")] * 9).confidence == 1
