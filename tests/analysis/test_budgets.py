"""Runs of another training budget: kept apart, shown, and audited where the difference goes."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.errors import AnalysisError
from analysis.judge.budgets import AtBudget, doublings
from analysis.tell import report
from benchmarks import calibration
from tests.analysis.builder import analysed, grid, record, write_sweep


def others(factor, seeds, effect, **fields):
    """Runs of both arms at another budget, the idea better by `effect` and a little noise."""
    found = []
    for seed in seeds:
        for arm in ("baseline", "idea"):
            run = record(arm, seed, budget=factor, **fields)
            base = record("baseline", seed)["scores"]["test"]
            noise = 0.002 * (seed % 3)
            run["scores"]["test"] = base - (effect + noise if arm == "idea" else 0)
            found.append(run)
    return found


def shown(judged):
    return report.build([judged], [], "")


def test_runs_of_another_budget_change_nothing_else(tmp_path):
    """Neither what is chosen, nor a pair, nor an audit; they would, at budget 1, void it."""
    [alone] = analysed(write_sweep(tmp_path / "alone", grid()))
    more = others(0.5, range(20, 23), 0.3) + others(0.5, range(3), 0.05)
    for run in more:
        run["hashes"]["code"] = {"models/attention.py": "other"}
        run["budget"] = {"epochs": 5, "steps": 125, "examples": 4000}
    missing = [record("idea", 40, budget=0.5)]
    [both] = analysed(write_sweep(tmp_path / "both", grid() + more, plan=grid() + more + missing))
    assert both.audits == alone.audits
    assert both.comparison.seeds == alone.comparison.seeds
    one, two = (shown(each)["bench_report"]["comparison"] for each in (alone, both))
    assert [each["factor"] for each in two.pop("budgets")] == [0.5, 1]
    assert one.pop("budgets") == []
    assert one == two


def test_no_run_of_the_whole_budget_is_one_line(tmp_path):
    sweep = write_sweep(tmp_path, others(0.5, range(3), 0.05) + others(2, range(3), 0.05))
    with pytest.raises(AnalysisError, match=r"no run of the whole training budget.*budget=0\.5,2;"):
        analysed(sweep)


def test_an_arm_without_a_run_of_the_whole_budget_is_told(tmp_path):
    records = grid() + [record("late", seed, budget=0.5) for seed in range(8)]
    from analysis.judge.compare import match
    from analysis.judge.sweep import read_sweeps

    sweeps = read_sweeps([write_sweep(tmp_path, records)])
    assert match(sweeps.arms, sweeps.found.planned, sweeps.rules).absent == [
        "late on sequence has no run of the whole training budget."
    ]


def test_an_older_record_is_of_the_whole_budget(tmp_path):
    records = grid()
    for run in records:
        del run["budget_factor"]
    [judged] = analysed(write_sweep(tmp_path, records))
    assert len(judged.comparison.seeds) == 8


def test_the_difference_against_the_budget(tmp_path):
    """At the chosen hyper, over whatever seeds both arms have; unlike runs are left out."""
    records = grid(seeds=range(12))
    for run in records:
        run["analysis"]["tuning_seeds"] = [0, 1, 2, 3]
    half = others(0.5, range(4), 0.06)
    half += others(0.5, range(4), 0.9, lr=0.006)
    other = [run for run in half if run["seed"] == 3]
    other[0]["hashes"]["data"] = "other"
    [judged] = analysed(write_sweep(tmp_path, records + half))
    one, whole = shown(judged)["bench_report"]["comparison"]["budgets"]
    assert (one["factor"], one["n"], one["seeds"], one["left_out"]) == (0.5, 3, [0, 1, 2], [3])
    d = np.array([-0.06, -0.062, -0.064])
    assert one["per_seed_diffs"] == pytest.approx(d)
    assert one["delta_mean"] == pytest.approx(-0.062)
    assert one["standard_error"] == pytest.approx(d.std(ddof=1) / 3**0.5)
    assert one["since_half"] is None
    assert whole["seeds"] == list(range(12))
    assert whole["since_half"]["seeds"] == [0, 1, 2]
    assert whole["since_half"]["before"] == pytest.approx(-0.062)
    by_seed = dict(zip(whole["seeds"], whole["per_seed_diffs"], strict=True))
    assert whole["since_half"]["after"] == pytest.approx(np.mean([by_seed[s] for s in range(3)]))


def test_the_limitations_say_what_was_not_measured(tmp_path):
    said = "Whether the difference is one of speed alone was not measured: no runs of "
    for name, more, expected in (
        ("none", [], said + "another budget."),
        ("other", others(0.7, range(3), 0.05), said + "half or twice the budget."),
        ("half", others(0.5, range(3), 0.05), None),
    ):
        [judged] = analysed(write_sweep(tmp_path / name, grid() + more))
        told = shown(judged)["limitations"]
        assert (said in told) is (expected is not None), name
        assert expected is None or expected in told


def test_the_spread_is_pooled_over_all_budgets():
    """Three seeds that happen to agree are not taken at their word."""
    generator = np.random.default_rng(0)
    whole = AtBudget(1.0, dict(enumerate(generator.normal(0, 1, 19).tolist())))
    half = AtBudget(0.5, {0: -1.0, 1: -1.001, 2: -1.002})
    [found] = doublings([half, whole])
    pooled = (18 * np.var(whole.values, ddof=1) + 2 * np.var(half.values, ddof=1)) / 20
    own = max(np.var(whole.values, ddof=1), pooled)
    assert found.standard_error == pytest.approx(((pooled + own) / 3) ** 0.5)
    assert found.degrees == 20
    assert doublings([AtBudget(0.5, {0: 1.0}), AtBudget(1.0, {0: 1.0})]) == []  # no spread at all


@pytest.mark.parametrize(("tuning", "factors"), [(3, (0.5,)), (3, (0.5, 2)), (0, (0.5, 2))])
def test_an_effect_of_every_budget_raises_no_alarm(tuning, factors):
    for dz in (0.5, 1.0, 2.0):
        row = calibration.budget_alarm(8, tuning, factors, dz, "same", 1500, seed=1)
        limit = 0.05 + 3 * (0.05 * 0.95 / row.simulations) ** 0.5
        assert row.measured <= limit, row


def test_an_effect_that_vanishes_is_found():
    row = calibration.budget_alarm(8, 3, (0.5, 2), 3.0, "vanishes", 400, seed=1)
    assert row.measured > 0.7, row
    row = calibration.budget_alarm(8, 0, (0.5, 2), 1.5, "vanishes", 400, seed=1)
    assert row.measured > 0.5, row
