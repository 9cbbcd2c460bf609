"""Statistics against hand-computed values, golden numbers and scipy."""

import itertools
import json
import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from analysis import statistics

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
    d, expect = np.array(case["d"]), case["expect"]
    if "baseline" in case and "idea" in case:
        np.testing.assert_array_equal(np.array(case["idea"]) - np.array(case["baseline"]), d)
    counts = statistics.count_wins(d, "min")
    computed = {
        "delta_mean": d.mean(),
        "sd_ddof1": statistics.spread(d),
        "p_value": statistics.sign_flip_p(d),
        "dz": statistics.standardised_mean(d),
        "mde": statistics.minimal_detectable_effect(d, 0.05),
        "idea_wins": counts.wins,
        "ties": counts.ties,
        "idea_losses": counts.losses,
        "p_min": statistics.smallest_p(d),
    }
    for key in computed.keys() & expect.keys():
        assert computed[key] == exactly(expect[key]), key
    if "ci" in expect:
        low, high = statistics.t_interval(d)
        assert [low, high] == exactly(expect["ci"])
        assert (high - low) / 2 == exactly(expect["ci_half_width"])
    if "p_equivalence" in expect:
        margin = abs(np.mean(case["baseline"])) * 0.01
        assert margin == exactly(expect["margin_at_1_pct"])
        assert statistics.equivalence_p(d, margin) == exactly(expect["p_equivalence"])
    if "mde_rel_pct" in expect and expect["mde"] is not None:
        rel = 100 * computed["mde"] / abs(np.mean(case["baseline"]))
        assert rel == exactly(expect["mde_rel_pct"])
    if "inert_ulps" in expect:
        assert statistics.ulps_apart(case["baseline"], case["idea"]) == expect["inert_ulps"]


@pytest.mark.parametrize("family", GOLDEN["holm"])
def test_golden_holm(family):
    assert statistics.holm(family["p"]) == exactly(family["adj"])


@pytest.mark.parametrize(("pairs", "dz"), GOLDEN["mde_over_sd"].items())
def test_golden_detectable_effect(pairs, dz):
    assert statistics.detectable_dz(int(pairs), 0.05) == exactly(dz)


def test_detectable_effect_where_the_solver_fails():
    assert statistics.detectable_dz(38, 0.005) == pytest.approx(0.6254387, rel=1e-6)
    assert statistics.detectable_dz(32, 5e-6) is None  # statsmodels raises
    assert statistics.detectable_dz(32, 1e-6) is None  # statsmodels returns no root


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


def test_p_min_is_reached_and_never_undercut():
    for d in ([1.0, 2.0, 3.0, 4.0], [0.0, 0.0, 5.0, 1.0], [0.0], [2.0]):
        d = np.array(d)
        assert statistics.smallest_p(d) == statistics.sign_flip_p(np.abs(d))


def test_interval_and_tost_agree_with_scipy():
    d = np.random.default_rng(1).normal(0.1, 1, 9)
    mean, error = d.mean(), d.std(ddof=1) / 3
    assert statistics.t_interval(d) == exactly(stats.t.interval(0.95, 8, mean, error))
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
    assert statistics.t_interval(d) is None
    assert statistics.standardised_mean(d) is None
    assert statistics.minimal_detectable_effect(d, 0.05) is None
    assert statistics.equivalence_p(d, 1.0) is None


def test_no_margin_no_equivalence():
    assert statistics.equivalence_p(np.array([1.0, -1.0]), 0.0) is None


def test_mde_needs_a_reachable_level():
    d = np.random.default_rng(0).normal(size=8)
    assert statistics.minimal_detectable_effect(d, 1 / 128) is not None
    assert statistics.minimal_detectable_effect(d, 1 / 129) is None


def test_ulps():
    one = np.float32(1.0)
    assert statistics.ulps_apart([one], [np.nextafter(one, np.float32(2))]) == 1.0
    assert statistics.ulps_apart([0.0, 2.0], [0.0, 2.0]) == 0.0
    assert statistics.ulps_apart([1.0, 4.0], [1.0, 4.0 + 3 * 2**-21]) == 3.0
    assert statistics.ulps_apart([-2.0], [2.0]) == 4 / 2**-22


def test_arm_std_is_of_the_population():
    assert statistics.mean_std([1.0, 3.0]) == (2.0, 1.0)
    assert statistics.mean_std([1.0, np.nan]) == (None, None)
    assert statistics.mean_std([]) == (None, None)
