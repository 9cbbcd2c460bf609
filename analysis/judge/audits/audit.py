"""What an audit is, and what several of them need."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from analysis.judge.compare import Comparison, Side
from analysis.read.recorded import RecordedRun
from analysis.text import seed_list, some
from records.probes import NotMeasured, Probe, T
from records.record import Record

Severity = Literal["void", "warning", "note"]
Ahead = Literal["baseline", "idea"]  # the arm that is better by a decided difference


@dataclass(frozen=True)
class Audit:
    """A judgement on a whole comparison."""

    code: str
    severity: Severity
    message: str  # what is wrong, with the run, seed or key and the numbers
    advice: str  # what to do about it


Check = Callable[[Comparison], Iterator[Audit]]
ConclusionCheck = Callable[[Comparison, Ahead | None], Iterator[Audit]]


def probed(side: Side, code: str, probe: Probe[T]) -> Generator[Audit, None, dict[int, T]]:
    """What a probe found in each of a side's selected models: seed → value.

    Yields a note of the audit's own `code` where some records do not have it.
    """
    found: dict[int, T] = {}
    why: dict[str, list[int]] = {}
    for seed, run in sorted(side.selected.items()):
        if run.diverged:
            continue  # there is no model to be measured
        try:
            found[seed] = run.record.probe(probe)
        except NotMeasured as error:
            why.setdefault(str(error), []).append(seed)
    if why:
        told = (
            f"{reason} (records of {side.name}, seed {seed_list(at)})" for reason, at in why.items()
        )
        yield Audit(
            code,
            "note",
            f"Not measured: {some(told)}.",
            "Train those runs again with a version that measures it, and nothing is open.",
        )
    return found


def pairs(comparison: Comparison) -> Iterator[tuple[int, Record, Record]]:
    """Seed, the baseline's record, the idea's: of the pairs, and of whatever hyper both ran."""
    one, other = comparison.sides
    for seed, *pair in zip(comparison.seeds, one.paired, other.paired, strict=True):
        yield seed, pair[0].record, pair[1].record
    for hyper, runs in one.arm.grid.items():
        for seed, run in other.arm.grid.get(hyper, {}).items():
            if seed in runs:
                yield seed, runs[seed].record, run.record


def several(
    comparison: Comparison, table: Callable[[RecordedRun], Mapping[str, object]]
) -> dict[str, list[object]]:
    """The keys to which the runs' tables hold more than one value, and these values."""
    found: dict[str, list[object]] = {}
    last: Mapping[str, object] = {}
    for side in comparison.sides:
        for run in side.arm.runs:
            this = table(run)
            if this == last:
                continue  # as nearly always
            for key, value in this.items():
                values = found.setdefault(key, [])
                if value not in values:
                    values.append(value)
            last = this
    return {key: values for key, values in sorted(found.items()) if len(values) > 1}
