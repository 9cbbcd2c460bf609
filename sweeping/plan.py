"""What a sweep sets out to run: checked whole, written down, compared with what is there."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from analysis.judge.design import Course
from records.files import PLAN, RECORD, SUPERSEDED, write_json
from records.identity import FULL
from sweeping import resume
from sweeping.begun import begun, written
from sweeping.compared import check_compared
from sweeping.declared import declares_otherwise, predicts_otherwise, refuse_other_rules
from sweeping.engines import processes
from training.config import (
    TUNABLE_GROUPS,
    Config,
    TunedDesign,
    config_hashes,
    digest,
    run_identity,
    run_name,
    validated,
)
from training.errors import UserError, started

log = logging.getLogger(__name__)

Json = dict[str, Any]  # a record, a run of the plan, what a run is made of


def plan(
    configs: list[DictConfig],
    overrides: Sequence[Sequence[str]],
    directory: Path,
    command: str,
    design: Course | None = None,
) -> tuple[list[int], dict[str, str]]:
    """Check all configurations of a sweep, write its `plan.json`, and say which are to be run.

    Returns the indices of these, and the project's files that the sweep imports with their hashes.

    The plan keeps each command that began or resumed the sweep, of which this is the latest.
    A run whose record is there, and was made of what it would be made of today, is kept; what a
    redone run left is set aside.

    Args:
        design: of which these are the last batch; None where they are the whole sweep.
    Raises:
        UserError: a configuration that could not run, two that would be one run, or a directory
            that holds another sweep, or finished runs that declared other rules.
    """
    checked = [validated(cfg) for cfg in configs]
    names = _names(configs, overrides)
    runs = [run_identity(cfg, cfg.hydra.runtime.choices) for cfg in configs]
    if design is None:
        _check_together(runs, checked[0])
    before = begun(directory, runs, design)
    records = {i: r for i, name in enumerate(names) if (r := resume.finished(directory / name))}
    others = resume.elsewhere(checked[0].reuse)
    borrowed = {
        i: others[resume.who(run)]
        for i, run in enumerate(runs)
        if i not in records and resume.who(run) in others
    }
    built = _build(checked, [run["variant"] for run in runs], [*records, *borrowed])
    warnings = [] if design else _foreseen(runs, checked[0])  # while that is going on
    code, today = built()
    today = {i: {"config": config_hashes(configs[i])} | found for i, found in today.items()}
    changed = {i: _changed(record, today[i]) for i, record in records.items()}
    as_today = [records[i] for i, why in changed.items() if why is None]
    refuse_other_rules(as_today, checked[0], directory)
    write_json(directory / PLAN, written(before, runs, design, command))
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
    held = {i: records[i] for i in kept} | {i: borrowed[i][1] for i in taken}
    _tell_of_then(held, checked, runs)
    return [i for i in range(len(runs)) if i not in held], code


def _names(configs: Sequence[DictConfig], overrides: Sequence[Sequence[str]]) -> list[str]:
    """The runs' folders within the sweep; raises a UserError where two runs would be one."""
    named: dict[str, Sequence[str]] = {}
    for cfg, line in zip(configs, overrides, strict=True):
        other = named.setdefault(run_name(_root_=cfg), line)
        if other is not line:
            raise UserError(_one_run_twice(other, line, cfg))
    return list(named)


def _check_together(runs: Sequence[Json], config: Config) -> None:
    """Warn of a baseline that is not swept; raise a UserError where no seed is left to report."""
    variants = {run["variant"] for run in runs}
    if len(variants) > 1 and config.baseline not in (None, *variants):
        log.warning(
            "baseline is %s, which this sweep does not train (it trains %s): say baseline=NAME",
            config.baseline,
            ", ".join(sorted(variants)),
        )
    said = config.analysis
    check_compared(config, variants)
    tuning = set() if said.report_tuning_seeds else set(said.tuning_seeds)
    full = {run["seed"] for run in runs if run["budget_factor"] == FULL}  # what is reported on
    if tuning and full and not full - tuning:
        raise UserError(
            "analysis.tuning_seeds holds every seed of this sweep, and leaves none to report on: "
            "sweep more seeds"
        )


def _one_run_twice(one: Sequence[str], two: Sequence[str], cfg: DictConfig) -> str:
    """Why the overrides of two runs, the second composed as `cfg`, make one run, and what to do."""
    differing = [(a, b) for a, b in zip(one, two, strict=True) if a != b]
    if not differing:
        return f"two runs of this sweep would be one, [{' '.join(two)}]: sweep each value once"
    keys = {pair[1].partition("=")[0].lstrip("+"): pair for pair in differing}
    loose = [key for key in keys if key not in ("track", "variant", "seed", "budget", *cfg.tunable)]
    if not loose:
        a, b = differing[0]
        return f"two runs of this sweep would be one: {a} and {b} are one value, sweep it once"
    key, group = loose[0], loose[0].partition(".")[0]
    value = OmegaConf.select(cfg, key) if group not in ("hydra", "analysis") else None
    if key in TUNABLE_GROUPS or (isinstance(value, int | float) and not isinstance(value, bool)):
        todo = f"list it: tunable=[{','.join([*cfg.tunable, key])}]"
    elif group in cfg.hydra.runtime.choices:
        todo = f"give each value a YAML in conf/{group}, and sweep {group}"
    else:
        todo = "make a sweep of each value"
    return f"{key} is swept, and is not tunable; {todo}"


