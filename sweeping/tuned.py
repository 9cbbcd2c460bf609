"""A tuned design, batch after batch: how its runs are composed, what of, and what they became."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from omegaconf import DictConfig

from analysis.read.recorded import RecordedRun
from records.files import RECORD
from records.identity import Identity, Value
from records.record import PlannedRun, read_record
from sweeping import resume
from sweeping.rule import Axes
from sweeping.work import edited
from training.config import TUNABLE_GROUPS, config_hashes, digest, resolved, run_identity, run_name
from training.errors import UserError

Parts = dict[str, str]  # what a run is made of, and judged by → its hash


def line(axes: Axes, run: PlannedRun, keys: Iterable[str]) -> list[str]:
    """The overrides of a run; `keys` are those of the grid."""
    said: dict[str, Value] = {"track": run.track, "variant": run.variant, "seed": run.seed}
    said |= {key: run.hyper[key] for key in keys}
    overrides: list[str] = []
    for key, entries in axes.items():
        name = key.lstrip("+")
        overrides += [f"{key}={_text(said[name])}"] if name in said else entries
    return overrides + ([] if run.budget_factor == 1 else [f"budget={_text(run.budget_factor)}"])


def _text(value: Value) -> str:
    return value if isinstance(value, str) else format(value, ".12g")


class Frozen:
    """What the first batch was made of: a later one is to be made of the same.

    A sweep that is resumed begins anew: what an edit changes is stale there, and redone.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.code: dict[str, str] = {}  # the files that the runs import, with their hashes
        self.arms: dict[tuple[str, ...], Parts] = {}  # track, variant, chosen YAMLs → what it is of

    def check(self, configs: Sequence[DictConfig], runs: Sequence[PlannedRun]) -> None:
        """Raise a UserError where the code, or a YAML, is no longer what it was at the start."""
        changed = set(edited(self.code))
        arms: dict[tuple[str, ...], DictConfig] = {}
        for config, run in zip(configs, runs, strict=True):
            chosen = [str(run.hyper[key]) for key in TUNABLE_GROUPS if key in run.hyper]
            arms[run.track, run.variant, *chosen] = config
            if resume.who(run_identity(config, config.hydra.runtime.choices)) != run.identity:
                changed.add(f"hyper of {run.variant} on {run.track}")
        for arm, config in arms.items():
            now = _parts(config)
            then = self.arms.setdefault(arm, now)
            of = f"of {arm[1]} on {arm[0]}"
            changed |= {f"{part} {of}" for part in now if now[part] != then[part]}
        if changed:
            raise UserError(
                f"{', '.join(sorted(changed))} changed under way, so that other runs would not be "
                f"made as those before: undo it, or have what it changes redone, and give the "
                f"command again with hydra.sweep.dir={self.directory}"
            )


def _parts(config: DictConfig) -> Parts:
    task = resolved(config)
    rules = [task[key] for key in ("analysis", "design", "baseline", "tunable")]
    return config_hashes(config) | {"rules": digest(rules)}


def read(
    directory: Path, configs: Iterable[DictConfig], runs: Iterable[PlannedRun]
) -> dict[Identity, RecordedRun]:
    """The finished runs of a batch, by who they say they are.

    Raises:
        RuntimeError: a record is not of the run that was asked for.
    """
    found: dict[Identity, RecordedRun] = {}
    for config, run in zip(configs, runs, strict=True):
        folder = str(directory / run_name(_root_=config))
        record = read_record(os.path.join(folder, RECORD))
        if record.identity != run.identity:
            raise RuntimeError(f"{folder} holds {record.identity}, not {run.identity}")
        found[record.identity] = RecordedRun(record, folder)
    return found
