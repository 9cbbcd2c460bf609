"""What was predicted of a mechanism before training, and what was observed after it."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Literal

import msgspec

from records.reading import Part

Observed = dict[str, float | None]  # metric → value

OPERATORS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


class Criterion(Part):
    """One prediction that training could refute: `metric op value`."""

    metric: str
    op: Literal["<", "<=", ">", ">="]
    value: float

    def __str__(self) -> str:
        return f"{self.metric} {self.op} {self.value:g}"

    def holds(self, observed: Mapping[str, float | None]) -> bool:
        """Whether it is what was observed; what was not observed does not hold."""
        seen = observed.get(self.metric)
        return seen is not None and OPERATORS[self.op](seen, self.value)


class Signature(Part):
    """The mechanism's predicted footprint, as said before training, and what was observed."""

    prediction: str
    criteria: list[Criterion]
    observed: Observed
    # observed values that had to hold, and why: no evidence
    by_construction: dict[str, str] = msgspec.field(default_factory=dict)
    observed_at_start: Observed | None = None  # before training
    blocks: list[Observed] | None = None  # each block's, `observed` is over all of them

    @property
    def holds(self) -> bool:
        """Whether every criterion does: judged here, from the record's own prediction."""
        return bool(self.criteria) and not self.refuted

    @property
    def refuted(self) -> list[str]:
        """Why each criterion that does not stand does not, in words."""
        return [why for each in self.criteria if (why := self._against(each))]

    def _against(self, criterion: Criterion) -> str | None:
        """Why a criterion is not confirmed: also if it had to hold, or held before training."""
        metric, start = criterion.metric, self.observed_at_start or {}
        if metric in self.by_construction:
            return f"{metric} holds by construction"
        if not criterion.holds(self.observed):
            seen = _number(self.observed.get(metric))
            return f"{metric} = {seen}, not {criterion.op} {criterion.value:g}"
        if criterion.holds(start):
            return f"{criterion} held before training ({_number(start.get(metric))})"
        return None


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"
