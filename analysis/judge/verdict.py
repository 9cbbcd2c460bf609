"""From effects and audits to a verdict, over families of comparisons."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Literal

from analysis.judge.audits import audit, audit_conclusion
from analysis.judge.audits.audit import Ahead, Audit
from analysis.judge.compare import Comparison, Effect
from analysis.judge.statistics import INERT_ULPS, Direction, holm, is_within

SystemVerdict = Literal["worked", "partial", "failed", "invalid"]
PracticalVerdict = Literal["helps", "hurts", "no_effect", "unknown"]


class Verdict(StrEnum):
    """What the data show, as it is written in reports."""

    INVALID = "invalid"
    INCOMPLETE = "incomplete"
    INERT = "inert"
    BETTER_NEGLIGIBLE = "idea better (significant), negligible"
    BETTER = "idea better (significant)"
    WORSE_NEGLIGIBLE = "idea worse (significant), negligible"
    WORSE = "idea worse (significant)"
    EQUIVALENT = "equivalent"
    UNDERPOWERED = "underpowered"
    INCONCLUSIVE = "inconclusive"

    @property
    def ahead(self) -> Ahead | None:
        """The arm that is better by a decided difference."""
        if self in (Verdict.BETTER, Verdict.BETTER_NEGLIGIBLE):
            return "idea"
        return "baseline" if self in (Verdict.WORSE, Verdict.WORSE_NEGLIGIBLE) else None

    @property
    def is_negligible(self) -> bool:
        """Whether a difference is decided, and lies within the margin."""
        return self in (Verdict.BETTER_NEGLIGIBLE, Verdict.WORSE_NEGLIGIBLE)

    @property
    def is_void(self) -> bool:
        """Whether nothing was judged."""
        return self in (Verdict.INVALID, Verdict.INCOMPLETE)

    @property
    def shown(self) -> Literal["better", "equal", "worse"] | None:
        """What is shown of the idea; equal: within the margin. None: nothing, or none was tried."""
        if self is Verdict.EQUIVALENT or self.is_negligible:
            return "equal"
        return {"idea": "better", "baseline": "worse", None: None}[self.ahead]


@dataclass(frozen=True, kw_only=True)
class Case:
    """What a verdict is made from."""

    effect: Effect
    direction: Direction
    audits: tuple[Audit, ...]
    mechanism_ok: bool  # the signature is confirmed in every model of the idea
    idea_failed: bool  # nothing is void but that runs of the idea diverged: that is a finding
    family: Hashable  # cases of one family are corrected together
    family_size: int  # comparisons in it, also those that left nothing to judge
    alpha: float  # level of the family

    @property
    def is_void(self) -> bool:
        """Whether an audit makes it void."""
        return any(raised.severity == "void" for raised in self.audits)

    @property
    def confidence(self) -> int:
        """A number from 0 to 10 that the earlier reports have: 10 less 2 a warning, 1 a note.

        At least 1; 0 where it is void. What it is made of says more, and is what is shown.
        """
        severities = [raised.severity for raised in self.audits]
        if self.is_void:
            return 0
        return max(1, 10 - 2 * severities.count("warning") - severities.count("note"))


@dataclass(frozen=True, kw_only=True)
class Conclusion(Case):
    """A case with its p-values, which are None where it is void, and its verdict."""

    p_value: float | None
    p_holm: float | None
    p_equivalence: float | None
    p_equivalence_holm: float | None
    verdict: Verdict = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "verdict", self._decide())

    def _decide(self) -> Verdict:
        """The first verdict that applies, in the order of the lines below."""
        void = {raised.code for raised in self.audits if raised.severity == "void"}
        ulps, delta = self.effect.inert_ulps, self.effect.delta_mean
        negligible = self.p_equivalence_holm is not None and self.p_equivalence_holm <= self.alpha
        if void - {"missing_run"}:
            return Verdict.INVALID
        if void:
            return Verdict.INCOMPLETE
        if ulps is not None and ulps <= INERT_ULPS:
            return Verdict.INERT
        if self.p_holm is not None and self.p_holm <= self.alpha and delta is not None:
            better = delta < 0 if self.direction == "min" else delta > 0
            if negligible:
                return Verdict.BETTER_NEGLIGIBLE if better else Verdict.WORSE_NEGLIGIBLE
            return Verdict.BETTER if better else Verdict.WORSE
        if negligible or self.is_tied:
            return Verdict.EQUIVALENT
        if not is_within(self.effect.p_min, self.family_size, self.alpha):
            return Verdict.UNDERPOWERED
        return Verdict.INCONCLUSIVE

    @property
    def is_tied(self) -> bool:
        """Whether both arms score the same on every seed, to the last digit."""
        d = self.effect.d
        return d.size > 0 and not d.any()

    @property
    def ahead(self) -> Ahead | None:
        """The arm that is better by a decided difference."""
        return self.verdict.ahead

    @property
    def why(self) -> str | None:
        """The void audits' messages, where the verdict is for that reason."""
        return " ".join(each.message for each in self.audits if each.severity == "void") or None

    @property
    def system_verdict(self) -> SystemVerdict:
        """Does it do what it was said to do, as well as better?"""
        if self.verdict.is_void:
            return "failed" if self.idea_failed else "invalid"
        if self.ahead == "idea":
            return "worked" if self.mechanism_ok else "partial"
        return "partial" if self.mechanism_ok and self.verdict is not Verdict.INERT else "failed"

    @property
    def practical_verdict(self) -> PracticalVerdict:
        """Does it help by more than the margin?"""
        if self.verdict in (Verdict.INERT, Verdict.EQUIVALENT) or self.verdict.is_negligible:
            return "no_effect"
        if self.ahead is None:
            return "unknown"
        return "helps" if self.ahead == "idea" else "hurts"