Reasons = dict[str, list[int]]  # why runs are to be trained → which, by index


def _taken(
    borrowed: Mapping[int, tuple[Path, Json]],
    today: Mapping[int, Json],
    directory: Path,
    names: Sequence[str],
    config: Config,
) -> tuple[set[int], Reasons]:
    """Copy other sweeps' runs that would come out the same here; which, and why not the others."""
    taken, foreign = set[int](), defaultdict[str, list[int]](list)
    # what a copy is made to say, as this sweep does; which seeds choose is in a design's plan
    tuned = isinstance(config.design, TunedDesign)
    keys = {"contrasts", "lengths", "expects", *(["tuning_seeds"] if tuned else [])}
    analysis = config.analysis.model_dump(include=keys)
    ours = {"baseline", *(f"analysis.{key}" for key in keys)}
    for i, (source, record) in borrowed.items():
        rules = [key for key in declares_otherwise(record, config) if key not in ours]
        if why := resume.changed(record["hashes"] | _environment(record), today[i]):
            foreign[f"not taken from {source.parent}: {why} differs"].append(i)
        elif rules:
            foreign[f"not taken from {source.parent}: {', '.join(rules)} is declared there"].append(
                i
            )
        else:
            resume.take(source, directory / names[i], config.baseline, analysis)
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
        if i in taken or not (directory / name / RECORD).exists():
            continue
        why = "redone, for their records cannot be read"
        if i in changed:
            if changed[i] is None:
                kept.add(i)
                continue
            why = (
                f"redone, for {changed[i]} has changed since; the old records are in "
                f"{directory / SUPERSEDED}"
            )
        resume.set_aside(directory, name)
        stale[why].append(i)
    return kept, stale


def _tell_of_then(
    held: Mapping[int, Json], configs: Sequence[Config], runs: Sequence[Json]
) -> None:
    """Say what finished runs keep from when they were trained, and what was not said then."""
    edited: dict[str, int] = defaultdict(int)  # arm → runs
    for i, record in held.items():
        edited[runs[i]["variant"]] += predicts_otherwise(record, configs[i])
    for arm, count in edited.items():
        if count:
            log.info(
                "%d finished runs of %s keep the prediction that was made before they were "
                "trained, not today's: to judge by today's, sweep into a new hydra.sweep.dir",
                count,
                arm,
            )
    undeclared = sum(not record.get("analysis") for record in held.values())
    if undeclared:
        log.info(
            "%d finished runs declared nothing of how they are to be judged (analysis.*): what is "
            "declared now comes after they were trained",
            undeclared,
        )


def _changed(record: Json, today: Json) -> str | None:
    """What a finished run was made of that is otherwise today; where it ran may differ."""
    now = {part: value for part, value in today.items() if part != "environment"}
    return resume.changed(record["hashes"], now)


def _foreseen(runs: list[Json], config: Config) -> list[str]:
    """What no result is needed for to know that it will weaken the verdict."""
    from analysis.judge.foreseen import foreseen
    from analysis.read.rules import Rules
    from records.record import PlannedRun

    said = config.analysis
    rules = Rules(
        said.alpha,
        said.margin_pct,
        said.family,
        frozenset(said.tuning_seeds),
        said.report_tuning_seeds,
        tuple((idea, other) for idea, other in said.contrasts),
        tuple(said.lengths),
    )
    return foreseen([PlannedRun(**run) for run in runs], config.baseline, rules)


def _environment(record: dict[str, Any]) -> dict[str, Any]:
    """Where a run ran, but for the commit: the hashes of the files say more."""
    found = record.get("environment", {})
    return {"environment": {key: value for key, value in found.items() if key != "commit"}}


Built = tuple[dict[str, str], dict[int, dict[str, Any]]]


def _build(
    configs: list[Config], arms: Sequence[str], finished: Sequence[int]
) -> Callable[[], Built]:
    """Build every distinct configuration, and hash what the finished runs are made of today.

    In a process of its own, which has torch. What is returned waits for it, and gives the files
    that all of them import, with their hashes, and the finished runs' hashes by index.
    """
    distinct = {
        _alike(config, "seed", "budget"): (f"variant={arm}: " if len(set(arms)) > 1 else "", config)
        for arm, config in zip(arms, configs, strict=True)
    }
    here, there = processes.context.Pipe()
    again = {i: configs[i] for i in finished}
    process = processes.start(_check, (list(distinct.values()), again, there))
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
    from training.check import check
    from training.fit import batch_order

    code: dict[str, str] = {}
    hashes: dict[int, dict[str, Any]] = {}
    for arm, config in configs:
        try:
            track, network = check(config)
            code |= record.code_hashes(track, network, config.allow)
        except UserError as error:
            return connection.send((f"{arm}{error}", {}, {}))
    made: dict[str, dict[str, Any]] = {}
    for i, config in finished.items():
        alike = _alike(config)
        if alike not in made:
            track, _, start, _ = build(config)
            today = {"environment": record.environment(config, track.train.inputs.device)}
            order = batch_order(config, len(track.train))
            made[alike] = record.hashes(track, start, order, config.allow) | _environment(today)
        hashes[i] = made[alike]
    return connection.send((None, code, hashes))


def _alike(config: Config, *besides: str) -> str:
    """The same for all configurations that differ in a learning rate, or in `besides`, alone."""
    return digest(config.model_dump(exclude={"lr", "mechanism_lr_scale", *besides}))
