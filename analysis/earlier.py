"""A report, judged again from the per-seed scores in it: what it says, and what it should say."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field, ValidationError

from analysis.audits.audit import Audit
from analysis.audits.budget import grid_edge_of
from analysis.compare import Effect, measure
from analysis.errors import AnalysisError
from analysis.record import Part, first_error
from analysis.rules import Rules
from analysis.statistics import INERT_ULPS, count_wins, holm, ulps_apart
from analysis.text import hyper_text, number, seed_list, some
from analysis.verdict import (
    SystemVerdict,
    confidence,
    decide,
    is_better,
    practical_verdict,
    system_verdict,
)

Hyper = dict[str, float]
Scores = list[float | None]


class Entry(Part):
    """One configuration of a grid."""

    cfg: Hyper
    mean: float | None
    validation_mean: float | None = None  # earlier reports chose on the test scores
    per_seed: Scores | None = None


class Full(Part):
    """An arm's scores with its best configuration."""

    mean: float | None
    per_seed: Scores = Field(min_length=1)


class Baseline(Part):
    name: str = "baseline"
    best_cfg: Hyper
    sweep: list[Entry]
    full: Full
    cost: dict[str, float | None] | None = None


class Idea(Full):
    name: str = "idea"
    cost: dict[str, float | None] | None = None
    best_cfg: Hyper | None = None  # here or as bench_report.idea_config
    sweep: list[Entry] | None = None  # here or as bench_report.idea_sweep


class Recorded(Part):
    """An audit that the report holds already."""

    code: str
    severity: Literal["void", "warning", "note"]
    message: str
    advice: str


class Bench(Part):
    """`bench_report`, as far as it is judged."""

    bench_version: int
    track: str
    metric_direction: Literal["lower is better", "higher is better"]
    baseline: Baseline
    idea: Idea
    comparison: dict[str, Any]
    idea_config: Hyper | None = None
    idea_sweep: list[Entry] | None = None
    mechanism_signature: dict[str, Any] | None = None
    audits: list[Recorded] | None = None


class Report(Part):
    """A whole report, or one of its comparisons."""

    bench_report: Bench
    system_verdict: str | None = None
    practical_verdict: str | None = None
    confidence: float | None = None
    comparisons: list[Report] = Field(default_factory=list)


@dataclass(frozen=True)
class Rejudged:
    """One comparison of a report: what it says, and what its scores say."""

    report: Report
    effect: Effect
    audits: tuple[Audit, ...]
    p_holm: float | None
    verdict: str
    mechanism_ok: bool

    @property
    def title(self) -> str:
        bench = self.report.bench_report
        return f"{bench.track}: {bench.idea.name} against {bench.baseline.name}"

    @property
    def system_verdict(self) -> SystemVerdict:
        """As in verdict.py."""
        return system_verdict(self.verdict, self.mechanism_ok, idea_failed=False)

    @property
    def then_and_now(self) -> dict[str, tuple[Any, Any]]:
        """Quantity → what the report says, what its scores say."""
        then, effect = self.report.bench_report.comparison, self.effect
        ci = effect.ci
        now = {
            "verdict": self.verdict,
            "n_pairs": len(effect.d),
            "delta_mean": effect.delta_mean,
            "p_value": effect.p_value,
            "p_min": effect.p_min,
            "p_holm": self.p_holm,
            "ci": None if ci is None else list(ci),
            "ci_half_width": None if ci is None else (ci[1] - ci[0]) / 2,
            "mde": effect.mde,
            "mde_rel_pct": effect.mde_rel_pct,
            "idea_wins": effect.counts.wins,
            "ties": effect.counts.ties,
            "idea_losses": effect.counts.losses,
            "inert_ulps": effect.inert_ulps,
        }
        both = {key: (then.get(key), value) for key, value in now.items()}
        both["system_verdict"] = (self.report.system_verdict, self.system_verdict)
        both["practical_verdict"] = (
            self.report.practical_verdict,
            practical_verdict(self.verdict),
        )
        both["confidence"] = (self.report.confidence, confidence(self.audits))
        return both

    @property
    def is_void(self) -> bool:
        """Whether an audit makes it void."""
        return any(audit.severity == "void" for audit in self.audits)


