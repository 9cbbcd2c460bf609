"""The rule of a tuned design, as `plan.json` keeps it: said whole before the first run."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta

from records.identity import Hyper, Value
from records.reading import Part

SPENDING = 2.5  # a look may have spent level · t^SPENDING, t being its share of all pairs
Share = Annotated[float, Meta(ge=0, lt=1)]


class PlannedArm(Part):
    """One arm of a design."""

    track: str
    variant: str
    hyper: Hyper  # of all tunable keys, in order; those of the grid are replaced by its values


class Compared(NamedTuple):
    """An idea against what it is compared with."""

    track: str
    baseline: str
    idea: str


class Rule(Part):
    """How a tuned design spends its runs. analysis/judge/design.py follows it."""

    arms: list[PlannedArm]
    baseline: str
    grid: dict[str, list[Value]]  # of each swept tunable key; numbers rise
    tuning_seeds: list[int]  # hyper is chosen on these alone
    seeds: list[int]  # reported, in the order in which they are trained
    looks: list[int]  # pairs at which the comparison is looked at, rising; the last is all seeds
    extend: Annotated[int, Meta(ge=0)]  # values by which a grid may grow at each end
    spending: float  # the exponent by which the level is spent: SPENDING
    futility: Share  # conditional power below which an idea is given up
    budgets: list[Annotated[float, Meta(gt=0)]]  # other factors for each chosen configuration
    alpha: float
    margin_pct: float
    family: Literal["all", "track"]
    # further comparisons, idea and what it is compared with; older plans have none
    contrasts: list[tuple[str, str]] = msgspec.field(default_factory=list)

    def check(self) -> None:
        """Raise a ValueError for a rule that no sweep has written."""
        for name, values in (("seeds", self.seeds), ("looks", self.looks)):
            if not values or values != sorted(set(values)):
                raise ValueError(f"design: {name} must rise, found {values}")
        if self.looks[-1] != len(self.seeds) or not self.tuning_seeds:
            raise ValueError(
                "design: the last look must be at all seeds, and tuning seeds be there"
            )
        for track in self.tracks:
            if self.of_track(track)[0].variant != self.baseline:
                raise ValueError(f"design: {track} lacks the baseline {self.baseline}")

    @property
    def tracks(self) -> list[str]:
        return list(dict.fromkeys(arm.track for arm in self.arms))

    def of_track(self, track: str) -> list[PlannedArm]:
        """The arms of a track, the baseline first."""
        arms = [arm for arm in self.arms if arm.track == track]
        return sorted(arms, key=lambda arm: arm.variant != self.baseline)

    def comparisons(self, track: str | None = None) -> list[Compared]:
        """Each idea with the baseline, then the contrasts, of one track or of all."""
        found = []
        for each in self.tracks if track is None else [track]:
            variants = [arm.variant for arm in self.of_track(each)]
            found += [Compared(each, self.baseline, idea) for idea in variants[1:]]
            found += [
                Compared(each, other, idea)
                for idea, other in self.contrasts
                if {idea, other} <= set(variants)
            ]
        return found

    def family_of(self, track: str) -> list[Compared]:
        """The comparisons that are judged together with those of this track."""
        return self.comparisons(track if self.family == "track" else None)
