"""The report's sentences, composed from its numbers."""

from __future__ import annotations

from collections.abc import Iterable

from analysis.compare import MARGIN_PCT, Side
from analysis.statistics import EXACT_UP_TO, POWER
from analysis.text import hyper_text, interval, number, seed_list
from analysis.verdict import Judged

NOT_AUDITED = (
    "Not compared between the arms: their grids, training budgets, FLOPs, memory, initial values, "
    "code and environment."
)


def arm_sentence(judged: Judged, side: Side, mean: float | None, std: float | None) -> str:
    """One arm's scores in words."""
    scores = ", ".join(number(run.test if not run.diverged else None, 10) for run in side.paired)
    return (
        f"{side.name}: test {judged.comparison.metric.name} mean {number(mean, 10)}, "
        f"std {number(std, 10)}; best {hyper_text(side.selection.best.config)}; per seed [{scores}]"
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
            f"On track {comparison.track} over {len(comparison.seeds)} paired seeds, the mean test "
            f"{comparison.metric.name} ({comparison.metric.better}) is {number(means[1], 6)} for "
            f"{comparison.idea.name} and {number(means[0], 6)} for {comparison.baseline.name}: "
            f"a difference of {number(effect.delta_mean)}, 95 % interval {interval(effect.ci)}, "
            f"{p}; {effect.counts.wins} wins, {effect.counts.ties} ties, "
            f"{effect.counts.losses} losses."
        )
    sentences.append(f"Its signature is {signature_phrase(judged)}.")
    return " ".join(sentences)


def signature_phrase(judged: Judged) -> str:
    """In how many models the idea did what it predicted."""
    models = judged.comparison.idea.selected.values()
    if all(run.record.signature is None for run in models):
        return "not tested: the idea predicts none"
    return f"confirmed in {judged.signature_confirmed} of {len(models)} models"


def protocol_notes(judged: Judged) -> str:
    """How the numbers came about."""
    comparison = judged.comparison
    chosen = "; ".join(
        f"{side.name} over {len(side.selection.candidates)} configurations on seeds "
        f"{seed_list(side.selection.compared)}"
        for side in comparison.sides
    )
    exact = len(comparison.seeds) <= EXACT_UP_TO
    return (
        "Each arm's hyper has the fewest diverged runs, then the best mean validation "
        f"{comparison.metric.name} ({chosen}); no test score chose anything. Paired by seed: "
        f"{seed_list(comparison.seeds)}. p: {'exact' if exact else 'Monte Carlo'} two-sided "
        f"sign-flip test of the mean difference, Holm over {comparison.family_size}. Interval: "
        f"95 % Student's t. Equivalence: two one-sided t-tests within {MARGIN_PCT:g} % of the "
        f"baseline's mean. MDE: power {POWER:g} at level "
        f"{judged.rules.alpha:g}/{comparison.family_size}."
    )


def limitations(judged: Judged, absent: Iterable[str]) -> str:
    """What was found wrong, and what was not measured."""
    comparison = judged.comparison
    records = [run.record for run in comparison.idea.selected.values()]
    sentences = [raised.message for raised in judged.audits]
    sentences += absent
    sentences.append(
        f"One track ({comparison.track}) and one metric ({comparison.metric.name}) were judged, "
        f"on {len(comparison.seeds)} seeds."
    )
    sentences.append(
        "The hyper was chosen on validation scores of the seeds whose test scores are reported."
    )
    sentences.append(
        "The sign-flip test assumes that the arms are exchangeable where there is no effect: "
        "skewed differences of mean zero are rejected at 9 % instead of 5 %."
    )
    if all(record.signature is None for record in records):
        sentences.append(f"{comparison.idea.name} predicts no signature: how it works is untested.")
    if all(record.probes.reach is None for record in records):
        sentences.append(
            f"Whether the loss depends on parameters of {comparison.idea.name} alone was not "
            "measured."
        )
    if all(record.probes.causal is None for record in records):
        sentences.append("Causality was not probed.")
    if comparison.planned == 0:
        sentences.append("There is no plan: whether runs are missing is not known.")
    sentences.append(NOT_AUDITED)
    return " ".join(sentences)


def _meaning(judged: Judged) -> str:
    """What the verdict says and what it does not."""
    comparison, effect = judged.comparison, judged.comparison.effect
    margin = f"±{number(effect.margin)} ({MARGIN_PCT:g} % of the baseline's mean)"
    if judged.verdict == "invalid":
        return f"Nothing can be concluded: {judged.why}"
    if judged.verdict == "incomplete":
        return f"The effect is shown but not judged: {judged.why}"
    if judged.verdict == "inert":
        return (
            f"The arms differ by at most {number(effect.inert_ulps)} float32 ulps on every test "
            "loss that was compared: they are numerically one, and the mechanism never acted."
        )
    if judged.verdict.endswith("negligible"):
        return f"The difference is real and lies within {margin}."
    if judged.verdict.startswith("idea"):
        return (
            "A difference this large would rarely arise if the arms were alike "
            f"(level {judged.rules.alpha:g})."
        )
    if judged.verdict == "equivalent":
        return (
            f"The difference lies within {margin}, p = {number(judged.p_equivalence_holm)} "
            "by two one-sided tests."
        )
    if judged.verdict == "underpowered":
        return (
            f"The smallest p that these data could show is {number(effect.p_min)}, for "
            f"{comparison.family_size} comparisons at level {judged.rules.alpha:g}: no outcome "
            "could have been significant. More seeds are needed."
        )
    return (
        f"Neither a difference nor equivalence within {margin} is shown; an effect smaller than "
        f"{number(effect.mde)} ({number(effect.mde_rel_pct)} % of the baseline's mean) would "
        f"probably be missed."
    )
