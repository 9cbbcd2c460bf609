"""report.json: everything that was judged, in the shape of the earlier reports."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from analysis.errors import AnalysisError
from analysis.judge.budgets import doublings
from analysis.judge.compare import Comparison, Effect, Side
from analysis.judge.select import Candidate
from analysis.judge.statistics import mean_std
from analysis.judge.verdict import Judged
from analysis.read.recorded import RecordedRun
from analysis.tell import prose
from records.record import Cost
from records.signature import Signature

BENCH_VERSION = 2
NAME = "report.json"
# What the earlier reports' mechanism_signature calls a metric that has another name today, and
# whether it is a list there: then, one value a block.
EARLIER_NAMES = {
    "observed_max_factor_singular": ("max_singular_value", False),
    "factor_largest_singular_values": ("max_singular_value", True),
    "probe_norm_ratio_after_mixing": ("mixing_norm_ratio", False),
}

Json = dict[str, Any]


def build(judged: Sequence[Judged], absent: Sequence[str], how_to_run: str) -> Json:
    """The whole report: the first comparison at the top, every one under `comparisons`.

    `absent`: sentences about arms without records. `how_to_run`: the command that was given.
    """
    comparisons = [_one(each, absent, how_to_run, _tracks(each, judged)) for each in judged]
    return {**comparisons[0], "comparisons": comparisons}


def write(report: Json, folder: Path) -> Path:
    """Write report.json into `folder`, whole or not at all; every non-finite number is null.

    Raises:
        AnalysisError: the folder cannot be written.
    """
    text = msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n"
    path, draft = folder / NAME, folder / f".{NAME}.{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            draft.write_bytes(text)
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise AnalysisError(
            f"cannot write {path}: {error.strerror}; name another directory with --out DIR"
        ) from error
    return path


def _tracks(one: Judged, judged: Sequence[Judged]) -> list[str]:
    """The tracks on which the same two arms are compared."""
    arms = one.comparison.baseline.name, one.comparison.idea.name
    tracks = (
        each.comparison.track
        for each in judged
        if (each.comparison.baseline.name, each.comparison.idea.name) == arms
    )
    return list(dict.fromkeys(tracks))


def _one(judged: Judged, absent: Sequence[str], how_to_run: str, tracks: Sequence[str]) -> Json:
    """One comparison, as the earlier reports have it."""
    comparison = judged.comparison
    baseline, idea = _arm(comparison.baseline), _arm(comparison.idea)
    signature = _signature(judged)
    effect = _comparison(judged)
    return {
        "worked": judged.system_verdict == "worked",
        "confidence": judged.confidence,
        "verdict": prose.verdict_sentence(judged, (baseline["mean"], idea["mean"])),
        "metrics": {
            "baseline": prose.arm_sentence(
                judged, comparison.baseline, baseline["mean"], baseline["std"]
            ),
            "idea": prose.arm_sentence(judged, comparison.idea, idea["mean"], idea["std"]),
            "paired_comparison": {
                key: effect[key]
                for key in ("delta_mean", "p_value", "idea_wins", "n_pairs", "verdict")
            },
            "mechanism_signature": signature,
        },
        "bench_report": {
            "bench_version": BENCH_VERSION,
            "track": comparison.track,
            "track_choice": prose.track_choice(judged),
            "model": prose.model(judged),
            "parameterization": prose.parameterization(comparison.idea),
            "metric_direction": comparison.metric.better,
            "n_seeds": len(comparison.seeds),
            "baseline": {
                "best_cfg": baseline["best_cfg"],
                "sweep": baseline["sweep"],
                "full": {key: baseline[key] for key in ("mean", "std", "per_seed", "n")},
                "name": baseline["name"],
                "cost": baseline["cost"],
                "secondary": baseline["secondary"],
            },
            "idea": idea,
            "comparison": effect,
            "idea_sweep": idea["sweep"],
            "idea_config": idea["best_cfg"],
            "search_space": {
                "baseline_grid": [entry["cfg"] for entry in baseline["sweep"]],
                "idea_grid": [entry["cfg"] for entry in idea["sweep"]],
            },
            "mechanism_signature": signature,
            "protocol_notes": prose.protocol_notes(judged),
            "audits": [vars(raised) for raised in judged.audits],
        },
        "how_to_run": how_to_run,
        "files": [NAME],
        "limitations": prose.limitations(judged, absent, tracks),
        "system_verdict": judged.system_verdict,
        "practical_verdict": judged.practical_verdict,
        "mechanism_ok": int(judged.mechanism_ok),
        "system_judged": judged.system_verdict != "invalid",
    }


def _comparison(judged: Judged) -> Json:
    comparison, effect = judged.comparison, judged.comparison.effect
    return {
        "length": comparison.length,
        "baseline": comparison.baseline.name,
        "idea": comparison.idea.name,
        "metric": comparison.metric.name,
        "delta_mean": effect.delta_mean,
        "idea_wins": effect.counts.wins,
        "ties": effect.counts.ties,
        "idea_losses": effect.counts.losses,
        "n_pairs": len(comparison.seeds),
        "seeds": list(comparison.seeds),
        "tuning_seeds": sorted(comparison.rules.tuning_seeds),
        "per_seed_diffs": effect.d.tolist(),
        "p_value": judged.p_value,
        "p_min": effect.p_min,
        "p_holm": judged.p_holm,
        "p_selection_aware": None if judged.p_value is None else effect.p_selection_aware,
        "family_size": comparison.family_size,
        "family": comparison.rules.family,
        "alpha": comparison.rules.alpha,
        "ci": effect.ci,
        "ci_signflip": effect.ci_signflip,
        "ci_signflip_family": effect.ci_signflip_family,
        "ci_half_width": None if effect.ci is None else (effect.ci[1] - effect.ci[0]) / 2,
        "dz": effect.dz,
        "hedges_g": effect.hedges_g,
        "prob_improvement": effect.prob_improvement,
        "prob_improvement_ci": effect.prob_improvement_ci,
        "pairing_rho": effect.pairing_rho,
        "mde": effect.mde,
        "mde_rel_pct": effect.mde_rel_pct,
        "seeds_needed": effect.seeds_needed,
        "margin": effect.margin,
        "margin_pct": comparison.rules.margin_pct,
        "p_equivalence": judged.p_equivalence,
        "p_equivalence_holm": judged.p_equivalence_holm,
        "inert_ulps": effect.inert_ulps,
        "looks": _looks(judged),
        "noise": None if effect.noise is None else vars(effect.noise),
        "further_splits": {
            split: _further(each, judged.is_void)
            for split, each in comparison.further_splits.items()
        },
        "budgets": _budgets(comparison),
        "expected": _expected(judged),
        "verdict": judged.verdict,
        "why": judged.why,
        "system_worked": judged.system_verdict == "worked",
    }


def _expected(judged: Judged) -> Json | None:
    """The ordering that was published, and what became of it; None where none was said."""
    said = judged.comparison.expected
    if said is None:
        return None
    return {"verdict": said.verdict, "source": said.source, "outcome": judged.as_expected}


def _looks(judged: Judged) -> Json | None:
    """How a tuned design looked, and where it stopped; None where every combination was run."""
    comparison, effect = judged.comparison, judged.comparison.effect
    if comparison.design is None:
        return None
    stop = comparison.stop
    return {
        "planned": comparison.design.looks(comparison.track),
        "made": [
            {
                "pairs": look.pairs,
                "spent": look.spent,
                "boundary": look.boundary,
                "p": None if judged.is_void else look.p,
            }
            for look in effect.looks
        ],
        "stopped": stop and {"pairs": stop.pairs, "why": stop.why},
        "median_unbiased": effect.median_unbiased,
    }


def _budgets(comparison: Comparison) -> list[Json]:
    """The difference at every training budget, and what became of it as the budget doubled."""
    since = {2 * each.start: each for each in doublings(comparison.budgets)}
    return [
        {
            "factor": each.factor,
            "n": len(each.d),
            "delta_mean": each.mean,
            "standard_error": each.standard_error,
            "seeds": sorted(each.d),
            "per_seed_diffs": each.values.tolist(),
            "left_out": list(each.left_out),
            "since_half": {
                "seeds": list(since[each.factor].seeds),
                "before": since[each.factor].before,
                "after": since[each.factor].after,
                "standard_error": since[each.factor].standard_error,
            }
            if each.factor in since
            else None,
        }
        for each in comparison.budgets
    ]


def _further(effect: Effect, is_void: bool) -> Json:
    """The effect on a further test split, which decides nothing: its p is not corrected."""
    return {
        "delta_mean": effect.delta_mean,
        "idea_wins": effect.counts.wins,
        "ties": effect.counts.ties,
        "idea_losses": effect.counts.losses,
        "n_pairs": len(effect.d),
        "per_seed_diffs": effect.d.tolist(),
        "p_value": None if is_void else effect.p_value,
        "ci": effect.ci,
        "ci_signflip": effect.ci_signflip,
        "dz": effect.dz,
    }


def _arm(side: Side) -> Json:
    mean, std = mean_std(side.scores)
    names = sorted({name for run in side.paired for name in run.record.secondary})
    further = {"test", *(split for run in side.paired for split in run.record.scores)}
    splits = ["validation", *sorted(further - {"validation"}, key=by_length)]
    return {
        "name": side.name,
        "mean": mean,
        "std": std,
        "per_seed": side.scores.tolist(),
        "n": len(side.paired),
        "best_cfg": side.selection.best.hyper,
        "sweep": [_entry(candidate) for candidate in side.selection.candidates],
        "cost": {
            name: mean_of(getattr(run.record.cost, name) for run in side.selected.values())
            for name in Cost.__struct_fields__
        },
        "secondary": {
            name: {
                split: mean_of(secondary(run, name, split) for run in side.paired)
                for split in splits
            }
            for name in names
        },
        "by_split": {
            split: mean_of(run.scores(run.metric.name).get(split) for run in side.paired)
            for split in splits
        },
    }


def by_length(split: str) -> tuple[int, str]:
    """`test`, then `test@64` before `test@128`."""
    end = split.partition("@")[2]
    return (int(end) if end.isdecimal() else 0), split


def _entry(candidate: Candidate) -> Json:
    """One configuration; its means are over the seeds that selection compared."""
    return {
        "cfg": candidate.hyper,
        "mean": mean_of(candidate.test),
        "validation_mean": mean_of(candidate.validation),
        "per_seed": list(candidate.test),
        "n": len(candidate.test),
        "n_runs": len(candidate.runs),
        "n_diverged": candidate.diverged,
    }


def _signature(judged: Judged) -> Json:
    """The prediction, and every observed value: mean over models, per seed, at the start."""
    runs = sorted(judged.comparison.idea.selected.items())
    each = [run.record.signature for _, run in runs]  # None where a run predicts nothing
    signatures = [signature for signature in each if signature is not None]
    observed = {
        name: [None if signature is None else signature.observed.get(name) for signature in each]
        for name in sorted({name for signature in signatures for name in signature.observed})
    }
    at_start = {
        name: [None if s is None else (s.observed_at_start or {}).get(name) for s in each]
        for name in observed
    }
    by_construction = {
        name: why for signature in signatures for name, why in signature.by_construction.items()
    }
    criteria = signatures[0].criteria if signatures else []
    return {
        "prediction": signatures[0].prediction if signatures else None,
        "criteria": criteria,
        **{f"observed_{name}": mean_of(values) for name, values in observed.items()},
        **{
            earlier: _by_block(each, name) if by_block else mean_of(observed[name])
            for earlier, (name, by_block) in EARLIER_NAMES.items()
            if name in observed
        },
        "per_model": observed,
        "at_start": {name: mean_of(values) for name, values in at_start.items()},
        "per_model_at_start": at_start,
        "blocks": [None if signature is None else signature.blocks for signature in each],
        "by_construction": by_construction,  # no evidence: these had to hold
        "n_models": len(runs),
        "n_confirmed": judged.signature_confirmed,
        "confirmed": judged.mechanism_ok,
    }


def _by_block(signatures: Sequence[Signature | None], metric: str) -> list[float | None] | None:
    """A metric's mean over the models, for each block; None where a record lacks the blocks'."""
    models = [signature.blocks if signature else None for signature in signatures]
    blocks = [of_model for of_model in models if of_model is not None]
    if len(blocks) < len(models) or len({len(of_model) for of_model in blocks}) != 1:
        return None
    return [mean_of(block.get(metric) for block in each) for each in zip(*blocks, strict=True)]


def secondary(run: RecordedRun, name: str, split: str) -> float | None:
    """A run's secondary score on `split`; None if it has none."""
    return run.scores(name).get(split) if name in run.record.secondary else None


def mean_of(values: Iterable[float | None]) -> float | None:
    """Mean of all values; None if one of them is missing, or there are none."""
    known = list(values)
    if not known or None in known:
        return None
    mean = math.fsum(value / len(known) for value in known if value is not None)
    return mean if math.isfinite(mean) else None
