"""Did both arms get the same chance: tuning, training, size, compute, memory?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from analysis.judge.audits.audit import Ahead, Audit
from analysis.judge.compare import Comparison
from analysis.judge.select import Arm
from analysis.read.recorded import RecordedRun
from analysis.text import how_many, hyper_text, seed_list, some
from records.identity import Value, in_order

Costs = Sequence[float | None]  # of each model; None where not recorded
PARITY_PCT = 5.0  # of the baseline's: further apart is not the same budget


def unequal_grid(comparison: Comparison) -> Iterator[Audit]:
    """One arm was tuned harder; void where that is the idea."""
    baseline, idea = (side.arm for side in comparison.sides)
    tries, more = _tries(baseline), _tries(idea)
    if comparison.is_unfinished or (set(baseline.grid) == set(idea.grid) and more <= tries):
        return
    lacks = [
        f"{arm.variant} lacks {hyper_text(next(iter(other.grid[hyper].values())).record.hyper)}"
        for arm, other in ((baseline, idea), (idea, baseline))
        for hyper in sorted(set(other.grid) - set(arm.grid), key=in_order)
    ]
    same = f"{len(baseline.grid) - tries} of {baseline.variant} score as others of it do"
    yield Audit(
        "unequal_grid",
        "void" if more > tries else "warning",
        f"{idea.variant} was tuned over {how_many(more, 'configuration')}, "
        f"{baseline.variant} over {tries}: {some(lacks or [same])}.",
        "Run both arms over the same grid, of values that act in both: more tries alone win.",
    )


def _tries(arm: Arm) -> int:
    """Configurations, of those known to be numerically one a single one: that tuned nothing.

    They are one where they have the same seeds, and on each the same score by a metric that cannot
    tie: equal accuracies do not show that a key does nothing, nor do scores that are 0.
    """
    different: set[object] = set()
    for hyper, runs in arm.grid.items():
        known = all(
            run.smooth and not run.diverged and run.score(run.smooth, "test") != 0
            for run in runs.values()
        )
        different.add(tuple(map(_scores, sorted(runs.items()))) if known else hyper)
    return len(different)


def _scores(of_seed: tuple[int, RecordedRun]) -> tuple[object, ...]:
    seed, run = of_seed
    metric = run.smooth or run.metric.name
    return seed, metric, run.score(metric, "validation"), run.score(metric, "test")


def unequal_budget(comparison: Comparison) -> Iterator[Audit]:
    """The selected configurations trained for different times."""
    budgets = {
        side.name: sorted(
            {f"{b.epochs:g} epochs, {b.steps} steps, {b.examples} examples"
             for run in side.paired if not run.diverged for b in [run.record.budget]}
        )
        for side in comparison.sides
    }  # fmt: skip
    if len({each for found in budgets.values() for each in found}) > 1:
        told = "; ".join(f"{name}: {', '.join(found)}" for name, found in budgets.items())
        yield Audit(
            "unequal_budget",
            "warning",
            f"The arms trained for different budgets: {told}.",
            "Train both arms for the same number of epochs.",
        )


def grid_edge(comparison: Comparison) -> Iterator[Audit]:
    """An arm's best value of a hyper is the smallest or largest that it was tuned over."""
    for side in comparison.sides:
        for key, best in side.selection.best.key:
            yield from grid_edge_of(side.name, key, best, map(dict, side.arm.grid))


def grid_edge_of(
    arm: str, key: str, best: Value, tried: Iterable[Mapping[str, Value]]
) -> Iterator[Audit]:
    """The audit, if the best of a key is at the edge of what was tried; names have no edge."""
    values = {each[key] for each in tried if key in each}
    grid = sorted(value for value in values if not isinstance(value, str))
    if isinstance(best, str) or len(grid) < 2 or best not in (grid[0], grid[-1]):
        return
    end, beyond = ("smallest", "below") if best == grid[0] else ("largest", "above")
    yield Audit(
        "grid_edge",
        "warning",
        f"The best {key} of {arm}, {best:.12g}, is the {end} of its grid "
        f"{', '.join(f'{value:.12g}' for value in grid)}.",
        f"Extend both arms' grids {beyond} {best:.12g} and run again: {arm} may do better there.",
    )


def untuned(comparison: Comparison) -> Iterator[Audit]:
    """Neither arm had more than one configuration to choose from."""
    sides = comparison.sides
    if all(len(side.selection.candidates) == 1 for side in sides):
        yield untuned_of(hyper_text(side.selection.best.hyper) for side in sides)


