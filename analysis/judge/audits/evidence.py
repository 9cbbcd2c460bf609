"""What can the data show, and were they judged as was said before?"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from itertools import groupby

import numpy as np

from analysis.judge.audits.audit import Audit, Severity, probed
from analysis.judge.compare import Comparison, Side
from analysis.judge.levels import in_range, least_level, out_of_range
from analysis.judge.statistics import (
    EXACT_UP_TO,
    INERT_ULPS,
    fewest_pairs,
    is_within,
    least_p,
    ulps_apart,
)
from analysis.read.recorded import LOSS
from analysis.text import how_many, number, rounded_up, seed_list, some
from records.probes import SPLIT_OVERLAP


def split_overlap(comparison: Comparison) -> Iterator[Audit]:
    """The test split holds examples that were trained or tuned on."""
    for side in comparison.sides:
        overlap = yield from probed(side, "split_overlap", SPLIT_OVERLAP)
        shared = {seed: count for seed, count in overlap.items() if count}
        if shared:
            yield Audit(
                "split_overlap",
                "void",
                "Train or validation also hold up to "
                f"{how_many(max(shared.values()), 'test example')} of {side.name} "
                f"(seed {seed_list(shared)}).",
                "Split the data so that no example stands in two splits.",
            )


def saturated(comparison: Comparison) -> Iterator[Audit]:
    """An arm's scores stand at the metric's bound, or do not vary where few values are taken."""
    for side in comparison.sides:
        scores = side.scores
        if not scores.size or not np.isfinite(scores).all():
            continue
        metrics = [run.metric for run in side.paired]
        metric = next((each for each in metrics if each.bounds), metrics[0])  # older ones lack them
        reached = [
            f"the {end} that {metric.name} can be"
            for end, bound in zip(("lowest", "highest"), metric.bounds or (None, None), strict=True)
            if bound is not None and ulps_apart(scores, bound) <= INERT_ULPS
        ]
        if not metric.is_smooth and scores.size > 1 and np.ptp(scores) == 0:
            reached.append("on every seed the same")
        if not reached and (name := _perfect(side)):
            yield Audit(
                "saturated",
                "warning",
                f"{side.name} is perfect by {name} on every seed: what is left of {metric.name} "
                "tells how sure it is, and little else.",
                "Take a harder task.",
            )
        if reached:
            loss = side.paired[0].smooth == LOSS
            yield Audit(
                "saturated",
                "warning",
                f"Each of {how_many(scores.size, 'test score')} of {side.name} is "
                f"{number(scores[0])}, {reached[0]}: the task cannot tell arms apart there.",
                "Take a harder task"
                + (f", or judge by what is smooth (--metric {LOSS})." if loss else "."),
            )


def _perfect(side: Side) -> str | None:
    """A secondary score that counts, as an accuracy does, and is at its best in all runs."""
    for name, first in side.paired[0].record.secondary.items():
        if not (first.can_tie and first.bounds and first.direction):
            continue
        best = first.bounds[0 if first.direction == "min" else 1]
        if best is not None and all(run.score(name, run.split) == best for run in side.paired):
            return name
    return None


def worse_than_trivial(comparison: Comparison) -> Iterator[Audit]:
    """An arm does no better than a prediction that needs no training."""
    sign = 1 if comparison.metric.direction == "min" else -1
    for side in comparison.sides:
        trivial = _trivial(side)
        score = float(side.scores.mean()) if side.scores.size else math.nan
        if not trivial or not math.isfinite(score):
            continue
        name, best = min(trivial.items(), key=lambda item: sign * item[1])
        if sign * score >= sign * best:
            yield Audit(
                "worse_than_trivial",
                "warning",
                f"{side.name} scores {number(score)} on average and {name}, which learns nothing, "
                f"{number(best)}: what is compared has not learned the task.",
                "Train for longer, over other learning rates, or take a task that it can learn.",
            )


def _trivial(side: Side) -> dict[str, float]:
    """Mean test scores of the trivial references that all its runs have, by name.

    They are by the primary metric: none where another one judges.
    """
    runs = side.paired
    if not runs or any(run.judged_by is not None for run in runs):
        return {}
    names = set.intersection(
        *({n for n, s in r.record.secondary.items() if s.is_trivial} for r in runs)
    )
    means = {
        name: float(np.mean([run.score(name, run.split) for run in runs])) for name in sorted(names)
    }
    return {name: mean for name, mean in means.items() if math.isfinite(mean)}


def few_seeds(comparison: Comparison) -> Iterator[Audit]:
    """No outcome could have been significant."""
    if comparison.seeds:
        differing = sum(bool(d != 0) for d in comparison.effect.d)
        yield from few_seeds_of(
            len(comparison.seeds),
            comparison.family_size,
            comparison.rules.alpha,
            f"{differing} of {how_many(len(comparison.seeds), 'pair')} differ",
            differing,
        )


def few_seeds_of(
    pairs: int, comparisons: int, alpha: float, said: str, differing: int | None = None
) -> Iterator[Audit]:
    """The audit for so many pairs in a family of `comparisons`, if no outcome can be significant.

    Args:
        said: how the message begins, such as `6 seeds are planned`.
        differing: pairs that are not 0; None for all, as in a plan.
    """
    differing = pairs if differing is None else differing
    if is_within(least_p(pairs, differing), comparisons, alpha):
        return
    fewest = fewest_pairs(comparisons, alpha)
    if fewest is not None and differing < fewest:
        told = (
            f"at level {alpha:g} in a family of {comparisons} at least {fewest} must differ, or no "
            "outcome can be significant"
        )
        advice = (
            f"Run at least {how_many(fewest, 'seed')}."
            if pairs < fewest
            else "Find out why the arms have the same scores."
        )
    else:
        told = out_of_range(comparisons, alpha)
        advice = (
            f"Declare a level of at least {rounded_up(least_level(comparisons))}, "
            f"which {EXACT_UP_TO} seeds can reach."
            if fewest is None
            else f"Run {in_range(fewest)}."
        )
    yield Audit("few_seeds", "warning", f"{said}; {told}.", advice)


def repeated_seed(comparison: Comparison) -> Iterator[Audit]:
    """Two seeds of an arm are one run: the same data, batches and scores."""
    for side in comparison.sides:
        seen: dict[object, list[int]] = {}
        for run in side.paired:
            hashes = run.record.hashes
            key = (hashes.data, hashes.order, str(run.validation), str(run.test))
            seen.setdefault(key, []).append(run.record.seed)
        repeated = [seed_list(seeds) for seeds in seen.values() if len(seeds) > 1]
        if repeated:
            yield Audit(
                "repeated_seed",
                "void",
                f"Seeds of {side.name} are one and the same run: {some(repeated)}.",
                "Find out why the seed changes nothing; a run that is counted twice proves nothing "
                "twice.",
            )


def fixed_data(comparison: Comparison) -> Iterator[Audit]:
    """Seeds share one data set."""
    data = Counter(run.record.hashes.data for run in comparison.baseline.paired)
    shared = sum(count for count in data.values() if count > 1)
    if shared:
        yield Audit(
            "fixed_data",
            "note",
            f"{shared} of {len(comparison.seeds)} seeds share their data: they measure other start "
            "values and batch orders, not other data.",
            "Say so where the result is quoted; it holds for these data alone.",
        )


def rules_changed(comparison: Comparison) -> Iterator[Audit]:
    """The comparison is not judged as its runs declared before they were trained."""
    idea = comparison.idea.arm
    warned, noted = dict[str, None](), dict[str, None]()  # in order, each once
    said = [
        (run.record.analysis, run.record.metric.name, run.metric.name)
        for run in comparison.baseline.arm.runs + idea.runs
    ]
    for (rules, before, now), _ in groupby(said):  # nearly always one and the same
        for change in comparison.rules.changed(rules).values():
            warned[change] = None
        if before != now:
            warned[f"metric is {now}, was declared {before}"] = None
    is_contrast = (comparison.idea.name, comparison.baseline.name) in comparison.rules.contrasts
    if idea.baselines and comparison.baseline.name not in idea.baselines and not is_contrast:
        declared = some(sorted(idea.baselines))
        noted[f"baseline is {comparison.baseline.name}, was declared {declared}"] = None
    severities: tuple[tuple[Severity, dict[str, None]], ...] = (
        ("warning", warned),
        ("note", noted),
    )
    for severity, changes in severities:
        if changes:
            yield Audit(
                "rules_changed",
                severity,
                f"Judged by other rules than were declared before training: {some(changes)}.",
                "Rules that are chosen with the results in sight can be chosen to win: declare "
                "them under analysis: in the configuration, and train with that.",
            )


CHECKS = (
    split_overlap,
    repeated_seed,
    saturated,
    worse_than_trivial,
    few_seeds,
    rules_changed,
    fixed_data,
)
