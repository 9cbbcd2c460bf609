"""Synthetic sweeps: clean by default, so that a test plants one fault and nothing else.

records = grid()                              # 2 arms × 3 learning rates × 8 seeds, as dicts
pick(records, "idea", seed=3)[0]["probes"]["reach"] = 1e-8     # the fault
write_sweep(folder, records)                  # result.json, examples.npz of each, plan.json
[judged] = analysed(folder)                   # one comparison, audited and judged
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from analysis.judge.audits.audit import Audit
from analysis.judge.compare import Effect
from analysis.judge.statistics import Counts
from analysis.judge.sweep import judge_sweep
from analysis.judge.verdict import Conclusion, Judged

Json = dict[str, Any]

LRS = (0.0015, 0.003, 0.006)
BEST_LR = 0.003  # in the middle of the grid
EFFECT = {"baseline": 0.0}  # what an arm adds to the test score; other arms are better


def record(
    variant: str,
    seed: int,
    lr: float = BEST_LR,
    *,
    test: float | None = None,
    validation: float | None = None,
    track: str = "sequence",
    baseline: str | None = "baseline",
    budget: float = 1,
) -> Json:
    """A run record with every field; scores left out depend on variant, seed and lr alone."""
    noise = np.random.default_rng([seed, *variant.encode()]).normal()
    score = 0.3 + 0.02 * (seed % 5) + EFFECT.get(variant, -0.05) + 0.004 * noise
    score += 0.0 if lr == BEST_LR else 0.03 + lr / 100
    return {
        "schema": 3,
        "status": "finished",
        "track": track,
        "variant": variant,
        "seed": seed,
        "hyper": {"lr": lr, "gamma": 1.0},
        "budget_factor": budget,
        "baseline": baseline,
        "metric": {"name": "mse", "direction": "min", "bounds": [0, None], "can_tie": False},
        "analysis": {"alpha": 0.05, "margin_pct": 1.0, "family": "all", "tuning_seeds": []},
        "scores": {
            "validation": score + 0.01 if validation is None else validation,
            "test": score if test is None else test,
        },
        "secondary": {
            "mae": {
                "scores": {"validation": 0.31, "test": 0.33},
                "direction": "min",
                "bounds": [0, None],
                "can_tie": False,
            },
            "persistence_mse": {"scores": {"validation": 0.8, "test": 0.9}},
        },
        "budget": {"epochs": 10, "steps": 250, "examples": 8000},
        "cost": {
            "parameters": 101832,
            "mixer_parameters": 33280,
            "flops_per_example": 6.1e6,
            "saved_bytes": 1.2e7,
            "peak_bytes": 3.1e8,
            "train_seconds": 3.4,
            "evaluate_seconds": 0.1,
        },
        "probes": {
            "reach": {"all": 0.031, "by_parameter": {"blocks.0.mixer.bias.log_rates": 0.031}},
            "ablation": 0.0121,
            "loss_ablation": None,
            "causal": True,
            "split_overlap": 0,
        },
        "signature": {
            "prediction": "the rates move",
            "criteria": [{"metric": "rate_distance_from_start", "op": ">", "value": 0.01}],
            "observed": {"rate_distance_from_start": 0.21, "bias_max_first_difference": -0.0446},
            "observed_at_start": {
                "rate_distance_from_start": 0.0,
                "bias_max_first_difference": -0.06,
            },
            "blocks": [
                {"rate_distance_from_start": 0.25, "bias_max_first_difference": -0.05},
                {"rate_distance_from_start": 0.17, "bias_max_first_difference": -0.0446},
            ],
            "by_construction": {"bias_max_first_difference": "a mixture only decays"},
        },
        "hashes": {
            "config": {
                "track": f"track-{track}",
                "variant": f"variant-{variant}",
                "model": "model-tiny",
                "optimizer": "optimizer-adamw",
                "training": "training-10",
            },
            "code": {"models/attention.py": "a1"},
            "data": f"data-{track}-{seed}",
            "order": f"order-{seed}",
            "init": {
                "embed.weight 64x1": f"embed-{seed}",
                "blocks.0.mixer.query.weight 64x64": f"query-{seed}",
                "head.bias 8": f"head-{seed}",
            },
        },
        "overlap": 0,
        "environment": {
            "python": "3.12",
            "torch": "2",
            "device": "cpu",
            "threads": 1,
            "compiled": False,
            "precision": "float32",
        },
        "config": {
            "track": {"_target_": "tracks.sequence.Sequence", "context": 32, "noise": 0.2},
            "variant": {
                "mixer": {"_target_": "models.attention.Attention", "bias": {"kind": variant}},
                "frozen": False,
                "initial_stream": "initialisation",
            },
            "model": {"dim": 64, "heads": 4, "layers": 2},
            "optimizer": {"algorithm": {"_target_": "torch.optim.AdamW"}, "weight_decay": 0.01},
            "training": {"epochs": 10, "batch_size": 32},
            "seed": seed,
            "lr": lr,
            "gamma": 1.0,
            "compile": False,
            "precision": "float32",
        },
    }


def grid(
    variants: Sequence[str] = ("baseline", "idea"),
    seeds: Iterable[int] = range(8),
    lrs: Sequence[float] = LRS,
    **fields: Any,
) -> list[Json]:
    """Records of a whole sweep; `fields` as of `record`."""
    seeds = list(seeds)
    return [record(v, seed, lr, **fields) for v in variants for lr in lrs for seed in seeds]


def pick(
    records: Iterable[Json], variant: str, seed: int | None = None, lr: float | None = BEST_LR
) -> list[Json]:
    """The records of a variant with this seed and lr; None for any."""
    return [
        each
        for each in records
        if each["variant"] == variant
        and seed in (None, each["seed"])
        and lr in (None, each["hyper"]["lr"])
    ]


def diverge(run: Json) -> None:
    """Turn a record into one of a run that diverged."""
    run["status"] = "diverged"
    run["scores"] = {"validation": None, "test": None}


def can_tie(run: Json, accuracy: float = 1.0, loss: float | None = None) -> None:
    """Turn a record into one of a track whose primary metric is accuracy.

    The accuracy is the same on both splits; the loss is what the scores were, if not `loss`.
    """
    scores = run["scores"] if loss is None else {"validation": loss, "test": loss}
    run["metric"] = {"name": "accuracy", "direction": "max", "bounds": [0, 1], "can_tie": True}
    run["scores"] = {"validation": accuracy, "test": accuracy}
    smooth = {"direction": "min", "bounds": [0, None], "can_tie": False}
    run["secondary"] = {"loss": {"scores": scores, **smooth}}
    run["probes"]["loss_ablation"] = 0.0121


def as_older(run: Json) -> None:
    """Turn a record into one of schema 2, from before the optional fields were recorded."""
    as_schema_2(run)
    del run["overlap"], run["cost"]["evaluate_seconds"]
    del run["metric"]["bounds"], run["metric"]["can_tie"]
    for scores in run["secondary"].values():
        scores.pop("bounds", None)
        scores.pop("can_tie", None)
    del run["probes"]["reach_by_parameter"], run["probes"]["loss_ablation"]
    if run["signature"] is not None:
        del run["signature"]["observed_at_start"], run["signature"]["blocks"]


def as_schema_2(run: Json) -> None:
    """Turn a record into what the same run left when records were of schema 2."""
    run["schema"] = 2
    del run["config"], run["budget_factor"]
    for scores in run["secondary"].values():
        scores |= scores.pop("scores")
    reach = run["probes"]["reach"]
    run["probes"] |= {"reach": reach["all"], "reach_by_parameter": reach["by_parameter"]}
    run["overrides"] = [f"variant={run['variant']}", f"seed={run['seed']}"]


def write_run(folder: Path, run: Json, examples: np.ndarray | None = None) -> Path:
    """Write one run's folder; `examples`: per-example test scores, float32, of a smooth metric."""
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps(run))
    if examples is not None:
        metric = "loss" if run["metric"].get("can_tie") else run["metric"]["name"]
        write_examples(folder, **{f"test/{metric}": examples})
    return folder


