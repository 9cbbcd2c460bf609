"""Statistics against hand-computed values, golden numbers and scipy."""

import itertools
import json
import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestPower

from analysis.judge import statistics

GOLDEN = json.loads((Path(__file__).parent / "data" / "statistics_golden.json").read_text())
CASES = {name: case for name, case in GOLDEN["cases"].items() if None not in case["d"]}


def exactly(value: float | None) -> object:
    return None if value is None else pytest.approx(value, rel=1e-9)


@pytest.fixture(autouse=True)
def _no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_golden_numbers(case):
    """All that the golden file expects of a case, but its verdict (see test_verdict)."""
    d, expect = np.array(case["d"]), case["expect"]
    baseline, idea = (np.array(case.get(arm, [np.nan])) for arm in ("baseline", "idea"))
    counts, sd = statistics.count_wins(d, "min"), statistics.spread(d)
    ci, margin = statistics.t_interval(d, 0.05), abs(baseline.mean()) * 0.01
    mde = statistics.minimal_detectable_effect(d, 0.05)
    paired = len(baseline) == len(idea) == len(d)
    if paired:
        np.testing.assert_array_equal(idea - baseline, d)
    computed = {
        "delta_mean": d.mean(),
        "sd_ddof1": sd,
        "p_value": statistics.sign_flip_p(d),
        "p_min": statistics.smallest_p(d),
        "dz": statistics.standardised_mean(d),
        "hedges_g": statistics.hedges_g(d),
        "ci": ci and list(ci),
        "ci_half_width": ci and (ci[1] - ci[0]) / 2,
        "ci_signflip": list(statistics.sign_flip_interval(d, 0.05) or ()),
        "mde": mde,
        "mde_rel_pct": mde and 100 * mde / abs(baseline.mean()),
        "idea_wins": counts.wins,
        "ties": counts.ties,
        "idea_losses": counts.losses,
        "prob_improvement_ci": list(statistics.probability_of_improvement(counts)[1] or ()),
        "margin_at_1_pct": margin,
        "p_equivalence": statistics.equivalence_p(d, margin),
        "pairing_rho": paired and statistics.pairing_correlation(baseline, idea),
        "inert_ulps": paired and statistics.ulps_apart(baseline, idea),
        # of scipy alone, which the interval rests on: is the file what it says?
        "t": sd and stats.ttest_1samp(d, 0).statistic,
        "p_t": sd and stats.ttest_1samp(d, 0).pvalue,
    }
    for key, value in expect.items():
        if key != "verdict":
            assert computed[key] == exactly(value), key


@pytest.mark.parametrize("family", GOLDEN["holm"])
def test_golden_holm(family):
    assert statistics.holm(family["p"]) == exactly(family["adj"])


@pytest.mark.parametrize(("pairs", "dz"), GOLDEN["mde_over_sd"].items())
def test_golden_detectable_effect(pairs, dz):
    assert statistics.detectable_dz(int(pairs), 0.05) == exactly(dz)


def test_golden_selection():
    """Scores on which each arm chooses its lr, and which are then reported."""
    baseline, idea = (np.array(GOLDEN["selection"][arm]) for arm in ("baseline", "idea"))
    expect = GOLDEN["selection"]["expect"]
    d = idea[:, idea.mean(0).argmin()] - baseline[:, baseline.mean(0).argmin()]
    assert d.mean() == exactly(expect["delta_mean"])
    assert statistics.sign_flip_p(d) == exactly(expect["p_value"])
    tuned = statistics.Tuned(baseline, baseline), statistics.Tuned(idea, idea)
    assert statistics.selection_aware_p(*tuned, "min") == exactly(expect["p_selection_aware"])
    turned = statistics.Tuned(-baseline, -baseline), statistics.Tuned(-idea, -idea)
    assert statistics.selection_aware_p(*turned, "max") == exactly(expect["p_selection_aware"])


@pytest.mark.parametrize(("dz", "pairs"), GOLDEN["seeds_needed_for_dz"].items())
def test_golden_seeds_needed(dz, pairs):
    assert statistics.pairs_needed(float(dz), 0.05) == exactly(pairs)
    assert statistics.seeds_needed(-0.1 * float(dz), 0.1, 1, 0.05) == max(np.ceil(pairs), 6)


