"""One run, from its configuration to its record, without a command line."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from omegaconf import DictConfig
from torch import Tensor

from records.files import RECORD
from records.record import SCHEMA
from tracks.track import Track
from training import record
from training.build import build
from training.config import CONF, config_hashes, identity, resolved, validated
from training.cost import cost
from training.errors import started
from training.fit import batch_order, evaluate, fit, mean
from training.observe import artifacts, observe, signature
from training.probes import probed
from training.probes.trained import Trained

LEAST_REACH = 1e-6  # of the gradient: a softmax-cancelled constant gets 1e-8, a live table 1e-2


def composed(*overrides: str) -> DictConfig:
    """The configuration of one run, as `python train.py OVERRIDE …` composes it."""
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose("config", list(overrides), return_hydra_config=True)


def train_one(
    cfg: DictConfig, directory: Path, choices: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Train one model, measure it, and leave its record in the directory; the record.

    Args:
        cfg: the run's configuration, as `composed` gives it.
        choices: the names of the YAMLs that were chosen, by group; None where `cfg` has Hydra's own
            part, which knows them.
    Raises:
        UserError: whatever in the configuration cannot be built; a directory with a finished run.
    """
    config = validated(cfg)
    who = identity(cfg, cfg.hydra.runtime.choices if choices is None else choices)
    record.refuse_overwriting(directory)
    track, network, start, optimizers = build(config)
    started()
    order = batch_order(config, len(track.train))
    hashes = {"config": config_hashes(cfg)} | record.hashes(track, start, order, config.allow)

    history = fit(network, track, optimizers, order, config)
    tests = {} if history.diverged else track.tests
    examples = {name: evaluate(network, track, split) for name, split in tests.items()}
    by_split = {"validation": history.validation} | examples if examples else {}
    scores, secondary = means(track, by_split)
    finished = not history.diverged and all(map(math.isfinite, scores.values()))

    found = {
        "schema": SCHEMA,
        "status": "finished" if finished else "diverged",
        **who,
        "baseline": config.baseline,
        "analysis": config.analysis.model_dump(),
        "metric": {
            "name": track.metric,
            **asdict(track.describe(track.metric)),
            "mean_over": track.mean_over,
        },
        "scores": scores,
        "secondary": secondary,
        "budget": {
            "epochs": config.training.epochs,
            "steps": history.steps,
            "examples": history.examples,
        },
        "cost": cost(network, track, config.training.batch_size)
        | {"train_seconds": history.seconds},
        "config": resolved(cfg),
        "probes": probed(Trained(network, start, track, by_split, finished)),
        "signature": signature(
            config.variant.signature,
            network,
            observe(network, start, track) if finished else [],
            observe(start, start, track),
        ),
        "hashes": hashes,
        "starts": record.starts(config.variant),
        "environment": record.environment(config, track.train.inputs.device),
    }
    record.write(
        directory,
        found,
        history=history.rows,
        examples=examples,
        artifacts=artifacts(network, track),
        weights=network.state_dict() if config.save_weights else None,
    )
    return found


def means(
    track: Track, by_split: dict[str, dict[str, Tensor]]
) -> tuple[dict[str, float], dict[str, Any]]:
    """The record's scores of the primary metric by split, and all others with what they are like.

    Args:
        by_split: every example's scores by name, (n,) each; empty after divergence.
    """
    names = list(by_split.get("test", {}))
    found = {
        name: {split: mean(by_name[name]) for split, by_name in by_split.items()} for name in names
    }
    nowhere = dict.fromkeys(("validation", *track.tests), math.nan)
    scores = found.pop(track.metric, nowhere)
    secondary = {
        name: asdict(track.describe(name)) | {"scores": by_name} for name, by_name in found.items()
    }
    references = {name: {"scores": by_name} for name, by_name in track.references.items()}
    return scores, secondary | references


def check_one(cfg: DictConfig) -> None:
    """Raise a UserError for whatever a dry pass finds wrong; a sweep does this before its first."""
    from training.check import check

    check(validated(cfg))


def summary(found: Mapping[str, Any], directory: Path) -> list[str]:
    """A run's last lines: its scores, what the probes found, where its record is."""
    metric = found["metric"]
    better = {"min": "lower", "max": "higher"}[metric["direction"]]
    scores = ", ".join(f"{split} {score:.4g}" for split, score in found["scores"].items())
    return [
        f"{found['status']}: {metric['name']} {scores} ({better} is better)",
        f"probes: {'; '.join(amiss(found)) or 'nothing amiss'}",
        f"record: {directory / RECORD}",
    ]


def amiss(found: Mapping[str, Any]) -> list[str]:
    """What the probes found wrong, in words."""
    probes, said = found["probes"], []
    if probes["causal"] is False:
        said.append("LEAK, outputs depend on later time steps")
    by_parameter = (probes["reach"] or {}).get("by_parameter", {})
    if dead := [name for name, reach in by_parameter.items() if reach < LEAST_REACH]:
        said.append(f"DEAD, the loss hardly depends on {', '.join(dead)}")
    if probes["split_overlap"]:
        said.append(
            f"OVERLAP, {probes['split_overlap']} test examples also stand in train or validation"
        )
    if probes["loss_ablation" if found["metric"]["can_tie"] else "ablation"] == 0:
        said.append("IDLE, the test score is the same without the mechanism")
    return said
