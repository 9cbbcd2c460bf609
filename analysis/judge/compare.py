"""Two arms of one track, paired by seed: the runs, and what their scores say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from analysis.errors import AnalysisError
from analysis.judge import sequential, statistics
from analysis.judge.budgets import AtBudget, at_budgets
from analysis.judge.design import Course, Stop
from analysis.judge.noise import Noise, noise
from analysis.judge.select import Arm, Selection, select
from analysis.read.gather import Gathered
from analysis.read.recorded import RecordedRun, read_examples
from analysis.read.rules import Rules
from analysis.text import how_many
from records.design import Compared
from records.files import EXAMPLES
from records.identity import Identity, in_order, sorted_hyper
from records.reading import Unreadable
from records.record import Expected, Metric, PlannedRun

Examples = NDArray[np.floating]  # every test example's score
Read = tuple[Examples | None, list[str]]  # and what could not be read
Kept = dict[tuple[str, str], Read]  # folder and metric → its examples, as far as they were read


@dataclass(frozen=True)
class Side:
    """One arm of a comparison."""

    arm: Arm
    selection: Selection
    paired: tuple[RecordedRun, ...]  # the selected configuration's runs, in seed order of the pairs

    @property
    def name(self) -> str:
        """The variant's name."""
        return self.arm.variant

    @property
    def selected(self) -> dict[int, RecordedRun]:
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
    ci_signflip_family: statistics.Interval | None = None  # at 1 − alpha/m; of m > 1 comparisons
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
    looks: tuple[sequential.Look, ...] = ()  # made so far, of a tuned design
    median_unbiased: float | None = None  # of a tuned design, beside its plain mean
    noise: Noise | None = None


@dataclass(frozen=True)
class Comparison:
    """An idea against its baseline on one track."""

    track: str
    length: int  # of the test examples that it is made by, times the trained context
    metric: Metric
    baseline: Side
    idea: Side
    seeds: tuple[int, ...]  # of the pairs, ascending
    effect: Effect
    rules: Rules
    family: str  # of the comparisons that are judged together: a track, or the word all
    family_size: int  # how many these are, also those that left no record
    planned: int  # runs that the sweeps' plans hold for these arms; 0 without a plan
    missing: tuple[PlannedRun, ...]  # of these, the ones that left no record
    unplanned: tuple[RecordedRun, ...]  # runs that stand in none of the plans
    unreadable: tuple[str, ...]  # path and reason of files that could not be used
    further_splits: Mapping[str, Effect]  # by test splits that nothing is chosen or decided on
    budgets: tuple[AtBudget, ...]  # the difference at each training budget; empty of 1 alone
    design: Course | None = None  # that decided on its runs; None: every combination was run

    @property
    def sides(self) -> tuple[Side, Side]:
        """Baseline and idea."""
        return self.baseline, self.idea

    @property
    def is_unfinished(self) -> bool:
        """Whether runs are missing that are not to be done without; of a design, all of them."""
        return bool(self.missing) and not (self.rules.partial and self.design is None)

    @property
    def stop(self) -> Stop | None:
        """Where a tuned design ended this idea's path; None while it is under way."""
        key = Compared(self.track, self.baseline.name, self.idea.name)
        return self.design.stops.get(key) if self.design else None

    @property
    def place(self) -> str:
        """The track, and how much longer than trained its examples are, where they are."""
        return (
            self.track if self.length == 1 else f"{self.track} at {self.length} times the context"
        )

    @property
    def expected(self) -> Expected | None:
        """What was published of it, as far as that was said before."""
        for each in self.rules.expects:
            named = {each.baseline} if each.baseline else self.idea.arm.baselines
            if (each.idea, each.length) == (self.idea.name, self.length) and (
                self.baseline.name in named
            ):
                return each
        return None


@dataclass
class Matched:
    """Which arms are compared with which, and which cannot be."""

    pairs: list[tuple[Arm, Arm]]  # baseline and idea: by track, contrasts last, by their names
    absent: list[str]  # a sentence for every arm that left no record
    absent_ideas: list[str]  # the track of each comparison that was planned and cannot be made