def read(path: Path) -> list[Report]:
    """The comparisons of a report, of a bare `bench_report` too.

    Raises:
        AnalysisError: the file is no report.
    """
    expected = "expected a report (report.json), or its bench_report"
    try:
        text = path.read_bytes()
    except OSError as error:
        raise AnalysisError(f"{path}: {error.strerror}; {expected}") from error
    try:
        whole = Report.model_validate_json(text)
    except ValidationError as error:
        problem = first_error(error)
        if not problem.startswith("bench_report:"):
            raise AnalysisError(f"{path}: {problem}; {expected}") from error
        try:
            whole = Report(bench_report=Bench.model_validate_json(text))
        except ValidationError as inner:
            raise AnalysisError(f"{path}: {first_error(inner)}; {expected}") from inner
    reports = whole.comparisons or [whole]
    for report in reports:
        bench = report.bench_report
        arms = len(bench.baseline.full.per_seed), len(bench.idea.per_seed)
        if arms[0] != arms[1]:
            raise AnalysisError(
                f"{path}: {arms[0]} scores of {bench.baseline.name} and {arms[1]} of "
                f"{bench.idea.name} cannot be paired; {expected}"
            )
    return reports


def rejudge(reports: list[Report], rules: Rules) -> list[Rejudged]:
    """Judge every comparison of a report from its per-seed scores alone, Holm over all."""
    benches = [report.bench_report for report in reports]
    effects = [_effect(bench, rules, len(benches)) for bench in benches]
    audits = [
        tuple(_audits(report, effect)) for report, effect in zip(reports, effects, strict=True)
    ]
    void = [any(audit.severity == "void" for audit in found) for found in audits]
    p_holm, p_equivalence_holm = (
        holm([None if bad else getattr(e, p) for bad, e in zip(void, effects, strict=True)])
        for p in ("p_value", "p_equivalence")
    )
    return [
        Rejudged(
            report,
            effects[i],
            audits[i],
            p_holm[i],
            decide(
                audits[i],
                better=is_better(effects[i].delta_mean, _direction(report.bench_report)),
                inert_ulps=effects[i].inert_ulps,
                p_holm=p_holm[i],
                p_equivalence_holm=p_equivalence_holm[i],
                p_min=effects[i].p_min,
                family_size=len(reports),
                alpha=rules.alpha,
            ),
            _mechanism_ok(report.bench_report),
        )
        for i, report in enumerate(reports)
    ]


def _direction(bench: Bench) -> Literal["min", "max"]:
    return "min" if bench.metric_direction == "lower is better" else "max"


def _effect(bench: Bench, rules: Rules, comparisons: int) -> Effect:
    baseline, idea = _array(bench.baseline.full.per_seed), _array(bench.idea.per_seed)
    effect = measure(baseline, idea, _direction(bench), rules, comparisons)
    if effect.delta_mean is None:
        return effect
    recorded = bench.comparison.get("inert_ulps")  # over test examples, which is finer
    ulps = recorded if isinstance(recorded, int | float) else ulps_apart(baseline, idea)
    return replace(effect, inert_ulps=ulps)


def _array(scores: Scores) -> np.ndarray:
    return np.array([math.nan if score is None else score for score in scores])


def _models(bench: Bench) -> int | None:
    """Models that the signature was read off; None where the report does not say."""
    found = (bench.mechanism_signature or {}).get("n_models")
    return found if isinstance(found, int) else None


def _mechanism_ok(bench: Bench) -> bool:
    confirmed = (bench.mechanism_signature or {}).get("confirmed") is True
    return confirmed and (_models(bench) or 0) >= len(bench.idea.per_seed)