def write_examples(folder: Path, **arrays: np.ndarray) -> None:
    """Write `examples.npz`, float32, over one that may be there."""
    np.savez(
        folder / "examples.npz", **{name: each.astype(np.float32) for name, each in arrays.items()}
    )


def write_sweep(
    folder: Path,
    records: Sequence[Json],
    *,
    plan: Sequence[Json] | None = None,
    planned: bool = True,
    examples: bool = True,
) -> Path:
    """Write a sweep; its plan holds `plan` (by default: `records`), or is left out."""
    folder.mkdir(parents=True, exist_ok=True)
    for i, run in enumerate(records):
        losses = None
        if examples and run["status"] == "finished":
            generator = np.random.default_rng([i, 1])
            losses = generator.uniform(0.999, 1.001, size=20)  # a test sample that adds no noise
            scores = (
                run["secondary"]["loss"]["scores"]
                if run["metric"].get("can_tie")
                else run["scores"]
            )
            losses *= scores["test"] / losses.mean()
        write_run(folder / f"{i:04d}-{run['variant']}-{run['seed']}", run, losses)
    if planned:
        keys = ("track", "variant", "seed", "hyper", "budget_factor")
        runs = [
            {key: run[key] for key in keys if key in run}
            for run in (records if plan is None else plan)
        ]
        (folder / "plan.json").write_text(json.dumps({"schema": 3, "runs": runs}))
    return folder


def analysed(
    *paths: Path, baseline: str | None = None, metric: str | None = None, **asked: Any
) -> list[Judged]:
    """What `analyze.py` concludes about sweeps, without its report; `asked` as of `agreed`."""
    return judge_sweep(paths, baseline=baseline, metric=metric, **asked)


EVERYTHING = Effect(
    np.array([-0.1] * 8), Counts(8, 0, 0), p_min=1.0, delta_mean=-0.1, inert_ulps=0.0
)  # fmt: skip


def conclusion(
    *audits: Audit,
    p_holm: float | None = 0.01,
    p_equivalence_holm: float | None = 0.01,
    family_size: int = 1,
    **effect: Any,
) -> Conclusion:
    """Where every verdict applies, unless said otherwise; `effect` as of `Effect`."""
    return Conclusion(
        effect=replace(EVERYTHING, **effect),
        direction="min",
        audits=audits,
        mechanism_ok=True,
        idea_failed=False,
        family="all",
        family_size=family_size,
        alpha=0.05,
        p_value=p_holm,
        p_holm=p_holm,
        p_equivalence=p_equivalence_holm,
        p_equivalence_holm=p_equivalence_holm,
    )
