"""A tuned design: which runs its rule asks for next, from the records that are there.

First every arm is tuned over one grid, on seeds that are not reported; a grid grows where an arm's
best value stands at its end. Then each arm's chosen configuration is trained on the reported seeds,
with looks on the way (analysis/judge/sequential.py). What sweeps and what judges both call this:
the same records give the same decisions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from analysis.judge import sequential
from analysis.judge.select import Selection, group, select
from analysis.judge.statistics import Array, holm
from analysis.read.recorded import RecordedRun
from records.design import Compared, PlannedArm, Rule
from records.identity import Hyper, Identity, Value
from records.record import Batch, PlannedRun

Recorded = Mapping[Identity, RecordedRun]
ArmKey = tuple[str, str]  # track and variant
Wanted = tuple[str, list[PlannedRun]]  # why, and which runs: those asked for before among them


class Why(StrEnum):
    """Why a comparison needs no further pair."""

    DECIDED = "a difference is decided"
    EQUIVALENT = "both arms are equivalent"
    FUTILE = "a decision was too unlikely to wait for"
    LAST = "that was the last look"
    DIVERGED = "a run of the pairs diverged"


@dataclass(frozen=True)
class Stop:
    """Where a comparison ended."""

    pairs: int
    why: Why


@dataclass
class Course:
    """What a rule has decided so far."""

    rule: Rule
    batches: list[Batch] = field(default_factory=list)  # the last one may lack records
    is_finished: bool = False
    missing: list[PlannedRun] = field(default_factory=list)  # of the last batch
    grids: dict[str, dict[str, list[Value]]] = field(default_factory=dict)  # by track, as grown
    chosen: dict[ArmKey, Hyper] = field(default_factory=dict)
    stops: dict[Compared, Stop] = field(default_factory=dict)

    def looks(self, track: str) -> list[int]:
        """The looks of a track's family at which anything can be decided."""
        rule = self.rule
        return sequential.usable(rule.looks, rule.alpha / len(rule.family_of(track)))

    @property
    def runs(self) -> list[PlannedRun]:
        """All runs asked for so far."""
        return [run for batch in self.batches for run in batch.runs]

    def is_open(self, arm: PlannedArm) -> bool:
        """Whether a comparison of this arm still needs pairs."""
        return any(
            arm.variant in each[1:] and each not in self.stops
            for each in self.rule.comparisons(arm.track)
        )

    def most_left(self) -> int:
        """Runs that may still come after these batches, if no grid grows and nothing stops."""
        rule, seen = self.rule, {run.identity for run in self.runs}
        arms = [
            arm
            for track in rule.tracks
            for arm in rule.of_track(track)
            if not self.chosen or self.is_open(arm)
        ]
        if not self.chosen:
            return len(arms) * (len(rule.seeds) + len(rule.tuning_seeds) * len(rule.budgets))
        due = [
            _run(arm, self.chosen[arm.track, arm.variant], seed)
            for arm in arms
            for seed in rule.seeds
        ]
        return sum(run.identity not in seen for run in due)


def course(rule: Rule, recorded: Recorded) -> Course:
    """Follow the rule as far as the records go."""
    made, asked = Course(rule), set[Identity]()
    for why, runs in _batches(made, recorded):
        new = [run for run in runs if run.identity not in asked]
        asked |= {run.identity for run in new}
        if new:
            made.batches.append(Batch(why, new))
        made.missing = [run for run in new if run.identity not in recorded]
        if made.missing:
            return made
    made.is_finished = True
    return made


def _batches(made: Course, recorded: Recorded) -> Iterator[Wanted]:
    """One batch after the other; resumed once all runs of the last one are recorded."""
    yield from _tuning(made, recorded)
    rule = made.rule
    for track in rule.tracks:
        for arm in rule.of_track(track):
            best = _selection(made, arm, recorded).best
            made.chosen[track, arm.variant] = best.hyper
    yield from _looking(made, recorded)


