"""From effects and audits to a verdict, over a family of comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from analysis.audits import audit
from analysis.audits.audit import Audit
from analysis.compare import Comparison
from analysis.rules import Rules
from analysis.statistics import INERT_ULPS, Direction, holm

SystemVerdict = Literal["worked", "partial", "failed", "invalid"]
PracticalVerdict = Literal["helps", "hurts", "no_effect", "unknown"]


@dataclass(frozen=True)
class Judged:
    """A comparison with everything that was found out about it."""

    comparison: Comparison
    rules: Rules
    audits: tuple[Audit, ...]
    p_value: float | None  # None where the comparison is void
    p_holm: float | None
    p_equivalence: float | None
    p_equivalence_holm: float | None
    verdict: str
    why: str | None  # the void audits' messages, where the verdict is for that reason

    @property
    def signature_confirmed(self) -> int:
        """Models of the idea's selected configuration whose signature is confirmed."""
        signatures = [run.record.signature for run in self.comparison.idea.selected.values()]
        return sum(signature is not None and signature.holds for signature in signatures)

    @property
    def mechanism_ok(self) -> bool:
        """Whether the signature is confirmed in every such model."""
        return self.signature_confirmed == len(self.comparison.idea.selected)

    @property
    def is_void(self) -> bool:
        """Whether an audit makes it void, or its verdict is `invalid`."""
        return any(raised.severity == "void" for raised in self.audits)

    @property
    def system_verdict(self) -> SystemVerdict:
        """Does it do what it was said to do, as well as better?"""
        return system_verdict(self.verdict, self.mechanism_ok, _only_idea_diverged(self))

    @property
    def practical_verdict(self) -> PracticalVerdict:
        """Does it help by more than the margin?"""
        return practical_verdict(self.verdict)


def system_verdict(verdict: str, mechanism_ok: bool, idea_failed: bool) -> SystemVerdict:
    """Does the idea do what it was said to do, as well as better?

    `idea_failed`: nothing is void but that the idea's runs diverged, which is a finding.
    """
    if verdict in ("invalid", "incomplete"):
        return "failed" if idea_failed else "invalid"
    if verdict.startswith("idea better"):
        return "worked" if mechanism_ok else "partial"
    return "partial" if mechanism_ok and verdict != "inert" else "failed"


def practical_verdict(verdict: str) -> PracticalVerdict:
    """Does the idea help by more than the margin?"""
    if verdict in ("inert", "equivalent") or verdict.endswith("negligible"):
        return "no_effect"
    if verdict.startswith("idea better"):
        return "helps"
    return "hurts" if verdict.startswith("idea worse") else "unknown"


def confidence(audits: Sequence[Audit]) -> int:
    """How far a verdict can be trusted, 0–10.

    Starts at 10. A void audit takes all of it; otherwise every warning takes 2 and every note 1,
    down to 1 at least.
    """
    severities = [raised.severity for raised in audits]
    if "void" in severities:
        return 0
    return max(1, 10 - 2 * severities.count("warning") - severities.count("note"))


def is_better(delta_mean: float | None, direction: Direction) -> bool:
    """Whether the mean difference is on the metric's better side."""
    return delta_mean is not None and (delta_mean < 0 if direction == "min" else delta_mean > 0)


def judge(comparisons: Sequence[Comparison], rules: Rules) -> list[Judged]:
    """Audit every comparison, correct the p-values over the family, and give the verdicts.

    A void comparison keeps its place in the family with p = 1; its own p-values are None.
    """
    audits = [audit(comparison, rules) for comparison in comparisons]
    void = [any(raised.severity == "void" for raised in found) for found in audits]
    effects = [comparison.effect for comparison in comparisons]
    p_values = [None if bad else e.p_value for bad, e in zip(void, effects, strict=True)]
    p_equivalence = [None if bad else e.p_equivalence for bad, e in zip(void, effects, strict=True)]
    families = [rules.family == "track" and comparison.track for comparison in comparisons]
    p_holm = _holm_within(families, p_values)
    p_equivalence_holm = _holm_within(families, p_equivalence)

    judged = []
    for i, comparison in enumerate(comparisons):
        verdict = decide(
            audits[i],
            better=is_better(effects[i].delta_mean, comparison.metric.direction),
            inert_ulps=effects[i].inert_ulps,
            p_holm=p_holm[i],
            p_equivalence_holm=p_equivalence_holm[i],
            p_min=effects[i].p_min,
            family_size=comparison.family_size,
            alpha=rules.alpha,
        )
        why = " ".join(raised.message for raised in audits[i] if raised.severity == "void")
        judged.append(
            Judged(
                comparison,
                rules,
                tuple(audits[i]),
                p_values[i],
                p_holm[i],
                p_equivalence[i],
                p_equivalence_holm[i],
                verdict,
                why or None,
            )
        )
    return judged


def decide(
    audits: Sequence[Audit],
    *,
    better: bool,
    inert_ulps: float | None,
    p_holm: float | None,
    p_equivalence_holm: float | None,
    p_min: float,
    family_size: int,
    alpha: float,
) -> str:
    """The first verdict that applies, in the order of the lines below.

    `better`: the mean difference is on the metric's better side. p-values are corrected over the
    family already, `p_min` is not.
    """
    void = {raised.code for raised in audits if raised.severity == "void"}
    negligible = p_equivalence_holm is not None and p_equivalence_holm <= alpha
    if void - {"missing_run"}:
        return "invalid"
    if void:
        return "incomplete"
    if inert_ulps is not None and inert_ulps <= INERT_ULPS:
        return "inert"
    if p_holm is not None and p_holm <= alpha:
        found = f"idea {'better' if better else 'worse'} (significant)"
        return f"{found}, negligible" if negligible else found
    if negligible:
        return "equivalent"
    if family_size * p_min > alpha:
        return "underpowered"
    return "inconclusive"


def _holm_within(
    families: Sequence[object], p_values: Sequence[float | None]
) -> list[float | None]:
    """Each p-value, corrected over those of its family."""
    adjusted: list[float | None] = [None] * len(p_values)
    for family in set(families):
        members = [i for i, each in enumerate(families) if each == family]
        for i, p in zip(members, holm([p_values[i] for i in members]), strict=True):
            adjusted[i] = p
    return adjusted


def _only_idea_diverged(judged: Judged) -> bool:
    """Nothing else is void: then the idea failed to train, and that is a finding."""
    void = {raised.code for raised in judged.audits if raised.severity == "void"}
    comparison = judged.comparison
    return void == {"diverged_run"} and not any(run.diverged for run in comparison.baseline.paired)
