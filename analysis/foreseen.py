"""What is known of a sweep before its first run: the audits that need no result."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from analysis.audits.evidence import few_seeds_of
from analysis.record import PlannedRun
from analysis.rules import Rules
from analysis.text import hyper_text, seed_list


def foreseen(runs: Sequence[PlannedRun], baseline: str | None, rules: Rules) -> list[str]:
    """A sentence for each thing that will weaken what the planned runs can show.

    Args:
        baseline: the arm that the others are compared with; None for an arm yet to be named.
    """
    arms: dict[str, list[str]] = defaultdict(list)  # track → its variants
    for track, variant in dict.fromkeys((run.track, run.variant) for run in runs):
        arms[track].append(variant)
    compared = {track: names for track, names in arms.items() if len(names) > 1}
    if not compared:  # one arm: whatever it is compared with is not planned here
        return []
    reported = {run.seed for run in runs} - rules.tuning_seeds
    comparisons = {
        track: len(set(names) - {baseline}) if baseline else len(names) - 1
        for track, names in compared.items()
    }
    largest = max(comparisons.values()) if rules.family == "track" else sum(comparisons.values())
    planned = f"{len(reported)} seeds are to be reported"
    few = few_seeds_of(len(reported), largest, rules.alpha, planned)
    return [
        *(f"{audit.code}: {audit.message} {audit.advice}" for audit in few),
        *_untuned(runs, rules, reported),
    ]


def _untuned(runs: Sequence[PlannedRun], rules: Rules, reported: set[int]) -> Iterator[str]:
    """Hyper is chosen from a single configuration, or on the seeds that are reported."""
    grids: dict[tuple[str, str], set[str]] = defaultdict(set)
    for run in runs:
        grids[run.track, run.variant].add(hyper_text(run.hyper))
    if all(len(grid) == 1 for grid in grids.values()):
        [hyper, *_] = grids.popitem()[1]
        yield (
            f"not tuned: every arm has one configuration, {hyper}, and which arm it suits decides: "
            f"sweep lr, or another tunable key, over several values"
        )
    elif not rules.tuning_seeds:
        yield (
            f"tuned_on_reported_seeds: hyper will be chosen on validation scores of seed "
            f"{seed_list(reported)}, whose test scores are reported; harmless where both arms "
            f"choose over the same grid. To part them, declare analysis.tuning_seeds, and train "
            f"seeds for both"
        )
