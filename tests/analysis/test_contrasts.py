"""Comparisons beside those with the baseline: of any two arms, at longer contexts, as published."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analysis.errors import AnalysisError
from analysis.judge.verdict import Verdict
from tests.analysis.builder import analysed, diverge, grid, write_sweep

Json = dict[str, Any]


def sweep(folder: Path, arms: str, records: list[Json] | None = None, **declared: Any) -> Path:
    records = grid(arms.split()) if records is None else records
    for each in records:
        each["analysis"] |= declared
    return write_sweep(folder, records)


def longer(arms: str, **shifts: float) -> list[Json]:
    """Records that have a test at 64 too, after 32: there an arm's score is shifted."""
    records = grid(arms.split())
    for each in records:
        each["context"] = 32
        each["scores"]["test@64"] = each["scores"]["test"] + shifts.get(each["variant"], 0.0)
    return records


def named(judged: Any) -> tuple[str, str, int]:
    comparison = judged.comparison
    return comparison.idea.name, comparison.baseline.name, comparison.length


def test_a_contrast_is_one_more_of_the_family(tmp_path: Path) -> None:
    found = analysed(sweep(tmp_path, "baseline a b", contrasts=[["a", "b"]]))
    assert list(map(named, found)) == [("a", "baseline", 1), ("b", "baseline", 1), ("a", "b", 1)]
    assert {each.comparison.family_size for each in found} == {3}
    a, b, contrast = (each.comparison.effect.d for each in found)
    assert contrast == pytest.approx(a - b)


def test_a_contrast_that_is_there_already_is_not_made_twice(tmp_path: Path) -> None:
    found = analysed(sweep(tmp_path, "baseline a", contrasts=[["a", "baseline"]]))
    assert list(map(named, found)) == [("a", "baseline", 1)]


def test_a_contrast_of_an_arm_that_is_not_there_keeps_its_place(tmp_path: Path) -> None:
    found = analysed(sweep(tmp_path, "baseline a", contrasts=[["a", "gone"]]))
    assert list(map(named, found)) == [("a", "baseline", 1)]
    assert found[0].comparison.family_size == 2


def test_what_is_absent_is_absent_at_every_length(tmp_path: Path) -> None:
    whole = longer("baseline a b")
    for each in whole:
        each["analysis"] |= {"lengths": [2], "contrasts": [["a", "b"]]}
    path = write_sweep(tmp_path / "whole", whole)
    assert {each.comparison.family_size for each in analysed(path)} == {6}
    some = [each for each in whole if each["variant"] != "b"]
    path = write_sweep(tmp_path / "some", some, plan=whole)
    assert {each.comparison.family_size for each in analysed(path)} == {6}


def test_a_contrast_is_no_other_rule_than_was_declared(tmp_path: Path) -> None:
    found = analysed(sweep(tmp_path, "baseline a b", contrasts=[["a", "b"]]))
    assert not [a for each in found for a in each.audits if a.code == "rules_changed"]


def test_another_baseline_makes_no_comparison_twice(tmp_path: Path) -> None:
    path = sweep(tmp_path, "baseline a b", contrasts=[["a", "b"]])
    found = analysed(path, baseline="a")
    assert list(map(named, found)) == [("b", "a", 1), ("baseline", "a", 1)]
    with pytest.raises(AnalysisError, match="nothing to compare"):
        analysed(path, baseline="typo")


def test_of_what_has_not_learned_the_task_nothing_was_published(tmp_path: Path) -> None:
    said = [{"idea": "a", "verdict": "better", "source": "A. Author 2020"}]
    records = grid(["baseline", "a"])
    for each in records:
        each["secondary"]["persistence_mse"]["scores"] = {"validation": 0.01, "test": 0.01}
    [found] = analysed(sweep(tmp_path, "", records, expects=said))
    assert found.verdict == "idea better (significant)"
    assert found.as_expected == "undecided"


def test_declared_lengths_are_judged_like_the_trained_one(tmp_path: Path) -> None:
    records = longer("baseline a", a=0.2)  # a is better at 32, and worse at 64
    found = analysed(sweep(tmp_path, "", records, lengths=[2]))
    assert list(map(named, found)) == [("a", "baseline", 1), ("a", "baseline", 2)]
    assert [each.verdict for each in found] == [
        "idea better (significant)",
        "idea worse (significant)",
    ]
    assert {each.comparison.family_size for each in found} == {2}
    assert found[1].comparison.effect.d == pytest.approx(found[0].comparison.effect.d + 0.2)
    assert not found[0].comparison.further_splits  # it is no longer one that decides nothing
    assert len({each.comparison.idea.selection.best.key for each in found}) == 1