def match(
    arms: Mapping[tuple[str, str], Arm],
    planned: Iterable[PlannedRun],
    rules: Rules,
    baseline: str | None = None,
) -> Matched:
    """Pair every idea arm with the baseline that its runs name, or with `baseline`; then contrasts.

    Raises:
        AnalysisError: no pair can be made.
    """
    matched = Matched([], [], [])
    baselines = {name for arm in arms.values() for name in arm.baselines}
    if baseline is not None:
        baselines = {baseline}
    contrasts: list[tuple[Arm, Arm]] = []
    counts = Counter[tuple[str, str]]()
    for run in planned:
        counts[run.track, run.variant] += run.is_full
    for (track, variant), count in counts.items():
        if (track, variant) not in arms and count == 0:
            matched.absent.append(f"{variant} on {track} has no run of the whole training budget.")
        elif (track, variant) not in arms:
            matched.absent.append(
                f"{variant} on {track} left no record of {how_many(count, 'planned run')}."
            )
            if variant not in baselines:
                matched.absent_ideas.append(track)
    for (track, variant), arm in arms.items():
        for name in sorted(arm.baselines) if baseline is None else [baseline]:
            if name == variant:
                continue
            if (track, name) in arms:
                matched.pairs.append((arms[track, name], arm))
            else:
                matched.absent.append(f"{variant} on {track} has no baseline: {name} is not there.")
                matched.absent_ideas.append(track)
    for idea, other in rules.contrasts:
        there = {track for track, variant in {*arms, *counts} if variant in (idea, other)}
        for track in sorted(there):
            pair = arms.get((track, other)), arms.get((track, idea))
            if pair[0] and pair[1]:
                contrasts.append((pair[0], pair[1]))
            else:
                gone = " and ".join(
                    name for name, arm in ((other, pair[0]), (idea, pair[1])) if arm is None
                )
                matched.absent.append(f"{idea} against {other} on {track}: {gone} is not there.")
                matched.absent_ideas.append(track)
    if not matched.pairs and (baseline is not None or not contrasts):
        found = ", ".join(f"{variant} on {track}" for track, variant in arms)
        raise AnalysisError(
            " ".join(
                [
                    f"nothing to compare: found only {found}.",
                    *matched.absent,
                    "Run the arm that is missing on the same track, or say --baseline NAME "
                    "with an arm that was found.",
                ]
            )
        )

    def names(pair: tuple[Arm, Arm]) -> tuple[str, str, str]:
        return pair[0].track, pair[0].variant, pair[1].variant

    done = {frozenset(names(pair)) for pair in matched.pairs}
    matched.pairs.sort(key=names)
    matched.pairs += [pair for pair in contrasts if frozenset(names(pair)) not in done]
    matched.pairs.sort(key=lambda pair: pair[0].track)
    return matched


