"""What an audit is, and what several of them need."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from analysis.compare import Comparison
from analysis.record import Run

Severity = Literal["void", "warning", "note"]


@dataclass(frozen=True)
class Audit:
    """A judgement on a whole comparison."""

    code: str
    severity: Severity
    message: str  # what is wrong, with the run, seed or key and the numbers
    advice: str  # what to do about it


Check = Callable[[Comparison], Iterator[Audit]]


def pairs(comparison: Comparison) -> Iterator[tuple[int, Run, Run]]:
    """Seed, the baseline's run, the idea's."""
    return zip(comparison.seeds, comparison.baseline.paired, comparison.idea.paired, strict=True)


def unlike(comparison: Comparison, value: Callable[[Run], str]) -> list[int]:
    """Seeds on which a value differs between the arms."""
    return [seed for seed, one, other in pairs(comparison) if value(one) != value(other)]


def several(
    comparison: Comparison, table: Callable[[Run], Mapping[str, object]]
) -> dict[str, list[object]]:
    """The keys to which the runs' tables hold more than one value, and these values."""
    found: dict[str, list[object]] = {}
    for side in comparison.sides:
        for run in side.arm.runs:
            for key, value in table(run).items():
                values = found.setdefault(key, [])
                if value not in values:
                    values.append(value)
    return {key: values for key, values in sorted(found.items()) if len(values) > 1}
