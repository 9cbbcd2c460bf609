"""Which runs a tuned design asks for, from records that a test makes up."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from analysis.errors import AnalysisError
from analysis.judge.design import Course, Why, beyond, course, look
from analysis.read.recorded import RecordedRun
from records.design import SPENDING, PlannedArm, Rule
from records.identity import Identity
from records.reading import Unreadable
from records.record import PlannedRun, Record, read_plan
from tests.analysis.builder import analysed, diverge, record, write_run

Score = Callable[[PlannedRun], float | None]  # on both splits; None: it diverged
HYPER = {"lr": 0.0015, "gamma": 1.0}


def rule(**other: Any) -> Rule:
    said: dict[str, Any] = {
        "arms": [PlannedArm("sequence", name, HYPER) for name in ("idea", "baseline")],
        "baseline": "baseline",
        "grid": {"lr": [0.0015, 0.003, 0.006]},
        "tuning_seeds": [1000, 1001, 1002],
        "seeds": list(range(16)),
        "looks": [8, 12, 16],
        "extend": 4,
        "futility": 0.05,
        "spending": SPENDING,
        "budgets": [],
        "alpha": 0.05,
        "margin_pct": 1.0,
        "family": "all",
    }
    return Rule(**(said | other))


def made_up(run: PlannedRun, score: Score) -> dict[str, Any]:
    found = score(run)
    value = 1.0 if found is None else found
    made = record(run.variant, run.seed, test=value, validation=value, track=run.track)
    made["hyper"] = run.hyper
    made["budget_factor"] = run.budget_factor
    made["analysis"]["tuning_seeds"] = [1000, 1001, 1002]
    if found is None:
        diverge(made)
    return made


def followed(rule: Rule, score: Score, batches: int = 99) -> tuple[Course, dict[Identity, Any]]:
    """Do what a rule asks for, batch by batch; its course, and all records."""
    records: dict[Identity, Any] = {}
    recorded: dict[Identity, RecordedRun] = {}
    made = course(rule, recorded)
    while not made.is_finished and batches:
        batches -= 1
        for run in made.batches[-1].runs:
            assert run.identity not in records  # nothing is asked for twice
            records[run.identity] = made_up(run, score)
            whole = msgspec.convert(records[run.identity], Record)
            recorded[run.identity] = RecordedRun(whole, "")
        made = course(rule, recorded)
    return made, records


def bowl(best: dict[str, float], effect: float = 0.0, spread: float = 0.01) -> Score:
    """Scores that are best at an arm's lr; ideas have an effect beside."""

    def score(run: PlannedRun) -> float:
        away = abs(np.log10(float(run.hyper["lr"]) / best[run.variant]))
        noise = np.random.default_rng([run.seed, *run.variant.encode()]).normal()
        return float(1 + away + effect * (run.variant != "baseline") + spread * noise)

    return score


def lrs(made: Course, variant: str) -> list[float]:
    return sorted({float(run.hyper["lr"]) for run in made.runs if run.variant == variant})


def test_best_values_inside_the_grid_are_chosen_and_tested_on_other_seeds() -> None:
    made, _ = followed(rule(), bowl({"baseline": 0.003, "idea": 0.003}, effect=-0.3))
    assert [len(batch.runs) for batch in made.batches] == [2 * 3 * 3, 2 * 8]
    assert {run.seed for run in made.batches[0].runs} == {1000, 1001, 1002}
    assert {run.seed for run in made.batches[1].runs} == set(range(8))
    assert {run.hyper["lr"] for run in made.batches[1].runs} == {0.003}
    assert all(run.hyper["gamma"] == 1.0 for run in made.runs)
    assert made.is_finished
    assert made.stops["sequence", "baseline", "idea"].pairs == 8
    assert made.stops["sequence", "baseline", "idea"].why is Why.DECIDED


def test_a_grid_grows_in_both_arms_while_one_arms_best_is_at_its_end() -> None:
    made, _ = followed(rule(), bowl({"baseline": 0.003, "idea": 0.024}))
    grown = [0.0015, 0.003, 0.006, 0.012, 0.024, 0.048]
    assert lrs(made, "baseline") == lrs(made, "idea") == grown
    assert made.grids == {"sequence": {"lr": grown}}
    assert [batch.why for batch in made.batches[1:4]] == [
        "sequence: idea's best lr 0.006 was the largest: 0.012 is tried in every arm",
        "sequence: idea's best lr 0.012 was the largest: 0.024 is tried in every arm",
        "sequence: idea's best lr 0.024 was the largest: 0.048 is tried in every arm",
    ]
    assert made.chosen["sequence", "idea"]["lr"] == 0.024
    assert made.chosen["sequence", "baseline"]["lr"] == 0.003


