"""What is decided by a person: said before training, or asked for when the runs are judged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from analysis.errors import AnalysisError
from analysis.record import Declared, Run
from analysis.text import some

Family = Literal["all", "track"]


@dataclass(frozen=True)
class Rules:
    """How comparisons are judged."""

    alpha: float = 0.05  # level of a whole family
    margin_pct: float = 1.0  # of the baseline's mean: differences within it are negligible
    family: Family = "all"  # comparisons corrected together: all, or those of one track
    partial: bool = False  # judge what is there although planned runs are missing
    tuning_seeds: frozenset[int] = frozenset()  # hyper is chosen on these, the others are reported

    def changed(self, declared: Declared | None) -> list[str]:
        """What differs from what a run declared, in words."""
        if declared is None:
            return []
        return [
            f"{key} is {getattr(self, key)}, was declared {was}"
            for key, was in declared.model_dump().items()
            if getattr(self, key) != was
        ]


def agreed(
    runs: Sequence[Run],
    alpha: float | None = None,
    margin_pct: float | None = None,
    family: Family | None = None,
    partial: bool = False,
    tuning_seeds: frozenset[int] = frozenset(),
) -> Rules:
    """The rules that the runs declare; what is not None is asked for instead.

    Where runs declare different ones, those of the first in path order hold (and an audit tells).

    Raises:
        AnalysisError: no run was made with one of the tuning seeds, or none with any other.
    """
    declared = next((run.record.analysis for run in runs if run.record.analysis), None)
    said = declared.model_dump() if declared else {}
    asked = {"alpha": alpha, "margin_pct": margin_pct, "family": family}
    said |= {key: value for key, value in asked.items() if value is not None}
    seeds = {run.record.seed for run in runs}
    if absent := sorted(tuning_seeds - seeds):
        raise AnalysisError(f"--tuning-seeds: no run has seed {', '.join(map(str, absent))}")
    if not seeds - tuning_seeds:
        raise AnalysisError("--tuning-seeds: no seed is left to report on")
    return Rules(**said, partial=partial, tuning_seeds=tuning_seeds)


def judged_by(runs: Iterable[Run], metric: str | None) -> list[Run]:
    """The runs, to be judged by `metric`; None for the primary one of each.

    Raises:
        AnalysisError: a run has no such score, or one without a direction.
    """
    runs = list(runs)
    if metric is None:
        return runs
    chosen: list[Run] = []
    without: list[str] = []
    for run in runs:
        secondary = run.record.secondary
        if metric == run.record.metric.name:
            chosen.append(run)
        elif metric in secondary and secondary[metric].direction:
            chosen.append(replace(run, judged_by=metric))
        else:
            known = [run.record.metric.name]
            known += [name for name, scores in secondary.items() if scores.direction]
            without.append(f"{run.folder} (it has {', '.join(known)})")
    if without:
        raise AnalysisError(
            f"--metric {metric}: not a score of {len(without)} runs: {some(without)}"
        )
    return chosen
