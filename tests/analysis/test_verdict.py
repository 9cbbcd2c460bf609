"""Verdicts in their order, over a family, and what follows from them."""

import json
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from analysis.judge.audits.audit import Audit
from analysis.judge.compare import measure
from analysis.judge.verdict import Case, Conclusion, conclude
from analysis.read.rules import Rules
from tests.analysis.builder import (
    EVERYTHING,
    analysed,
    can_tie,
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


def case(*audits, family="all", family_size=1, **effect):
    """One that is underpowered but for the p-values among `effect`, as of `Effect`."""
    return Case(
        effect=replace(EVERYTHING, inert_ulps=None, **effect),
        direction="min",
        audits=audits,
        mechanism_ok=True,
        idea_failed=False,
        family=family,
        family_size=family_size,
        alpha=0.05,
    )


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
    assert (
        conclusion(
            p_min=0.025, family_size=2, p_holm=1.0, p_equivalence_holm=None, inert_ulps=5.0
        ).verdict
        == "inconclusive"
    )
    assert conclusion(inert_ulps=None, p_holm=0.05).verdict.startswith("idea better")


def test_what_is_corrected_over_the_family_decides():
    raw = conclusion(inert_ulps=None, p_holm=0.06, p_equivalence_holm=0.06)
    alike = {field.name: getattr(raw, field.name) for field in fields(raw) if field.init}
    assert Conclusion(**alike | {"p_value": 0.01, "p_equivalence": 0.01}).verdict == "underpowered"
    better = alike | {"p_holm": 0.05}
    assert Conclusion(**better).verdict == "idea better (significant)"
    assert Conclusion(**better | {"p_equivalence_holm": 0.05}).verdict.endswith("negligible")


@pytest.mark.parametrize(
    ("p", "expected"),
    [
        ([0.03, 0.04], ["underpowered", "underpowered"]),  # Holm: .06, .06
        ([0.02, 0.04], ["equivalent", "equivalent"]),  # .04, .04
        ([0.03, 0.02], ["equivalent", "equivalent"]),
        ([0.02, 0.06], ["equivalent", "underpowered"]),
        ([0.026, None], ["underpowered", "underpowered"]),  # .052, and a place with p = 1
        ([0.025, None], ["equivalent", "underpowered"]),
    ],
)
def test_equivalence_is_corrected_over_the_family(p, expected):
    """By hand; a family of two, and another beside it that takes no part."""
    cases = [case(p_equivalence=each, family="one", family_size=2) for each in p]
    other = case(p_equivalence=0.05, family="other", family_size=1)
    found = [Conclusion(**each) for each in conclude([cases[0], other, cases[1]])]
    assert [found[0].verdict, found[2].verdict] == expected
    assert found[1].verdict == "equivalent"
    assert [found[0].p_equivalence, found[2].p_equivalence] == p


def test_what_left_no_case_keeps_its_place_in_the_family():
    [alone] = conclude([case(p_value=0.02, p_equivalence=0.01, family_size=3)])
    assert (alone["p_holm"], alone["p_equivalence_holm"]) == (0.06, 0.03)
    [void_case] = conclude([case(void("data_mismatch"), p_value=0.02, p_equivalence=0.01)])
    assert {void_case[key] for key in void_case if key.startswith("p_")} == {None}


ZEROS = {"d": np.zeros(8), "delta_mean": 0.0, "p_holm": 1.0, "p_equivalence_holm": None}


def test_scores_that_are_equal_to_the_last_digit():
    for ulps in (None, 4.1):
        equal = conclusion(inert_ulps=ulps, **ZEROS)
        assert equal.verdict == "equivalent"
        assert (equal.system_verdict, equal.practical_verdict) == ("partial", "no_effect")
        assert equal.ahead is None
    assert conclusion(inert_ulps=5.0, **ZEROS | {"d": np.zeros(1)}).verdict == "equivalent"
    assert conclusion(inert_ulps=4.0, **ZEROS).verdict == "inert"
    assert conclusion(void("data_mismatch"), inert_ulps=5.0, **ZEROS).verdict == "invalid"
    for d in ([0.0] * 7 + [1e-9], []):
        differ = conclusion(inert_ulps=5.0, **ZEROS | {"d": np.array(d)})
        assert differ.verdict == "underpowered"


def test_who_is_ahead():
    for change, practical, ahead in ((-0.1, "helps", "idea"), (0.1, "hurts", "baseline")):
        found = conclusion(inert_ulps=None, p_equivalence_holm=None, delta_mean=change)
        assert (found.practical_verdict, found.ahead) == (practical, ahead)
        found = conclusion(inert_ulps=None, delta_mean=change)  # negligible, but decided
        assert (found.practical_verdict, found.ahead) == ("no_effect", ahead)
    undecided = conclusion(inert_ulps=None, p_equivalence_holm=None, p_holm=0.06)
    assert (undecided.practical_verdict, undecided.ahead) == ("unknown", None)


@pytest.mark.parametrize(
    ("arm", "beside", "system"),
    [("idea", None, "failed"), ("baseline", None, "invalid"), ("idea", "other data", "invalid")],
)
def test_runs_that_diverged_are_a_finding_about_the_idea_alone(tmp_path, arm, beside, system):
    records = grid()
    for run in pick(records, arm, seed=2, lr=None):
        diverge(run)
    if beside:
        pick(records, "idea", seed=3)[0]["hashes"]["data"] = beside
    [judged] = analysed(write_sweep(tmp_path, records))
    assert (judged.verdict, judged.system_verdict) == ("invalid", system)


def test_why_names_what_is_void_alone():
    others = [Audit("few_seeds", "warning", "few", ""), Audit("grid_edge", "note", "edge", "")]
    assert conclusion(*others).why is None
    assert conclusion(void("data_mismatch"), *others, void("missing_run")).why == "why why"


def test_warnings_and_notes_void_nothing():
    audits = [Audit("missing_run", "warning", "", ""), Audit("duplicate_run", "note", "", "")]
    assert conclusion(*audits).verdict == "inert"


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_golden_verdicts(tmp_path, case):
    d = [0.0 if value is None else value for value in case["d"]]
    baseline = case.get("baseline", [0.5] * len(d))
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
    assert (judged.verdict, judged.p_equivalence) == ("equivalent", None)
    assert {each.code for each in judged.audits} == {"few_seeds", "unplanned_run", "untuned"}
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
    [judged] = analysed(write_sweep(tmp_path / "incomplete", records[:-1], plan=records))
    assert (judged.verdict, judged.system_verdict) == ("incomplete", "invalid")


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


def test_a_loss_of_0_tells_no_model_from_another(tmp_path):
    """A task solved so well that cross-entropy underflows: the arms are not one for that."""
    records = grid()
    for each in records:
        can_tie(each, 1.0, 0.0)
    [judged] = analysed(write_sweep(tmp_path, records, examples=False))
    assert judged.verdict == "equivalent"
    assert "unequal_grid" not in {each.code for each in judged.audits}


def test_no_p_lies_below_the_smallest():
    """Of 25 pairs flips are drawn, and by chance fewer may count than would of all."""
    d = np.array([0.0] * 10 + [-0.1] * 15) - np.linspace(0, 1e-3, 25) * (np.arange(25) >= 10)
    effect = measure(np.ones(25), 1 + d, "min", Rules(), 1)
    assert effect.p_min <= effect.p_value
    assert effect.p_min < 1e-4