def test_a_grid_grows_at_both_ends_and_no_further_than_it_may() -> None:
    made, _ = followed(rule(extend=2), bowl({"baseline": 1e-6, "idea": 1.0}))
    assert lrs(made, "idea") == [0.000375, 0.00075, 0.0015, 0.003, 0.006, 0.012, 0.024]
    assert [len(batch.runs) for batch in made.batches[:3]] == [18, 12, 12]
    none, _ = followed(rule(extend=0), bowl({"baseline": 1e-6, "idea": 1.0}))
    assert lrs(none, "idea") == [0.0015, 0.003, 0.006]


def test_a_value_that_diverges_is_worse_than_any_and_ends_the_growth() -> None:
    inside = bowl({"baseline": 0.003, "idea": 1.0})

    def score(run: PlannedRun) -> float | None:
        return None if run.variant == "idea" and run.hyper["lr"] == 0.012 else inside(run)

    made, _ = followed(rule(), score)
    assert lrs(made, "idea") == [0.0015, 0.003, 0.006, 0.012]
    assert made.chosen["sequence", "idea"]["lr"] == 0.006


def test_arms_that_always_diverge_end_their_growth_and_their_path() -> None:
    made, _ = followed(rule(), lambda run: None)
    assert lrs(made, "idea") == [0.0015, 0.003, 0.006]
    assert made.stops["sequence", "baseline", "idea"].why is Why.DIVERGED
    assert made.is_finished


@pytest.mark.parametrize(
    ("values", "below", "above"),
    [([1.0, 3.0, 10.0], 1 / 3, 100 / 3), ([0.0015, 0.003, 0.006], 0.00075, 0.012)],
)
def test_a_grid_grows_by_its_outermost_step(
    values: list[float | str], below: float, above: float
) -> None:
    assert beyond(values, 0) == pytest.approx(below, rel=1e-5)
    assert beyond(values, -1) == pytest.approx(above, rel=1e-5)


def test_names_and_single_values_do_not_grow() -> None:
    named = rule(grid={"lr": [0.003], "optimizer": ["adamw", "muon"]})
    named.arms[:] = [
        PlannedArm("sequence", arm.variant, {**HYPER, "optimizer": "adamw"}) for arm in named.arms
    ]
    made, _ = followed(named, bowl({"baseline": 0.003, "idea": 0.003}))
    assert len(made.batches[0].runs) == 2 * 2 * 3
    assert len(made.batches[1].runs) == 16


def test_an_idea_without_effect_is_given_up_or_looked_at_to_the_end() -> None:
    ended = {}
    for seed in range(12):
        noise = np.random.default_rng(seed)
        scores = {s: noise.normal(size=2) for s in (*range(16), 1000, 1001, 1002)}

        def score(run: PlannedRun, scores: dict[int, Any] = scores) -> float:
            away = abs(np.log10(float(run.hyper["lr"]) / 0.003))
            return float(10 + away + scores[run.seed][int(run.variant == "idea")])

        made, _ = followed(rule(), score)
        stop = made.stops["sequence", "baseline", "idea"]
        ended[stop.why] = stop.pairs
    assert {Why.FUTILE, Why.LAST} <= set(ended)
    assert ended[Why.LAST] == 16


def test_arms_that_are_equal_within_the_margin_are_equivalent() -> None:
    made, _ = followed(rule(), bowl({"baseline": 0.003, "idea": 0.003}, spread=1e-4))
    assert made.stops["sequence", "baseline", "idea"].why is Why.EQUIVALENT


