"""Which hyper stands for an arm: chosen on validation, over seeds that all share."""

import json
from pathlib import Path

import pytest

from analysis.judge.select import group, select
from analysis.read.gather import gather
from tests.analysis.builder import LRS, analysed, diverge, grid, pick, record, write_sweep

GOLDEN = json.loads((Path(__file__).parent / "data" / "statistics_golden.json").read_text())


def arms_of(folder, records):
    return group(gather([write_sweep(folder, records, planned=False)]).runs)


def best_lr(side):
    return side.selection.best.hyper["lr"]


def test_chosen_on_validation_and_never_on_test(tmp_path):
    records = grid()
    for run in pick(records, "idea", lr=0.006):
        run["scores"]["test"] = 0.0  # the best test score of all
    [judged] = analysed(write_sweep(tmp_path / "a", records))
    assert best_lr(judged.comparison.idea) == 0.003
    for run in pick(records, "idea", lr=0.0015):
        run["scores"]["validation"] = 0.0
    [judged] = analysed(write_sweep(tmp_path / "b", records))
    assert best_lr(judged.comparison.idea) == 0.0015


def test_a_configuration_that_lacks_a_hard_seed_does_not_win_by_it(tmp_path):
    records = [record("baseline", seed) for seed in range(3)]
    # lr 0.006 is worse on every seed, and better on the mean of those that it has
    for seed, score in enumerate((0.1, 0.1, 9.0)):
        records.append(record("idea", seed, 0.003, validation=score))
    for seed, score in enumerate((0.2, 0.2)):
        records.append(record("idea", seed, 0.006, validation=score))
    [judged] = analysed(write_sweep(tmp_path, records, planned=False))
    assert best_lr(judged.comparison.idea) == 0.003
    assert judged.comparison.idea.selection.compared == (0, 1)


def test_only_seeds_of_the_other_arm_count(tmp_path):
    records = [record("baseline", seed) for seed in range(2)]
    for seed, score in enumerate((0.1, 0.1, 9.0)):  # seed 2 has no partner
        records.append(record("idea", seed, 0.003, validation=score))
    for seed, score in enumerate((0.2, 0.2, 0.2)):
        records.append(record("idea", seed, 0.006, validation=score))
    [judged] = analysed(write_sweep(tmp_path, records, planned=False))
    assert best_lr(judged.comparison.idea) == 0.003
    assert judged.comparison.seeds == (0, 1)


@pytest.mark.parametrize("lr", LRS)
def test_fewest_diverged_runs_come_first(tmp_path, lr):
    records = grid()
    for run in pick(records, "idea", lr=lr):
        run["scores"]["validation"] = 0.0
    diverge(pick(records, "idea", seed=5, lr=lr)[0])
    [judged] = analysed(write_sweep(tmp_path, records))
    assert best_lr(judged.comparison.idea) != lr


def test_equally_many_diverged_are_compared_where_both_finished(tmp_path):
    records = [record("idea", seed, 0.003, validation=0.5) for seed in range(4)]
    records += [record("idea", seed, 0.006, validation=0.4) for seed in range(4)]
    diverge(records[0])
    diverge(records[5])
    [arm] = arms_of(tmp_path, records).values()
    chosen = select(arm, {0, 1, 2, 3}, "min")
    assert chosen.compared == (2, 3)
    assert chosen.best.hyper["lr"] == 0.006
    assert [candidate.diverged for candidate in chosen.candidates] == [1, 1]


def test_where_a_discarded_candidate_diverged_the_others_still_count(tmp_path):
    scores = {0.003: (0.1, 0.9), 0.006: (0.2, 0.2), 0.0015: (0.0, 0.0)}
    records = [
        record("idea", seed, lr, validation=score)
        for lr, by_seed in scores.items()
        for seed, score in enumerate(by_seed)
    ]
    diverge(pick(records, "idea", seed=1, lr=0.0015)[0])
    [arm] = arms_of(tmp_path, records).values()
    chosen = select(arm, {0, 1}, "min")
    assert chosen.compared == (0, 1)
    assert chosen.best.hyper["lr"] == 0.006


@pytest.mark.parametrize("whole", LRS)
def test_of_equal_scores_the_configuration_with_the_most_runs_counts(tmp_path, whole):
    records = [record("idea", seed, lr, validation=0.5) for lr in LRS for seed in range(2)]
    records.append(record("idea", 2, whole, validation=9.0))  # no candidate is compared on it
    [arm] = arms_of(tmp_path, records).values()
    chosen = select(arm, {0, 1, 2}, "min")
    assert chosen.compared == (0, 1)
    assert chosen.best.hyper["lr"] == whole


