"""Looks at a comparison while its seeds come in, with the error rate of the whole path kept.

`d` is (pairs so far,) float64, in the order of the seeds; `looks` are the numbers of pairs at which
a design looks, rising. At look k a level a may have spent a·t^2.5, t being the share of the last
look's pairs (Lan & DeMets 1983, Biometrika 70; with a smaller exponent the power falls by more than
.05 below that of one look, with a larger one more runs are needed). The reference set is that of
`statistics.sign_flip_p`, of whole paths: a flip that crossed at an earlier look is spent.

The regions are nested: what crosses at a level crosses at every larger one. A boundary drawn for
each level on its own breaks that, since a larger level spends more at an earlier look and may have
less left at a later one. So each flip has one number, the smallest level at which it has crossed,
and at a look flips join in the order of their |sum|, each group of ties at the smallest level from
which on no level has spent more than it may. Exact for up to 16 pairs at the last look; above, one
sample of flips stands for all, the same at every look.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from scipy import special
from scipy.optimize import brentq

from analysis.judge.statistics import (
    DRAWS,
    POWER,
    Array,
    Interval,
    detectable_dz,
    equivalence_p,
    spread,
)
from records.design import SPENDING

EXACT_UP_TO = 16  # pairs; an interval of 20 would take a quarter of a minute
POINTS = 401  # of a grid for a density
GRID = 0.05 * 2 ** (np.arange(-13 * 32, 5 * 32) / 32)  # 6·10⁻⁶ … above 1, 2 % apart


class Look(NamedTuple):
    """What a look at `pairs` pairs found."""

    pairs: int
    spent: float  # of the level, by this look at most
    boundary: float | None  # smallest |mean of d| that rejects here; None: none of these data could
    p: float  # sequential: the smallest level at which the path so far crosses


def spending(level: float, pairs: int, looks: Sequence[int]) -> float:
    """The part of a level that may be spent by the look at `pairs`: level · t^2.5."""
    return level * (pairs / looks[-1]) ** SPENDING


def usable(looks: Sequence[int], level: float) -> list[int]:
    """The looks at which a level can reject anything."""
    return [n for n in looks if _least_share(n, looks) <= spending(level, n, looks)]


def _least_share(pairs: int, looks: Sequence[int]) -> float:
    """The smallest share of flips that can cross: two of 2ⁿ, or one of those that are drawn."""
    drawn = 1 / (DRAWS + 1) if looks[-1] > EXACT_UP_TO else 0.0
    return max(2.0 ** (1 - pairs), drawn)


def reached(d: Array, looks: Sequence[int]) -> list[int]:
    """The looks that so many pairs allow."""
    return [n for n in looks if n <= d.size]


def sequential_p(d: Array, looks: Sequence[int]) -> float:
    """Smallest level at which the path so far would have crossed; 1 before the first look.

    With one look it is `statistics.sign_flip_p`. It falls from look to look, or stays.

    Raises:
        ValueError: `d` is not finite.
    """
    stages = list(_stages(d, looks))
    return min(1.0, stages[-1].p) if stages else 1.0


def look_at(d: Array, looks: Sequence[int], level: float) -> list[Look]:
    """All looks that `d` has reached, of a design at `level`; pairs after the last are left out.

    Raises:
        ValueError: `d` is not finite.
    """
    return [
        Look(each.pairs, level * each.share, each.boundary(level), min(1.0, each.p))
        for each in _stages(d, looks)
    ]


@dataclass(frozen=True)
class _Stage:
    """The flips at one look."""

    pairs: int
    share: float  # of any level, that may be spent by now
    is_last: bool  # of the design's looks: then nothing needs the levels of other flips
    means: Array  # |mean| of each flip, (flips,); the first is that of the data
    before: Array  # smallest level at which each flip has crossed at an earlier look; inf: at none

    @cached_property
    def joins(self) -> Array:
        """The level at which each flip crosses at this look, (flips,); inf above 1.

        Flips of a mean ≥ m join at the smallest level from which on no level a has more than
        flips · a · share of {mean ≥ m, or crossed before by a}.
        """
        order = np.argsort(-self.means, kind="stable")
        descending, before = self.means[order], self.before[order]
        last_of_ties = np.searchsorted(-descending, -descending, side="right") - 1
        joins = np.zeros(order.size)
        for low, high in self._steps(before):  # between two steps nothing has crossed before
            earlier = before <= low
            spent = np.count_nonzero(earlier) + np.cumsum(~earlier)[last_of_ties]
            until = np.minimum(spent / (order.size * self.share), high)
            joins = np.where(until > low, until, joins)  # from low to there it would be too much
        found = np.empty_like(joins)
        found[order] = np.where(joins <= 1.0, joins, np.inf)
        return found

    @property
    def crossed(self) -> Array:
        """The smallest level at which each flip has crossed by now, (flips,), as is seen later."""
        return np.minimum(self.before, _rounded_up(self.joins))

    @property
    def p(self) -> float:
        """The smallest level at which the data have crossed by now; may be above 1."""
        if not self.is_last:
            return float(self.crossed[0])
        others = np.sort(self.before[self.means < self.means[0]])
        with_data = self.means.size - others.size
        p = 0.0
        for low, high in self._steps(others):
            spent = with_data + np.searchsorted(others, low, side="right")
            until = min(spent / (self.means.size * self.share), high)
            p = until if until > low else p
        return float(min(p, self.before[0]))

    def boundary(self, level: float) -> float | None:
        """The smallest |mean| that crosses here first; None where no flip of these data does."""
        can = self.means[(self.joins <= level) & (self.before > level)]
        return float(can.min()) if can.size else None

    @staticmethod
    def _steps(levels: Array) -> Iterator[tuple[float, float]]:
        steps = np.unique(levels[levels <= 1.0]).tolist()
        return zip([0.0, *steps], [*steps, math.inf], strict=True)


def _stages(d: Array, looks: Sequence[int]) -> Iterator[_Stage]:
    """One after the other; all flips' levels are found only where another look follows."""
    if not np.isfinite(d).all():
        raise ValueError("a look needs finite differences")
    unit = float(np.abs(d).max(initial=0.0)) or 1.0
    stage = None
    for pairs in reached(d, looks):
        signs = _signs(pairs, looks[-1])
        past = np.array([np.inf]) if stage is None else stage.crossed
        before = np.resize(past, len(signs))  # a flip's number begins with that of its past
        means = np.abs(np.round(signs @ d[:pairs] / (unit * pairs), 12)) * unit
        stage = _Stage(pairs, spending(1.0, pairs, looks), pairs == looks[-1], means, before)
        yield stage