def test_the_baseline_goes_on_for_ideas_that_are_not_decided() -> None:
    arms = [PlannedArm("sequence", name, HYPER) for name in ("baseline", "good", "plain")]
    made, _ = followed(
        rule(arms=arms, looks=[10, 12, 16], futility=0.0),
        lambda run: (
            bowl(dict.fromkeys(("baseline", "good", "plain"), 0.003), spread=0.1)(run)
            - 2.0 * (run.variant == "good")
        ),
    )
    assert made.stops["sequence", "baseline", "good"].pairs == 10
    assert made.stops["sequence", "baseline", "plain"].pairs > 10
    seeds = {name: {r.seed for r in made.runs if r.variant == name} for name in
             ("baseline", "good", "plain")}  # fmt: skip
    assert seeds["good"] < seeds["plain"] == seeds["baseline"]


def test_a_contrast_goes_on_without_the_baseline() -> None:
    arms = [PlannedArm("sequence", name, HYPER) for name in ("baseline", "good", "plain")]
    best = {"baseline": 0.003, "good": 0.003, "plain": 0.003}
    made, _ = followed(
        rule(arms=arms, contrasts=[("good", "plain")], looks=[10, 16], futility=0.0),
        bowl(best, effect=-0.3),
    )
    assert {each[1:]: stop.pairs for each, stop in made.stops.items()} == {
        ("baseline", "good"): 10,
        ("baseline", "plain"): 10,
        ("plain", "good"): 16,
    }
    reported = [run for run in made.runs if run.seed < 1000]
    seeds = {name: sum(run.variant == name for run in reported) for name in best}
    assert seeds == {"baseline": 10, "good": 16, "plain": 16}


def test_a_contrast_shares_the_level_of_its_family() -> None:
    names = ("baseline", "a", "b", "c")
    arms = [PlannedArm("sequence", name, HYPER) for name in names]
    assert course(rule(arms=arms, looks=[9, 16]), {}).looks("sequence") == [9, 16]
    contrasted = rule(arms=arms, looks=[9, 16], contrasts=[("a", "b")])
    assert course(contrasted, {}).looks("sequence") == [16]


def test_a_look_that_can_reject_nothing_is_left_out() -> None:
    arms = [PlannedArm("sequence", name, HYPER) for name in ("baseline", "a", "b", "c", "d", "e")]
    assert course(rule(arms=arms), {}).looks("sequence") == [12, 16]
    assert course(rule(arms=arms, family="track"), {}).looks("sequence") == [12, 16]


def test_other_budgets_are_trained_once_on_the_tuning_seeds() -> None:
    made, _ = followed(rule(budgets=[0.5, 2.0]), bowl({"baseline": 0.003, "idea": 0.006}, -0.3))
    other = [run for run in made.runs if run.budget_factor != 1]
    assert len(other) == 2 * 2 * 3
    assert {run.seed for run in other} == {1000, 1001, 1002}
    assert {(r.variant, r.hyper["lr"]) for r in other} == {("baseline", 0.003), ("idea", 0.006)}


def test_tracks_are_tuned_apart_and_judged_as_one_family() -> None:
    arms = [PlannedArm(track, name, HYPER) for track in ("sequence", "series")
            for name in ("baseline", "idea")]  # fmt: skip
    inside, outside = (bowl({"baseline": best, "idea": best}, -0.3) for best in (0.003, 0.012))
    made, _ = followed(
        rule(arms=arms), lambda run: (inside if run.track == "sequence" else outside)(run)
    )
    assert made.grids["sequence"]["lr"] == [0.0015, 0.003, 0.006]
    assert made.grids["series"]["lr"] == [0.0015, 0.003, 0.006, 0.012, 0.024]
    assert [stop.why for stop in made.stops.values()] == [Why.DECIDED] * 2


def test_it_stops_where_records_stop_and_goes_on_as_it_would_have() -> None:
    score = bowl({"baseline": 0.003, "idea": 0.012}, -0.02)
    whole, records = followed(rule(), score)
    for count in range(0, len(records), 7):
        kept = dict(list(records.items())[:count])
        recorded = {
            who: RecordedRun(msgspec.convert(each, Record), "") for who, each in kept.items()
        }
        part = course(rule(), recorded)
        assert part.batches == whole.batches[: len(part.batches)]
        assert part.is_finished is False


