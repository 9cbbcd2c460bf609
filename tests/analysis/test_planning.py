"""Planning from a pilot, against closed forms and the statistics of the finished sweep."""

import math
import re

import numpy as np
import pytest
from scipy import stats

import analyze
from analysis.judge import planning
from analysis.judge.select import group
from analysis.read.gather import gather
from analysis.read.rules import Rules
from tests.analysis.builder import diverge, grid, pick, record, write_examples, write_sweep
from tests.analysis.test_statistics import t_power


def plans(sweep, effect_pct=2.0, baseline=None, comparisons=None, rules=None):
    arms = group(gather([sweep]).runs)
    return planning.plan(arms, baseline, rules or Rules(), effect_pct, comparisons)


def pilot(tmp_path, d, baseline=None):
    """Two arms with these paired differences, over two learning rates."""
    baseline = [1.0] * len(d) if baseline is None else baseline
    records = [
        record(arm, seed, lr, test=base + (change if arm == "idea" else 0), validation=lr)
        for arm in ("baseline", "idea")
        for lr in (0.003, 0.006)
        for seed, (base, change) in enumerate(zip(baseline, d, strict=True))
    ]
    return write_sweep(tmp_path, records, examples=False)


def test_against_the_noncentral_t(tmp_path):
    d = [0.01, -0.02, 0.03, 0.0]
    [plan] = plans(pilot(tmp_path, d))
    sd = np.std(d, ddof=1)
    assert plan.sd == pytest.approx(sd)
    assert plan.effect == pytest.approx(0.02)
    n = plan.needed.seeds
    assert t_power(0.02 / sd, n, 0.05) >= 0.8 > t_power(0.02 / sd, n - 1, 0.05)
    upper = sd * math.sqrt(3 / stats.chi2.ppf(0.2, 3))
    assert plan.sd_upper == pytest.approx(upper)
    assert plan.needed_upper.seeds > n
    assert (plan.needed.runs, plan.needed.seconds) == (4 * n, pytest.approx(4 * 3.4 * n))
    assert [option.seeds for option in plan.options] == [4, 8, 16, 32]
    assert plan.options[0].mde is None  # 4 seeds: p is at least 1/8
    for option in plan.options[1:]:
        assert t_power(option.mde / sd, option.seeds, 0.05) == pytest.approx(0.8, abs=1e-6)
        assert option.runs == 4 * option.seeds


def test_the_effect_is_a_share_of_the_baselines_mean(tmp_path):
    d = [0.01, -0.02, 0.03, 0.0]
    [plan] = plans(pilot(tmp_path, d, baseline=[-3.0, -1.0, -2.0, -2.0]))
    assert (plan.level, plan.effect) == (pytest.approx(2), pytest.approx(0.04))


def test_a_family_is_planned_at_its_share_of_the_level(tmp_path):
    d = [0.01, -0.02, 0.03, 0.0]
    [plan] = plans(pilot(tmp_path, d), comparisons=4, rules=Rules(alpha=0.04))
    assert (plan.comparisons, plan.alpha) == (4, 0.04)
    n, sd = plan.needed.seeds, np.std(d, ddof=1)
    assert t_power(0.02 / sd, n, 0.01) >= 0.8 > t_power(0.02 / sd, n - 1, 0.01)
    [mde] = [option.mde for option in plan.options if option.seeds == 16]
    assert t_power(mde / sd, 16, 0.01) == pytest.approx(0.8, abs=1e-5)
    assert t_power(plan.needed.mde / sd, n, 0.01) == pytest.approx(0.8, abs=1e-5)


def test_the_family_is_that_of_the_rules(tmp_path):
    records = grid(["baseline", "a", "b"], seeds=range(4))
    sweep = write_sweep(tmp_path, records + grid(seeds=range(4), track="series"))
    assert [plan.comparisons for plan in plans(sweep)] == [3, 3, 3]
    assert [plan.comparisons for plan in plans(sweep, rules=Rules(family="track"))] == [2, 2, 1]


DRAWN = "of more than 20 pairs flips are drawn, and p is at least 1e-05"
NEVER = {  # alpha → seeds needed, or why none are enough, for 9 standard deviations and for 1
    1e-5: (18, None),
    5e-6: (19, f"only 19 to 20 seeds can reach level 5e-06 in a family of 1: {DRAWN}"),
    1e-6: (
        "no number of seeds can reach level 1e-06 in a family of 1: p is at least 1.91e-06 of "
        f"20 pairs, and {DRAWN}",
        "no number of seeds",
    ),
}


