"""Two arms of one track, paired by seed: the runs, and what their scores say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from analysis import statistics
from analysis.errors import AnalysisError
from analysis.gather import Gathered
from analysis.record import Identity, Metric, PlannedRun, Run, Unreadable, read_examples
from analysis.rules import Rules
from analysis.select import Arm, Selection, select


@dataclass(frozen=True)
class Side:
    """One arm of a comparison."""

    arm: Arm
    selection: Selection
    paired: tuple[Run, ...]  # the selected configuration's runs, in seed order of the pairs

    @property
    def name(self) -> str:
        """The variant's name."""
        return self.arm.variant

    @property
    def selected(self) -> dict[int, Run]:
        """All runs of the selected configuration, paired or not: seed → run."""
        return self.selection.best.runs

    @property
    def scores(self) -> statistics.Array:
        """Test scores (pairs,) in seed order; NaN where a run diverged."""
        return np.array([run.test for run in self.paired], dtype=np.float64)


@dataclass(frozen=True)
class Effect:
    """The statistics of one comparison; None where a number does not exist."""

    d: statistics.Array  # (pairs,) idea − baseline in seed order; NaN where a run diverged
    counts: statistics.Counts
    p_min: float
    delta_mean: float | None = None
    p_value: float | None = None
    p_selection_aware: float | None = None
    ci: statistics.Interval | None = None
    ci_signflip: statistics.Interval | None = None
    dz: float | None = None
    hedges_g: float | None = None
    prob_improvement: float | None = None
    prob_improvement_ci: statistics.Interval | None = None
    pairing_rho: float | None = None
    mde: float | None = None
    mde_rel_pct: float | None = None
    margin: float | None = None
    seeds_needed: int | None = None  # to find an effect of the margin's size
    p_equivalence: float | None = None
    inert_ulps: float | None = None


@dataclass(frozen=True)
class Comparison:
    """An idea against its baseline on one track."""

    track: str
    metric: Metric
    baseline: Side
    idea: Side
    seeds: tuple[int, ...]  # of the pairs, ascending
    effect: Effect
    family_size: int  # comparisons judged together
    planned: int  # runs that the sweeps' plans hold for these arms; 0 without a plan
    missing: tuple[PlannedRun, ...]  # of these, the ones that left no record
    unplanned: tuple[Run, ...]  # runs that stand in none of the plans, where there is a plan
    unreadable: tuple[str, ...]  # path and reason of files that could not be used

    @property
    def sides(self) -> tuple[Side, Side]:
        """Baseline and idea."""
        return self.baseline, self.idea


def match(
    arms: Mapping[tuple[str, str], Arm],
    planned: Iterable[PlannedRun],
    baseline: str | None = None,
) -> tuple[list[tuple[Arm, Arm]], list[str]]:
    """Pair every idea arm with the baseline that its runs name, or with `baseline`.

    Returns (baseline arm, idea arm) sorted by track, baseline, idea; and a sentence for every arm
    that is absent: named as baseline or planned, but without any record.

    Raises:
        AnalysisError: no pair can be made.
    """
    pairs, absent = [], []
    for (track, variant), count in Counter((run.track, run.variant) for run in planned).items():
        if (track, variant) not in arms:
            absent.append(f"{variant} on {track} left no record of {count} planned runs.")
    for (track, variant), arm in arms.items():
        for name in sorted(arm.baselines) if baseline is None else [baseline]:
            if name == variant:
                continue
            if (track, name) in arms:
                pairs.append((arms[track, name], arm))
            else:
                absent.append(f"{variant} on {track} has no baseline: {name} left no record.")
    if not pairs:
        found = ", ".join(f"{variant} on {track}" for track, variant in arms)
        raise AnalysisError(
            " ".join(
                [
                    f"nothing to compare: found only {found}.",
                    *absent,
                    "Run the arm that is missing on the same track, or say --baseline NAME "
                    "with an arm that was found.",
                ]
            )
        )
    pairs.sort(key=lambda pair: (pair[0].track, pair[0].variant, pair[1].variant))
    return pairs, absent


