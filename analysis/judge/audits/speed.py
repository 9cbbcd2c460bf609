"""Does the difference last, or does one arm only learn sooner?"""

from __future__ import annotations

from collections.abc import Iterator

from analysis.judge.audits.audit import Ahead, Audit
from analysis.judge.budgets import Doubling, doublings
from analysis.judge.compare import Comparison
from analysis.text import number, seed_list
from records.identity import FULL


def budget_sensitive(comparison: Comparison, ahead: Ahead | None) -> Iterator[Audit]:
    """The decided difference shrinks by more than half, or turns, as the training budget doubles.

    From half the budget to the whole, and from the whole to twice as much, on the seeds that have
    both; against the error of `doublings`. Without such runs nothing is raised: it is said among
    the limitations that it was not measured.
    """
    delta = comparison.effect.delta_mean
    if ahead is None or delta is None:
        return
    found = [
        each
        for each in doublings(comparison.budgets)
        if each.is_sensitive(delta, _least_decided(comparison, each))
    ]
    if found:
        yield Audit(
            "budget_sensitive",
            "warning",
            f"The difference does not last as training goes on: {'; '.join(map(_told, found))}.",
            "The arm that is ahead may only learn sooner: train both for longer (training.epochs) "
            "until the difference stays, or say for which budget it was found.",
        )


def _least_decided(comparison: Comparison, doubling: Doubling) -> float | None:
    """About the smallest difference that would have been decided; None where other seeds were.

    It is how far the interval of the deciding test reaches from the difference towards 0.
    """
    effect = comparison.effect
    if doubling.start != FULL or not set(doubling.seeds) & set(comparison.seeds):
        return None
    interval, delta = effect.ci_signflip_family or effect.ci_signflip, effect.delta_mean
    if interval is None or delta is None:
        return None
    return delta - interval[0] if delta > 0 else interval[1] - delta


def _told(each: Doubling) -> str:
    return (
        f"{number(each.before)} at budget {each.start:g}, {number(each.after)} at "
        f"{2 * each.start:g} (seed {seed_list(each.seeds)}; a change of "
        f"{number(each.after - each.before)} ± {number(each.standard_error)})"
    )


CONCLUSION_CHECKS = (budget_sensitive,)
