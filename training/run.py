"""One run, from its configuration to its record, without a command line."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from omegaconf import DictConfig
from torch import Tensor

from records.record import SCHEMA
from training import record
from training.build import build, is_scaled
from training.config import Config, acting, config_hashes, resolved, run_identity, validated
from training.cost import cost
from training.errors import started
from training.fit import batch_order, evaluate, fit, steps_of
from training.observe import artifacts, observe, signature
from training.paths import CONF
from training.probes import probed
from training.probes.trained import Trained


def composed(*overrides: str) -> DictConfig:
    """The configuration of one run, as `python train.py OVERRIDE …` composes it."""
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose("config", list(overrides), return_hydra_config=True)


def train_one(
    cfg: DictConfig, directory: str | Path, choices: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Train one model, measure it, and leave its record in the directory; the record.

    Args:
        cfg: the run's configuration, as `composed` gives it.
        directory: where to; made where it is not there.
        choices: the names of the YAMLs that were chosen, by group; None where `cfg` has Hydra's own
            part, which knows them.
    Raises:
        UserError: whatever in the configuration cannot be built; a directory with a finished run.
    """
    config = validated(cfg)
    who = run_identity(cfg, cfg.hydra.runtime.choices if choices is None else choices)
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    record.refuse_overwriting(directory)
    track, network, start, optimizers = build(config)
    started()
    order = batch_order(config, len(track.train))
    hashes = {"config": config_hashes(cfg)} | record.hashes(track, start, order, config.allow)

    history = fit(network, track, optimizers, order, config)
    tests = {} if history.diverged else track.tests
    examples: dict[str, dict[str, Tensor]] = {}
    seconds: dict[str, float] = {}  # by split, to score it
    for name, split in tests.items():
        since = time.perf_counter()
        examples[name] = evaluate(network, track, split)
        seconds[name] = time.perf_counter() - since
    by_split = {"validation": history.validation} | examples if examples else {}
    measured = record.measured(track, by_split)
    finished = not history.diverged and all(map(math.isfinite, measured["scores"].values()))

    predicted = config.variant.signature
    found = {
        "schema": SCHEMA,
        "status": "finished" if finished else "diverged",
        **who,
        "acting": acting(cfg, is_scaled(start)),
        "baseline": config.baseline,
        "analysis": config.analysis.model_dump(),
        **measured,
        "budget": {
            "epochs": epochs(config, len(track.train)),
            "steps": history.steps,
            "examples": history.examples,
        },
        "cost": cost(network, track, config.training.batch_size)
        | {"train_seconds": history.seconds, "evaluate_seconds": seconds.get("test")},
        "config": resolved(cfg),
        "probes": probed(Trained(network, track, by_split, finished)),
        "signature": predicted
        and signature(
            predicted,
            network,
            observe(network, start, track) if finished else [],
            observe(start, start, track),
        ),
        "hashes": hashes,
        "context": math.prod(track.axes),
        "overlap": track.overlap,
        "environment": record.environment(config, track.train.inputs.device),
    }
    record.write(
        directory,
        found,
        history=history.rows,
        examples=examples,
        artifacts=artifacts(network, track) if finished else {},
        weights=network.state_dict() if config.save_weights else None,
    )
    return found


def epochs(config: Config, examples: int) -> float:
    """How often a run of so many training examples passes over them; whole where it can be."""
    total, per_epoch = steps_of(config, examples)
    return total / per_epoch if total % per_epoch else total // per_epoch
