"""What makes a comparison's verdict weaker or void.

An audit is one function from a comparison to the `Audit`s that it raises; `AUDITS` lists them in
the order in which they are shown. A new audit is a new function in that list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from analysis.compare import Comparison
from analysis.record import Run
from analysis.text import hyper_text, run_text, seed_list, some

PARITY_PCT = 5.0  # of the baseline's: further apart is not the same budget
LEAST_REACH = 1e-6  # a bias that softmax cancels gives 1e-8, a live table 1e-2


@dataclass(frozen=True)
class Audit:
    """A judgement on a whole comparison."""

    code: str
    severity: Literal["void", "warning", "note"]
    message: str  # what is wrong, with the run, seed or key and the numbers
    advice: str  # what to do about it


@dataclass(frozen=True)
class Rules:
    """What the person who analyses decides."""

    alpha: float = 0.05  # level of the whole family
    partial: bool = False  # judge what is there although planned runs are missing


Check = Callable[[Comparison, Rules], Iterator[Audit]]


def no_shared_seed(comparison: Comparison, rules: Rules) -> Iterator[Audit]:
    """Nothing is paired, or nothing on which an arm's configurations could be compared."""
    for side in comparison.sides:
        if not side.selection.shared:
            yield Audit(
                "no_shared_seed",
                "void",
                f"{side.name} could not be tuned: no seed stands in the other arm and in all "
                f"{len(side.selection.candidates)} configurations of {side.name}.",
                "Run every configuration of both arms with the same seeds.",
            )
    if not comparison.seeds:
        yield Audit(
            "no_shared_seed",
            "void",
            f"The selected configurations of {comparison.baseline.name} and "
            f"{comparison.idea.name} share no seed, so nothing is paired.",
            "Run every configuration of both arms with the same seeds.",
        )


def unpaired_seed(comparison: Comparison, rules: Rules) -> Iterator[Audit]:
    """A seed that one arm's selected configuration lacks is left out of the pairs."""
    seeds = comparison.baseline.arm.seeds | comparison.idea.arm.seeds
    for side in comparison.sides:
        if absent := sorted(seeds - set(side.selected)):
            yield Audit(
                "unpaired_seed",
                "warning",
                f"{side.name} ({hyper_text(side.selection.best.config)}) has no run of "
                f"seed {seed_list(absent)}, which is left out of the pairs.",
                "Run both arms with the same seeds.",
            )


def duplicate_run(comparison: Comparison, rules: Rules) -> Iterator[Audit]:
    """Two records of one track, variant, seed and hyper; void if they disagree."""
    for side in comparison.sides:
        alike: list[str] = []
        unlike: list[str] = []
        for kept, other in side.arm.duplicates:
            same = kept.record.scores == other.record.scores
            (alike if same else unlike).append(_twin(kept, other))
        if unlike:
            yield Audit(
                "duplicate_run",
                "void",
                f"Recorded twice, with different scores: {some(unlike)}.",
                "Find out what differed (code, configuration, machine), and analyse one sweep.",
            )
        if alike:
            yield Audit(
                "duplicate_run",
                "note",
                f"Recorded twice, with the same scores (the first is used): {some(alike)}.",
                "Nothing to do; name one sweep only to be rid of this note.",
            )


def missing_run(comparison: Comparison, rules: Rules) -> Iterator[Audit]:
    """The plan has a run that left no record."""
    if comparison.missing:
        yield Audit(
            "missing_run",
            "warning" if rules.partial else "void",
            f"{len(comparison.missing)} of {comparison.planned} planned runs left no record: "
            f"{some(run_text(run) for run in comparison.missing)}.",
            "Run them; --partial judges what is there, as if the absent runs had nothing to tell."
            if not rules.partial
            else "Run them before believing this verdict: runs seldom die at random.",
        )


def unreadable_record(comparison: Comparison, rules: Rules) -> Iterator[Audit]:
    """A file that a run left is truncated, not JSON, of another schema, or wrong in a field."""
    if comparison.unreadable:
        yield Audit(
            "unreadable_record",
            "warning",
            f"Files that could not be used: {some(comparison.unreadable)}.",
            "Run those runs again, or remove their folders.",
        )


def diverged_run(comparison: Comparison, rules: Rules) -> Iterator[Audit]:
    """A loss that is not finite; void where the run is one of the pairs."""
    for side in comparison.sides:
        paired = [run for run in side.paired if run.diverged]
        judged = {id(run) for run in paired}
        others = [run for run in side.arm.runs if run.diverged and id(run) not in judged]
        if paired:
            yield Audit(
                "diverged_run",
                "void",
                f"{len(paired)} of the {len(side.paired)} runs of {side.name} to be compared "
                f"diverged: {some(run_text(run.record) for run in paired)}.",
                f"Widen the grid of {side.name} until one configuration trains on every seed.",
            )
        if others:
            yield Audit(
                "diverged_run",
                "warning",
                f"Diverged, outside the pairs: {some(run_text(run.record) for run in others)}.",
                "Expected at the upper end of a grid of learning rates, a bug elsewhere.",
            )


