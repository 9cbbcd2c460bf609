"""Looks: the level that is kept, nested regions, and estimates, by hand and by enumeration."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from analysis.judge import sequential
from analysis.judge.sequential import look_at, sequential_p
from analysis.judge.statistics import equivalence_p, sign_flip_p

Array = NDArray[np.float64]
DRAWN = np.random.default_rng(3)


def paths(d: Array) -> Iterator[Array]:
    """All paths that the null hypothesis holds as likely as this one."""
    for signs in itertools.product([1.0, -1.0], repeat=d.size):
        yield np.abs(d) * signs


def plain_levels(d: Array, looks: list[int]) -> dict[tuple[float, ...], float]:
    """The level at which every path has crossed by its last look, by the definition alone."""
    crossed = {tuple(path): math.inf for path in paths(d)}
    for n in looks:
        share = (n / looks[-1]) ** 2.5
        sums = {path: round(abs(sum(path[:n])), 9) for path in crossed}
        joined = {}
        for s in sorted(set(sums.values()), reverse=True):
            larger = {path for path in crossed if sums[path] >= s}

            def spent(
                level: float,
                larger: set[tuple[float, ...]] = larger,
                crossed: dict[tuple[float, ...], float] = crossed,
            ) -> float:
                return len(larger | {p for p in crossed if crossed[p] <= level}) / len(crossed)

            levels = {k / len(crossed) / share for k in range(1, len(crossed) + 1)}
            levels = sorted({x for x in (*levels, *crossed.values()) if x <= 1})
            too_much = [i for i, a in enumerate(levels) if spent(a) > a * share + 1e-12]
            first = too_much[-1] + 1 if too_much else 0
            joined[s] = levels[first] if first < len(levels) else math.inf
        crossed = {path: min(crossed[path], joined[sums[path]]) for path in crossed}
    return crossed


@pytest.mark.parametrize("d", [DRAWN.normal(0.3, 1, n) for n in (1, 5, 8, 13)])
def test_one_look_is_the_sign_flip_test(d: Array) -> None:
    assert sequential_p(d, [d.size]) == sign_flip_p(d)


def test_one_look_beyond_exact_ones_is_that_of_drawn_flips() -> None:
    d = DRAWN.normal(0.45, 1, 24)  # the two sort their pairs in different ways
    assert sequential_p(d, [24]) == pytest.approx(sign_flip_p(d), rel=0.1)


def test_a_path_by_hand() -> None:
    """All pairs alike: at 6 pairs 2 of 64 flips are as far out, at 8 pairs 2 of 256."""
    d = np.ones(8)
    assert sequential_p(d[:5], [6, 8]) == 1.0  # no look yet
    assert sequential_p(d[:6], [6, 8]) == pytest.approx(2 / 64 / (6 / 8) ** 2.5)
    assert sequential_p(d, [6, 8]) == 2 / 256
    first, second = look_at(d, [6, 8], 0.07)
    assert (first.pairs, second.pairs) == (6, 8)
    assert [first.spent, second.spent] == pytest.approx([0.07 * 0.75**2.5, 0.07])
    assert first.boundary == pytest.approx(1.0)  # 2/64 = .03125 fits into .0341
    # 8 of 256 are spent; 9 more may be, and the next group, one pair turned of eight, has 16
    # less the 4 whose first six are alike: so that none joins
    assert second.boundary is None


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("looks", [[3, 5, 7], [5, 6], [4, 8]])
def test_levels_are_those_of_the_definition(looks: list[int], seed: int) -> None:
    d = np.random.default_rng(seed).normal(0.4, 1, looks[-1])
    if seed % 2:
        d = np.round(d)  # ties, and zeros
    expected = plain_levels(d, looks)
    for path in list(expected)[:: 5 if looks[-1] < 8 else 31]:
        found = sequential_p(np.array(path), looks)
        assert found == pytest.approx(min(1.0, expected[path])), path


@pytest.mark.parametrize("d", [DRAWN.normal(size=9), np.round(2 * DRAWN.normal(size=9))])
def test_no_level_is_exceeded_by_any_look(d: Array) -> None:
    looks = [5, 7, 9]
    found = np.array([[sequential_p(p[:n], looks) for n in looks] for p in paths(d)])
    assert (np.diff(found, axis=1) <= 0).all()  # what was rejected stays so
    for n, p in zip(looks, found.T, strict=True):
        share = (n / looks[-1]) ** 2.5
        for level in np.unique(p[p < 1]):
            assert np.mean(p <= level) <= level * share + 1e-12
    assert np.mean(found[:, -1] <= 0.1) > 0.06  # and most of it is used


def test_what_is_rejected_at_a_smaller_level_stays_rejected_at_a_larger_one() -> None:
    """By the boundaries themselves, at many levels: they are those of one p."""
    for seed in range(20):
        d = np.random.default_rng(seed).normal(0.8, 1, 9)
        p = sequential_p(d, [5, 7, 9])
        rejected = [
            any(
                each.boundary is not None
                and abs(d[: each.pairs].mean()) >= each.boundary * (1 - 1e-9)
                for each in look_at(d, [5, 7, 9], level)
            )
            for level in np.linspace(0.005, 0.3, 60)
        ]
        assert rejected == [p <= level for level in np.linspace(0.005, 0.3, 60)]


def test_many_levels_are_rounded_up_and_the_error_is_kept() -> None:
    """Three looks of up to 14 pairs: more levels than are told apart at the second."""
    d = DRAWN.normal(size=14)
    rejected = [0, 0, 0]
    generator = np.random.default_rng(0)
    for _ in range(1000):
        path = np.abs(d) * generator.choice([-1.0, 1.0], 14)
        for i, n in enumerate((8, 12, 14)):
            rejected[i] += sequential_p(path[:n], [8, 12, 14]) <= 0.2
    assert abs(rejected[-1] / 1000 - 0.2) < 3 * 0.0126  # standard errors
    assert rejected == sorted(rejected)


def test_the_order_of_the_seeds_within_a_look_and_the_unit_do_not_matter() -> None:
    d = DRAWN.normal(0.5, 1, 12)
    mixed = np.concatenate([d[:8][::-1], d[8:][::-1]])
    expected = sequential_p(d, [8, 12])
    assert sequential_p(mixed, [8, 12]) == expected
    assert sequential_p(-d, [8, 12]) == expected
    assert sequential_p(1e-12 * d, [8, 12]) == expected


def test_looks_that_can_reject_nothing() -> None:
    assert sequential.usable([8, 12, 16], 0.05) == [8, 12, 16]
    assert sequential.usable([8, 12, 16], 0.01) == [12, 16]  # of five ideas: .0018 < 2/256
    assert sequential.usable([4], 0.05) == []


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        sequential_p(np.array([1.0, bad]), [2])


@pytest.mark.parametrize("seed", range(4))
def test_the_interval_holds_what_is_not_rejected(seed: int) -> None:
    looks = [6, 8, 10]
    d = np.random.default_rng(seed).normal(1.0, 1, 10)
    for n in looks:
        interval = sequential.interval(d[:n], looks, 0.1)
        if interval is None:
            continue
        low, high = interval
        assert low < d[:n].mean() < high
        assert (low <= 0 <= high) == (sequential_p(d[:n], looks) > 0.1)
        for inside in np.linspace(low, high, 5)[1:-1]:
            assert sequential_p(d[:n] - inside, looks) > 0.1
        for outside in (low - 1e-3, high + 1e-3):
            assert sequential_p(d[:n] - outside, looks) <= 0.1


def test_five_pairs_have_no_interval() -> None:
    assert sequential.interval(np.arange(5.0), [5], 0.05) is None
    assert sequential.interval(np.arange(4.0), [6], 0.05) is None


def test_without_an_earlier_look_the_estimate_is_the_mean() -> None:
    d = DRAWN.normal(0.5, 1, 9)
    assert sequential.median_unbiased(d, [9], 0.05) == pytest.approx(d.mean(), abs=1e-4)
    assert sequential.median_unbiased(d, [9, 12], 0.05) == pytest.approx(d.mean(), abs=1e-4)


def test_the_estimate_overshoots_as_often_as_not() -> None:
    looks, dz, n = [6, 9, 12], 0.9, 300
    generator = np.random.default_rng(1)
    over = plain_over = 0
    for _ in range(n):
        d = dz + generator.normal(size=12)
        used = next((k for k in looks if sequential_p(d[:k], looks) <= 0.1), 12)
        estimate = sequential.median_unbiased(d[:used], looks, 0.1)
        assert estimate is not None
        over += estimate > dz
        plain_over += d[:used].mean() > dz
    assert abs(over / n - 0.5) < 0.06
    assert plain_over / n > over / n


def test_conditional_power_by_hand() -> None:
    d = np.array([1.0, 2.0, 3.0, 2.0])  # mean 2, sd .8165, of 8 pairs: t ½
    z = 2 * math.sqrt(4) / np.std(d, ddof=1)
    b, drift = z * math.sqrt(0.5), z * math.sqrt(0.5) / 0.5
    far = 1.959963985
    up = (far - b - drift * 0.5) / math.sqrt(0.5)
    expected = 0.5 * math.erfc(up / math.sqrt(2))
    assert sequential.conditional_power(d, [4, 8], 0.05) == pytest.approx(expected, abs=1e-6)
    flat = np.array([1.0, -1.0, 1.0, -1.0])
    assert sequential.conditional_power(flat, [4, 8], 0.05) == pytest.approx(
        math.erfc(far / math.sqrt(0.5) / math.sqrt(2)), abs=1e-6
    )
    assert sequential.conditional_power(np.ones(4), [4, 8], 0.05) == 1.0  # no spread to judge by


def test_equivalence_spends_the_level_once() -> None:
    d = np.array([0.1, -0.1, 0.2, -0.15, 0.05, 0.0, 0.1, -0.2])
    first, second = equivalence_p(d[:4], 0.5), equivalence_p(d, 0.5)
    assert first is not None
    assert second is not None
    assert sequential.equivalence(d[:4], [4, 8], 0.5) == min(1.0, first / 0.5**2.5)
    assert sequential.equivalence(d, [4, 8], 0.5) == min(first / 0.5**2.5, second / (1 - 0.5**2.5))
    assert sequential.equivalence(d[:3], [4, 8], 0.5) is None
    assert sequential.equivalence(d, [8], 0.5) == second


@pytest.mark.parametrize(("looks", "level"), [((8, 12, 16), 0.05), ((5, 10), 0.1)])
def test_what_the_looks_cost_against_simulated_paths(looks: tuple[int, ...], level: float) -> None:
    """Bounds by quantiles of paths without effect; then the drift that 80 % of paths show."""
    t = np.array(looks) / looks[-1]
    steps = np.diff(t, prepend=0.0)
    walks = np.random.default_rng(0).normal(size=(400_000, len(looks))) * np.sqrt(steps)
    b = np.cumsum(walks, axis=1)
    bounds, kept = list[float](), np.full(len(b), True)
    for k, pairs in enumerate(looks):
        more = sequential.spending(level, pairs, looks) * len(b) - (~kept).sum()
        bounds.append(float(np.sort(np.abs(b[kept, k]))[-round(more)]))
        kept &= np.abs(b[:, k]) < bounds[-1]
    inflated = sequential.inflation(looks, level) * (
        stats.norm.ppf(1 - level / 2) + stats.norm.ppf(0.8)
    )
    found = (np.abs(b + inflated * t) >= bounds).any(axis=1).mean()
    assert found == pytest.approx(0.8, abs=0.005)


def test_many_looks_cost_no_time() -> None:
    assert 1.0 < sequential.inflation(tuple(range(8, 21)), 0.05) < 1.1
