"""A report, judged again from the per-seed scores in it: what it says, and what it should say."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from msgspec.structs import asdict

from analysis.judge.audits.audit import Audit, Severity
from analysis.judge.audits.budget import PARITY, grid_edge_of, parity_of
from analysis.judge.compare import Effect, measure
from analysis.judge.statistics import INERT_ULPS, Array, t_interval, ulps_apart
from analysis.judge.verdict import Case, Conclusion, conclude
from analysis.read.earlier import Bench, Report
from analysis.read.rules import Rules
from analysis.text import how_many, hyper_text, number, seed_list, some

# what a report's scores alone cannot tell, or that is part of its looks
OF_RUNS = ("noise", "looks", "median_unbiased")


@dataclass(frozen=True, kw_only=True)
class Rejudged(Conclusion):
    """One comparison of a report: what it says, and what its scores say."""

    report: Report

    @property
    def title(self) -> str:
        """`sequence: idea against baseline`."""
        bench = self.report.bench_report
        return f"{bench.track}: {bench.idea.name} against {bench.baseline.name}"

    @property
    def then_and_now(self) -> dict[str, tuple[Any, Any]]:
        """Quantity → what the report says, what its scores say."""
        ci, counts = self.effect.ci, self.effect.counts
        now = {
            "verdict": self.verdict,
            "n_pairs": len(self.effect.d),
            "idea_wins": counts.wins,
            "ties": counts.ties,
            "idea_losses": counts.losses,
            "p_value": self.p_value,
            "p_holm": self.p_holm,
            "ci_half_width": None if ci is None else (ci[1] - ci[0]) / 2,
        }
        now |= {
            name: value
            for name, value in vars(self.effect).items()
            if name not in {"d", "counts", "p_selection_aware", *OF_RUNS, *now}
        }
        then = self.report.bench_report.comparison
        if "inert_ulps" in then:
            del now["inert_ulps"]  # it is not judged again
        both = {name: (then.get(name), value) for name, value in now.items()}
        for name in ("system_verdict", "practical_verdict", "confidence"):
            both[name] = (getattr(self.report, name), getattr(self, name))
        return both


def rejudge(
    reports: Sequence[Report], alpha: float | None = None, margin_pct: float | None = None
) -> list[Rejudged]:
    """Judge every comparison of a report from its per-seed scores alone.

    By the rules that the report says it was judged by; `alpha` and `margin_pct` hold instead where
    they are given, and an audit says so.
    """
    cases = []
    for report in reports:
        bench = report.bench_report
        said, default = bench.said, Rules()
        rules = Rules(
            alpha or said.alpha or default.alpha,
            margin_pct or said.margin_pct or default.margin_pct,
        )
        changed = [
            f"{key} is {now}, was {then}"
            for key in ("alpha", "margin_pct")
            if (then := getattr(said, key)) not in (None, now := getattr(rules, key))
        ]
        size = said.family_size or len(reports)
        baseline, idea = bench.baseline.full.scores, bench.idea.scores
        effect = measure(baseline, idea, bench.direction, rules, size, said.planned_looks)
        if effect.delta_mean is not None:
            # where the report says it, of the test examples, which it does not hold
            told = "inert_ulps" in bench.comparison
            apart = said.inert_ulps if told else ulps_apart(baseline, idea)
            effect = replace(effect, inert_ulps=apart)
        audits = tuple(_audits(bench, effect, changed))
        void = {audit.code for audit in audits if audit.severity == "void"}
        cases.append(
            Case(
                effect=effect,
                direction=bench.direction,
                audits=audits,
                mechanism_ok=bench.mechanism_ok,
                idea_failed=void == {"diverged_run"} and bool(np.isfinite(baseline).all()),
                family=bench.track if said.family == "track" else "all",
                family_size=size,
                alpha=rules.alpha,
            )
        )
    judged = [
        Rejudged(report=report, **found)
        for report, found in zip(reports, conclude(cases), strict=True)
    ]
    return [replace(each, audits=tuple(_parity_anew(each))) for each in judged]


def _parity_anew(judged: Rejudged) -> Iterator[Audit]:
    """The audits, those of parity by today's conclusion: another arm may be ahead of it."""
    bench = judged.report.bench_report
    costs = bench.baseline.cost, bench.idea.cost
    if costs[0] is None or costs[1] is None:
        yield from judged.audits
        return
    yield from (audit for audit in judged.audits if audit.code not in PARITY)
    for code, parity in PARITY.items():
        baseline = (bench.baseline.name, [costs[0].get(parity.cost)])
        idea = (bench.idea.name, [costs[1].get(parity.cost)])
        yield from parity_of(code, baseline, idea, judged.ahead)


def _audits(bench: Bench, effect: Effect, changed: Collection[str]) -> Iterator[Audit]:
    """Those that the report holds, and those that a report alone allows."""
    recorded = [Audit(**asdict(each)) for each in bench.audits or []]
    codes = {audit.code for audit in recorded}
    yield from recorded
    for audit in (*_found(bench, effect), *_selection(bench)):
        if audit.code not in codes:
            yield audit
    if changed:
        yield Audit(
            "rules_changed",
            "warning",
            f"Judged by other rules than the report's: {some(changed)}.",
            "Rules that are chosen with the results in sight can be chosen to win.",
        )