def test_most_left_is_never_less_than_what_comes() -> None:
    for best in (0.003, 0.006):
        for effect in (0.0, -0.3):
            score = bowl({"baseline": 0.003, "idea": best}, effect)
            whole, _ = followed(rule(budgets=[0.5], extend=0), score)
            for n in range(len(whole.batches)):
                part, _ = followed(rule(budgets=[0.5], extend=0), score, batches=n)
                to_come = sum(len(batch.runs) for batch in whole.batches[n + 1 :])
                assert part.most_left() >= to_come
                assert part.most_left() <= 2 * 16 + 2 * 3


def write(folder: Path, rule: Rule, records: list[dict[str, Any]]) -> Path:
    folder.mkdir()
    for i, each in enumerate(records):
        write_run(folder / f"{i:03d}", each)
    plan = {"schema": 3, "runs": [], "design": msgspec.to_builtins(rule), "batches": []}
    (folder / "plan.json").write_text(json.dumps(plan))
    return folder


def test_a_design_is_judged_by_its_looks(tmp_path: Path) -> None:
    score = bowl({"baseline": 0.003, "idea": 0.003}, effect=-0.3)
    made, records = followed(rule(), score)
    [judged] = analysed(write(tmp_path / "sweep", rule(), list(records.values())))
    assert judged.verdict == "idea better (significant)"
    assert judged.p_value == pytest.approx(
        2 / 256 / 0.5**2.5
    )  # half of the pairs: .18 of the level
    assert len(judged.comparison.seeds) == 8
    assert judged.comparison.stop == made.stops["sequence", "baseline", "idea"]
    codes = {each.code for each in judged.audits}
    assert not codes & {"unpaired_seed", "missing_run", "unplanned_run", "grid_edge"}
    assert not codes & {"tuned_on_reported_seeds", "unequal_grid"}


def test_by_another_metric_the_runs_of_the_design_are_judged(tmp_path: Path) -> None:
    rates = {"baseline": 0.003, "idea": 0.003}
    made, records = followed(rule(), bowl(rates, effect=-0.3))
    for each in records.values():  # by mae the smallest rate is best, and the idea is worse
        mae = float(each["hyper"]["lr"]) + 0.1 * (each["variant"] == "idea") + each["seed"] / 1e6
        each["secondary"]["mae"]["scores"] = {"validation": mae, "test": mae}
    folder = write(tmp_path / "sweep", rule(), list(records.values()))
    [judged] = analysed(folder, metric="mae")
    assert judged.comparison.stop == made.stops["sequence", "baseline", "idea"]
    assert judged.comparison.idea.selection.best.hyper["lr"] == 0.003
    assert len(judged.comparison.seeds) == 8
    assert judged.verdict == "idea worse (significant)"


def test_a_design_that_is_under_way_shows_effects_and_no_p(tmp_path: Path) -> None:
    _, records = followed(rule(), bowl({"baseline": 0.003, "idea": 0.003}, effect=-0.3))
    few = [each for each in records.values() if each["seed"] >= 1000 or each["seed"] < 6]
    for partial in (False, True):
        folder = write(tmp_path / str(partial), rule(), few)
        [judged] = analysed(folder, partial=partial)
        assert judged.verdict == "incomplete"
        assert judged.p_value is None
        assert judged.comparison.effect.delta_mean is not None
        [missing] = [each for each in judged.audits if each.code == "missing_run"]
        assert "under way" in missing.message


def test_a_look_outside_the_plan_enters_nothing_and_is_told(tmp_path: Path) -> None:
    score = bowl({"baseline": 0.003, "idea": 0.003}, effect=-0.3)
    _, records = followed(rule(), score)
    more = [
        made_up(PlannedRun(track="sequence", variant=name, seed=seed, hyper={**HYPER, "lr": 0.003}),
                score)
        for name in ("baseline", "idea") for seed in range(8, 12)
    ]  # fmt: skip
    [judged] = analysed(write(tmp_path / "more", rule(), [*records.values(), *more]))
    [told] = [each for each in judged.audits if each.code == "unplanned_run"]
    assert "8 runs" in told.message
    assert len(judged.comparison.seeds) == 8