def test_a_length_that_was_not_declared_decides_nothing(tmp_path: Path) -> None:
    [found] = analysed(sweep(tmp_path, "", longer("baseline a", a=0.2)))
    assert found.verdict == "idea better (significant)"
    assert list(found.comparison.further_splits) == ["test@64"]


def test_a_length_at_which_nothing_was_tested_is_told(tmp_path: Path) -> None:
    with pytest.raises(AnalysisError, match="4 times the context, at which baseline on sequence"):
        analysed(sweep(tmp_path, "", longer("baseline a"), lengths=[4]))


def test_one_run_that_was_not_tested_at_a_length_is_told(tmp_path: Path) -> None:
    records = longer("baseline a")
    del records[-1]["scores"]["test@64"]
    with pytest.raises(AnalysisError, match="2 times the context, at which a on sequence was not"):
        analysed(sweep(tmp_path, "", records, lengths=[2]))


def test_a_diverged_run_voids_every_length(tmp_path: Path) -> None:
    records = longer("baseline a")
    for each in records:
        if each["variant"] == "a" and each["seed"] == 0:
            diverge(each)
    found = analysed(sweep(tmp_path, "", records, lengths=[2]))
    assert [each.verdict for each in found] == ["invalid", "invalid"]


@pytest.mark.parametrize(
    ("shift", "says", "outcome"),
    [
        (-0.2, "better", "found"),
        (0.2, "better", "contradicted"),
        (0.2, "worse", "found"),
        (-0.2, "worse", "contradicted"),
        (-0.2, "equal", "contradicted"),
    ],
)
def test_what_was_published_is_held_against_what_is_found(
    tmp_path: Path, shift: float, says: str, outcome: str
) -> None:
    said = [{"idea": "a", "length": 2, "verdict": says, "source": "A. Author 2020"}]
    records = longer("baseline a", a=shift)
    found = analysed(sweep(tmp_path, "", records, lengths=[2], expects=said))
    assert [each.as_expected for each in found] == [None, outcome]


@pytest.mark.parametrize(("says", "outcome"), [("equal", "found"), ("better", "contradicted")])
def test_arms_that_are_equivalent_are_as_expected_where_that_was_said(
    tmp_path: Path, says: str, outcome: str
) -> None:
    records = grid(["baseline", "a"])
    for i, each in enumerate(records):
        each["scores"] = {"validation": 0.1, "test": 0.1 + each["seed"] / 100 + i % 7 / 1e6}
    said = [{"idea": "a", "verdict": says, "source": "A. Author 2020"}]
    [found] = analysed(sweep(tmp_path, "", records, expects=said))
    assert (found.verdict, found.as_expected) == ("equivalent", outcome)


@pytest.mark.parametrize(
    ("verdict", "shown"),
    [
        (Verdict.BETTER, "better"),
        (Verdict.BETTER_NEGLIGIBLE, "equal"),
        (Verdict.EQUIVALENT, "equal"),
        (Verdict.WORSE_NEGLIGIBLE, "equal"),
        (Verdict.WORSE, "worse"),
        (Verdict.INERT, None),  # one model under two names is no finding
        (Verdict.UNDERPOWERED, None),
        (Verdict.INCONCLUSIVE, None),
        (Verdict.INVALID, None),
        (Verdict.INCOMPLETE, None),
    ],
)
def test_a_verdict_shows_one_thing(verdict: Verdict, shown: str | None) -> None:
    assert verdict.shown == shown


def test_few_seeds_leave_what_was_published_undecided(tmp_path: Path) -> None:
    said = [{"idea": "a", "baseline": "baseline", "verdict": "better", "source": "A. Author 2020"}]
    records = grid(["baseline", "a"], seeds=range(3))
    [found] = analysed(sweep(tmp_path, "", records, expects=said))
    assert found.as_expected == "undecided"


def test_an_expectation_may_be_of_a_contrast(tmp_path: Path) -> None:
    said = [{"idea": "a", "baseline": "b", "verdict": "better", "source": "A. Author 2020"}]
    path = sweep(tmp_path, "", longer("baseline a b"), contrasts=[["a", "b"]], expects=said)
    assert [each.as_expected is None for each in analysed(path)] == [True, True, False]
