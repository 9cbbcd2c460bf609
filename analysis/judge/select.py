"""Arms, and which hyper stands for each: chosen on validation scores, never on test."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from analysis.errors import AnalysisError
from analysis.judge.statistics import Direction
from analysis.read.recorded import RecordedRun
from records.identity import FULL, Hyper, HyperKey, Identity, in_order


@dataclass(eq=False)
class Arm:
    """All runs of one variant on one track, from however many sweeps."""

    track: str
    variant: str
    # hyper → seed → run
    grid: dict[HyperKey, dict[int, RecordedRun]] = field(default_factory=dict)
    duplicates: list[tuple[RecordedRun, RecordedRun]] = field(
        default_factory=list
    )  # kept, left out
    baselines: set[str] = field(default_factory=set)  # named by its runs
    # budget's factor → hyper → seed → run, of factors other than 1; nothing else looks at them
    other_budgets: dict[float, dict[HyperKey, dict[int, RecordedRun]]] = field(default_factory=dict)

    @cached_property
    def runs(self) -> list[RecordedRun]:
        """One run per hyper and seed."""
        return [run for by_seed in self.grid.values() for run in by_seed.values()]

    @cached_property
    def at_other_budgets(self) -> list[RecordedRun]:
        """One run per factor, hyper and seed."""
        grids = self.other_budgets.values()
        return [run for grid in grids for by_seed in grid.values() for run in by_seed.values()]

    @cached_property
    def seeds(self) -> set[int]:
        """Seeds that any of its configurations was run with."""
        return {seed for by_seed in self.grid.values() for seed in by_seed}

    def on(self, split: str) -> Arm:
        """The same arm, its runs to be compared by this test split."""
        if split == "test":
            return self

        def moved(
            grid: dict[HyperKey, dict[int, RecordedRun]],
        ) -> dict[HyperKey, dict[int, RecordedRun]]:
            return {
                hyper: {seed: replace(run, split=split) for seed, run in runs.items()}
                for hyper, runs in grid.items()
            }

        other = {factor: moved(grid) for factor, grid in self.other_budgets.items()}
        return replace(self, grid=moved(self.grid), other_budgets=other)

    def at(self, factor: float, hyper: HyperKey) -> dict[int, RecordedRun]:
        """The runs of one configuration at one budget: seed → run."""
        grid = self.grid if factor == FULL else self.other_budgets.get(factor, {})
        return grid.get(hyper, {})


@dataclass(frozen=True)
class Candidate:
    """One configuration of an arm. Its means are over the seeds that selection compares."""

    key: HyperKey  # its hyper, sorted
    runs: dict[int, RecordedRun]  # seed → run
    validation: tuple[float, ...]  # score per seed compared; NaN where the run diverged
    test: tuple[float, ...]

    @property
    def hyper(self) -> Hyper:
        """With the keys in the order in which the run wrote them."""
        return next(iter(self.runs.values())).record.hyper

    @property
    def diverged(self) -> int:
        """Number of its runs that diverged, on any seed."""
        return sum(run.diverged for run in self.runs.values())


@dataclass(frozen=True)
class Selection:
    """The best of an arm's candidates, and the seeds that it was chosen on."""

    best: Candidate
    candidates: tuple[Candidate, ...]  # in order of their hyper
    shared: frozenset[int]  # seeds that all candidates and the other arm have
    compared: tuple[int, ...]  # of these, the ones whose scores decided


def group(runs: Iterable[RecordedRun]) -> dict[tuple[str, str], Arm]:
    """Runs by (track, variant), sorted; of two runs of one identity the first is kept.

    An arm's runs of another training budget than the declared one are kept apart; an arm that has
    no others is left out.

    Raises:
        AnalysisError: no run trained for the declared budget.
    """
    arms: dict[tuple[str, str], Arm] = {}
    kept: dict[Identity, RecordedRun] = {}
    for run in runs:
        track, variant, seed, hyper, factor = identity = run.record.identity
        arm = arms.setdefault((track, variant), Arm(track, variant))
        if factor != FULL:
            by_hyper = arm.other_budgets.setdefault(factor, {})
            by_hyper.setdefault(hyper, {}).setdefault(seed, run)
            continue
        if run.record.baseline is not None:
            arm.baselines.add(run.record.baseline)
        if identity in kept:
            arm.duplicates.append((kept[identity], run))
        else:
            kept[identity] = arm.grid.setdefault(hyper, {})[seed] = run
    full = {name: arm for name, arm in sorted(arms.items()) if arm.grid}
    if arms and not full:
        factors = sorted({factor for arm in arms.values() for factor in arm.other_budgets})
        raise AnalysisError(
            f"no run of the whole training budget, which alone is judged: found only budget="
            f"{','.join(f'{factor:g}' for factor in factors)}; train budget=1 as well, and name "
            "both sweeps"
        )
    return full


def select(
    arm: Arm, seeds: set[int], direction: Direction, decided: HyperKey | None = None
) -> Selection:
    """Choose the hyper with the fewest diverged runs, then the best mean validation score.

    Both are taken over the seeds that all candidates share and that stand in `seeds` (those of
    the other arm, or of these the ones kept for tuning), so that no configuration wins by lacking
    a hard seed; the mean, over those of them on which none of the candidates still in the race
    diverged. If that leaves no seed, the configuration with the most runs stands in, for whatever
    scores it has.

    Args:
        decided: the hyper that a design has chosen already, whatever else is now judged by.
    """
    shared = set.intersection(seeds, *(set(by_seed) for by_seed in arm.grid.values()))
    failures = {
        hyper: sum(by_seed[seed].diverged for seed in shared) for hyper, by_seed in arm.grid.items()
    }
    fewest = min(failures.values())
    racing = [by_seed for hyper, by_seed in arm.grid.items() if failures[hyper] == fewest]
    compared = sorted(
        seed for seed in shared if not any(by_seed[seed].diverged for by_seed in racing)
    )
    candidates = [
        Candidate(
            hyper,
            by_seed,
            tuple(by_seed[seed].validation for seed in compared),
            tuple(by_seed[seed].test for seed in compared),
        )
        for hyper, by_seed in sorted(arm.grid.items(), key=lambda item: in_order(item[0]))
    ]
    sign = 1 if direction == "min" else -1

    def badness(candidate: Candidate) -> tuple[int, float, int]:
        mean = sign * float(np.mean(candidate.validation)) if compared else 0.0
        return failures[candidate.key], mean, -len(candidate.runs)

    best = min(candidates, key=lambda candidate: (candidate.key != decided, *badness(candidate)))
    return Selection(best, tuple(candidates), frozenset(shared), tuple(compared))