def _found(bench: Bench, effect: Effect) -> Iterator[Audit]:
    n, ulps, mde = len(effect.d), effect.inert_ulps, bench.said.mde
    ci = t_interval(effect.d, 0.05)
    signature, again = bench.mechanism_signature, "Train again: every record keeps them."
    costs = bench.baseline.cost is not None and bench.idea.cost is not None
    wrong = list(_contradictions(bench, effect))
    faults: list[tuple[bool, str, Severity, str, str]] = [
        (
            bool(wrong),
            "report_disagrees",
            "void",
            f"The report contradicts its own scores: {some(wrong)}.",
            "Judge the runs that it was made from.",
        ),
        (
            effect.delta_mean is None,
            "diverged_run",
            "void",
            "A score is missing: its run diverged.",
            "Judge the runs.",
        ),
        (
            ulps is not None and ulps <= INERT_ULPS,
            "inert",
            "warning",
            f"The arms agree to {number(ulps)} float32 ulps on every seed.",
            "Look for the reason why the mechanism never reached the output; whatever signature "
            "it shows says nothing about the score.",
        ),
        (
            signature is None,
            "signature_not_recorded",
            "warning",
            "No signature was recorded.",
            "Train again with a prediction.",
        ),
        (
            signature is not None and bench.models < n,
            "signature_of_few_models",
            "warning",
            f"The signature was read off {bench.models} of {how_many(n, 'model')}, as far as the "
            "report says.",
            "Read it off every model.",
        ),
        (
            signature is not None and bench.models >= n and "per_model" not in signature,
            "observations_not_recorded",
            "note",
            f"What was observed in each of {how_many(n, 'model')} was not recorded, nor what would "
            "have refuted the prediction.",
            again,
        ),
        (
            not costs,
            "parity_not_recorded",
            "warning",
            "Parameters and FLOPs of the arms were not recorded: the larger may win by size alone.",
            again,
        ),
        (not costs, "cost_not_recorded", "note", "Time and memory were not recorded.", again),
        (
            bench.audits is None,
            "hashes_not_recorded",
            "note",
            "Whether the arms of a seed saw the same data, batches and start values was not "
            "recorded.",
            again,
        ),
        (
            ci is not None
            and mde is not None
            and math.isclose(mde, (ci[1] - ci[0]) / 2, rel_tol=1e-3),
            "mde_was_half_width",
            "note",
            f"What it calls MDE, {number(mde)}, is the half-width of the 95 % interval; "
            + ("no effect" if effect.mde is None else f"an effect of {number(effect.mde)}")
            + " is what its scores would show with power 0.8.",
            "Read mde in the column of its scores.",
        ),
    ]
    for holds, code, severity, message, advice in faults:
        if holds:
            yield Audit(code, severity, message, advice)


def _selection(bench: Bench) -> Iterator[Audit]:
    """How each arm's configuration was chosen."""
    idea = bench.idea
    arms = (
        (bench.baseline.name, bench.baseline.best_cfg, bench.baseline.sweep, bench.baseline.full),
        (idea.name, idea.best_cfg or bench.idea_config, idea.sweep or bench.idea_sweep, idea),
    )
    on_test: list[str] = []
    on_seeds: list[str] = []
    for name, best, sweep, full in arms:
        if best is None or not sweep:
            yield Audit(
                "grid_not_recorded",
                "warning",
                f"The grid of {name} was not recorded.",
                "Tune both arms over one grid.",
            )
            continue
        for key, value in best.items():
            yield from grid_edge_of(name, key, value, (entry.cfg for entry in sweep))
        if len(sweep) == 1:
            continue
        if all(entry.validation_mean is None for entry in sweep):
            on_test.append(f"{name} ({hyper_text(best)})")
        mean = next((entry.mean for entry in sweep if entry.cfg == best), None)
        if seeds := _tuning_seeds(mean, full.scores):
            on_seeds.append(f"{name} on seed {seed_list(range(seeds))}")
    if on_test:
        yield Audit(
            "selected_on_test",
            "warning",
            "Chosen without validation scores, on scores of the kind that is reported: "
            f"{some(on_test)}.",
            "Choose on validation scores.",
        )
    if on_seeds:
        yield Audit(
            "tuned_on_reported_seeds",
            "note",
            f"The scores that chose are among those reported: {some(on_seeds)}.",
            "Choose on other seeds than those that are reported.",
        )


def _tuning_seeds(mean: float | None, scores: Array) -> int | None:
    """How many of the first reported scores have the mean that the configuration was chosen by."""
    for n in range(1, len(scores) + 1):
        if mean is not None and math.isclose(mean, scores[:n].mean()):
            return n
    return None


def _contradictions(bench: Bench, effect: Effect) -> Iterator[str]:
    """Where a report's numbers are not those of its own scores."""
    for name, arm in ((bench.baseline.name, bench.baseline.full), (bench.idea.name, bench.idea)):
        mean = float(arm.scores.mean())
        if arm.mean is not None and not math.isclose(arm.mean, mean, rel_tol=1e-6):
            yield f"the mean of {name} is {number(arm.mean, 8)}, its scores have {number(mean, 8)}"
    said = bench.said
    if said.per_seed_diffs not in (None, [None if math.isnan(x) else x for x in effect.d]):
        yield "the per-seed differences are not those of the scores"
    if said.idea_wins not in (None, effect.counts.wins):
        wins = how_many(said.idea_wins or 0, "win")
        yield f"it reports {wins}, the scores have {effect.counts.wins}"
    numbers = ["delta_mean"]
    if bench.audits is not None:  # earlier reports drew and rounded p, and called another thing mde
        numbers += ["p_value", "mde"]
    for name in numbers:
        then, now = getattr(said, name), getattr(effect, name)
        if then is not None and not math.isclose(then, now or 0.0, rel_tol=1e-6):
            yield f"{name} is {number(then, 8)}, the scores have {number(now, 8)}"