def compare(pairs: Sequence[tuple[Arm, Arm]], found: Gathered, rules: Rules) -> list[Comparison]:
    """Select each arm's hyper, pair the runs by seed and measure the effect."""
    recorded = {run.record.identity for run in found.runs}
    planned: dict[tuple[str, str], dict[Identity, PlannedRun]] = {}
    for run in found.planned:
        planned.setdefault((run.track, run.variant), {})[run.identity] = run

    comparisons = []
    for baseline, idea in pairs:
        metric = baseline.runs[0].metric
        selections = tuple(
            select(arm, other.seeds & (rules.tuning_seeds or other.seeds), metric.direction)
            for arm, other in ((baseline, idea), (idea, baseline))
        )
        both = set.intersection(*(set(chosen.best.runs) for chosen in selections))
        seeds = sorted(both - rules.tuning_seeds)
        one, other = (
            Side(arm, chosen, tuple(chosen.best.runs[seed] for seed in seeds))
            for arm, chosen in zip((baseline, idea), selections, strict=True)
        )
        size = sum(rules.family == "all" or each.track == idea.track for _, each in pairs)
        due = {
            identity: run
            for arm in (baseline, idea)
            for identity, run in planned.get((arm.track, arm.variant), {}).items()
        }
        ulps, problems = _ulps_apart(one, other)
        effect = measure(one.scores, other.scores, metric.direction, rules, size)
        if effect.delta_mean is not None:
            aware = _selection_aware_p(one, other, metric.direction, rules)
            effect = replace(effect, inert_ulps=ulps, p_selection_aware=aware)
        comparisons.append(
            Comparison(
                track=idea.track,
                metric=metric,
                baseline=one,
                idea=other,
                seeds=tuple(seeds),
                effect=effect,
                family_size=size,
                planned=len(due),
                missing=tuple(run for identity, run in due.items() if identity not in recorded),
                unplanned=tuple(
                    run
                    for arm in (baseline, idea)
                    for run in arm.runs
                    if found.planned and run.record.identity not in due
                ),
                unreadable=(*found.unreadable, *problems),
            )
        )
    return comparisons


def measure(
    baseline: statistics.Array,
    idea: statistics.Array,
    direction: statistics.Direction,
    rules: Rules,
    comparisons: int,
) -> Effect:
    """All statistics of two arms' test scores, (pairs,) each in seed order.

    `comparisons`: how many there are in the family.
    """
    d = idea - baseline
    counts, p_min = statistics.count_wins(d, direction), statistics.smallest_p(d)
    if d.size == 0 or not np.isfinite(d).all():
        return Effect(d, counts, p_min)
    level = abs(float(baseline.mean()))
    margin = level * rules.margin_pct / 100
    mde = statistics.minimal_detectable_effect(d, rules.alpha / comparisons)
    sd = statistics.spread(d)
    improved, improved_ci = statistics.probability_of_improvement(counts)
    return Effect(
        d,
        counts,
        p_min,
        delta_mean=float(d.mean()),
        p_value=statistics.sign_flip_p(d),
        ci=statistics.t_interval(d),
        ci_signflip=statistics.sign_flip_interval(d),
        dz=statistics.standardised_mean(d),
        hedges_g=statistics.hedges_g(d),
        prob_improvement=improved,
        prob_improvement_ci=improved_ci,
        pairing_rho=statistics.pairing_correlation(baseline, idea),
        mde=mde,
        mde_rel_pct=None if mde is None or level == 0 else 100 * mde / level,
        margin=margin,
        seeds_needed=statistics.seeds_needed(margin, sd, comparisons, rules.alpha)
        if sd and margin
        else None,
        p_equivalence=statistics.equivalence_p(d, margin),
    )


def _selection_aware_p(
    baseline: Side, idea: Side, direction: statistics.Direction, rules: Rules
) -> float | None:
    """p with the selection redone inside every flip.

    None where that cannot be done: the grids differ, a configuration lacks a seed of the pairs, or
    a chosen one diverged in the other arm; and where other seeds chose, as it needs no correction.
    """
    seeds = [run.record.seed for run in baseline.paired]
    grids = baseline.arm.grid, idea.arm.grid
    if rules.tuning_seeds or set(grids[0]) != set(grids[1]):
        return None
    if any(seed not in by_seed for grid in grids for by_seed in grid.values() for seed in seeds):
        return None
    usable = [
        hyper
        for hyper in sorted(grids[0])
        if not any(grid[hyper][seed].diverged for grid in grids for seed in seeds)
    ]
    if not {baseline.selection.best.hyper, idea.selection.best.hyper} <= set(usable):
        return None
    arms = [
        statistics.Tuned(
            np.array([[grid[hyper][seed].validation for hyper in usable] for seed in seeds]),
            np.array([[grid[hyper][seed].test for hyper in usable] for seed in seeds]),
        )
        for grid in grids
    ]
    return statistics.selection_aware_p(arms[0], arms[1], direction)


def _ulps_apart(baseline: Side, idea: Side) -> tuple[float | None, list[str]]:
    """Largest difference over all pairs, and what could not be read.

    Over the per-example test losses where both runs of a pair kept them, else over the test
    scores; None where there is no pair, or one diverged.
    """
    apart, problems = [], []
    for pair in zip(baseline.paired, idea.paired, strict=True):
        kept = []
        for run in pair:
            try:
                kept.append(read_examples(run.folder))
            except Unreadable as error:
                problems.append(f"{run.folder / 'examples.npz'}: {error}")
                kept.append(None)
        if any(run.diverged for run in pair):
            return None, problems
        if kept[0] is None or kept[1] is None or kept[0].shape != kept[1].shape:
            apart.append(statistics.ulps_apart(pair[0].test, pair[1].test))
        else:
            apart.append(statistics.ulps_apart(kept[0], kept[1]))
    return max(apart, default=None), problems
