"""What is known of a sweep before its first run: the audits that need no result."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from analysis.judge.audits.budget import tuned_on_reported_seeds_of, untuned_of
from analysis.judge.audits.evidence import few_seeds_of
from analysis.read.rules import Rules
from analysis.text import how_many, hyper_text
from records.record import PlannedRun


def foreseen(runs: Sequence[PlannedRun], baseline: str | None, rules: Rules) -> list[str]:
    """A sentence for each thing that will weaken what the planned runs can show.

    Args:
        baseline: the arm that the others are compared with; None for an arm yet to be named.
    """
    runs = [run for run in runs if run.is_full]
    arms: dict[str, list[str]] = defaultdict(list)  # track → its variants
    for track, variant in dict.fromkeys((run.track, run.variant) for run in runs):
        arms[track].append(variant)
    compared = {track: names for track, names in arms.items() if len(names) > 1}
    if not compared:  # one arm: whatever it is compared with is not planned here
        return []
    reported = {run.seed for run in runs} - rules.unreported
    comparisons = {
        track: (1 + len(rules.lengths))
        * (
            (len(set(names) - {baseline}) if baseline else len(names) - 1)
            + sum({*pair} <= {*names} for pair in rules.contrasts)
        )
        for track, names in compared.items()
    }
    family_size = (
        max(comparisons.values()) if rules.family == "track" else sum(comparisons.values())
    )
    planned = f"the sweep reports on {how_many(len(reported), 'seed')}"
    audits = [*few_seeds_of(len(reported), family_size, rules.alpha, planned)]
    grids: dict[tuple[str, str], set[str]] = defaultdict(set)  # arm → what it is tuned over
    for run in runs:
        grids[run.track, run.variant].add(hyper_text(run.hyper))
    is_tuned = any(len(grid) > 1 for grid in grids.values())
    if not is_tuned:
        audits.append(untuned_of(hyper_text(run.hyper) for run in runs))
    elif chosen_on := reported & (rules.tuning_seeds or reported):
        audits.append(tuned_on_reported_seeds_of(chosen_on, "will be"))
    return [f"{audit.code}: {audit.message} {audit.advice}" for audit in audits]
