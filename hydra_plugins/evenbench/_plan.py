"""What a sweep sets out to run: checked whole, written down, compared with what is there."""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from hydra_plugins.evenbench import _processes, _resume
from training.config import SCHEMA, Config, config_hashes, digest, identity, run_name, validated
from training.errors import UserError, started
from training.files import write_json

log = logging.getLogger(__name__)

Record = dict[str, Any]


def plan(
    configs: list[DictConfig], overrides: Sequence[Sequence[str]], directory: Path
) -> tuple[list[int], dict[str, str]]:
    """Check all configurations of a sweep, write its `plan.json`, and say which are to be run.

    Returns the indices of these, and the project's files that the sweep imports with their hashes.

    A run whose record is there, and was made of what it would be made of today, is kept; what a
    redone run left is set aside.

    Raises:
        UserError: a configuration that could not run, two that would be one run, or a directory
            that holds another sweep.
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
    _same_plan(runs, directory)
    names = list(named)
    records = {i: r for i, name in enumerate(names) if (r := _resume.finished(directory / name))}
    others = _resume.elsewhere(checked[0].reuse)
    borrowed = {
        i: others[_resume.who(run)]
        for i, run in enumerate(runs)
        if i not in records and _resume.who(run) in others
    }
    code, today = _build(checked, [*records, *borrowed])
    today = {i: {"config": config_hashes(configs[i])} | found for i, found in today.items()}
    write_json(directory / "plan.json", {"schema": SCHEMA, "runs": runs})
    started()

    taken, foreign = _taken(borrowed, today, directory, names, checked[0].baseline)
    kept, stale = _kept(records, today, directory, names, taken)
    if borrowed:
        log.info("%d of %d runs are taken from other sweeps", len(taken), len(runs))
    if records:
        log.info("%d of %d runs are finished and kept", len(kept), len(runs))
    for why, each in (foreign | stale).items():
        arms = ", ".join(sorted({runs[i]["variant"] for i in each}))
        log.info("%d runs (%s) are %s", len(each), arms, why)
    return [i for i in range(len(runs)) if i not in taken | kept], code


Reasons = dict[str, list[int]]  # why runs are to be trained → which, by index


def _taken(
    borrowed: Mapping[int, tuple[Path, Record]],
    today: Mapping[int, Record],
    directory: Path,
    names: Sequence[str],
    baseline: str | None,
) -> tuple[set[int], Reasons]:
    """Copy other sweeps' runs that would come out the same here; which, and why not the others."""
    taken, foreign = set[int](), defaultdict[str, list[int]](list)
    for i, (source, record) in borrowed.items():
        if why := _resume.changed(record["hashes"] | _environment(record), today[i]):
            foreign[f"not taken from {source.parent}: {why} differs"].append(i)
        else:
            _resume.take(source, directory / names[i], baseline)
            taken.add(i)
    return taken, foreign


def _kept(
    records: Mapping[int, Record],
    today: Mapping[int, Record],
    directory: Path,
    names: Sequence[str],
    taken: set[int],
) -> tuple[set[int], Reasons]:
    """Set aside what is stale or damaged; which runs are finished, and why the others are not."""
    kept, stale = set[int](), defaultdict[str, list[int]](list)
    for i, name in enumerate(names):
        if i in taken or not (directory / name / _resume.RECORD).exists():
            continue
        why = "redone, for their records cannot be read"
        if i in records:
            now = {part: value for part, value in today[i].items() if part != "environment"}
            changed = _resume.changed(records[i]["hashes"], now)
            if changed is None:
                kept.add(i)
                continue
            why = (
                f"redone, for {changed} has changed since; the old records are in "
                f"{directory / _resume.SUPERSEDED}"
            )
        _resume.set_aside(directory, name)
        stale[why].append(i)
    return kept, stale


def _environment(record: dict[str, Any]) -> dict[str, Any]:
    """Where a run ran, but for the commit: the hashes of the files say more."""
    found = record.get("environment", {})
    return {"environment": {key: value for key, value in found.items() if key != "commit"}}


def _same_plan(runs: list[dict[str, Any]], directory: Path) -> None:
    """Raise a UserError where the directory holds another sweep than this one."""
    path = directory / "plan.json"
    if not path.exists():
        return
    try:
        there = json.loads(path.read_text())["runs"]
        same = sorted(map(str, there)) == sorted(map(str, runs))
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(f"{path} cannot be read: choose another hydra.sweep.dir") from None
    if not same:
        raise UserError(
            f"{directory} already holds another sweep, of {len(there)} runs: choose another "
            f"hydra.sweep.dir (analyze.py takes several), or give the command it was begun with"
        )


def _build(
    configs: list[Config], finished: list[int]
) -> tuple[dict[str, str], dict[int, dict[str, Any]]]:
    """Build every distinct configuration, and hash what the finished runs are made of today.

    In a process of its own, which has torch. Returns the files that all of them import, with their
    hashes, and the finished runs' hashes by index.
    """
    distinct = {_alike(config, "seed"): config for config in configs}
    here, there = _processes.context.Pipe()
    again = {i: configs[i] for i in finished}
    process = _processes.start(_check, (list(distinct.values()), again, there))
    there.close()
    try:
        complaint, code, hashes = here.recv()
    except EOFError:
        process.join()
        raise UserError(
            f"checking the configurations ended with exit status {process.exitcode}"
        ) from None
    if complaint:
        raise UserError(complaint)
    return code, hashes


def _check(configs: list[Config], finished: dict[int, Config], connection: Connection) -> None:
    """Send the first thing that cannot be built, in words, and the finished runs' hashes."""
    from training import record
    from training.build import build
    from training.fit import batch_order

    code: dict[str, str] = {}
    hashes: dict[int, dict[str, Any]] = {}
    for config in configs:
        try:
            track, _, start, _ = build(config)
            code |= record.code_hashes(track, start)
        except UserError as error:
            return connection.send((str(error), {}, {}))
        except (
            Exception,
            SystemExit,
        ) as error:  # whatever a mechanism's own code raises, before it costs a run
            mixer = config.variant.mixer.get("_target_")
            return connection.send((f"{mixer}: {type(error).__name__}: {error}", {}, {}))
    made: dict[str, dict[str, Any]] = {}
    for i, config in finished.items():
        alike = _alike(config)
        if alike not in made:
            track, _, start, _ = build(config)
            today = {"environment": record.environment(config, track.train.inputs.device)}
            order = batch_order(config, len(track.train))
            made[alike] = record.hashes(track, start, order) | _environment(today)
        hashes[i] = made[alike]
    return connection.send((None, code, hashes))


def _alike(config: Config, *besides: str) -> str:
    """The same for all configurations that differ in a learning rate, or in `besides`, alone."""
    return digest(config.model_dump(exclude={"lr", "mechanism_lr_scale", *besides}))