def _tuning(made: Course, recorded: Recorded) -> Iterator[Wanted]:
    rule = made.rule
    made.grids = {track: {k: list(v) for k, v in rule.grid.items()} for track in rule.tracks}
    yield "every arm is tuned over the grid", _over(made, rule.tracks)
    grown = {(track, key, end): 0 for track in rule.tracks for key in rule.grid for end in (0, -1)}
    while True:
        reasons, wider = list[str](), list[str]()
        for track in rule.tracks:
            demands = _demands(made, track, recorded)
            for (key, end), why in demands.items():
                if grown[track, key, end] < rule.extend:
                    grown[track, key, end] += 1
                    values = made.grids[track][key]
                    value = beyond(values, end)
                    values.insert(0 if end == 0 else len(values), value)
                    reasons.append(f"{why}: {value:.12g} is tried in every arm")
                    wider.append(track)
        if not wider:
            return
        yield "; ".join(reasons), _over(made, wider)


def beyond(values: list[Value], end: int) -> float:
    """The next value of a grid of numbers: at its smaller (0) or larger end (−1), in its ratio."""
    last, before = (float(values[i]) for i in ((0, 1) if end == 0 else (-1, -2)))
    return float(f"{last * last / before:.6g}")


def grows(values: list[Value]) -> bool:
    """Whether a grid has ends that it can grow at."""
    return len(values) > 1 and not any(isinstance(value, str) for value in values)


def _demands(made: Course, track: str, recorded: Recorded) -> dict[tuple[str, int], str]:
    """The ends of a track's grid at which an arm's best value stands: (key, end) → why."""
    found: dict[tuple[str, int], str] = {}
    for arm in made.rule.of_track(track):
        selection = _selection(made, arm, recorded)
        if any(run.diverged for run in selection.best.runs.values()):
            continue
        best = selection.best.hyper
        for key, values in made.grids[track].items():
            if not grows(values) or best[key] not in (values[0], values[-1]):
                continue
            end, which = (0, "smallest") if best[key] == values[0] else (-1, "largest")
            found.setdefault(
                (key, end),
                f"{track}: {arm.variant}'s best {key} {best[key]:.12g} was the {which}",
            )
    return found


def _selection(made: Course, arm: PlannedArm, recorded: Recorded) -> Selection:
    runs = [
        recorded[run.identity] for run in _over(made, [arm.track]) if run.variant == arm.variant
    ]
    [grouped] = group(runs).values()
    return select(grouped, set(made.rule.tuning_seeds), runs[0].metric.direction)


def _over(made: Course, tracks: list[str]) -> list[PlannedRun]:
    """All runs over the tracks' grids as they are, on the tuning seeds; known ones among them."""
    points = {track: _product(made.grids[track]) for track in dict.fromkeys(tracks)}
    return [
        _run(arm, point, seed)
        for track in points
        for arm in made.rule.of_track(track)
        for point in points[track]
        for seed in made.rule.tuning_seeds
    ]


def _product(grid: Mapping[str, list[Value]]) -> list[Hyper]:
    points: list[Hyper] = [{}]
    for key, values in grid.items():
        points = [{**point, key: value} for point in points for value in values]
    return points


def _run(arm: PlannedArm, hyper: Mapping[str, Value], seed: int, budget: float = 1.0) -> PlannedRun:
    full = {key: hyper.get(key, value) for key, value in arm.hyper.items()}
    return PlannedRun(
        track=arm.track, variant=arm.variant, seed=seed, hyper=full, budget_factor=budget
    )


def _looking(made: Course, recorded: Recorded) -> Iterator[Wanted]:
    rule = made.rule
    looks = {track: made.looks(track) for track in rule.tracks}
    other = [
        _run(arm, made.chosen[arm.track, arm.variant], seed, budget)
        for arm in rule.arms
        for budget in rule.budgets
        for seed in rule.tuning_seeds
    ]
    for pairs in sorted({n for each in looks.values() for n in each}):
        active = [
            each
            for each in rule.comparisons()
            if each not in made.stops and pairs in looks[each.track]
        ]
        if not active:
            continue
        tracks = dict.fromkeys(each.track for each in active)
        arms = [arm for track in tracks for arm in rule.of_track(track)]
        needed = {(each.track, variant) for each in active for variant in each[1:]}
        wanted = [arm for arm in arms if (arm.track, arm.variant) in needed]
        runs = [
            _run(arm, made.chosen[arm.track, arm.variant], seed)
            for arm in wanted
            for seed in rule.seeds[:pairs]
        ]
        names = ", ".join(in_words(each, rule) for each in active)
        yield f"{pairs} pairs, of at most {rule.looks[-1]}, of {names}", runs + other
        other = []
        _stop(made, active, pairs, recorded)


