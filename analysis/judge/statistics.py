"""The numbers of one comparison, as pure functions of arrays.

`d` is always (pairs,) float64: idea − baseline, one entry per seed. Where a quantity does not exist
(no spread, too few pairs) it is None, never NaN. Distributions are those of scipy.special: the same
numbers as from scipy.stats and statsmodels, which the tests compare, in a hundredth of the time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special
from scipy.optimize import brentq

Array = NDArray[np.float64]
Interval = tuple[float, float]
Direction = Literal["min", "max"]

EXACT_UP_TO = 20  # pairs: 2²⁰ sign flips are enumerated (seconds), of more a sample is drawn
DRAWS = 99_999
POWER = 0.8
INERT_ULPS = 4.0  # float32 scores closer than this are numerically one


class Counts(NamedTuple):
    """On how many seeds the idea was better, equal, worse."""

    wins: int
    ties: int
    losses: int


class Tuned(NamedTuple):
    """One arm's scores over its grid, (seeds, configurations) each."""

    validation: Array
    test: Array


def mean_std(scores: ArrayLike) -> tuple[float | None, float | None]:
    """Mean and population standard deviation (ddof 0) of an arm's scores (pairs,)."""
    scores = np.asarray(scores, dtype=np.float64)
    if scores.size == 0 or not np.isfinite(scores).all():
        return None, None
    return float(scores.mean()), float(scores.std())


def count_wins(d: Array, direction: Direction) -> Counts:
    """Wins, ties and losses of the idea; a non-finite difference is none of them."""
    gain = -d if direction == "min" else d
    return Counts(int((gain > 0).sum()), int((gain == 0).sum()), int((gain < 0).sum()))


def sign_flip_p(d: Array) -> float:
    """Two-sided sign-flip permutation test of the mean of `d`: exact for up to 20 pairs.

    The share of sign flips whose |mean| is at least the observed one; zeros stay in, and means
    that are equal but for rounding count as equal. Above 20 pairs, seeded Monte Carlo with the
    p-value (k + 1)/(N + 1) of Phipson & Smyth (2010).
    Source: Fisher (1935), The Design of Experiments, §21.

    Raises:
        ValueError: `d` is empty or not finite (scipy alone would give p = 0).
    """
    if d.size == 0 or not np.isfinite(d).all():
        raise ValueError("the sign-flip test needs at least one difference, all of them finite")
    below, above = _turning_points(d)
    counted = below <= 0 if d.sum() > 0 else above >= 0
    return float(np.count_nonzero(counted) / counted.size)


def sign_flip_interval(d: Array, alpha: float) -> Interval | None:
    """The interval dual to the sign-flip test: the means that it would not reject at `alpha`.

    It holds 0 if and only if `sign_flip_p(d)` > alpha: both count the same flips. None where the
    test can reject no mean (five pairs at 5 %).
    Source: Hartigan (1969), Journal of the American Statistical Association 64; for drawn flips
    the same argument holds flip by flip.
    """
    if d.size == 0 or not np.isfinite(d).all():
        return None
    below, above = _turning_points(d)
    flips = below.size
    most = round(alpha * flips)  # flips that may count where a mean is rejected
    if most / flips > alpha:
        most -= 1
    low = float(np.partition(below, most)[most])
    high = float(np.partition(above, flips - 1 - most)[flips - 1 - most])
    return (low, high) if math.isfinite(low) and math.isfinite(high) else None


def _turning_points(d: Array) -> tuple[Array, Array]:
    """For each sign flip, the means from which on it counts as extreme: (flips,) each.

    Of the hypothesis that the mean is θ, a flip turns the signs of d − θ on some pairs. Its mean is
    at least as far from 0 as the observed one where θ, being below the mean of `d`, is not below
    the smaller of the two means over the pairs turned and over the others (the first array); where
    θ is above it, not above the larger of them (the second). A flip of none or of all pairs always
    counts: −inf and inf.
    """
    unit = float(np.abs(d).max()) or 1.0
    # Flips are drawn by position: neither the seeds' order, nor which arm is called the idea, nor
    # the unit, nor the mean is to matter. So the end with the wider gaps comes first.
    ordered, negated = np.sort(d) / unit, np.sort(-d) / unit
    gaps = [[*np.diff(each).round(9), *each] for each in (ordered, negated)]
    swapped = gaps[0] < gaps[1]
    if swapped:
        ordered = negated
    smaller, larger = list[Array](), list[Array]()
    for turned in _flips(d.size, EXACT_UP_TO):
        sides = np.stack([turned, 1 - turned])  # (2, flips, n)
        sizes = sides.sum(2)
        means = sides @ ordered / np.maximum(sizes, 1)
        means[np.abs(means) < 1e-12] = 0.0  # that of numbers of about 1: 0 but for rounding
        all_or_none = sizes.min(0) == 0
        smaller.append(np.where(all_or_none, -np.inf, means.min(0)))
        larger.append(np.where(all_or_none, np.inf, means.max(0)))
    below, above = np.concatenate(smaller) * unit, np.concatenate(larger) * unit
    return (0.0 - above, 0.0 - below) if swapped else (below, above)