def compare(
    matched: Matched, found: Gathered, rules: Rules, courses: Sequence[Course] = ()
) -> list[Comparison]:
    """Select each arm's hyper, pair the runs by seed and measure the effect.

    `courses`: of the sweeps that have a tuned design.
    """
    designs = {each: made for made in courses for each in made.rule.comparisons()}
    recorded = {run.record.identity for run in found.runs}
    asked = {run.identity for run in found.planned}
    planned: dict[tuple[str, str], dict[Identity, PlannedRun]] = {}
    for run in found.planned:
        if run.is_full:  # the others decide nothing
            planned.setdefault((run.track, run.variant), {})[run.identity] = run

    def family(track: str) -> str:
        return track if rules.family == "track" else "all"

    on = cache(Arm.on)  # of an arm and a split one arm, so that it is read once
    pairs = [
        (length, (on(baseline, split), on(idea, split)))
        for baseline, idea in matched.pairs
        for length, split in _judged_splits((baseline, idea), rules).items()
    ]
    pairs.sort(key=lambda each: (each[1][0].track, each[0]))
    sizes = Counter(family(idea.track) for _, (_, idea) in pairs)
    absent = Counter(map(family, matched.absent_ideas))
    sizes += Counter({of: n * (1 + len(rules.lengths)) for of, n in absent.items()})
    comparisons: list[Comparison] = []
    of_baseline: Kept = {}  # a baseline's examples are read once for all ideas
    for length, arms in pairs:
        if comparisons and comparisons[-1].baseline.arm is not arms[0]:
            of_baseline.clear()
        design = designs.get(Compared(arms[1].track, arms[0].variant, arms[1].variant))
        ruled = _ruled(arms, design) if design else arms
        baseline, idea = pair_up(*ruled, rules, design)
        track, metric, size = idea.arm.track, arms[0].runs[0].metric, sizes[family(arms[1].track)]
        due = {
            identity: run
            for arm in arms
            for identity, run in planned.get((track, arm.variant), {}).items()
        }
        unplanned = [
            run
            for arm in arms
            for run in (*arm.runs, *arm.at_other_budgets)
            if run.record.identity not in asked
        ]
        of_idea: Kept = {}
        ulps = _ulps_apart(baseline, idea, of_baseline, of_idea)
        looks = design.looks(track) if design else None
        effect = measure(baseline.scores, idea.scores, metric.direction, rules, size, looks)
        if effect.delta_mean is not None:
            effect = replace(
                effect,
                inert_ulps=ulps,
                p_selection_aware=_selection_aware_p(baseline, idea, metric.direction, rules),
                noise=noise_of(baseline, idea, effect.d, of_baseline, of_idea),
            )
        folders = {run.folder for run in baseline.paired}
        read = [each for (folder, _), each in of_baseline.items() if folder in folders]
        problems = [problem for _, found in (*read, *of_idea.values()) for problem in found]
        comparisons.append(
            Comparison(
                track=track,
                length=length,
                metric=metric,
                baseline=baseline,
                idea=idea,
                seeds=tuple(run.record.seed for run in idea.paired),
                effect=effect,
                rules=rules,
                family=family(track),
                family_size=size,
                planned=len(due),
                missing=tuple(run for identity, run in due.items() if identity not in recorded),
                unplanned=tuple(unplanned),
                unreadable=(*found.unreadable, *problems),
                further_splits=_further_splits(baseline, idea, metric, rules)
                if length == 1
                else {},
                budgets=at_budgets(*ruled, (baseline.selection.best.key, idea.selection.best.key)),
                design=design,
            )
        )
    return comparisons


def _judged_splits(arms: tuple[Arm, Arm], rules: Rules) -> dict[int, str]:
    """The test splits that comparisons are made by, by their length, times the trained context.

    Raises:
        AnalysisError: a run of either arm was not tested at one.
    """
    found = {1: "test"}
    for run in (run for arm in arms for run in arm.runs if not run.diverged):
        for length in rules.lengths:
            found[length] = f"test@{length * (run.record.context or 0)}"
            if found[length] not in run.record.scores:
                raise AnalysisError(
                    f"analysis.lengths declares {length} times the context, at which "
                    f"{run.record.variant} on {run.record.track} was not tested: {run.folder}"
                )
    return found


def _ruled(arms: tuple[Arm, Arm], design: Course) -> tuple[Arm, Arm]:
    """The runs of both arms that the design's rule asked for, of the reported seeds up to its stop.

    What else was found tells nothing; an arm of which the rule has no run yet stays as it is.
    """
    idea = arms[1]
    asked = {run.identity for run in design.runs}
    stop = design.stops.get(Compared(idea.track, arms[0].variant, idea.variant))
    late = set(design.rule.seeds[stop.pairs :]) if stop else set()

    def ruled(arm: Arm) -> Arm:
        kept = Arm(arm.track, arm.variant, duplicates=arm.duplicates, baselines=arm.baselines)
        for hyper, by_seed in arm.grid.items():
            runs = {
                seed: run
                for seed, run in by_seed.items()
                if run.record.identity in asked and seed not in late
            }
            if runs:
                kept.grid[hyper] = runs
        for factor, by_hyper in arm.other_budgets.items():
            kept.other_budgets[factor] = {
                hyper: {seed: run for seed, run in runs.items() if run.record.identity in asked}
                for hyper, runs in by_hyper.items()
            }
        return kept if kept.grid else arm

    return ruled(arms[0]), ruled(idea)