def t_power(dz, pairs, alpha):
    """Power of the two-sided one-sample t-test, by statsmodels' own way to it."""
    return TTestPower().power(dz, pairs, alpha)


def test_seeds_needed_at_the_ends():
    assert statistics.seeds_needed(1e6, 1e-9, 1, 0.05) == 6  # t needs two, the sign-flip test six
    assert statistics.seeds_needed(1.0, 1.0, 10, 0.05) == 18
    assert [t_power(1.0, pairs, 0.005) >= 0.8 for pairs in (17, 18)] == [False, True]
    assert statistics.seeds_needed(1e-3, 1.0, 1, 0.05) == pytest.approx(7848883, abs=30)
    assert statistics.seeds_needed(1e-9, 1.0, 1, 0.05) is None
    assert [statistics.fewest_pairs(m, 0.05) for m in (1, 2, 3, 5, 10)] == [6, 7, 7, 8, 9]
    assert statistics.fewest_pairs(1, 2 / 2**8) == 8  # exactly reachable


def test_selection_aware_by_hand():
    """Two seeds, two configurations; all four flips written out."""
    baseline = statistics.Tuned(np.array([[1.0, 2.0], [1.0, 2.0]]), np.array([[5.0, 0.0]] * 2))
    idea = statistics.Tuned(np.array([[2.0, 1.0], [4.0, 1.0]]), np.array([[7.0, 1.0]] * 2))
    # no flip: baseline takes 0 (5), idea 1 (1): −4; all flipped: +4
    # first flipped: baseline has validation 1.5, 1.5: the first, test (7 + 5)/2 = 6; idea has 2.5,
    # 1.5: the second, (0 + 1)/2 = 0.5: −5.5; second flipped: baseline 2.5, 1.5: the second,
    # (0 + 1)/2 = 0.5; idea 1.5, 1.5: the first, (7 + 5)/2 = 6: +5.5
    assert statistics.selection_aware_p(baseline, idea, "min") == 1.0
    assert statistics.selection_aware_p(idea, baseline, "min") == 1.0
    # by highest validation: baseline 1 (0), idea 0 (7): +7, and ±(7 − 0) or less elsewhere
    assert statistics.selection_aware_p(baseline, idea, "max") == 0.5


@pytest.mark.parametrize("direction", ["min", "max"])
@pytest.mark.parametrize("units", [(1.0, 1.0), (1e-15, 1e15), (1e15, 1e-15)])
@pytest.mark.parametrize(("seeds", "configurations"), [(5, 2), (6, 3)])
def test_selection_aware_p_enumerates_every_flip(seeds, configurations, units, direction):
    """Against whole numbers, in which ties are ties, with every flip written out."""
    generator = np.random.default_rng(seeds)
    baseline, idea = generator.integers(-5, 6, (2, 2, seeds, configurations)).tolist()
    best = {"min": min, "max": max}[direction]

    def chosen(arm):
        """The sum of test scores of the first that is best; seeds of (validation, test)."""
        validation, test = ([*zip(*split, strict=True)] for split in zip(*arm, strict=True))
        sums = [sum(scores) for scores in validation]
        return sum(test[sums.index(best(sums))])

    effects = []
    for swapped in itertools.product((False, True), repeat=seeds):
        arms = zip(zip(*baseline, strict=True), zip(*idea, strict=True), strict=True)
        flipped = [pair[::-1] if swap else pair for pair, swap in zip(arms, swapped, strict=True)]
        first, second = zip(*flipped, strict=True)
        effects.append(abs(chosen(second) - chosen(first)))
    expected = Fraction(sum(effect >= effects[0] for effect in effects), len(effects))
    assert 0 < expected < 1
    arms = (
        statistics.Tuned(*(np.array(split) * unit for split, unit in zip(arm, units, strict=True)))
        for arm in (baseline, idea)
    )
    assert statistics.selection_aware_p(*arms, direction) == float(expected)


