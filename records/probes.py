"""The measurements on a trained model that analysis knows, and how one is read from a record.

A record's `probes` are open: any name may stand there. Null says that it was measured and does not
apply; a name that is not there, that it was not measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from records.reading import Count, NotNegative, Part, what_is_wrong

T = TypeVar("T")


class NotMeasured(Exception):
    """A record lacks a probe, or holds nothing that it could have found; the text says which."""


@dataclass(frozen=True)
class Probe(Generic[T]):
    """A name under `probes`, and what may stand there."""

    name: str
    kind: Any  # the type of T, for msgspec

    def read(self, probes: Mapping[str, Any]) -> T:
        """What was found.

        Raises:
            NotMeasured: it is not there, or of another type.
        """
        if self.name not in probes:
            raise NotMeasured(f"{self.name} is not there")
        try:
            found: T = msgspec.convert(probes[self.name], self.kind)
        except msgspec.ValidationError as error:
            raise NotMeasured(f"{self.name} is malformed: {what_is_wrong(error)}") from error
        return found

    def get(self, probes: Mapping[str, Any]) -> T | None:
        """What was found; None where it does not apply, or was not measured."""
        try:
            return self.read(probes)
        except NotMeasured:
            return None


class Reach(Part):
    """The share of the loss gradient's norm in the mechanism's own parameters."""

    all: NotNegative
    by_parameter: dict[str, NotNegative] = msgspec.field(default_factory=dict)  # of each alone


REACH = Probe[Reach | None]("reach", Reach | None)
# below it nothing is reached: a bias that softmax cancels has 1e-8, a live table 1e-2
LEAST_REACH = 1e-6
# test score with the mechanism neutralised, minus the test score; and the loss's, where the
# primary metric can tie
ABLATION = Probe[float | None]("ablation", float | None)
LOSS_ABLATION = Probe[float | None]("loss_ablation", float | None)
# did later tokens leave earlier outputs alone? null: nobody claims it
CAUSAL = Probe[bool | None]("causal", bool | None)
# test examples that also stand in train or validation
SPLIT_OVERLAP = Probe[int | None]("split_overlap", Count | None)