def metric_mismatch(comparison: Comparison, rules: Rules) -> Iterator[Audit]:
    """Scores in different units, or with different better ends, cannot be subtracted."""
    metrics = {
        f"{run.record.metric.name} ({run.record.metric.better}) in {side.name}"
        for side in comparison.sides
        for run in side.arm.runs
        if run.record.metric != comparison.metric
    }
    if metrics:
        yield Audit(
            "metric_mismatch",
            "void",
            f"Not all runs have the metric {comparison.metric.name} ({comparison.metric.better}): "
            f"{some(sorted(metrics))}.",
            "Train both arms with the same version of the track.",
        )


def data_mismatch(comparison: Comparison, rules: Rules) -> Iterator[Audit]:
    """The arms of a pair were not trained and tested on the same data."""
    if seeds := _unlike(comparison, lambda run: run.record.hashes.data):
        yield Audit(
            "data_mismatch",
            "void",
            f"The arms saw different data on seed {seed_list(seeds)}.",
            "Train both arms with the same track settings and the same version of the data.",
        )


def order_mismatch(comparison: Comparison, rules: Rules) -> Iterator[Audit]:
    """The arms of a pair did not see their batches in one order."""
    if seeds := _unlike(comparison, lambda run: run.record.hashes.order):
        yield Audit(
            "order_mismatch",
            "void",
            f"The arms saw their batches in different orders on seed {seed_list(seeds)}.",
            "Train both arms with the same batch size, epochs and version of the code.",
        )


def grid_edge(comparison: Comparison, rules: Rules) -> Iterator[Audit]:
    """An arm's best value of a hyper is the smallest or largest that it was tuned over."""
    for side in comparison.sides:
        for key, best in side.selection.best.hyper:
            grid = sorted({dict(hyper)[key] for hyper in side.arm.grid if key in dict(hyper)})
            if len(grid) < 2 or grid[0] < best < grid[-1]:
                continue
            end = "smallest" if best == grid[0] else "largest"
            beyond = "below" if best == grid[0] else "above"
            yield Audit(
                "grid_edge",
                "warning",
                f"The best {key} of {side.name}, {best:.12g}, is the {end} of its grid "
                f"{', '.join(f'{value:.12g}' for value in grid)}.",
                f"Extend both arms' grids {beyond} {best:.12g} and run again: {side.name} may do "
                "better there.",
            )


def parameter_parity(comparison: Comparison, rules: Rules) -> Iterator[Audit]:
    """The selected configurations differ in size."""
    baseline, idea = (
        sum(run.record.cost.parameters for run in side.selected.values()) / len(side.selected)
        for side in comparison.sides
    )
    if abs(idea - baseline) > baseline * PARITY_PCT / 100:
        yield Audit(
            "parameter_parity",
            "warning",
            f"{comparison.idea.name} has {idea:.0f} parameters, {comparison.baseline.name} "
            f"{baseline:.0f}: more than {PARITY_PCT:g} % apart.",
            "Change a width so that both arms have as many, or the larger may win by size alone.",
        )


def out_of_reach(comparison: Comparison, rules: Rules) -> Iterator[Audit]:
    """The loss does not depend on a mechanism's own parameters."""
    for side in comparison.sides:
        unreached = {
            seed: reach
            for seed, run in sorted(side.selected.items())
            if (reach := run.record.probes.reach) is not None and reach < LEAST_REACH
        }
        if unreached:
            yield Audit(
                "out_of_reach",
                "void",
                f"The loss hardly depends on the mechanism of {side.name} in {len(unreached)} of "
                f"{len(side.selected)} models (seed {seed_list(unreached)}): its parameters get "
                f"{max(unreached.values()):.2g} of the gradient, less than {LEAST_REACH:g}.",
                "Check that the mechanism's output can change the prediction; a term that is "
                "constant over keys, for one, is cancelled by softmax.",
            )


AUDITS: tuple[Check, ...] = (
    no_shared_seed,
    missing_run,
    unpaired_seed,
    duplicate_run,
    unreadable_record,
    diverged_run,
    metric_mismatch,
    data_mismatch,
    order_mismatch,
    out_of_reach,
    grid_edge,
    parameter_parity,
)


def audit(comparison: Comparison, rules: Rules) -> list[Audit]:
    """Everything that is wrong with a comparison, gravest first."""
    raised = [found for check in AUDITS for found in check(comparison, rules)]
    return sorted(raised, key=lambda found: ("void", "warning", "note").index(found.severity))


def _twin(kept: Run, other: Run) -> str:
    return f"{run_text(kept.record)} in {kept.folder} and {other.folder}"


def _unlike(comparison: Comparison, value: Callable[[Run], str]) -> list[int]:
    """Seeds on which a value differs between the arms."""
    pairs = zip(comparison.seeds, comparison.baseline.paired, comparison.idea.paired, strict=True)
    return [seed for seed, baseline, idea in pairs if value(baseline) != value(idea)]