def pair_up(
    baseline: Arm, idea: Arm, rules: Rules, design: Course | None = None
) -> tuple[Side, Side]:
    """Select the hyper of each arm, unless a design has, and pair the runs of the two by seed."""
    decided = design.chosen if design else {}
    direction = baseline.runs[0].metric.direction
    chosen = [
        select(
            arm,
            other.seeds & (rules.tuning_seeds or other.seeds),
            direction,
            sorted_hyper(decided.get((arm.track, arm.variant), {})),
        )
        for arm, other in ((baseline, idea), (idea, baseline))
    ]
    shared = chosen[0].best.runs.keys() & chosen[1].best.runs.keys()
    seeds = sorted(shared - rules.unreported)
    one, other = (
        Side(arm, selection, tuple(selection.best.runs[seed] for seed in seeds))
        for arm, selection in zip((baseline, idea), chosen, strict=True)
    )
    return one, other


def measure(
    baseline: statistics.Array,
    idea: statistics.Array,
    direction: statistics.Direction,
    rules: Rules,
    comparisons: int,
    looks: Sequence[int] | None = None,
) -> Effect:
    """All statistics of two arms' test scores, (pairs,) each in seed order.

    Args:
        comparisons: how many there are in the family.
        looks: of a tuned design: p-values, the interval shown and the least effect that can be
            found are then those of its looks.
    """
    d = idea - baseline
    counts, p_min = statistics.count_wins(d, direction), statistics.smallest_p(d)
    with np.errstate(over="ignore"):
        if d.size == 0 or not np.isfinite([d.sum(), baseline.sum(), idea.sum()]).all():
            return Effect(d, counts, p_min)
    level = abs(float(baseline.mean()))
    margin = level * rules.margin_pct / 100
    mde = statistics.minimal_detectable_effect(d, rules.alpha, comparisons)
    sd = statistics.spread(d)
    p_value = statistics.sign_flip_p(d)
    p_min = min(p_min, p_value)  # of drawn flips a few more or less may count
    improved, improved_ci = statistics.probability_of_improvement(counts)
    effect = Effect(
        d,
        counts,
        p_min,
        delta_mean=float(d.mean()),
        p_value=p_value,
        ci=statistics.t_interval(d, rules.alpha),
        ci_signflip=statistics.sign_flip_interval(d, rules.alpha),
        ci_signflip_family=statistics.sign_flip_interval(d, rules.alpha / comparisons)
        if comparisons > 1
        else None,
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
    return _over_looks(effect, looks, rules.alpha, comparisons, level) if looks else effect


def _over_looks(
    effect: Effect, looks: Sequence[int], alpha: float, comparisons: int, level: float
) -> Effect:
    """The same effect with what holds of all looks together in place of what holds of one."""
    d = effect.d
    mde = sequential.minimal_detectable_effect(d, looks, alpha / comparisons)
    p_value = sequential.sequential_p(d, looks)
    family = alpha / comparisons
    return replace(
        effect,
        p_value=p_value,
        p_min=min(sequential.least_p(looks), p_value),
        ci_signflip=sequential.interval(d, looks, alpha),
        ci_signflip_family=sequential.interval(d, looks, family) if comparisons > 1 else None,
        p_equivalence=sequential.equivalence(d, looks, effect.margin or 0.0),
        mde=mde,
        mde_rel_pct=None if mde is None or level == 0 else 100 * mde / level,
        looks=tuple(sequential.look_at(d, looks, family)),
        median_unbiased=sequential.median_unbiased(d, looks, family),
    )


def _further_splits(baseline: Side, idea: Side, metric: Metric, rules: Rules) -> dict[str, Effect]:
    """The effect on every further test split that all runs of the pairs have; uncorrected."""
    runs = [*baseline.paired, *idea.paired]
    if not runs:
        return {}
    splits = set.intersection(*(set(run.scores(metric.name)) for run in runs))

    def scores(side: Side, split: str) -> statistics.Array:
        return np.array([run.score(metric.name, split) for run in side.paired], dtype=np.float64)

    judged = _judged_splits((baseline.arm, idea.arm), rules).values()
    return {
        split: measure(scores(baseline, split), scores(idea, split), metric.direction, rules, 1)
        for split in sorted(splits - {"validation", *judged})
    }


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
        for hyper in sorted(grids[0], key=in_order)
        if not any(grid[hyper][seed].diverged for grid in grids for seed in seeds)
    ]
    if not {baseline.selection.best.key, idea.selection.best.key} <= set(usable):
        return None
    arms = [
        statistics.Tuned(
            np.array([[grid[hyper][seed].validation for hyper in usable] for seed in seeds]),
            np.array([[grid[hyper][seed].test for hyper in usable] for seed in seeds]),
        )
        for grid in grids
    ]
    return statistics.selection_aware_p(arms[0], arms[1], direction)