@lru_cache(maxsize=8)
def _signs(n: int, last: int) -> Array:
    """The signs of each flip, (flips, n), the first all +1; of the exact ones half: |sum| is even.

    Bit i of a flip's number turns pair i + 1, so that the flip of a longer path has the number of
    its past plus a multiple of 2^(n − 1). Beyond 16 pairs `DRAWS` drawn ones after the first.
    """
    if last <= EXACT_UP_TO:
        numbers = np.arange(2 ** (n - 1))
        turned = numbers[:, None] >> np.arange(-1, n - 1).clip(0) & 1
        turned[:, 0] = 0
    else:
        turned = np.random.default_rng(0).integers(0, 2, (DRAWS + 1, last))[:, :n]
        turned[0] = 0
    return 1.0 - 2.0 * turned


def _rounded_up(levels: Array) -> Array:
    """Of many different levels, each to the next of a fixed grid: still nested, and never too low.

    What is rounded off at one look may be spent at a later one.
    """
    if np.unique(levels).size <= GRID.size:
        return levels
    return np.append(GRID, np.inf)[np.searchsorted(GRID, levels)]


def conditional_power(d: Array, looks: Sequence[int], level: float) -> float:
    """Chance that the last look, still to come, rejects at `level` if the mean so far is true.

    By the normal approximation of the path as a Brownian motion, and its last boundary without what
    earlier looks have spent. 1 without spread.
    Source: Lan & Wittes (1988), Biometrics 44.
    """
    sd, t = spread(d), d.size / looks[-1]
    if sd is None:
        return 1.0
    b = math.sqrt(t) * math.sqrt(d.size) * float(d.mean()) / sd  # B(t) = Z √t
    to_come, far = b / t * (1 - t), float(special.ndtri(1 - level / 2))
    left = math.sqrt(1 - t)
    up, down = (far - b - to_come) / left, (-far - b - to_come) / left
    return float(special.ndtr(-up) + special.ndtr(down))


def interval(d: Array, looks: Sequence[int], level: float) -> Interval | None:
    """The repeated confidence interval: the means that the path so far does not reject at `level`.

    It holds 0 where `sequential_p(d, looks)` > level. None before the first look, and where the
    looks so far could reject no mean.
    Source: Jennison & Turnbull (1989), Journal of the Royal Statistical Society B 51, §3.
    """
    made, sd = reached(d, looks), spread(d)
    if not made or sd is None:
        return None
    centre = float(d[: made[-1]].mean())

    def end(side: int) -> float | None:
        def kept(distance: float) -> float:  # above 0 where that mean is not rejected
            return sequential_p(d - (centre + side * distance), looks) - level

        far = sd
        while kept(far) > 0:
            far *= 2
            if far > 1e6 * sd:
                return None
        inside, outside = 0.0, far
        while outside - inside > 1e-4 * sd:
            middle = (inside + outside) / 2
            inside, outside = (middle, outside) if kept(middle) > 0 else (inside, middle)
        return centre + side * outside

    low, high = end(-1), end(1)
    return None if low is None or high is None else (low, high)


