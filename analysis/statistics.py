"""The numbers of one comparison, as pure functions of arrays.

`d` is always (pairs,) float64: idea − baseline, one entry per seed. Where a quantity does not exist
(no spread, too few pairs) it is None, never NaN. scipy and statsmodels take over a second to
import, so that each function imports its own: a mistyped path is answered at once.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

EXACT_UP_TO = 20  # pairs: 2²⁰ sign flips are enumerated, more are drawn
DRAWS = 99_999
POWER = 0.8


class Counts(NamedTuple):
    """On how many seeds the idea was better, equal, worse."""

    wins: int
    ties: int
    losses: int


def mean_std(scores: ArrayLike) -> tuple[float | None, float | None]:
    """Mean and population standard deviation (ddof 0) of an arm's scores (pairs,)."""
    scores = np.asarray(scores, dtype=np.float64)
    if scores.size == 0 or not np.isfinite(scores).all():
        return None, None
    return float(scores.mean()), float(scores.std())


def count_wins(d: Array, direction: Literal["min", "max"]) -> Counts:
    """Wins, ties and losses of the idea; a non-finite difference is none of them."""
    gain = -d if direction == "min" else d
    return Counts(int((gain > 0).sum()), int((gain == 0).sum()), int((gain < 0).sum()))


def sign_flip_p(d: Array) -> float:
    """Two-sided sign-flip permutation test of the mean of `d`: exact for up to 20 pairs.

    The share of sign flips whose |mean| is at least the observed one; zeros stay in, and means
    that are equal but for rounding count as equal. Above 20 pairs, seeded Monte Carlo with the
    p-value (k + 1)/(N + 1) of Phipson & Smyth (2010). Exact p-values of 20 pairs take seconds.
    Source: Fisher (1935), The Design of Experiments, §21.

    Raises:
        ValueError: `d` is empty or not finite (scipy alone would give p = 0).
    """
    from scipy.stats import permutation_test

    if d.size == 0 or not np.isfinite(d).all():
        raise ValueError("the sign-flip test needs at least one difference, all of them finite")
    if d.size == 1:
        return 1.0  # both flips are as extreme; scipy wants two pairs
    # Random flips are drawn by position: p is not to depend on the seeds' order, on which arm is
    # called the idea, or on the unit. A flip is as extreme if its |mean| falls short by no more
    # than rounding.
    ordered = np.sort(d if d.sum() > 0 else -d) / (np.abs(d).max() or 1.0)
    least = abs(ordered.mean()) - 1e-12
    test = permutation_test(
        (ordered,),
        lambda x, axis: (np.abs(x.mean(axis=axis)) >= least).astype(np.float64),
        permutation_type="samples",
        alternative="greater",  # of |mean|: both sides at once
        n_resamples=np.inf if d.size <= EXACT_UP_TO else DRAWS,
        batch=2**14,
        vectorized=True,
        rng=np.random.default_rng(0),
    )
    return float(test.pvalue)


def smallest_p(d: Array) -> float:
    """The smallest p that these data could have shown: min(1, 2 / 2^(non-zero pairs))."""
    return float(min(1.0, 2.0 ** (1 - np.count_nonzero(d))))


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down adjustment over a family; None keeps its place as p = 1 and stays None.

    Source: Holm (1979), Scandinavian Journal of Statistics 6.
    """
    from statsmodels.stats.multitest import multipletests

    if not p_values:
        return []
    adjusted = multipletests([1.0 if p is None else p for p in p_values], method="holm")[1]
    pairs = zip(p_values, adjusted, strict=True)
    return [None if p is None else float(judged) for p, judged in pairs]


def spread(d: Array) -> float | None:
    """Standard deviation (ddof 1); None for fewer than two pairs, or if all of `d` are equal."""
    if d.size < 2 or not np.isfinite(d).all():
        return None
    sd = float(d.std(ddof=1))
    # rounding alone gives a constant d a spread, and every ratio to it would be noise
    return sd if sd > 1e-14 * float(np.abs(d).max()) else None


def t_interval(d: Array, confidence: float = 0.95) -> tuple[float, float] | None:
    """Student's t interval of the mean of `d`; None without spread."""
    from scipy.stats import ttest_1samp

    if spread(d) is None:
        return None
    low, high = ttest_1samp(d, 0).confidence_interval(confidence)
    return float(low), float(high)


def standardised_mean(d: Array) -> float | None:
    """d_z = mean / sd (ddof 1), the effect size of paired differences; None without spread.

    Source: Lakens (2013), Frontiers in Psychology 4:863, equation 6.
    """
    sd = spread(d)
    return None if sd is None else float(d.mean()) / sd


@cache
def detectable_dz(pairs: int, alpha: float) -> float | None:
    """The d_z that a two-sided paired t-test at level `alpha` finds with power 0.8.

    None where statsmodels finds no root: from 32 pairs on, at levels of 1e-4 and below.
    Source: Cohen (1988), Statistical Power Analysis, chapter 2.
    """
    from statsmodels.stats.power import TTestPower

    test = TTestPower()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its complaints; the answer is checked below instead
        try:
            dz = float(np.squeeze(test.solve_power(nobs=pairs, alpha=alpha, power=POWER)))
        except ValueError:
            return None
    return dz if abs(test.power(dz, pairs, alpha) - POWER) < 1e-3 else None


def minimal_detectable_effect(d: Array, alpha: float) -> float | None:
    """Smallest |mean of d| that is found with power 0.8 at level `alpha`, in units of the metric.

    None without spread, and where no outcome of the sign-flip test could reach `alpha`.
    """
    sd = spread(d)
    if sd is None or smallest_p(d) > alpha:
        return None
    dz = detectable_dz(d.size, alpha)
    return None if dz is None else dz * sd


def equivalence_p(d: Array, margin: float) -> float | None:
    """Two one-sided t-tests (TOST) that |mean of d| < margin: the larger of the two p-values.

    `margin` is in units of the metric. None without spread, or with no margin.
    Source: Schuirmann (1987), Journal of Pharmacokinetics and Biopharmaceutics 15.
    """
    from statsmodels.stats.weightstats import ttost_paired

    if spread(d) is None or margin <= 0:
        return None
    return float(ttost_paired(d, np.zeros_like(d), -margin, margin)[0])


def ulps_apart(a: ArrayLike, b: ArrayLike) -> float:
    """Largest |a − b| in float32 ulps of the larger magnitude; `a`, `b` finite, of one shape."""
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    ulp = np.spacing(np.maximum(np.abs(a), np.abs(b)).astype(np.float32))
    return float(np.max(np.abs(a - b) / ulp, initial=0.0))