def _ulps_apart(baseline: Side, idea: Side, of_baseline: Kept, of_idea: Kept) -> float | None:
    """Largest difference over all pairs by a metric that cannot tie.

    Over the test examples where both runs of a pair kept them, else over the mean test scores;
    None where there is no pair, one diverged, only metrics that can tie are known, or all that is
    compared is 0: scores that have underflowed tell no model from another.

    Args:
        of_baseline, of_idea: the examples of either side's runs; what is read is added.
    """
    ones, others = list[Examples](), list[Examples]()
    for pair in zip(baseline.paired, idea.paired, strict=True):
        metric = pair[0].smooth
        if metric is None or metric != pair[1].smooth or any(run.diverged for run in pair):
            return None
        one, other = _examples(pair[0], metric, of_baseline), _examples(pair[1], metric, of_idea)
        if one is None or other is None or one.shape != other.shape:
            one, other = (np.array([run.score(metric, run.split)]) for run in pair)
        ones.append(one.ravel())
        others.append(other.ravel())
    if not any(each.any() for each in (*ones, *others)):
        return None
    return statistics.ulps_apart(np.concatenate(ones), np.concatenate(others))


def noise_of(
    baseline: Side, idea: Side, d: statistics.Array, of_baseline: Kept, of_idea: Kept
) -> Noise | None:
    """Where the spread of `d`, the differences of these sides, comes from; None without spread.

    Args:
        of_baseline, of_idea: the examples of either side's runs; what is read is added.
    """
    if statistics.spread(d) is None:
        return None
    pairs = list(zip(baseline.paired, idea.paired, strict=True))
    differences: list[statistics.Array | None] = []
    for pair in pairs:
        one = _examples(pair[0], pair[0].metric.name, of_baseline)
        other = _examples(pair[1], pair[1].metric.name, of_idea)
        if one is None or other is None or one.ndim != 1 or one.shape != other.shape:
            differences.append(None)
        else:
            differences.append(other.astype(np.float64) - one)
    return noise(
        d,
        differences,
        [run.overlap for pair in pairs for run in pair],
        [(one.record.hashes.data, other.record.hashes.data) for one, other in pairs],
    )


def _examples(run: RecordedRun, metric: str, kept: Kept) -> Examples | None:
    """A run's examples; what is read, or cannot be, is kept."""
    if (run.folder, metric) not in kept:
        try:
            kept[run.folder, metric] = read_examples(run, metric), []
        except Unreadable as error:
            kept[run.folder, metric] = None, [f"{run.folder}/{EXAMPLES}: {error}"]
    return kept[run.folder, metric][0]