@pytest.mark.parametrize("alpha", NEVER)
def test_what_no_number_of_seeds_can_show(tmp_path, capsys, alpha):
    large, small = NEVER[alpha]
    d = np.array([0.1, -0.2, 0.3, 0.0])
    sweep = pilot(tmp_path, d)
    pct = 100 * np.std(d, ddof=1)
    [plan] = plans(sweep, effect_pct=9 * pct, rules=Rules(alpha=alpha))
    found = plan.needed if isinstance(plan.needed, str) else plan.needed.seeds
    assert found == large
    [plan] = plans(sweep, effect_pct=pct, rules=Rules(alpha=alpha))
    if small is None:
        assert plan.needed.seeds > 20
        assert plan.needed.mde is not None
    else:
        assert plan.needed.startswith(small)
        assert analyze.main(
            ["--plan", str(sweep), "--effect-pct", str(pct), "--alpha", str(alpha)]
        ) == 0  # fmt: skip
        out = " ".join(capsys.readouterr().out.split())
        assert small in out
        assert out.count("never") == 5  # 4, 8, 16 and 32 seeds, and the legend
    shown = [option.seeds for option in plan.options if option.mde is not None]
    assert shown == ([32] if small is None else [])


def test_an_effect_too_small_to_plan_for(tmp_path):
    [plan] = plans(pilot(tmp_path, [0.01, -0.02, 0.03, 0.0]), effect_pct=1e-5)
    assert plan.needed == plan.needed_upper == "more than a billion seeds"


def test_more_comparisons_need_more_seeds(tmp_path):
    sweep = write_sweep(tmp_path, grid(["baseline", "a", "b", "c"], seeds=range(4)))
    three = plans(sweep)
    assert [plan.comparisons for plan in three] == [3, 3, 3]
    assert {plan.title for plan in three} == {f"sequence: {a} against baseline" for a in "abc"}
    one = plans(sweep, comparisons=1)
    assert all(a.needed.seeds >= b.needed.seeds for a, b in zip(three, one, strict=True))
    assert plans(sweep, comparisons=10)[0].options[1].mde is None  # 8 seeds cannot show 10


def test_a_large_effect_still_needs_seeds_that_can_show_it(tmp_path):
    [plan] = plans(pilot(tmp_path, [0.01, 0.011]), effect_pct=50)
    assert plan.needed.seeds == 6


def test_from_the_baseline_alone(tmp_path):
    records = pick(grid(seeds=range(5)), "baseline", lr=None)
    for run in records:  # the best is planned with: other rates spread otherwise
        run["scores"]["test"] *= run["hyper"]["lr"] / 0.003
    [plan] = plans(write_sweep(tmp_path, records))
    scores = [run["scores"]["test"] for run in pick(records, "baseline")]
    assert plan.sd == pytest.approx(math.sqrt(2) * np.std(scores, ddof=1))
    assert plan.title == "sequence: an idea against baseline"
    assert "as if pairing by seed bought nothing" in plan.basis
    assert plan.options[0].runs == 4 * 3 * 2  # seeds, learning rates, arms


def bought(sweep, **asked):
    [plan] = plans(sweep, **asked)
    return plan


def noisy(tmp_path, spread, **fields):
    """A pilot whose arms' examples differ by `spread` in every seed."""
    records = grid(seeds=range(6), lrs=(0.003,))
    for run in records:
        run["cost"] |= {"train_seconds": 10.0, "evaluate_seconds": 0.5} | fields
    sweep = write_sweep(tmp_path, records)
    for i, run in enumerate(records):
        found = spread * np.random.default_rng(i).normal(size=20)
        found += run["scores"]["test"] - found.mean()
        write_examples(sweep / f"{i:04d}-{run['variant']}-{run['seed']}", **{"test/mse": found})
    return sweep


def test_what_to_buy_cheapest_first(tmp_path):
    plan = bought(noisy(tmp_path, 0.012), effect_pct=0.8)
    assert plan.only_seeds is None
    costs = [each.option.seconds + each.scoring for each in plan.purchases]
    assert costs == sorted(costs)
    assert len({each.option.seeds for each in plan.purchases}) == len(plan.purchases) > 1
    by_size = {each.examples: each for each in plan.purchases}
    assert by_size[20].sd == pytest.approx(plan.sd)
    assert by_size[20].option.seeds == plan.needed.seeds
    for examples, each in by_size.items():
        assert each.option.seconds == pytest.approx(each.option.seeds * 2 * 10)
        assert each.scoring == pytest.approx(each.option.seeds * 2 * 0.5 * examples / 20)
        n = each.option.seeds
        assert t_power(plan.effect / each.sd, n, 0.05) >= 0.8
    larger = [each for size, each in by_size.items() if size > 20]
    assert all(each.sd < plan.sd and each.option.seeds < plan.needed.seeds for each in larger)


def test_scoring_may_cost_more_than_it_saves(tmp_path):
    plan = bought(noisy(tmp_path, 0.012, evaluate_seconds=1000.0), effect_pct=0.8)
    assert plan.purchases[0].examples == 20


def test_where_scoring_was_not_timed_training_alone_is_counted(tmp_path, capsys):
    sweep = noisy(tmp_path, 0.012, evaluate_seconds=None)
    costs = [each.option.seconds for each in bought(sweep, effect_pct=0.8).purchases]
    assert costs == sorted(costs)
    assert analyze.main(["--plan", str(sweep), "--effect-pct", "0.8"]) == 0
    assert re.search(r"20 .* min +– *\n", capsys.readouterr().out)