def _flips(n: int, exact_up_to: int) -> Iterator[Array]:
    """Which of n pairs each sign flip turns: 0 or 1, (flips, n), in batches; the first turns none.

    Up to `exact_up_to` pairs half of all 2ⁿ: the others are their opposites, and as extreme. Above,
    `DRAWS` drawn ones after the first, always the same.
    """
    batch = max(1, 2**18 // n)  # megabytes, however many pairs
    if n <= exact_up_to:
        half = 2 ** (n - 1)
        for first in range(0, half, batch):
            numbers = np.arange(first, min(first + batch, half))
            yield (numbers[:, None] >> np.arange(n) & 1).astype(np.float64)  # a number's bits
        return
    generator = np.random.default_rng(0)
    yield np.zeros((1, n))
    for first in range(0, DRAWS, batch):
        yield generator.integers(0, 2, (min(batch, DRAWS - first), n)).astype(np.float64)


def selection_aware_p(baseline: Tuned, idea: Tuned, direction: Direction) -> float:
    """Sign-flip test in which every flip chooses each arm's configuration anew.

    A flip swaps the arms on some seeds, with all of their configurations; each arm then takes the
    configuration of the best mean validation score, and the statistic is the difference of mean
    test scores of the two chosen. That takes into account what choosing on the reported seeds may
    have won, as `sign_flip_p` cannot. Exact for up to 14 seeds, drawn above.
    Source: the max-T idea of Westfall & Young (1993), Resampling-Based Multiple Testing.

    Args:
        baseline, idea: both arms' scores on the same seeds and the same configurations, (seeds,
            configurations) each, all finite.
    """
    n = len(baseline.test)
    sign = 1 if direction == "min" else -1
    # sorted, for the reason that sign_flip_p has; in units of about 1
    order = np.argsort(np.abs(idea.test - baseline.test).sum(1), kind="stable")
    unit_v = np.abs([baseline.validation, idea.validation]).max() or 1.0
    unit_t = np.abs([baseline.test, idea.test]).max() or 1.0
    bv, iv = baseline.validation[order] / unit_v, idea.validation[order] / unit_v
    bt, it = baseline.test[order] / unit_t, idea.test[order] / unit_t

    def chosen(validation: Array, test: Array) -> Array:
        """Test score of the best on validation, (flips, configurations) → (flips,)."""
        best = np.round(sign * validation, 12).argmin(1)  # equal but for rounding: the first
        return np.take_along_axis(test, best[:, None], 1)[:, 0]

    # a mean under a flip is half of both arms' sum, plus or minus half of the signed difference
    def difference(signs: Array) -> Array:  # (flips, seeds) → (flips,)
        arms = [
            chosen(
                ((bv + iv).sum(0) + side * signs @ (iv - bv)) / (2 * n),
                ((bt + it).sum(0) + side * signs @ (it - bt)) / (2 * n),
            )
            for side in (-1, 1)
        ]
        return arms[1] - arms[0]

    effects = np.concatenate([difference(1 - 2 * turned) for turned in _flips(n, exact_up_to=14)])
    extreme = np.abs(effects) >= abs(effects[0]) - 1e-12  # in units of about 1: but for rounding
    return float(np.count_nonzero(extreme) / extreme.size)


def least_p(pairs: int, differing: int) -> float:
    """The smallest p that the sign-flip test can show of so many pairs, `differing` of them not 0.

    min(1, 2/2^differing): only the flip of all signs is as extreme as the data. Where flips are
    drawn, above 20 pairs, it is never below 1/(N + 1).
    """
    p = min(1.0, 2.0 ** (1 - differing))
    return p if pairs <= EXACT_UP_TO else max(p, 1 / (DRAWS + 1))


def smallest_p(d: Array) -> float:
    """The smallest p that these data could have shown, whatever the signs of `d`."""
    return least_p(d.size, int(np.count_nonzero(d)))


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down adjustment over a family; None keeps its place as p = 1 and stays None.

    Source: Holm (1979), Scandinavian Journal of Statistics 6.
    """
    p = np.array([1.0 if value is None else value for value in p_values])
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    p[order] = np.minimum(stepped, 1.0)
    pairs = zip(p_values, p.tolist(), strict=True)
    return [None if value is None else adjusted for value, adjusted in pairs]


def spread(d: Array) -> float | None:
    """Standard deviation (ddof 1); None for fewer than two pairs, or if all of `d` are equal.

    None too where it is beyond what a float can hold.
    """
    if d.size < 2 or not np.isfinite(d).all():
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        sd = float(d.std(ddof=1))
    if not math.isfinite(sd):
        return None
    # rounding alone gives a constant d a spread, and every ratio to it would be noise
    return sd if sd > 1e-14 * float(np.abs(d).max()) else None


def t_interval(d: Array, alpha: float) -> Interval | None:
    """Student's t interval of the mean of `d`, at confidence 1 − alpha; None without spread.

    Source: Student (1908), Biometrika 6.
    """
    sd = spread(d)
    if sd is None:
        return None
    half_width = special.stdtrit(d.size - 1, 1 - alpha / 2) * sd / math.sqrt(d.size)
    return float(d.mean() - half_width), float(d.mean() + half_width)


def standardised_mean(d: Array) -> float | None:
    """d_z = mean / sd (ddof 1), the effect size of paired differences; None without spread.

    Source: Lakens (2013), Frontiers in Psychology 4:863, equation 6.
    """
    sd = spread(d)
    return None if sd is None else float(d.mean()) / sd


def hedges_g(d: Array) -> float | None:
    """d_z with the correction for few pairs, d_z·(1 − 3/(4(n − 1) − 1));

    None without spread, and for two pairs, where the correction is 0.

    Source: Hedges (1981), Journal of Educational Statistics 6.
    """
    dz = standardised_mean(d)
    return None if dz is None or d.size < 3 else dz * (1 - 3 / (4 * (d.size - 1) - 1))


def probability_of_improvement(counts: Counts) -> tuple[float | None, Interval | None]:
    """Share of seeds on which the idea is better, a tie being half; its 95 % interval.

    The interval is Clopper & Pearson's (1934), over the seeds without a tie. None without seeds.
    """
    n = sum(counts)
    if n == 0:
        return None, None
    share = (counts.wins + counts.ties / 2) / n
    decided = counts.wins + counts.losses
    if decided == 0:
        return share, None

    def upper(hits: int) -> float:
        limit = special.betaincinv(hits + 1, decided - hits, 0.975)
        return 1.0 if hits == decided else float(limit)

    return share, (1 - upper(counts.losses), upper(counts.wins))


def pairing_correlation(baseline: Array, idea: Array) -> float | None:
    """Pearson's r of the arms' scores (pairs,) over seeds: what pairing bought.

    None for fewer than three pairs, where it says nothing, or without spread in an arm.
    """
    if len(baseline) < 3 or spread(baseline) is None or spread(idea) is None:
        return None
    return float(np.corrcoef(baseline, idea)[0, 1])


def detectable_dz(pairs: int, alpha: float) -> float | None:
    """Standardised effect that a two-sided paired t-test at `alpha` finds with power 0.8.

    None where so few pairs cannot tell.
    Source: Cohen (1988), Statistical Power Analysis for the Behavioral Sciences, chapter 2.
    """
    if pairs < 2:
        return None
    # statsmodels' TTestPower, to its last digit, without the second that importing it takes
    dz = _reaches_power(lambda dz: _nct_power(dz, pairs, alpha), 1e-8, 1.0, xtol=1e-5)
    if dz is not None and abs(_t_power(dz, pairs, alpha) - POWER) < 1e-5:
        return dz
    return _reaches_power(lambda dz: _t_power(dz, pairs, alpha), 1e-8, 1.0, xtol=1e-12)


def pairs_needed(dz: float, alpha: float) -> float | None:
    """Pairs (not rounded) at which that t-test finds the standardised effect `dz`.

    None for more than a billion.
    """
    dz = min(dz, 20.0)  # two pairs find it, and further out scipy's distribution fails
    return _reaches_power(lambda pairs: _t_power(dz, pairs, alpha), 2.0, 50.0, xtol=1e-5)


def _nct_power(dz: float, pairs: float, alpha: float) -> float:
    """Power of the two-sided paired t-test by the noncentral t distribution; inf where it fails."""
    df, shift = pairs - 1, dz * math.sqrt(pairs)
    critical = -special.stdtrit(df, alpha / 2)
    power = 1 - special.nctdtr(df, shift, critical) + special.nctdtr(df, shift, -critical)
    return math.inf if math.isnan(power) else float(power)


def _t_power(dz: float, pairs: float, alpha: float) -> float:
    """The same by the noncentral F distribution of t², which scipy can nearly always tell."""
    critical = special.stdtrit(pairs - 1, alpha / 2) ** 2
    missed = special.ncfdtr(1, pairs - 1, pairs * dz**2, critical)
    return 1.0 if math.isnan(missed) else float(1 - missed)  # it cannot where that is next to 0


def _reaches_power(
    power: Callable[[float], float], low: float, high: float, xtol: float
) -> float | None:
    """Where the rising function `power` reaches 0.8, `low` if it has by then.

    None if it does not up to a billion.
    """
    if power(low) >= POWER:
        return low
    while power(high) < POWER:
        if high >= 1e9:
            return None
        low, high = high, min(10 * high, 1e9)
    return float(brentq(lambda x: power(x) - POWER, low, high, xtol=xtol))


def is_within(p_min: float, comparisons: int, alpha: float) -> bool:
    """Whether a p can be significant in a family of `comparisons`, by Holm's first step."""
    return comparisons * p_min <= alpha


def can_show(pairs: int, comparisons: int, alpha: float) -> bool:
    """Whether so many pairs, all of them not 0, can be significant at all."""
    return is_within(least_p(pairs, pairs), comparisons, alpha)


def fewest_pairs(comparisons: int, alpha: float) -> int | None:
    """Non-zero pairs below which no outcome can be significant: ⌈log₂(2m/α)⌉ of m comparisons.

    None where no number of pairs is enough: beyond the 20 whose flips are all taken, p is no
    smaller than 1/(N + 1), which fewer pairs reach as well.
    """
    return next((n for n in range(1, EXACT_UP_TO + 1) if can_show(n, comparisons, alpha)), None)


def seeds_needed(effect: float, sd: float, comparisons: int, alpha: float) -> int | None:
    """Pairs that find `effect` with power 0.8 at α/m, and could be significant at all.

    `sd` is that of the differences, in the unit of `effect`. None for more than a billion, and
    where so many pairs cannot be significant.
    """
    pairs, fewest = (
        pairs_needed(abs(effect) / sd, alpha / comparisons),
        fewest_pairs(comparisons, alpha),
    )
    if pairs is None or fewest is None:
        return None
    needed = max(math.ceil(pairs), fewest)
    return needed if can_show(needed, comparisons, alpha) else None


def minimal_detectable_effect(d: Array, alpha: float, comparisons: int = 1) -> float | None:
    """Smallest |mean of d| that is found with power 0.8 at level α/m, in units of the metric.

    None without spread, and where no outcome of the sign-flip test could be significant among m
    comparisons.
    Source: Bloom (1995), Evaluation Review 19.
    """
    sd = spread(d)
    if sd is None or not is_within(smallest_p(d), comparisons, alpha):
        return None
    dz = detectable_dz(d.size, alpha / comparisons)
    return None if dz is None else dz * sd


def equivalence_p(d: Array, margin: float) -> float | None:
    """Two one-sided t-tests (TOST) that |mean of d| < margin: the larger of the two p-values.

    `margin` is in units of the metric. None without spread, or with no margin.
    Source: Schuirmann (1987), Journal of Pharmacokinetics and Biopharmaceutics 15.
    """
    sd = spread(d)
    if sd is None or margin <= 0:
        return None
    nearer = (abs(float(d.mean())) - margin) / (sd / math.sqrt(d.size))
    return float(special.stdtr(d.size - 1, nearer))


def ulps_apart(a: ArrayLike, b: ArrayLike) -> float:
    """Largest |a − b| in float32 ulps of the larger magnitude; `a`, `b` finite.

    They are of one shape, or one is a number that all of the other are compared with.

    Source: Goldberg (1991), ACM Computing Surveys 23, §1.2.
    """
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    most = np.nextafter(np.finfo(np.float32).max, np.float32(0))  # the last that has a next
    ulp = np.spacing(np.minimum(np.maximum(np.abs(a), np.abs(b)), most).astype(np.float32))
    return float(np.max(np.abs(a - b) / ulp, initial=0.0))
