"""From a pilot to a sweep: the seeds that an effect needs, what fewer could find, the cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.errors import AnalysisError
from analysis.judge.budgets import AtBudget, at_budgets
from analysis.judge.compare import match, noise_of, pair_up
from analysis.judge.levels import out_of_range
from analysis.judge.noise import Noise, sd_with
from analysis.judge.select import Arm, select
from analysis.judge.statistics import EXACT_UP_TO, can_show, detectable_dz, seeds_needed, spread
from analysis.read.rules import Rules
from analysis.text import how_many
from records.identity import FULL

SEEDS = (4, 8, 16, 32)
LARGER = (1, 2, 4, 10, 30)  # test splits, in the pilot's
UPPER = 0.8  # confidence of the upper limit of the standard deviation


@dataclass(frozen=True)
class Option:
    """A sweep with so many seeds."""

    seeds: int
    mde: float | None  # None: no outcome could be significant
    runs: int
    seconds: float  # of training, one run after the other; NaN where not recorded


@dataclass(frozen=True)
class Purchase:
    """One way to find the effect."""

    budget: float  # how long every run trains, times the declared budget
    examples: int | None  # in the test split of every run; None: as many as the pilot has
    sd: float  # of the paired differences, then
    option: Option  # the seeds that this needs
    scoring: float  # seconds of scoring the test split, in all its runs; NaN where not recorded

    @property
    def seconds(self) -> float:
        """Of all that is recorded."""
        known = [each for each in (self.option.seconds, self.scoring) if math.isfinite(each)]
        return sum(known)


@dataclass(frozen=True)
class Plan:
    """What a comparison would take; effects in units of the metric."""

    title: str
    basis: str  # where the standard deviation comes from
    level: float  # the baseline's mean, in absolute terms
    effect: float
    sd: float  # of the paired differences
    sd_upper: float
    comparisons: int
    alpha: float
    needed: Option | str  # a str says why no number of seeds is enough
    needed_upper: Option | str  # if the standard deviation is at its upper limit
    options: tuple[Option, ...]
    purchases: tuple[Purchase, ...]  # ways to find the effect, cheapest first
    only_seeds: str | None  # why a larger test split is not among them


def plan(
    arms: Mapping[tuple[str, str], Arm],
    baseline: str | None,
    rules: Rules,
    effect_pct: float,
    comparisons: int | None,
) -> list[Plan]:
    """A plan for every comparison of a pilot; for an idea to come if no track has two arms.

    Args:
        effect_pct: the effect to find, in per cent of the baseline's mean.
        comparisons: in the family; None for as many as the pilot has.

    Raises:
        AnalysisError: nothing can be compared, or the pilot has fewer than two seeds or no spread.
    """
    alone = len({track for track, _ in arms}) == len(arms)
    if alone and baseline in (None, *(variant for _, variant in arms)):
        return [_alone(arm, rules, effect_pct, comparisons or 1) for arm in arms.values()]
    plans = []
    pairs = match(arms, [], rules, baseline).pairs
    for pair in pairs:
        one, idea = pair_up(*pair, rules)
        same = [each for _, each in pairs if rules.family == "all" or each.track == idea.arm.track]
        plans.append(
            _plan(
                title=f"{idea.arm.track}: {idea.name} against {one.name}",
                basis=f"the differences of {how_many(len(one.paired), 'pair')}",
                d=idea.scores - one.scores,
                scores=one.scores,
                arms=pair,
                effect_pct=effect_pct,
                comparisons=comparisons or len(same) * (1 + len(rules.lengths)),
                alpha=rules.alpha,
                noise=noise_of(one, idea, idea.scores - one.scores, {}, {}),
                budgets=at_budgets(*pair, (one.selection.best.key, idea.selection.best.key)),
            )
        )
    return plans


def _alone(arm: Arm, rules: Rules, effect_pct: float, comparisons: int) -> Plan:
    """From one arm: as if pairing bought nothing, and an idea cost as much to train."""
    best = select(arm, arm.seeds, arm.runs[0].metric.direction).best
    scores = np.array([best.runs[seed].test for seed in sorted(best.runs)])
    return _plan(
        title=f"{arm.track}: an idea against {arm.variant}",
        basis=f"{how_many(len(scores), 'run')} of {arm.variant} alone, times √2, as if pairing by "
        "seed bought nothing; a pilot of both arms would need fewer seeds",
        d=scores * math.sqrt(2),
        scores=scores,
        arms=(arm, arm),
        effect_pct=effect_pct,
        comparisons=comparisons,
        alpha=rules.alpha,
        noise=None,
    )


def _plan(
    *,
    title: str,
    basis: str,
    d: np.ndarray,
    scores: np.ndarray,
    arms: Sequence[Arm],
    effect_pct: float,
    comparisons: int,
    alpha: float,
    noise: Noise | None,
    budgets: Sequence[AtBudget] = (),
) -> Plan:
    """`d`: (pairs,) with the standard deviation of the differences; `scores`: of the baseline."""
    from scipy.stats import chi2

    sd = spread(d)
    if sd is None:
        raise AnalysisError(
            f"--plan, {title}: its standard deviation cannot be told from "
            f"{how_many(len(d), 'score')} ({np.isfinite(d).sum()} finite, "
            f"{len(set(d.tolist()))} different): make a pilot of at least two seeds, better "
            "four, that train"
        )
    level = abs(float(scores.mean()))
    effect = level * effect_pct / 100
    if effect == 0:
        raise AnalysisError(f"--plan, {title}: the baseline's mean is 0, and so is its every part")
    # Browne (1995), Statistics in Medicine 14: a small pilot's own sd plans too small a study
    sd_upper = sd * math.sqrt((len(d) - 1) / chi2.ppf(1 - UPPER, len(d) - 1))

    def option(seeds: int, sd: float = sd, budget: float = FULL) -> Option:
        possible = can_show(seeds, comparisons, alpha)
        dz = detectable_dz(seeds, alpha / comparisons) if possible else None
        return Option(
            seeds,
            None if dz is None else dz * sd,
            seeds * sum(len(arm.grid) for arm in arms),
            budget * seeds * sum(_seconds(arm, "train_seconds") for arm in arms),
        )

    def purchase(budget: float, examples: int | None, sd: float) -> Purchase | None:
        if (seeds := seeds_needed(effect, sd, comparisons, alpha)) is None:
            return None
        grown = 1.0
        if examples and noise and noise.examples:
            grown = examples / noise.examples
        seconds = seeds * sum(_seconds(arm, "evaluate_seconds") for arm in arms)
        return Purchase(budget, examples, sd, option(seeds, sd, budget), grown * seconds)

    def needed(sd: float) -> Option | str:
        seeds = seeds_needed(effect, sd, comparisons, alpha)
        if seeds is not None:
            return option(seeds)
        drawn = can_show(EXACT_UP_TO + 1, comparisons, alpha)
        return "more than a billion seeds" if drawn else out_of_range(comparisons, alpha)

    return Plan(
        title=title,
        basis=basis,
        level=level,
        effect=effect,
        sd=sd,
        sd_upper=sd_upper,
        comparisons=comparisons,
        alpha=alpha,
        needed=needed(sd),
        needed_upper=needed(sd_upper),
        options=tuple(map(option, SEEDS)),
        purchases=_cheapest(purchase(*way) for way in _ways(sd, noise, budgets)),
        only_seeds=_only_seeds(noise),
    )


def _ways(
    sd: float, noise: Noise | None, budgets: Sequence[AtBudget]
) -> Iterator[tuple[float, int | None, float]]:
    """What may be bought beside seeds: training budget, test examples, and the spread that remains.

    Longer training where the pilot has runs of it, at the spread of these.
    """
    for each in budgets:
        if each.factor > FULL and (longer := spread(each.values)) is not None:
            yield each.factor, None, longer
    if noise is None or noise.examples is None or noise.share_of_examples is None:
        yield FULL, None, sd
        return
    for larger in LARGER:
        examples = larger * noise.examples
        if (smaller := sd_with(noise, examples)) is not None:
            yield FULL, examples, smaller


def _cheapest(found: Iterable[Purchase | None]) -> tuple[Purchase, ...]:
    """Cheapest first; of those that need as many seeds the cheapest alone."""
    chosen: dict[int, Purchase] = {}
    for each in sorted((each for each in found if each), key=lambda each: each.seconds):
        chosen.setdefault(each.option.seeds, each)
    return tuple(chosen.values())


def _only_seeds(noise: Noise | None) -> str | None:
    if noise is None:
        return "the spread of one arm alone does not tell what its test examples add"
    if noise.is_fixed:
        return "the track's data are fixed, and its test split cannot grow"
    return noise.unknown


def _seconds(arm: Arm, cost: str) -> float:
    """Seconds of one seed of an arm, over its whole grid; NaN where not recorded.

    `cost`: the field of `Cost` that is counted.
    """
    by_hyper = [
        [getattr(run.record.cost, cost) for run in runs.values()] for runs in arm.grid.values()
    ]
    return float(sum(np.mean(np.array(seconds, dtype=np.float64)) for seconds in by_hyper))
