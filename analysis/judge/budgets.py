"""The difference against the training budget: would it be there if both arms trained for longer?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from analysis.judge.select import Arm
from analysis.judge.statistics import Array
from analysis.read.recorded import RecordedRun
from records.identity import FULL, HyperKey

ERRORS = 2.0  # standard errors that a difference must shrink by


@dataclass(frozen=True)
class AtBudget:
    """The arms' differences at one budget, at the hyper that was chosen at the whole one."""

    factor: float  # times the declared budget
    d: Mapping[int, float]  # seed → idea − baseline, by test score
    # seeds whose runs tell nothing of the budget: one diverged, or they were not made alike
    left_out: tuple[int, ...] = ()

    @property
    def mean(self) -> float:
        """Mean difference."""
        return float(np.mean(self.values))

    @property
    def standard_error(self) -> float | None:
        """Of the mean; None of a single seed."""
        n = len(self.d)
        return float(np.std(self.values, ddof=1)) / math.sqrt(n) if n > 1 else None

    @property
    def values(self) -> Array:
        """The differences (seeds,) in seed order."""
        return np.array([self.d[seed] for seed in sorted(self.d)], dtype=np.float64)


@dataclass(frozen=True)
class Doubling:
    """What became of the difference as the budget doubled, on the seeds that have both."""

    start: float  # the smaller factor
    seeds: tuple[int, ...]
    before: float  # mean difference at it
    after: float  # and at twice as much
    standard_error: float  # of after − before
    degrees: int  # of freedom that it was estimated with

    def is_sensitive(self, decided: float, least: float | None = None) -> bool:
        """Whether the decided difference shrinks by more than half, or turns, and not by chance.

        Beyond chance is what Student's t, with the degrees of freedom of the pooled spread, says
        as seldom as a normal number falls below −ERRORS: so always by more than ERRORS standard
        errors. Seeds that decided show more of a difference than there is, since a smaller one
        would not have been decided: what they show at twice the budget is less by itself. So
        where they are compared, the chance is that among changes from a difference of at least
        `least`, given the sum of both (as in Fithian, Sun & Taylor 2014, "Optimal inference after
        model selection").

        Args:
            decided: the difference that was decided; its sign is what counts.
            least: the smallest that would have been; None where other seeds decided.
        """
        sign = math.copysign(1, decided)
        before, after = sign * self.before, sign * self.after
        if not (after < before and after < before / 2):
            return False
        with np.errstate(divide="ignore", invalid="ignore"):
            spread = np.float64(self.standard_error)
            chance = special.stdtr(self.degrees, (after - before) / spread)
            possible = (
                1.0
                if least is None
                else special.stdtr(self.degrees, (before + after - 2 * least) / spread)
            )
        return bool(chance <= special.ndtr(-ERRORS) * possible)


def at_budgets(baseline: Arm, idea: Arm, chosen: tuple[HyperKey, HyperKey]) -> tuple[AtBudget, ...]:
    """The differences at every budget that both arms have runs of, 1 among them, ascending.

    Empty where there are runs of budget 1 alone. Runs are left out that diverged, and pairs whose
    data or order differ or that were not configured as their arm's runs of budget 1 were.

    Args:
        chosen: the hyper of baseline and idea.
    """
    others = baseline.other_budgets.keys() & idea.other_budgets.keys()
    if not others:
        return ()
    arms = list(zip((baseline, idea), chosen, strict=True))
    found = []
    for factor in sorted({FULL, *others}):
        one, other = (arm.at(factor, hyper) for arm, hyper in arms)
        like = [next(iter(arm.grid[hyper].values())).record.hashes.config for arm, hyper in arms]
        d, left_out = dict[int, float](), list[int]()
        for seed in sorted(one.keys() & other.keys()):
            pair = one[seed], other[seed]
            difference = pair[1].test - pair[0].test
            unlike = [run.record.hashes.config for run in pair] != like or _unpaired(*pair)
            if math.isfinite(difference) and (factor == FULL or not unlike):
                d[seed] = difference
            else:
                left_out.append(seed)
        if d:
            found.append(AtBudget(factor, d, tuple(left_out)))
    return tuple(found) if any(each.factor != FULL for each in found) else ()


def _unpaired(one: RecordedRun, other: RecordedRun) -> bool:
    """Whether two runs did not see the same data in the same order."""
    here, there = one.record.hashes, other.record.hashes
    return (here.data, here.order) != (there.data, there.order)


def doublings(budgets: Sequence[AtBudget]) -> list[Doubling]:
    """From half the declared budget to it, and from it to twice as much, where there are both.

    The spread of a change seed by seed cannot be told from a few seeds: of three, one change in
    ten would be beyond twice its own standard error. So it is pooled over all differences at hand.
    The variance of d at a budget is taken over every seed that has it (at 1 all of them, reported
    and tuning), and is never less than the variance pooled over all budgets, each by its degrees
    of freedom. The variance of a change is the sum of those of both budgets: as if d of one seed
    at two budgets had nothing in common, which makes the error too large where it has.
    """
    variances = {b.factor: (float(np.var(b.values, ddof=1)) if len(b.d) > 1 else 0.0)
                 for b in budgets}  # fmt: skip
    degrees = sum(len(b.d) - 1 for b in budgets)
    if degrees == 0:
        return []
    pooled = sum(variances[b.factor] * (len(b.d) - 1) for b in budgets) / degrees
    by_factor = {b.factor: b for b in budgets}
    found = []
    for start in (FULL / 2, FULL):
        one, two = by_factor.get(start), by_factor.get(2 * start)
        seeds = sorted(one.d.keys() & two.d.keys()) if one and two else []
        if one and two and seeds:
            variance = max(variances[start], pooled) + max(variances[2 * start], pooled)
            found.append(
                Doubling(
                    start,
                    tuple(seeds),
                    before=float(np.mean([one.d[seed] for seed in seeds])),
                    after=float(np.mean([two.d[seed] for seed in seeds])),
                    standard_error=math.sqrt(variance / len(seeds)),
                    degrees=degrees,
                )
            )
    return found