def _audits(report: Report, effect: Effect) -> Iterator[Audit]:
    """What a report alone can be asked; a report that holds audits keeps them."""
    bench = report.bench_report
    yield from _disagreements(bench, effect)
    if bench.audits is not None:
        for audit in bench.audits:
            yield Audit(**audit.model_dump())
        return
    if effect.delta_mean is None:
        yield Audit(
            "diverged_run", "void", "A score is missing: its run diverged.", "Judge the runs."
        )
    if effect.inert_ulps is not None and effect.inert_ulps <= INERT_ULPS:
        yield Audit(
            "inert",
            "warning",
            f"The arms agree to {number(effect.inert_ulps)} float32 ulps on every seed.",
            "Look for the reason why the mechanism never reached the output; whatever signature it "
            "shows says nothing about the score.",
        )
    yield from _selection(bench)
    n, models = len(bench.idea.per_seed), _models(bench)
    signature = bench.mechanism_signature
    if signature is None:
        yield Audit(
            "signature_not_recorded", "warning", "No signature was recorded.",
            "Train again with a prediction.",
        )  # fmt: skip
    elif models is None or models < n:
        said = "one model, as far as it says" if models is None else f"{models} models"
        yield Audit(
            "unconfirmed_signature",
            "warning",
            f"The signature was read off {said}, of {n}.",
            "Read it off every model.",
        )
    elif "per_model" not in signature:
        yield Audit(
            "signature_not_recorded",
            "note",
            f"What was observed in each of the {n} models was not recorded, nor what would have "
            "refuted it.",
            "Train again: every record keeps its criteria and what was observed.",
        )
    if bench.baseline.cost is None or bench.idea.cost is None:
        yield Audit(
            "parity_not_recorded",
            "warning",
            "Parameters and FLOPs of the arms were not recorded: the larger may win by size alone.",
            "Train again: every record keeps them.",
        )
        yield Audit(
            "cost_not_recorded", "note", "Time and memory were not recorded.",
            "Train again: every record keeps them.",
        )  # fmt: skip
    yield Audit(
        "hashes_not_recorded",
        "note",
        "Whether the arms of a seed saw the same data, batches and start values was not recorded.",
        "Train again: every record keeps their hashes.",
    )
    half_width, mde = effect.ci and (effect.ci[1] - effect.ci[0]) / 2, bench.comparison.get("mde")
    if half_width and isinstance(mde, float) and math.isclose(mde, half_width, rel_tol=1e-3):
        power = "" if effect.mde is None else f"; the MDE at power 0.8 is {number(effect.mde)}"
        yield Audit(
            "mde_was_half_width",
            "note",
            f"What it calls MDE, {number(mde)}, is the half-width of the 95 % interval{power}.",
            "Read the one that its scores have.",
        )


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
            grid = sorted({entry.cfg[key] for entry in sweep if key in entry.cfg})
            if len(grid) > 1 and value in (grid[0], grid[-1]):
                yield grid_edge_of(name, key, value, grid)
        if len(sweep) > 1 and all(entry.validation_mean is None for entry in sweep):
            on_test.append(f"{name} ({hyper_text(best)})")
        mean = next((entry.mean for entry in sweep if entry.cfg == best), None)
        if seeds := _tuning_seeds(mean, full.per_seed):
            on_seeds.append(f"{name} on seed {seed_list(range(seeds))}")
    if on_test:
        yield Audit(
            "selected_on_test",
            "warning",
            f"Chosen without validation scores, on scores of the kind that is reported: "
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


def _tuning_seeds(mean: float | None, per_seed: Scores) -> int | None:
    """How many of the first reported scores have the mean that the configuration was chosen by."""
    scores = _array(per_seed)
    for n in range(1, len(scores) + 1):
        if mean is not None and math.isclose(mean, scores[:n].mean(), rel_tol=1e-9):
            return n
    return None


def _disagreements(bench: Bench, effect: Effect) -> Iterator[Audit]:
    """Where a report's numbers are not those of its own scores."""
    said = bench.comparison
    wrong = []
    for name, mean, scores in (
        (bench.baseline.name, bench.baseline.full.mean, bench.baseline.full.per_seed),
        (bench.idea.name, bench.idea.mean, bench.idea.per_seed),
    ):
        if mean is not None and not math.isclose(mean, _array(scores).mean(), rel_tol=1e-6):
            wrong.append(f"the mean of {name} is {number(mean, 8)}, "
                         f"its scores have {number(float(_array(scores).mean()), 8)}")  # fmt: skip
    diffs = said.get("per_seed_diffs")
    if isinstance(diffs, list) and diffs != [None if math.isnan(x) else x for x in effect.d]:
        wrong.append("the per-seed differences are not those of the scores")
    wins = said.get("idea_wins")
    if wins is not None and wins != count_wins(effect.d, _direction(bench)).wins:
        wrong.append(f"{wins} wins are reported, the scores have {effect.counts.wins}")
    if wrong:
        yield Audit(
            "report_disagrees",
            "void",
            f"The report contradicts its own scores: {'; '.join(wrong)}.",
            "Judge the runs it was made from.",
        )


def as_json(rejudged: list[Rejudged]) -> dict[str, Any]:
    """Then and now, with the audits, for every comparison."""
    return {
        "comparisons": [
            {
                "comparison": each.title,
                "then": {key: then for key, (then, _) in each.then_and_now.items()},
                "now": {key: now for key, (_, now) in each.then_and_now.items()},
                "audits": [vars(audit) for audit in each.audits],
            }
            for each in rejudged
        ]
    }
