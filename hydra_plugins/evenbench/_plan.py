"""What a sweep sets out to run: checked whole, written down, compared with what is there."""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from hydra_plugins.evenbench import _processes, _resume
from hydra_plugins.evenbench._declared import differing, refuse_other_rules
from records.files import write_json
from training.config import SCHEMA, Config, config_hashes, digest, identity, run_name, validated
from training.errors import UserError, started

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
            that holds another sweep, or finished runs that declared other rules.
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
    if len(variants) > 1 and checked[0].baseline not in (None, *variants):
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
    built = _build(checked, [run["variant"] for run in runs], [*records, *borrowed])
    warnings = _foreseen(runs, checked[0])  # while that is going on
    code, today = built()
    today = {i: {"config": config_hashes(configs[i])} | found for i, found in today.items()}
    changed = {i: _changed(record, today[i]) for i, record in records.items()}
    as_today = [records[i] for i, why in changed.items() if why is None]
    refuse_other_rules(as_today, checked[0], directory)
    write_json(directory / "plan.json", {"schema": SCHEMA, "runs": runs})
    started()

    for warning in warnings:
        log.warning(warning)
    taken, foreign = _taken(borrowed, today, directory, names, checked[0])
    kept, stale = _kept(changed, directory, names, taken)
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
    config: Config,
) -> tuple[set[int], Reasons]:
    """Copy other sweeps' runs that would come out the same here; which, and why not the others."""
    taken, foreign = set[int](), defaultdict[str, list[int]](list)
    for i, (source, record) in borrowed.items():
        rules = [key for key in differing(record, config) if key != "baseline"]  # made to be this
        if why := _resume.changed(record["hashes"] | _environment(record), today[i]):
            foreign[f"not taken from {source.parent}: {why} differs"].append(i)
        elif rules:
            foreign[f"not taken from {source.parent}: {', '.join(rules)} is declared there"].append(
                i
            )
        else:
            _resume.take(source, directory / names[i], config.baseline)
            taken.add(i)
    return taken, foreign


def _kept(
    changed: Mapping[int, str | None],
    directory: Path,
    names: Sequence[str],
    taken: set[int],
) -> tuple[set[int], Reasons]:
    """Set aside what is stale or damaged; which runs are finished, and why the others are not.

    `changed`: of every record that can be read, what it was made of that is otherwise today.
    """
    kept, stale = set[int](), defaultdict[str, list[int]](list)
    for i, name in enumerate(names):
        if i in taken or not (directory / name / _resume.RECORD).exists():
            continue
        why = "redone, for their records cannot be read"
        if i in changed:
            if changed[i] is None:
                kept.add(i)
                continue
            why = (
                f"redone, for {changed[i]} has changed since; the old records are in "
                f"{directory / _resume.SUPERSEDED}"
            )
        _resume.set_aside(directory, name)
        stale[why].append(i)
    return kept, stale


def _changed(record: Record, today: Record) -> str | None:
    """What a finished run was made of that is otherwise today; where it ran may differ."""
    now = {part: value for part, value in today.items() if part != "environment"}
    return _resume.changed(record["hashes"], now)


def _foreseen(runs: list[Record], config: Config) -> list[str]:
    """What no result is needed for to know that it will weaken the verdict."""
    from analysis.judge.foreseen import foreseen
    from analysis.read.rules import Rules
    from records.record import PlannedRun

    said = config.analysis
    rules = Rules(said.alpha, said.margin_pct, said.family, frozenset(said.tuning_seeds))
    return foreseen([PlannedRun(**run) for run in runs], config.baseline, rules)


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


Built = tuple[dict[str, str], dict[int, dict[str, Any]]]


def _build(
    configs: list[Config], arms: Sequence[str], finished: Sequence[int]
) -> Callable[[], Built]:
    """Build every distinct configuration, and hash what the finished runs are made of today.

    In a process of its own, which has torch. What is returned waits for it, and gives the files
    that all of them import, with their hashes, and the finished runs' hashes by index.
    """
    distinct = {
        _alike(config, "seed"): (f"variant={arm}: " if len(set(arms)) > 1 else "", config)
        for arm, config in zip(arms, configs, strict=True)
    }
    here, there = _processes.context.Pipe()
    again = {i: configs[i] for i in finished}
    process = _processes.start(_check, (list(distinct.values()), again, there))
    there.close()

    def built() -> Built:
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

    return built


def _check(
    configs: list[tuple[str, Config]], finished: dict[int, Config], connection: Connection
) -> None:
    """Send the first thing that cannot be built, in words, and the finished runs' hashes.

    `configs`: each with its arm, as the words begin.
    """
    from training import record
    from training.build import build
    from training.fit import batch_order

    code: dict[str, str] = {}
    hashes: dict[int, dict[str, Any]] = {}
    for arm, config in configs:
        try:
            track, _, start, _ = build(config)
            code |= record.code_hashes(track, start)
        except UserError as error:
            return connection.send((f"{arm}{error}", {}, {}))
        except (
            Exception,
            SystemExit,
        ) as error:  # whatever a mechanism's own code raises, before it costs a run
            mixer = config.variant.mixer.get("_target_")
            return connection.send((f"{arm}{mixer}: {type(error).__name__}: {error}", {}, {}))
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