def test_selection_aware_without_a_choice_is_the_plain_test():
    generator = np.random.default_rng(5)
    for n, exact in ((3, True), (8, True), (14, True), (15, False)):
        baseline, idea = generator.normal(size=(2, n, 1))
        aware = statistics.selection_aware_p(
            statistics.Tuned(baseline, baseline), statistics.Tuned(idea, idea), "min"
        )
        plain = statistics.sign_flip_p((idea - baseline)[:, 0])
        assert (aware == plain) == exact
        assert aware == pytest.approx(plain, abs=4 * np.sqrt(0.25 / 100_000))


def subset_means(d):
    """Means of all non-empty subsets, sorted: what Hartigan's interval is made of."""
    sums, sizes = np.zeros(1), np.zeros(1)
    for each in d:  # subsets without it, then with it
        sums, sizes = np.append(sums, sums + each), np.append(sizes, sizes + 1)
    return np.sort(sums[1:] / sizes[1:])


@pytest.mark.parametrize(
    ("pairs", "alpha", "k"), [(6, 0.05, 1), (8, 0.05, 6), (9, 0.05, 12), (9, 0.05 / 3, 4)]
)
def test_sign_flip_interval_is_hartigans(pairs, alpha, k):
    """k = ⌊α·2ⁿ/2⌋ by hand."""
    d = np.random.default_rng(pairs).normal(0.3, 1, pairs)
    means = subset_means(d)
    low, high = statistics.sign_flip_interval(d, alpha)
    assert (low, high) == (exactly(means[k - 1]), exactly(means[-k]))
    assert statistics.sign_flip_interval(-d, alpha) == (-high, -low)
    assert statistics.sign_flip_interval(d[::-1], alpha) == (low, high)
    assert statistics.sign_flip_interval(4 * d, alpha) == (exactly(4 * low), exactly(4 * high))


def test_where_no_mean_can_be_rejected_there_is_no_sign_flip_interval():
    ends = np.arange(6.0)  # k = 1: the extremes
    assert statistics.sign_flip_interval(ends, 2 / 64) == (0.0, 5.0)
    assert statistics.sign_flip_interval(ends, 1.9 / 64) is None
    assert statistics.sign_flip_interval(ends[:5], 0.05) is None
    assert statistics.sign_flip_interval(np.full(25, 0.1), 0.99e-5) is None  # drawn: p ≥ 1e-5
    # of drawn flips none but the first turns no pair, or all: the interval is that of all flips
    assert statistics.sign_flip_interval(np.full(25, 0.1), 1.01e-5) == (exactly(0.1), exactly(0.1))
    for nothing in ([np.nan] * 8, [np.inf, *range(8)], []):
        assert statistics.sign_flip_interval(np.array(nothing), 0.05) is None


def assert_dual(d):
    """The interval holds 0 if and only if p > α; also where p is α, or next to it."""
    p = statistics.sign_flip_p(d)
    for alpha in {0.05, 0.05 / 3, min(p, 0.9), np.nextafter(p, 0)}:
        interval = statistics.sign_flip_interval(d, alpha)
        inside = interval is None or interval[0] <= 0 <= interval[1]
        assert inside == (p > alpha), (p, alpha, interval)


# tenths: sums that are 0 are so but for rounding; few values, so that ties and zeros come up
TENTHS = st.integers(1, 12).flatmap(lambda n: st.lists(st.integers(-3, 9), min_size=n, max_size=n))


@settings(deadline=None, max_examples=60)
@given(TENTHS, st.sampled_from([0.1, 1.0, 1e-3]))
def test_p_and_interval_agree(tenths, unit):
    assert_dual(np.array(tenths) * unit)


@pytest.mark.parametrize(("pairs", "sign"), [(21, 1), (21, -1), (40, -1)])
def test_drawn_p_and_interval_agree(pairs, sign):
    """By the same flips: also with zeros and ties, and just inside and outside of every end."""
    generator = np.random.default_rng(pairs)
    assert_dual(sign * generator.integers(-3, 6, pairs) / 10)
    d = sign * generator.normal(0.4, 1, pairs)
    assert_dual(d)
    low, high = statistics.sign_flip_interval(d, 0.05)
    assert statistics.sign_flip_interval(-d[::-1], 0.05) == (-high, -low)
    for end, out in ((low, -1e-9), (high, 1e-9)):
        assert statistics.sign_flip_p(d - end - out) <= 0.05 < statistics.sign_flip_p(d - end + out)