def test_of_wholly_equal_configurations_the_first_counts(tmp_path):
    records = [record("idea", 0, lr, validation=0.5) for lr in reversed(LRS)]
    [arm] = arms_of(tmp_path, records).values()
    for direction in ("min", "max"):
        assert select(arm, {0}, direction).best.hyper["lr"] == min(LRS)
    assert [each.hyper["lr"] for each in select(arm, {0}, "min").candidates] == sorted(LRS)


@pytest.mark.parametrize("seed", [2, 3])
def test_what_diverged_counts_on_shared_seeds_alone(tmp_path, seed):
    """Seed 2 the other configuration lacks, seed 3 the other arm."""
    records = [record("idea", each, 0.003, validation=0.1) for each in range(4)]
    records += [record("idea", each, 0.006, validation=0.2) for each in (0, 1, 3)]
    diverge(pick(records, "idea", seed=seed)[0])
    [arm] = arms_of(tmp_path, records).values()
    chosen = select(arm, {0, 1, 2}, "min")
    assert (chosen.shared, chosen.compared) == ({0, 1}, (0, 1))
    assert chosen.best.hyper["lr"] == 0.003
    assert [each.diverged for each in chosen.candidates] == [1, 0]  # told of all its runs


def test_without_a_seed_to_compare_the_most_runs_and_fewest_failures_count(tmp_path):
    records = [record("idea", 0, 0.003, validation=0.1), record("idea", 1, 0.006, validation=9.0)]
    records.append(record("idea", 2, 0.006, validation=9.0))
    [arm] = arms_of(tmp_path / "none", records).values()
    chosen = select(arm, {0, 1, 2}, "min")
    assert (chosen.shared, chosen.compared) == (set(), ())
    assert chosen.best.hyper["lr"] == 0.006
    records = [record("idea", seed, lr) for lr in (0.003, 0.006) for seed in range(3)]
    for run in pick(records, "idea", lr=0.003) + pick(records, "idea", lr=0.006)[1:]:
        diverge(run)
    [arm] = arms_of(tmp_path / "diverged", records).values()
    assert select(arm, {0, 1, 2}, "min").best.hyper["lr"] == 0.006


def test_scores_stand_in_the_order_of_their_seeds(tmp_path):
    seeds = (1000, 64, 5, 33)  # as no set of numbers lists them
    records = [record("idea", seed, validation=seed / 1000, test=seed) for seed in seeds]
    [arm] = arms_of(tmp_path, records).values()
    chosen = select(arm, {*seeds}, "min")
    assert chosen.compared == (5, 33, 64, 1000)
    assert chosen.best.validation == (0.005, 0.033, 0.064, 1.0)
    assert chosen.best.test == (5, 33, 64, 1000)


def test_arms_by_track_and_variant_and_the_baselines_they_name(tmp_path):
    records = [record("idea", 0, track="series"), record("idea", 0), record("baseline", 1)]
    records += [record("idea", 1, baseline=None), record("idea", 2, baseline="other")]
    arms = arms_of(tmp_path, records)
    assert [*arms] == [("sequence", "baseline"), ("sequence", "idea"), ("series", "idea")]
    idea = arms["sequence", "idea"]
    assert (idea.track, idea.variant, idea.seeds) == ("sequence", "idea", {0, 1, 2})
    assert idea.baselines == {"baseline", "other"}
    assert len(idea.runs) == 3


def test_direction(tmp_path):
    records = [record("idea", 0, lr, validation=lr) for lr in (0.1, 0.2, 0.3)]
    [arm] = arms_of(tmp_path, records).values()
    assert select(arm, {0}, "min").best.hyper["lr"] == 0.1
    assert select(arm, {0}, "max").best.hyper["lr"] == 0.3


def test_one_and_one_point_zero_are_one_hyper(tmp_path):
    records = [record("idea", 0), record("idea", 1)]
    records[1]["hyper"] = {"gamma": 1, "lr": 3e-3}
    [arm] = arms_of(tmp_path, records).values()
    assert len(arm.grid) == 1
    assert arm.seeds == {0, 1}


def test_golden_selection(tmp_path):
    lrs = (0.1, 0.2, 0.3)
    records = [
        record(arm, seed, lr, test=score, validation=score)
        for arm in ("baseline", "idea")
        for seed, row in enumerate(GOLDEN["selection"][arm])
        for lr, score in zip(lrs, row, strict=True)
    ]
    [judged] = analysed(write_sweep(tmp_path, records))
    expect = GOLDEN["selection"]["expect"]
    assert judged.comparison.effect.delta_mean == pytest.approx(expect["delta_mean"], rel=1e-9)
    assert judged.p_value == expect["p_value"]


def test_of_two_records_of_one_run_the_first_in_path_order_counts(tmp_path):
    first, second = record("idea", 0, test=0.25), record("idea", 0, test=0.75)
    [arm] = arms_of(tmp_path, [first, second]).values()
    assert [run.test for run in arm.runs] == [0.25]
    assert [(a.test, b.test) for a, b in arm.duplicates] == [(0.25, 0.75)]