def test_other_budgets_are_those_of_the_rule_alone(tmp_path: Path) -> None:
    score = bowl({"baseline": 0.003, "idea": 0.003}, effect=-0.3)
    _, records = followed(rule(budgets=[0.5]), score)
    hyper = {**HYPER, "lr": 0.003}
    more = [
        made_up(PlannedRun(track="sequence", variant=name, seed=seed, hyper=hyper,
                           budget_factor=factor), score)
        for name in ("baseline", "idea") for seed in (8, 9) for factor in (0.5, 1.0)
    ]  # fmt: skip
    both = [*records.values(), *more]
    [judged] = analysed(write(tmp_path / "more", rule(budgets=[0.5]), both))
    seeds = {each.factor: sorted(each.d) for each in judged.comparison.budgets}
    assert seeds == {0.5: [1000, 1001, 1002], 1.0: [*range(8), 1000, 1001, 1002]}
    [told] = [each for each in judged.audits if each.code == "unplanned_run"]
    assert "8 runs" in told.message


def test_two_designs_of_one_comparison_are_not_judged_together(tmp_path: Path) -> None:
    _, records = followed(rule(), bowl({"baseline": 0.003, "idea": 0.003}, effect=-0.3))
    for name in ("one", "other"):
        write(tmp_path / name, rule(), list(records.values()))
    with pytest.raises(AnalysisError, match="two tuned designs compare idea with baseline on seq"):
        analysed(tmp_path)


def test_a_design_of_another_spending_is_refused(tmp_path: Path) -> None:
    _, records = followed(rule(), bowl({"baseline": 0.003, "idea": 0.003}))
    with pytest.raises(
        AnalysisError, match=r"spends its level by t\^2, and this version by t\^2.5"
    ):
        analysed(write(tmp_path / "one", rule(spending=2.0), list(records.values())))


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"looks": [16, 8]}, "looks must rise"),
        ({"looks": []}, "looks must rise"),
        ({"looks": [8, 12]}, "the last look must be at all seeds"),
        ({"seeds": [*range(14), 15, 14]}, "seeds must rise"),
        ({"tuning_seeds": []}, "tuning seeds be there"),
        ({"baseline": "other"}, "lacks the baseline other"),
    ],
)
def test_a_rule_that_no_sweep_has_written_is_unreadable(
    tmp_path: Path, wrong: dict[str, Any], told: str
) -> None:
    folder = write(tmp_path / "one", rule(**wrong), [])
    with pytest.raises(Unreadable, match=told):
        read_plan(str(folder / "plan.json"))


def test_a_family_by_hand() -> None:
    """Eight pairs of which all have one sign: p = 1/128 / (8/16)^2.5 = .0442; α/2 has no such."""
    all_better, mixed = -np.arange(1.0, 9.0), np.array([1.0, -1.1, 2.0, -2.2, 3.0, -3.3, 0.5, -0.6])
    looks = [8, 16]
    one = look([all_better], [0.0], looks, 0.05, 0.05)
    assert one == [Why.DECIDED]
    assert look([all_better, mixed], [0.0, 0.0], looks, 0.05, 0.05)[0] is None  # 2 · .0442
    # a rejected null passes its level on: at α/1 the other is decided too; given up it is not
    longer = -np.arange(1.0, 17.0)
    assert look([longer, all_better], [0.0, 0.0], looks, 0.05, 0.05) == [Why.DECIDED, Why.DECIDED]
    assert look([mixed, all_better], [0.0, 0.0], looks, 0.05, 0.05) == [Why.FUTILE, None]
    close = mixed / 100
    assert look([close, all_better], [1.0, 1.0], looks, 0.05, 0.05) == [Why.EQUIVALENT, None]


def test_arms_that_are_one_need_no_further_pair() -> None:
    assert look([np.zeros(8)], [0.0], [8, 16], 0.05, 0.05) == [Why.EQUIVALENT]


def test_a_grid_grown_in_one_arm_only_enters_nothing_and_is_told(tmp_path: Path) -> None:
    score = bowl({"baseline": 0.003, "idea": 0.003}, effect=-0.3)
    _, records = followed(rule(), score)
    more = [
        made_up(PlannedRun(track="sequence", variant="idea", seed=seed, hyper={**HYPER, "lr": lr}),
                lambda run: 0.01)
        for seed in (1000, 1001, 1002) for lr in (0.012, 0.024)
    ]  # fmt: skip
    [judged] = analysed(write(tmp_path / "more", rule(), [*records.values(), *more]))
    assert "unplanned_run" in {each.code for each in judged.audits}
    assert judged.comparison.idea.selection.best.hyper["lr"] == 0.003