def test_the_drawn_interval_is_about_that_of_all_flips():
    d = np.random.default_rng(3).normal(0.4, 1, 21)
    low, high = statistics.sign_flip_interval(d, 0.05)
    means = subset_means(d)
    for end, expected in ((low, 0.025), (high, 0.975)):
        share = np.searchsorted(means, end) / means.size
        assert share == pytest.approx(expected, abs=4 * np.sqrt(0.025 / 100_000))


def test_probability_of_improvement():
    share, (low, high) = statistics.probability_of_improvement(statistics.Counts(6, 1, 1))
    assert share == 6.5 / 8
    assert low == exactly(stats.beta.ppf(0.025, 6, 2))  # Clopper & Pearson, over 7 seeds
    assert high == exactly(stats.beta.ppf(0.975, 7, 1))
    for wins in range(9):
        interval = stats.binomtest(wins, 8).proportion_ci(method="exact")
        found = statistics.probability_of_improvement(statistics.Counts(wins, 0, 8 - wins))
        assert found == (wins / 8, pytest.approx(tuple(interval), rel=1e-9))
    assert statistics.probability_of_improvement(statistics.Counts(0, 8, 0)) == (0.5, None)
    assert statistics.probability_of_improvement(statistics.Counts(0, 0, 0)) == (None, None)


def test_pairing_correlation():
    a, b = np.random.default_rng(0).normal(size=(2, 8))
    assert statistics.pairing_correlation(a, b) == exactly(np.corrcoef(a, b)[0, 1])
    assert statistics.pairing_correlation(a, np.ones(8)) is None
    assert statistics.pairing_correlation(np.ones(8), b) is None
    assert statistics.pairing_correlation(a[:2], b[:2]) is None
    assert statistics.pairing_correlation(a[:3], a[:3] + 1) == exactly(1.0)


def test_hedges_g_by_hand():
    d = np.array([1.0, 2.0, 3.0])  # d_z = 2, correction 1 − 3/7
    assert statistics.hedges_g(d) == exactly(2 * 4 / 7)
    assert statistics.hedges_g(d[:2]) is None
    assert statistics.standardised_mean(d[:2]) == exactly(1.5 / np.sqrt(0.5))


@pytest.mark.parametrize(
    ("pairs", "alpha"),
    [(8, 0.05), (38, 0.005), (32, 0.001), (64, 0.001), (1000, 0.05), (9, 0.005), (12, 0.001)],
)
def test_detectable_effect_and_needed_pairs_have_the_power_that_is_said(pairs, alpha):
    """Also where statsmodels' own solver raises or returns no root."""
    dz = statistics.detectable_dz(pairs, alpha)
    assert t_power(dz, pairs, alpha) == pytest.approx(0.8, abs=1e-6)
    assert statistics.pairs_needed(dz, alpha) == pytest.approx(pairs, rel=1e-6)


def test_no_effect_is_detected_in_one_pair():
    assert statistics.detectable_dz(1, 0.05) is None
    assert t_power(statistics.detectable_dz(2, 0.05), 2, 0.05) == pytest.approx(0.8, abs=1e-6)


def test_many_pairs_by_the_normal_approximation():
    for dz in (1.25e-4, 1e-4):  # 5·10⁸ and 8·10⁸ pairs; a billion is the end
        expected = ((stats.norm.ppf(0.975) + stats.norm.ppf(0.8)) / dz) ** 2
        assert statistics.pairs_needed(dz, 0.05) == pytest.approx(expected, rel=1e-4)
    assert statistics.pairs_needed(8e-5, 0.05) is None  # 1.2 billion


@pytest.mark.parametrize("size", [1, 2, 20, 300])
def test_holm_as_statsmodels_has_it(size):
    p = np.random.default_rng(size).uniform(size=size).round(2) ** 4  # with ties
    assert statistics.holm(p.tolist()) == multipletests(p, method="holm")[1].tolist()


