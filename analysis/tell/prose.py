"""The report's sentences, composed from its numbers."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from analysis.judge.budgets import AtBudget, doublings
from analysis.judge.compare import Comparison, Effect, Side
from analysis.judge.noise import Noise
from analysis.judge.statistics import EXACT_UP_TO, POWER
from analysis.judge.verdict import Judged, Verdict
from analysis.text import (
    NONE,
    counted,
    how_many,
    hyper_text,
    interval,
    intervals,
    number,
    seed_list,
    setting,
)
from records.identity import FULL, Value
from records.probes import ABLATION, CAUSAL, REACH, SPLIT_OVERLAP
from records.record import Metric
from records.settings import differing, flat, is_below


def arm_sentence(judged: Judged, side: Side, mean: float | None, std: float | None) -> str:
    """One arm's scores in words."""
    scores = ", ".join(number(run.test if not run.diverged else None, 10) for run in side.paired)
    return (
        f"{side.name}: test {judged.comparison.metric.name} mean {number(mean, 10)}, "
        f"std {number(std, 10)}; best {hyper_text(side.selection.best.hyper)}; per seed [{scores}]"
    )


def verdict_sentence(judged: Judged, means: tuple[float | None, float | None]) -> str:
    """What was found, and what it does not show; `means` of baseline and idea."""
    comparison, effect = judged.comparison, judged.comparison.effect
    sentences = [f"{judged.verdict[0].upper()}{judged.verdict[1:]}. {_meaning(judged)}"]
    if effect.delta_mean is not None:
        p = (
            "no p-value is given"
            if judged.p_value is None
            else f"sign-flip p = {number(judged.p_value)} "
            f"(Holm over {comparison.family_size}: {number(judged.p_holm)})"
        )
        sentences.append(
            f"On track {comparison.place} over {how_many(len(comparison.seeds), 'paired seed')}, "
            f"the mean test {comparison.metric.name} ({comparison.metric.better}) is "
            f"{number(means[1], 6)} for {comparison.idea.name} and {number(means[0], 6)} for "
            f"{comparison.baseline.name}: a difference of {number(effect.delta_mean)}"
            f"{_relative(effect.delta_mean, means[0])}, "
            f"{shown_intervals(comparison)}; {p}; {how_many(effect.counts.wins, 'win')}, "
            f"{how_many(effect.counts.ties, 'tie')}, {how_many(effect.counts.losses, 'loss')}."
        )
        sentences += _uncertainty(comparison)
    if expected := expected_phrase(judged):
        sentences.append(f"Expected: {expected}.")
    sentences.append(f"Its signature is {signature_phrase(judged)}.")
    sentences.append(_weaknesses(judged))
    return " ".join(sentences)


def shown_intervals(comparison: Comparison) -> str:
    """The interval of the mean difference that belongs to the deciding test, where it exists."""
    return intervals(
        signflip=comparison.effect.ci_signflip,
        family=comparison.effect.ci_signflip_family,
        t=comparison.effect.ci,
        alpha=comparison.rules.alpha,
        comparisons=comparison.family_size,
        pairs=len(comparison.seeds),
    )


def further_interval(comparison: Comparison, effect: Effect) -> str:
    """The interval of the effect on a further test split, of no family."""
    return intervals(
        signflip=effect.ci_signflip,
        family=None,
        t=effect.ci,
        alpha=comparison.rules.alpha,
        comparisons=1,
        pairs=len(effect.d),
    )


def noise_phrase(comparison: Comparison) -> str:
    """Where the spread of the differences comes from, in one sentence."""
    noise = comparison.effect.noise
    if noise is None:
        return NONE
    low, high = (number(end, 2) for end in noise.sd_interval)
    told = f"sd {number(noise.sd, 2)} (95 % {low}–{high})"
    if noise.share_of_examples is not None and noise.share_interval is not None:
        pairs = how_many(len(comparison.seeds), "pair")
        examples = how_many(noise.examples or 0, "example")
        low, high = (f"{100 * end:.0f}" for end in noise.share_interval)
        return (
            f"{told}; of its variance {100 * noise.share_of_examples:.0f} % ({low}–{high} %, so "
            f"little do {pairs} tell) is the test sample's {examples}, the rest training"
        )
    if noise.is_fixed:
        told += ", of retraining alone: the seeds share their data"
    return f"{told}; {examples_phrase(noise)}"