@dataclass(frozen=True, kw_only=True)
class Judged(Conclusion):
    """A comparison with everything that was found out about it."""

    comparison: Comparison

    @property
    def as_expected(self) -> Literal["found", "undecided", "contradicted"] | None:
        """What became of the published ordering; None where none was said.

        Found or contradicted by what the verdict shows, `Verdict.shown`.
        """
        expected = self.comparison.expected
        if expected is None:
            return None
        if any(raised.code == "worse_than_trivial" for raised in self.audits):
            return "undecided"  # of what has not learned the task, nothing was published
        if self.verdict.shown is None:
            return "undecided"
        return "found" if self.verdict.shown == expected.verdict else "contradicted"

    @property
    def signature_confirmed(self) -> int:
        """Models of the idea's selected configuration whose signature is confirmed."""
        return _confirmed(self.comparison)


def judge(comparisons: Sequence[Comparison]) -> list[Judged]:
    """Audit every comparison, conclude over the families, and audit what was concluded."""
    cases = []
    for comparison in comparisons:
        audits = audit(comparison)
        void = {raised.code for raised in audits if raised.severity == "void"}
        baseline_diverged = any(run.diverged for run in comparison.baseline.paired)
        cases.append(
            Case(
                effect=comparison.effect,
                direction=comparison.metric.direction,
                audits=audits,
                mechanism_ok=_confirmed(comparison) == len(comparison.idea.selected),
                idea_failed=void == {"diverged_run"} and not baseline_diverged,
                family=comparison.family,
                family_size=comparison.family_size,
                alpha=comparison.rules.alpha,
            )
        )
    judged = [
        Judged(comparison=comparison, **found)
        for comparison, found in zip(comparisons, conclude(cases), strict=True)
    ]
    return [
        replace(each, audits=audit_conclusion(each.audits, each.comparison, each.ahead))
        for each in judged
    ]


def conclude(cases: Sequence[Case]) -> list[dict[str, Any]]:
    """The fields of every case's `Conclusion`: its own, and p-values corrected over its family.

    A void case, and a comparison of the family that left no case, keep their place with p = 1.
    """

    families: dict[Hashable, list[int]] = {}
    for i, case in enumerate(cases):
        families.setdefault(case.family, []).append(i)

    def corrected(p_values: Sequence[float | None]) -> list[float | None]:
        adjusted: list[float | None] = [None] * len(cases)
        for members in families.values():
            absent = cases[members[0]].family_size - len(members)
            of_family = holm([*(p_values[i] for i in members), *[None] * absent])
            for i, p in zip(members, of_family, strict=False):
                adjusted[i] = p
        return adjusted

    p_values = [None if case.is_void else case.effect.p_value for case in cases]
    p_equivalence = [None if case.is_void else case.effect.p_equivalence for case in cases]
    return [
        vars(case)
        | {
            "p_value": p_values[i],
            "p_holm": p_holm,
            "p_equivalence": p_equivalence[i],
            "p_equivalence_holm": p_equivalence_holm,
        }
        for i, (case, p_holm, p_equivalence_holm) in enumerate(
            zip(cases, corrected(p_values), corrected(p_equivalence), strict=True)
        )
    ]


def _confirmed(comparison: Comparison) -> int:
    signatures = [run.record.signature for run in comparison.idea.selected.values()]
    return sum(signature is not None and signature.holds for signature in signatures)