def test_void_keeps_its_place_in_the_family():
    assert statistics.holm([0.01, None, 0.04]) == [exactly(0.03), None, exactly(0.08)]
    assert statistics.holm([None]) == [None]
    assert statistics.holm([]) == []


def test_sign_flip_by_hand():
    # |±1 ±2 ±4| takes 1, 3, 5, 7, each twice of 8
    assert statistics.sign_flip_p(np.array([1.0, 2.0, 4.0])) == 2 / 8
    assert statistics.sign_flip_p(np.array([-1.0, 2.0, 4.0])) == 4 / 8
    assert statistics.sign_flip_p(np.array([1.0, -2.0, -4.0])) == 4 / 8
    assert statistics.sign_flip_p(np.array([0.0, 1.0])) == 1.0
    assert statistics.sign_flip_p(np.array([3.0])) == 1.0


@pytest.mark.parametrize("pairs", [2, 5, 8, 11])
def test_sign_flip_enumerates_every_flip(pairs):
    """Against exact rational arithmetic, in which ties are ties."""
    generator = np.random.default_rng(pairs)
    for tenths in (generator.integers(-9, 10, pairs), generator.integers(-3, 4, pairs)):
        sums = [
            abs(sum(int(sign) * int(x) for sign, x in zip(signs, tenths, strict=True)))
            for signs in itertools.product((-1, 1), repeat=pairs)
        ]
        expected = Fraction(sum(s >= abs(int(tenths.sum())) for s in sums), len(sums))
        assert statistics.sign_flip_p(tenths / 10) == float(expected)


@pytest.mark.parametrize("pairs", [2, 8, 11])
def test_every_flip_as_scipy_enumerates_them(pairs):
    d = np.random.default_rng(pairs).normal(0.5, 1, pairs)
    test = stats.permutation_test(
        (d,), np.mean, permutation_type="samples", n_resamples=np.inf, vectorized=True
    )
    assert statistics.sign_flip_p(d) == test.pvalue


def test_sign_flip_is_exact_at_twenty_pairs_and_drawn_above():
    d = np.full(20, 0.1)
    assert statistics.sign_flip_p(d) == 2 / 2**20
    assert statistics.sign_flip_p(np.full(40, 0.1)) == 1 / 100_000  # (k + 1)/(N + 1), k = 0
    d = np.random.default_rng(3).normal(0.4, 1, 21)
    drawn = statistics.sign_flip_p(d)
    flips = 1 - 2 * ((np.arange(2**21)[:, None] >> np.arange(21)) & 1).astype(np.int8)
    exact = (np.abs(flips @ d) >= abs(d.sum()) - 1e-12).mean()
    assert 0.01 < exact < 0.99
    assert drawn != exact
    assert drawn == pytest.approx(exact, abs=4 * np.sqrt(exact / 100_000))
    assert statistics.sign_flip_p(np.random.default_rng(0).permutation(d)) == drawn
    assert statistics.sign_flip_p(-d) == drawn


@pytest.mark.parametrize("d", [[-0.1, np.nan], [np.inf, 1.0], []])
def test_sign_flip_refuses_what_it_cannot_judge(d):
    with pytest.raises(ValueError, match="finite"):
        statistics.sign_flip_p(np.array(d))


@pytest.mark.parametrize(
    "d", [[1.0, 2.0, 3.0, 4.0], [0.0, 0.0, 5.0, 1.0], [0.0], [2.0], [0.1] * 20, [0.1] * 25]
)
def test_p_min_is_reached_and_never_undercut(d):
    assert statistics.smallest_p(np.array(d)) == statistics.sign_flip_p(np.array(d))
    assert statistics.smallest_p(-np.array(d)) == statistics.smallest_p(np.array(d))


@pytest.mark.parametrize(
    ("pairs", "differing", "p"),
    [(1, 1, 1.0), (3, 0, 1.0), (8, 8, 2 / 256), (20, 20, 2 / 2**20), (20, 3, 0.25),
     (21, 21, 1e-5), (21, 3, 0.25), (25, 17, 2 / 2**17), (25, 18, 1e-5)],
)  # fmt: skip
def test_what_the_test_can_show(pairs, differing, p):
    """2/2^differing of all flips, and 1/(99 999 + 1) at least where these are drawn."""
    assert statistics.least_p(pairs, differing) == p