def test_longer_training_can_be_bought_where_the_pilot_has_it(tmp_path, capsys):
    d = {1.0: [0.01, -0.02, 0.03, 0.0], 2.0: [0.01, 0.012, 0.011, 0.007], 0.5: [0.0, 0.0, 0.001, 0]}
    records = [
        record(arm, seed, 0.003, test=1 + (change if arm == "idea" else 0), budget=factor)
        for factor, differences in d.items()
        for arm in ("baseline", "idea")
        for seed, change in enumerate(differences)
    ]
    for run in records:
        run["cost"] |= {"train_seconds": 10.0 * run["budget_factor"], "evaluate_seconds": 0.5}
    sweep = write_sweep(tmp_path, records, examples=False)
    longer, as_now = bought(sweep, effect_pct=0.2).purchases
    assert (longer.budget, as_now.budget) == (2.0, 1.0)  # shorter training is not offered
    sd, n = np.std(d[2.0], ddof=1), longer.option.seeds
    assert longer.sd == pytest.approx(sd)
    assert t_power(0.002 / sd, n, 0.05) >= 0.8 > t_power(0.002 / sd, n - 1, 0.05)
    assert longer.option.seconds == pytest.approx(n * 2 * 20)
    assert t_power(longer.option.mde / sd, n, 0.05) == pytest.approx(0.8, abs=1e-5)
    assert longer.scoring == pytest.approx(n * 2 * 0.5)
    assert as_now.option == bought(sweep, effect_pct=0.2).needed
    assert analyze.main(["--plan", str(sweep), "--effect-pct", "0.2"]) == 0
    assert re.search(rf"× 2 +the pilot's .* {n} +{2 * n} ", capsys.readouterr().out)


def test_where_no_test_examples_can_be_bought(tmp_path, capsys):
    records = grid(seeds=range(4))
    for run in records:
        run["hashes"]["data"] = "one"
    sweep = write_sweep(tmp_path / "fixed", records)
    plan = bought(sweep)
    assert plan.only_seeds == "the track's data are fixed, and its test split cannot grow"
    [only] = plan.purchases
    assert (only.examples, only.option) == (None, plan.needed)
    assert analyze.main(["--plan", str(sweep), "--effect-pct", "2"]) == 0
    assert "no test examples can be bought: the track's data" in capsys.readouterr().out
    alone = write_sweep(tmp_path / "alone", pick(records, "baseline", lr=None))
    assert bought(alone).only_seeds.startswith("the spread of one arm alone")
    assert "not every run kept" in bought(pilot(tmp_path / "bare", [0.1, 0.2, 0.3])).only_seeds


def test_the_command(tmp_path, capsys):
    sweep = pilot(tmp_path, [0.01, -0.02, 0.03, 0.0])
    [plan] = plans(sweep)
    assert analyze.main(["--plan", str(sweep), "--effect-pct", "2"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    for part in (
        "sequence: idea against baseline",
        f"needs {plan.needed.seeds} seeds, {plan.needed.runs} runs",
        "never",
        "power 0.8 at level 0.05/1",
        "effect 0.02, 2 % of the baseline's mean",
    ):
        assert part in out
    assert not (sweep / "report").exists()


@pytest.mark.parametrize(
    ("records", "arguments", "told"),
    [
        (grid(seeds=[0]), ["--effect-pct", "2"], "at least two seeds"),
        (grid(), [], "--plan needs --effect-pct"),
        (grid(), ["--effect-pct", "0"], "above 0"),
        (grid(), ["--effect-pct", "2", "--baseline", "basline"], "basline is not there"),
        (grid(), ["--effect-pct", "2", "--strict"], "--strict says nothing with --plan"),
        (grid(["idea"]), ["--effect-pct", "2", "--baseline", "x"], "nothing to compare"),
        ([record("a", s, test=0.5) for s in range(4)], ["--effect-pct", "1"], "1 different"),
        (
            [record(a, s, test=t) for a in ("baseline", "idea") for s, t in enumerate([-1, 1])],
            ["--effect-pct", "1"],
            "cannot be told",
        ),
    ],
)
def test_what_cannot_be_planned_is_one_line(tmp_path, capsys, records, arguments, told):
    sweep = write_sweep(tmp_path, records)
    assert analyze.main(["--plan", str(sweep), *arguments]) == 2
    said = capsys.readouterr().err
    assert told in said
    assert said.count("\n") == 1


def test_a_pilot_that_diverged_is_one_line(tmp_path, capsys):
    records = grid(seeds=range(4))
    for run in pick(records, "idea", seed=1, lr=None):
        diverge(run)
    assert analyze.main(["--plan", str(write_sweep(tmp_path, records)), "--effect-pct", "2"]) == 2
    assert "finite" in capsys.readouterr().err


def test_costs_that_were_not_recorded_are_not_made_up(tmp_path, capsys):
    records = grid(seeds=range(4))
    records[0]["cost"]["train_seconds"] = None
    sweep = write_sweep(tmp_path, records)
    assert math.isnan(plans(sweep)[0].needed.seconds)
    assert analyze.main(["--plan", str(sweep), "--effect-pct", "2"]) == 0
    assert "– of training" in capsys.readouterr().out
