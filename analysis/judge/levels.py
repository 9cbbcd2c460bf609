"""Which levels the sign-flip test can reach with how many seeds, in words."""

from __future__ import annotations

from analysis.judge.statistics import EXACT_UP_TO, fewest_pairs, least_p


def least_level(comparisons: int) -> float:
    """The smallest level that a family of `comparisons` can reach, with as many seeds as are exact.

    Of more, flips are drawn, and p is never so small.
    """
    return comparisons * least_p(EXACT_UP_TO, EXACT_UP_TO)


def in_range(fewest: int) -> str:
    """The numbers of seeds of which all flips are taken: `18 to 20 seeds`."""
    return f"{fewest} to {EXACT_UP_TO} seeds" if fewest < EXACT_UP_TO else f"{EXACT_UP_TO} seeds"


def out_of_range(comparisons: int, alpha: float) -> str:
    """Why more seeds do not help to reach `alpha` in a family of `comparisons`."""
    fewest = fewest_pairs(comparisons, alpha)
    level = f"can reach level {alpha:g} in a family of {comparisons}"
    exact, drawn = (least_p(pairs, pairs) for pairs in (EXACT_UP_TO, EXACT_UP_TO + 1))
    sampled = f"of more than {EXACT_UP_TO} pairs flips are drawn, and p is at least {drawn:.3g}"
    if fewest is None:
        of_all = f"p is at least {exact:.3g} of {EXACT_UP_TO} pairs"
        return f"no number of seeds {level}: {of_all}, and {sampled}"
    return f"only {in_range(fewest)} {level}: {sampled}"