def examples_phrase(noise: Noise) -> str:
    """The interval over examples, where data are fixed; why there is none, or no share."""
    if noise.examples_interval is None:
        return f"what the test sample adds is not known: {noise.unknown}"
    blocks = "" if noise.block == 1 else f" in blocks of at least {noise.block}, as they overlap"
    return (
        f"over its {how_many(noise.examples or 0, 'test example')}{blocks} the difference is "
        f"{interval(noise.examples_interval)} (95 %)"
    )


def _uncertainty(comparison: Comparison) -> list[str]:
    """On fixed data, of what the interval and p speak: not of new data."""
    noise = comparison.effect.noise
    if noise is None or not noise.is_fixed:
        return []
    return [
        "The seeds share their data: p and the sign-flip interval speak of retraining on these, "
        f"not of new data; {examples_phrase(noise)}."
    ]


def by_budget(budgets: Iterable[AtBudget]) -> str:
    """`× 0.5: -0.03 ± 0.01 of 3 seeds; × 1: …`: the difference and its standard error."""
    return "; ".join(
        f"× {each.factor:g}: {number(each.mean)} ± {number(each.standard_error, 2)} of "
        f"{how_many(len(each.d), 'seed')}"
        + (f" (seed {seed_list(each.left_out)} left out)" if each.left_out else "")
        for each in budgets
    )


def _relative(delta: float, level: float | None) -> str:
    """` (−6.1 % of the baseline's mean)`."""
    return f" ({100 * delta / abs(level):+.3g} % of the baseline's mean)" if level else ""


def _weaknesses(judged: Judged) -> str:
    """What makes the verdict weaker, most serious first."""
    if judged.is_void:
        return "See the audits."
    codes = [each.code for each in judged.audits if each.severity == "warning"]
    if not codes:
        return "No warning was raised."
    return f"It is weakened by {counted(codes)}: see the audits."


def expected_phrase(judged: Judged) -> str | None:
    """The ordering that was published, and what became of it; None where none was said."""
    expected = judged.comparison.expected
    if expected is None:
        return None
    return f"{expected.verdict}, by {expected.source}: {judged.as_expected}"


def signature_phrase(judged: Judged) -> str:
    """In how many models the idea did what it predicted."""
    models = judged.comparison.idea.selected.values()
    if all(run.record.signature is None for run in models):
        return "not tested: the idea predicts none"
    return f"confirmed in {judged.signature_confirmed} of {how_many(len(models), 'model')}"


def model(judged: Judged) -> str:
    """The sizes of the network around the mixers: `dim 64, heads 4`; by hash if not recorded."""
    records = [run.record for side in judged.comparison.sides for run in side.selected.values()]
    told = {_keys(r.config.get("model")) for r in records if r.config}
    known = {r.hashes.config.model for r in records if r.config}
    told |= {hashed[:12] for r in records if (hashed := r.hashes.config.model) not in known}
    return "; ".join(sorted(told))


def track_choice(judged: Judged) -> str:
    """What the track's YAML says of it, in a sentence."""
    track = judged.comparison.track
    for run in judged.comparison.idea.selected.values():
        settings = (run.record.config or {}).get("track")
        if isinstance(settings, dict) and isinstance(settings.get("about"), str):
            return settings["about"]
    return f"{track}: the track that these runs were trained on"


def _keys(node: object) -> str:
    """`dim 64, heads 4`: a part of a configuration."""
    return ", ".join(f"{key} {value}" for key, value in flat(node).items())


def _shared(comparison: Comparison) -> str:
    """In which keys the arms are one, and in which they differ; empty if not recorded."""
    one, other = (
        next((run.record.config for run in side.paired if run.record.config), None)
        for side in comparison.sides
    )
    if one is None or other is None:
        return ""
    groups = ("track", "model", "optimizer", "training")
    unlike = {
        key: f"{key} ({second} against {first})"
        for key, (first, second) in differing(one, other).items()
        if any(is_below(key, group) for group in (*groups, "variant"))
        and not is_below(key, "variant.signature")
    }
    alike = [g for g in groups if not any(is_below(key, g) for key in unlike)]
    return (
        f"The arms share {', '.join(alike) or 'nothing'}, and differ in "
        f"{', '.join(unlike.values()) or 'nothing'}. "
    )