def median_unbiased(d: Array, looks: Sequence[int], level: float) -> float | None:
    """The mean that a path like this overshoots as often as not; the plain one overshoots more.

    A design that stops when it sees much stops on lucky paths. Of two paths that one is larger
    which crossed upwards earlier, or downwards later; of those that crossed at no earlier look, the
    one of the larger mean. The estimate is the θ of whose sign flips, θ + s·(d − θ), half are
    larger than the data. None before the first look, and without spread.
    Source: Emerson & Fleming (1990), Biometrika 77, by the stage-wise order of Tsiatis, Rosner &
    Mehta (1984), Biometrics 40.
    """
    made, sd = look_at(d, looks, level), spread(d)
    if not made or sd is None:
        return None
    d = d[: made[-1].pairs]
    half = _signs(d.size, looks[-1])
    signs = np.concatenate([half, -half])  # (flips, n)
    observed = float(d.mean())

    def larger(theta: float) -> float:  # share of flips, less a half: rises with theta
        paths = np.cumsum(theta + signs * (d - theta), axis=1)  # (flips, n)
        order = np.zeros(len(paths))  # 1: larger, −1: smaller, 0: not known yet
        for each in made[:-1]:
            means = paths[:, each.pairs - 1] / each.pairs
            crossed = (order == 0) & (np.abs(means) >= (each.boundary or math.inf))
            order[crossed] = np.sign(means[crossed])
        apart = np.round((paths[:, -1] / d.size - observed) / sd, 11)
        order = np.where(order == 0, np.sign(apart), order)
        return float(order.mean())

    low, high = observed - 4 * sd, observed + 4 * sd
    if not larger(low) < 0 < larger(high):
        return observed
    return float(brentq(larger, low, high, xtol=1e-6 * sd))


def equivalence(d: Array, looks: Sequence[int], margin: float) -> float | None:
    """Two one-sided t-tests at every look so far, each at what may be spent anew there.

    The smallest level at which one of them has passed: p_k / (share_k − share_{k−1}), these shares
    adding up to 1. At the whole of what is spent by then each time, 8 % would pass at the margin.
    None before the first look, without spread, or with no margin.
    """
    found, before = list[float](), 0.0
    for pairs in reached(d, looks):
        share = spending(1.0, pairs, looks)
        p = equivalence_p(d[:pairs], margin)
        if p is not None:
            found.append(min(1.0, p / (share - before)))
        before = share
    return min(found) if found else None


def least_p(looks: Sequence[int]) -> float:
    """The smallest sequential p that any path of so many pairs could have."""
    return min(_least_share(n, looks) / spending(1.0, n, looks) for n in looks)


def minimal_detectable_effect(d: Array, looks: Sequence[int], level: float) -> float | None:
    """Smallest |mean of d| that all looks together find with power 0.8, in units of the metric.

    That of one test of all pairs at the spread so far, times what the looks cost (a few per cent).
    None without spread, and where no look can reject.
    """
    sd = spread(d)
    if sd is None or not usable(looks, level):
        return None
    dz = detectable_dz(looks[-1], level)
    return None if dz is None else dz * sd * inflation(tuple(looks), level)


@lru_cache
def inflation(looks: tuple[int, ...], level: float) -> float:
    """How much larger an effect must be for these looks than for one, at the same power of 0.8.

    By the normal theory of both: B(t) is N(drift·t, t), and stays within bounds that spend what
    they may; its density is carried from look to look on a grid.
    Source: Armitage, McPherson & Rowe (1969), Journal of the Royal Statistical Society A 132.
    """
    if len(looks) == 1:
        return 1.0
    t = np.array(looks) / looks[-1]
    steps = np.diff(t, prepend=0.0)
    bounds: list[float] = []  # of |B| at each look
    path = _Path.start()
    for pairs, step in zip(looks, steps, strict=True):
        spent = spending(level, pairs, looks)
        bounds.append(
            brentq(lambda far, p=path, s=spent, dt=step: 1 - p.within(far, dt, 0.0) - s, 0.01, 12)
        )
        path = path.after(bounds[-1], step, 0.0)

    def power(drift: float) -> float:
        path = _Path.start()
        for far, step in zip(bounds, steps, strict=True):
            path = path.after(far, step, drift)
        return 1 - float(path.mass.sum())

    alone = -special.ndtri(level / 2)
    needed = brentq(lambda drift: power(drift) - POWER, 0.5, 12)
    fixed = brentq(
        lambda drift: special.ndtr(drift - alone) + special.ndtr(-drift - alone) - POWER, 0.5, 12
    )
    return max(1.0, float(needed / fixed))


class _Path(NamedTuple):
    """Where B is if it has stayed within all bounds so far: the mass at each of some points."""

    points: Array
    mass: Array

    @staticmethod
    def start() -> _Path:
        return _Path(np.zeros(1), np.ones(1))

    def within(self, far: float, step: float, drift: float) -> float:
        """Chance to be within ± far a step of time later."""
        mean, sd = self.points + drift * step, math.sqrt(step)
        chance = special.ndtr((far - mean) / sd) - special.ndtr((-far - mean) / sd)
        return float(self.mass @ chance)

    def after(self, far: float, step: float, drift: float) -> _Path:
        """A step of time later, within ± far: the mass of each cell of a grid, at its middle."""
        edges = np.linspace(-far, far, POINTS + 1)
        mean, sd = self.points + drift * step, math.sqrt(step)
        below = special.ndtr((edges[:, None] - mean) / sd)  # (edges, points)
        return _Path((edges[1:] + edges[:-1]) / 2, np.diff(below, axis=0) @ self.mass)
