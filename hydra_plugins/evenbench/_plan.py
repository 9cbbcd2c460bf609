"""What a sweep sets out to run: checked whole, written down, then run."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path

from omegaconf import DictConfig

from hydra_plugins.evenbench import _processes
from training.config import SCHEMA, Config, digest, identity, run_name, validated
from training.errors import UserError, started
from training.files import write_json

log = logging.getLogger(__name__)


def plan(configs: list[DictConfig], overrides: Sequence[Sequence[str]], directory: Path) -> None:
    """Check all configurations of a sweep and write `plan.json` into its directory.

    Raises:
        UserError: a configuration that could not run, or two that would be one run.
    """
    checked = [validated(cfg) for cfg in configs]
    named: dict[str, Sequence[str]] = {}
    for cfg, line in zip(configs, overrides, strict=True):
        other = named.setdefault(run_name(_root_=cfg), line)
        if other is not line:
            raise UserError(
                f"two runs of this sweep would be one, {run_name(_root_=cfg)}: "
                f"[{' '.join(other)}] and [{' '.join(line)}]; sweep each value once, and besides "
                f"track, variant and seed only keys that are listed under tunable"
            )
    runs = [identity(cfg, cfg.hydra.runtime.choices) for cfg in configs]
    variants = {run["variant"] for run in runs}
    if len(variants) > 1 and checked[0].baseline not in variants:
        log.warning(
            "baseline is %s, which this sweep does not train (it trains %s): say baseline=NAME",
            checked[0].baseline,
            ", ".join(sorted(variants)),
        )
    tuning = set(checked[0].analysis.tuning_seeds)
    if tuning and not {run["seed"] for run in runs} - tuning:
        raise UserError(
            "analysis.tuning_seeds holds every seed of this sweep, and leaves none to report on: "
            "sweep more seeds"
        )
    _buildable(checked)
    write_json(directory / "plan.json", {"schema": SCHEMA, "runs": runs})
    started()


def _buildable(configs: list[Config]) -> None:
    """Build every distinct configuration once, in a process of its own that has torch."""
    distinct = {
        digest(config.model_dump(exclude={"seed", "lr", "mechanism_lr_scale"})): config
        for config in configs
    }
    here, there = _processes.context.Pipe()
    process = _processes.start(_check, (list(distinct.values()), there))
    there.close()
    try:
        complaint = here.recv()
    except EOFError:
        process.join()
        raise UserError(
            f"checking the configurations ended with exit status {process.exitcode}"
        ) from None
    if complaint:
        raise UserError(complaint)


def _check(configs: list[Config], connection: Connection) -> None:
    """Send the first thing that cannot be built, in words; None where all can."""
    from training.build import build

    for config in configs:
        try:
            build(config)
        except UserError as error:
            return connection.send(str(error))
        except Exception as error:  # whatever a mechanism's own code raises, before it costs a run
            mixer = config.variant.mixer.get("_target_")
            return connection.send(f"{mixer}: {type(error).__name__}: {error}")
    return connection.send(None)