def in_words(compared: Compared, rule: Rule) -> str:
    """`idea on sequence`, with what it is compared with where that is not the baseline."""
    track, baseline, idea = compared
    return f"{idea} on {track}" + (f" against {baseline}" if baseline != rule.baseline else "")


def path(made: Course, compared: Compared, pairs: int, recorded: Recorded) -> tuple[Array, Array]:
    """Test scores of a baseline and an idea on the first `pairs` reported seeds, (pairs,) each.

    NaN where a run diverged.
    """
    of_track = {arm.variant: arm for arm in made.rule.of_track(compared.track)}
    one, other = (
        np.array(
            [
                recorded[_run(arm, made.chosen[arm.track, arm.variant], seed).identity].test
                for seed in made.rule.seeds[:pairs]
            ]
        )
        for arm in (of_track[compared.baseline], of_track[compared.idea])
    )
    return one, other


def _stop(made: Course, active: list[Compared], pairs: int, recorded: Recorded) -> None:
    """Look, and note which comparisons need no further pair."""
    rule, seen = made.rule, list[Compared]()
    for first in active:
        family = rule.family_of(first.track)
        if first in seen:
            continue
        seen += family
        stops = [made.stops.get(each) for each in family]
        scores = [
            path(made, each, stop.pairs if stop else pairs, recorded)
            for each, stop in zip(family, stops, strict=True)
        ]
        found = look(
            [idea - one for one, idea in scores],
            [abs(float(one.mean())) * rule.margin_pct / 100 for one, _ in scores],
            made.looks(first.track),
            rule.alpha,
            rule.futility,
        )
        for each, why in zip(family, found, strict=True):
            if each in active and why:
                made.stops[each] = Stop(pairs, why)


def look(
    paths: Sequence[Array],
    margins: Sequence[float],
    looks: Sequence[int],
    alpha: float,
    futility: float,
) -> list[Why | None]:
    """Look at a family: why each comparison needs no further pair; None where it does.

    A rejected null passes its level on to the others (Holm); one that was given up, or found
    equivalent, does not (Maurer & Bretz 2013, Statistics in Biopharmaceutical Research 5).

    Args:
        paths: of each comparison, its differences so far, NaN where a run diverged; one that was
            stopped keeps those that it had then.
        margins: of equivalence, in units of the metric.
    """
    finite = [bool(np.isfinite(d).all()) for d in paths]
    p = holm(
        [
            sequential.sequential_p(d, looks) if ok else None
            for d, ok in zip(paths, finite, strict=True)
        ]
    )
    p_equivalence = holm(
        [
            sequential.equivalence(d, looks, margin) if ok else None
            for d, margin, ok in zip(paths, margins, finite, strict=True)
        ]
    )
    rejected = sum(each is not None and each <= alpha for each in p)
    level = alpha / max(1, len(paths) - rejected)  # of those that are left
    return [
        _why(d, looks, one, same, alpha, level, futility)
        for d, one, same in zip(paths, p, p_equivalence, strict=True)
    ]


def _why(
    d: Array,
    looks: Sequence[int],
    p: float | None,
    p_equivalence: float | None,
    alpha: float,
    level: float,
    futility: float,
) -> Why | None:
    if p is None:
        return Why.DIVERGED
    if p <= alpha:
        return Why.DECIDED
    if not d.any() or (p_equivalence is not None and p_equivalence <= alpha):
        return Why.EQUIVALENT
    if d.size >= looks[-1]:
        return Why.LAST
    return Why.FUTILE if sequential.conditional_power(d, looks, level) < futility else None