def untuned_of(configurations: Iterable[str]) -> Audit:
    """The audit for arms that have one configuration each, in words."""
    each = some(dict.fromkeys(told or "of no tunable key" for told in configurations))
    return Audit(
        "untuned",
        "note",
        f"Every arm has one configuration, {each}, and which arm it suits decides.",
        "Sweep lr, or another tunable key, over several values.",
    )


def tuned_on_reported_seeds(comparison: Comparison) -> Iterator[Audit]:
    """The seeds whose validation scores chose are those whose test scores are reported."""
    shared = sorted(
        {
            seed
            for side in comparison.sides
            if len(side.selection.candidates) > 1
            for seed in side.selection.compared
        }
        & set(comparison.seeds)
    )
    if shared:
        yield tuned_on_reported_seeds_of(shared, "was")


def tuned_on_reported_seeds_of(seeds: Iterable[int], tense: str) -> Audit:
    """The audit for seeds on which hyper `was` chosen, or of a plan, `will be`."""
    return Audit(
        "tuned_on_reported_seeds",
        "note",
        f"Hyper {tense} chosen on validation scores of seed {seed_list(seeds)}, whose test scores "
        "are reported.",
        "Harmless where both arms choose over the same grid (see p_selection_aware). To part "
        "them, declare analysis.tuning_seeds, and train seeds for both.",
    )


class Parity(NamedTuple):
    """What is compared of the arms' costs."""

    cost: str  # a field of `Cost`
    what: str  # it counts
    by: str  # why the arm that has more may win


PARITY = {  # by the audit's code
    "parameter_parity": Parity("parameters", "parameters", "size"),
    "flop_parity": Parity("flops_per_example", "FLOPs for a prediction", "compute"),
    "memory_parity": Parity("saved_bytes", "bytes saved for the backward pass", "memory"),
}


def parameter_parity(comparison: Comparison, ahead: Ahead | None) -> Iterator[Audit]:
    """The selected configurations differ in size."""
    yield from _parity(comparison, ahead, "parameter_parity")


def flop_parity(comparison: Comparison, ahead: Ahead | None) -> Iterator[Audit]:
    """The selected configurations differ in what a prediction costs."""
    yield from _parity(comparison, ahead, "flop_parity")


def memory_parity(comparison: Comparison, ahead: Ahead | None) -> Iterator[Audit]:
    """The selected configurations differ in what training keeps for the backward pass."""
    yield from _parity(comparison, ahead, "memory_parity")


def _parity(comparison: Comparison, ahead: Ahead | None, code: str) -> Iterator[Audit]:
    baseline, idea = (
        (side.name, [getattr(run.record.cost, PARITY[code].cost) for run in side.selected.values()])
        for side in comparison.sides
    )
    yield from parity_of(code, baseline, idea, ahead)


def parity_of(
    code: str, baseline: tuple[str, Costs], idea: tuple[str, Costs], ahead: Ahead | None
) -> Iterator[Audit]:
    """A warning where the arm that is ahead has more; a note where it has less, or none is.

    Args:
        baseline, idea: each arm's name, and what each of its models costs.
    """
    (one, costs), (other, others) = baseline, idea
    if None in (*costs, *others):
        return  # said among the limitations
    here, there = (float(np.mean(np.array(each, dtype=np.float64))) for each in (costs, others))
    if abs(there - here) <= here * PARITY_PCT / 100:
        return
    _, what, by = PARITY[code]
    told = f"{other} has {there:.7g} {what}, {one} {here:.7g}"
    if here:
        told += f": {100 * abs(there - here) / here:.3g} % {'more' if there > here else 'less'}"
    even = f"Change a width so that both arms have as many: the larger may win by {by} alone."
    if ahead is None:
        yield Audit(code, "note", f"{told}; no difference of the scores is decided.", even)
        return
    name = other if ahead == "idea" else one
    if ahead == ("idea" if there > here else "baseline"):
        yield Audit(code, "warning", f"{told}; {name} is ahead with more.", even)
    else:
        advice = f"Say so where the result is quoted: {by} is not why {name} is ahead."
        yield Audit(code, "note", f"{told}; {name} is ahead with less.", advice)


CHECKS = (
    unequal_grid,
    unequal_budget,
    grid_edge,
    untuned,
    tuned_on_reported_seeds,
)
CONCLUSION_CHECKS = (
    parameter_parity,
    flop_parity,
    memory_parity,
)