def parameterization(side: Side) -> str:
    """Which configuration of the variant the runs had."""
    configs = [run.record.config for run in side.selected.values() if run.record.config]
    sizes = sorted({run.record.cost.mixer_parameters for run in side.selected.values()})
    if configs:
        variant = {k: v for k, v in flat(configs[0].get("variant")).items() if k[:9] != "signature"}
        return (
            f"{side.name}: {_keys(variant)}; {', '.join(map(str, sizes))} parameters in its mixers"
        )
    hashes = sorted({run.record.hashes.config.variant[:12] for run in side.selected.values()})
    return (
        f"{side.name} (configuration {', '.join(hashes)}), "
        f"{', '.join(map(str, sizes))} parameters in its mixers"
    )


def protocol_notes(judged: Judged) -> str:
    """How the numbers came about."""
    comparison = judged.comparison
    chosen = "; ".join(
        f"{side.name} over {how_many(len(side.selection.candidates), 'configuration')} on seed "
        f"{seed_list(side.selection.compared)}"
        for side in comparison.sides
    )
    exact = len(comparison.seeds) <= EXACT_UP_TO
    family = {"all": "all comparisons", "track": "those of this track"}[comparison.rules.family]
    return (
        f"{_shared(comparison)}"
        "Each arm's hyper has the fewest diverged runs, then the best mean validation "
        f"{comparison.metric.name} ({chosen}); no test score chose anything. Paired by seed: "
        f"{seed_list(comparison.seeds)}. {_mean_over(comparison.metric)}"
        f"p: {'exact' if exact else 'Monte Carlo'} two-sided "
        f"sign-flip test of the mean difference, Holm over {comparison.family_size} ({family}); "
        "p_selection_aware redoes the selection in every flip. ci_signflip: the means that this "
        f"test does not reject at level {comparison.rules.alpha:g}, by the same flips (Hartigan's "
        "interval); ci: Student's t interval. Equivalence: two one-sided t-tests within "
        f"{comparison.rules.margin_pct:g} % of the baseline's mean. MDE: power {POWER:g} at level "
        f"{comparison.rules.alpha:g}/{comparison.family_size}."
    )


def _mean_over(metric: Metric) -> str:
    """What an example's score is a mean over; empty if not recorded."""
    return f"An example's {metric.name} is over {metric.mean_over}. " if metric.mean_over else ""


def _lacking(comparison: Comparison, tracks: Collection[str]) -> str:
    """What of tracks, contexts and budgets this analysis has, and what it lacks.

    Args:
        tracks: on which it compares the same two arms.
    """
    beside = [track for track in tracks if track != comparison.track]
    has, lacks = [], ["other sizes of model"]
    if beside:
        has.append(f"on {_listed(beside)} too")
        lacks.insert(0, "tracks beside these")
    else:
        lacks.insert(0, "any other track")
    if lengths := comparison.rules.lengths:
        has.append(f"at {_listed(map(str, lengths))} times the trained context")
    if comparison.further_splits:
        has.append(f"on further test splits ({_listed(comparison.further_splits)})")
    elif not lengths:
        lacks.append("longer contexts than those trained on")
    factors = [each.factor for each in comparison.budgets if each.factor != FULL]
    if factors:
        has.append(f"at {_listed(f'{factor:g}' for factor in factors)} times the training budget")
    if not any(factor > FULL for factor in factors):
        lacks.append("longer training")
    compared = f"The arms are compared {_listed(has)}. " if has else ""
    return f"{compared}Not measured: {_listed(lacks)}."


def _listed(parts: Iterable[str]) -> str:
    """`a, b and c`."""
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last


