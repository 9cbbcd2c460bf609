"""What is decided by a person: said before training, or asked for when the runs are judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from analysis.errors import AnalysisError
from analysis.read.recorded import RecordedRun
from analysis.text import seed_list
from records.record import Declared, Expected, Metric, Record


@dataclass(frozen=True)
class Rules:
    """How comparisons are judged."""

    alpha: float = 0.05  # level of a whole family
    margin_pct: float = 1.0  # of the baseline's mean: differences within it are negligible
    family: Literal["all", "track"] = "all"  # comparisons corrected together
    tuning_seeds: frozenset[int] = frozenset()  # hyper is chosen on these, the others are reported
    report_tuning_seeds: bool = False  # these are reported too, as the earlier reports did
    contrasts: tuple[tuple[str, str], ...] = ()  # further comparisons: idea and baseline
    lengths: tuple[int, ...] = ()  # of test contexts, times the trained, that are judged too
    expects: tuple[Expected, ...] = ()  # what was published of the comparisons
    partial: bool = False  # judge what is there although planned runs are missing

    @property
    def unreported(self) -> frozenset[int]:
        """Seeds that only choose."""
        return frozenset() if self.report_tuning_seeds else self.tuning_seeds

    def changed(self, declared: Declared | None) -> dict[str, str]:
        """What differs from what a run declared, or from the defaults: key → in words."""
        if declared is None:
            then = {key: getattr(Rules(), key) for key in Declared.__struct_fields__}
        else:
            then = _plain(declared)
        now, declares = vars(self), declared is not None
        return {
            key: f"{key} is {_words(now[key])}, was "
            + (f"declared {_words(was)}" if declares else "not declared")
            for key, was in then.items()
            if now[key] != was
        }


def _plain(declared: Declared) -> dict[str, Any]:
    """What a run declared, in the types that `Rules` has."""
    said = {key: getattr(declared, key) for key in declared.__struct_fields__}
    lists = {key: tuple(value) for key, value in said.items() if isinstance(value, list)}
    return said | lists | {"tuning_seeds": frozenset(declared.tuning_seeds)}


def _words(value: object) -> str:
    if isinstance(value, frozenset):
        return f"seed {seed_list(value)}" if value else "none"
    return str(value)


def agreed(runs: Sequence[RecordedRun], partial: bool = False, **asked: Any) -> Rules:
    """The rules that the runs declare; what is asked for, and not None, holds instead.

    Where runs declare different ones, those of the first in path order hold (and an audit tells).

    Args:
        asked: alpha, margin_pct, family or tuning_seeds, as of `Rules`.
    Raises:
        AnalysisError: no run was made with one of the tuning seeds, or none with any other.
    """
    declared = next((run.record.analysis for run in runs if run.record.analysis), None)
    said = _plain(declared) if declared else {}
    said |= {key: value for key, value in asked.items() if value is not None}
    tuning = said["tuning_seeds"] = frozenset(said.get("tuning_seeds", ()))
    seeds = {run.record.seed for run in runs}
    if absent := tuning - seeds:
        raise AnalysisError(f"tuning seeds: no run has seed {seed_list(absent)}")
    if not (seeds - tuning or said.get("report_tuning_seeds")):
        raise AnalysisError(f"tuning seeds {seed_list(tuning)}: no seed is left to report on")
    return Rules(**said, partial=partial)


def judged_by(runs: Sequence[RecordedRun], name: str | None) -> list[RecordedRun]:
    """The runs, to be judged by the metric `name`; None for the primary one of each.

    Raises:
        AnalysisError: a run that finished has no such score, or one without a direction.
    """
    if name is None:
        return list(runs)
    metrics = {  # of each track's runs; a diverged one has no secondary scores
        run.record.track: metric for run in runs if (metric := _secondary(run.record, name))
    }
    chosen: list[RecordedRun] = []
    without = 0
    known: set[str] = set()
    for run in runs:
        secondary = run.record.secondary.get(name)
        metric = _secondary(run.record, name) if secondary else metrics.get(run.record.track)
        if name == run.record.metric.name:
            chosen.append(run)
        elif metric and (run.diverged or (secondary and secondary.whole)):
            chosen.append(replace(run, judged_by=metric))
        else:
            without += 1
        known |= {run.record.metric.name}
        known |= {other for other, each in run.record.secondary.items() if each.direction}
    if without:
        raise AnalysisError(
            f"--metric {name}: {without} of {len(runs)} runs have no such score; "
            f"there are {', '.join(sorted(known))}"
        )
    return chosen


def _secondary(record: Record, name: str) -> Metric | None:
    """A secondary metric of a record; None where it has none of that name with a direction."""
    found = record.secondary.get(name)
    if found is None or found.direction is None:
        return None
    over = record.metric.mean_over  # of all scores
    return Metric(name, found.direction, found.bounds, found.can_tie, over)