def test_no_number_of_pairs_shows_what_the_test_cannot():
    assert statistics.fewest_pairs(1, 2 / 2**20) == 20
    for comparisons, alpha in ((1, 1.9 / 2**20), (2, 2 / 2**20), (1, 1e-6)):
        assert statistics.fewest_pairs(comparisons, alpha) is None
        assert statistics.seeds_needed(1.0, 0.01, comparisons, alpha) is None
    # 19 pairs show p = 3.8e-6, of more than 20 a sample of the flips does not
    can = [statistics.can_show(pairs, 1, 5e-6) for pairs in (18, 19, 20, 21, 10**6)]
    assert can == [False, True, True, False, False]
    assert statistics.seeds_needed(1.0, 0.01, 1, 5e-6) == 19
    assert statistics.seeds_needed(1.0, 1.0, 1, 5e-6) is None
    assert statistics.pairs_needed(1.0, 5e-6) > 20
    assert statistics.can_show(7, 3, 0.05)
    assert not statistics.can_show(6, 3, 0.05)


def test_interval_and_tost_agree_with_scipy():
    d = np.random.default_rng(1).normal(0.1, 1, 9)
    mean, error = d.mean(), d.std(ddof=1) / 3
    for alpha in (0.05, 0.01):
        expected = stats.t.interval(1 - alpha, 8, mean, error)
        assert statistics.t_interval(d, alpha) == exactly(expected)
    one_sided = stats.t.sf((mean + 0.7) / error, 8), stats.t.cdf((mean - 0.7) / error, 8)
    assert statistics.equivalence_p(d, 0.7) == exactly(max(one_sided))


def test_wins_follow_the_direction():
    d = np.array([-1.0, -2.0, 0.0, 3.0, np.nan])
    assert statistics.count_wins(d, "min") == (2, 1, 1)
    assert statistics.count_wins(d, "max") == (1, 1, 2)


@pytest.mark.parametrize("d", [[0.0] * 8, [-0.1] * 8, [-0.1, -0.1 + 1e-17, -0.1], [0.3], []])
def test_without_spread_there_is_no_ratio_to_it(d):
    d = np.array(d)
    assert statistics.spread(d) is None
    assert statistics.t_interval(d, 0.05) is None
    assert statistics.standardised_mean(d) is None
    assert statistics.hedges_g(d) is None
    assert statistics.minimal_detectable_effect(d, 0.05) is None
    assert statistics.equivalence_p(d, 1.0) is None


def test_no_margin_no_equivalence():
    assert statistics.equivalence_p(np.array([1.0, -1.0]), 0.0) is None


def test_mde_needs_a_reachable_level():
    d = np.random.default_rng(0).normal(size=8)
    assert statistics.minimal_detectable_effect(d, 1 / 128) is not None
    assert statistics.minimal_detectable_effect(d, 1 / 129) is None
    among_three = statistics.minimal_detectable_effect(d, 3 / 128, 3)
    assert among_three == statistics.minimal_detectable_effect(d, 1 / 128)
    assert statistics.minimal_detectable_effect(d, 2.99 / 128, 3) is None


def test_ulps():
    one = np.float32(1.0)
    assert statistics.ulps_apart([one], [np.nextafter(one, np.float32(2))]) == 1.0
    assert statistics.ulps_apart([0.0, 2.0], [0.0, 2.0]) == 0.0
    assert statistics.ulps_apart([1.0, 4.0], [1.0, 4.0 + 3 * 2**-21]) == 3.0
    assert statistics.ulps_apart([-2.0], [2.0]) == 4 / 2**-22
    assert statistics.ulps_apart([1e39], [1e39]) == 0.0  # beyond float32
    assert statistics.ulps_apart([], []) == 0.0


def test_arm_std_is_of_the_population():
    assert statistics.mean_std([1.0, 3.0]) == (2.0, 1.0)
    assert statistics.mean_std([1.0, np.nan]) == (None, None)
    assert statistics.mean_std([]) == (None, None)