def limitations(judged: Judged, absent: Iterable[str], tracks: Collection[str]) -> str:
    """What was found wrong, and what was not measured.

    Args:
        tracks: on which the analysis compares the same two arms.
    """
    comparison, idea = judged.comparison, judged.comparison.idea.name
    records = [run.record for side in comparison.sides for run in side.selected.values()]
    ideas = [run.record for run in comparison.idea.selected.values()]
    values: dict[str, set[Value]] = {}
    for side in comparison.sides:
        for hyper, runs in side.arm.grid.items():
            for key, value in hyper:
                if any(
                    run.record.acting is None or key in run.record.acting for run in runs.values()
                ):
                    values.setdefault(key, set()).add(value)
    fixed = [f"{key} = {setting(*found)}" for key, found in values.items() if len(found) == 1]
    devices = sorted(
        {str(record.environment.get("device", "an unknown device")) for record in records}
    )
    unmeasured = [  # (is it so?, the sentence)
        (bool(fixed), f"Not tuned: {', '.join(fixed)}."),
        (
            all(r.signature is None for r in ideas),
            f"{idea} predicts no signature: how it works is untested.",
        ),
        (
            all(REACH.get(r.probes) is None for r in ideas),
            f"Whether the loss depends on parameters of {idea} alone was not measured.",
        ),
        (
            all(ABLATION.get(r.probes) is None for r in ideas),
            f"What {idea} loses without its mechanism was not measured.",
        ),
        (all(CAUSAL.get(r.probes) is None for r in ideas), "Causality was not probed."),
        (
            any(SPLIT_OVERLAP.get(r.probes) is None for r in records),
            "Split overlap was not counted.",
        ),
        (
            not any(each.is_trivial for r in records for each in r.secondary.values()),
            "What a prediction that learns nothing would score is not known.",
        ),
        (any(r.cost.flops_per_example is None for r in records), "FLOPs were not counted."),
        (any(r.cost.saved_bytes is None for r in records), "Saved memory was not measured."),
        (any(r.cost.peak_bytes is None for r in records), "Peak memory was not measured."),
        (
            not doublings(comparison.budgets),
            "Whether the difference is one of speed alone was not measured: no runs of "
            + ("half or twice the budget." if comparison.budgets else "another budget."),
        ),
        (comparison.planned == 0, "There is no plan: whether runs are missing is not known."),
    ]
    return " ".join(
        [
            *(raised.message for raised in judged.audits),
            *absent,
            f"Judged on {comparison.place} by {comparison.metric.name}, on "
            f"{how_many(len(comparison.seeds), 'seed')}, on {', '.join(devices)}. "
            f"{_lacking(comparison, tracks)}",
            *(sentence for holds, sentence in unmeasured if holds),
            "The sign-flip test assumes that the arms are exchangeable where there is no effect: "
            "very skewed differences of mean zero are rejected about twice as often as the level "
            "says.",
        ]
    )


def _meaning(judged: Judged) -> str:
    """What the verdict says and what it does not."""
    comparison, effect = judged.comparison, judged.comparison.effect
    margin = f"±{number(effect.margin)} ({comparison.rules.margin_pct:g} % of the baseline's mean)"
    if judged.verdict is Verdict.INVALID:
        return f"Nothing can be concluded: {judged.why}"
    if judged.verdict is Verdict.INCOMPLETE:
        return (
            f"The effect is shown but not judged, and to stop at a look at it would be a choice: "
            f"{judged.why}"
        )
    if judged.verdict is Verdict.INERT:
        return (
            f"The arms differ by at most {number(effect.inert_ulps)} float32 ulps on every test "
            "score that was compared: they are numerically one, and the mechanism never acted."
        )
    if judged.verdict.is_negligible:
        return f"The difference is real and lies within {margin}."
    if judged.verdict.ahead is not None:
        return (
            "A difference this large would rarely arise if the arms were alike "
            f"(level {comparison.rules.alpha:g})."
        )
    if judged.verdict is Verdict.EQUIVALENT and judged.is_tied:
        return (
            f"Both arms score the same on every seed, to the last digit: {comparison.metric.name} "
            "could not tell them apart."
        )
    if judged.verdict is Verdict.EQUIVALENT:
        return (
            f"The difference lies within {margin}, p = {number(judged.p_equivalence_holm)} "
            "by two one-sided tests."
        )
    if judged.verdict is Verdict.UNDERPOWERED:
        advice = "".join(f" {each.advice}" for each in judged.audits if each.code == "few_seeds")
        return (
            f"The smallest p that these data could show is {number(effect.p_min)}, for "
            f"a family of {comparison.family_size} at level {comparison.rules.alpha:g}: no outcome "
            f"could have been significant.{advice}"
        )
    return (
        f"Neither a difference nor equivalence within {margin} is shown; an effect smaller than "
        f"{number(effect.mde)} ({number(effect.mde_rel_pct)} % of the baseline's mean) would "
        f"probably be missed."
    )
