"""A sweep, from what was typed to the last run: the product of all values, or a tuned design."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from hydra.core.config_loader import ConfigLoader
from hydra.core.utils import JobReturn
from omegaconf import DictConfig, OmegaConf

from analysis.judge.design import course
from analysis.read.recorded import RecordedRun
from records.identity import Identity
from sweeping import tuned
from sweeping.arguments import axes, combinations, typed
from sweeping.compose import compose
from sweeping.directory import claimed
from sweeping.plan import plan
from sweeping.progress import tell_end, tell_rule, tell_stage
from sweeping.rule import Axes, rule_of, seeded
from training.config import TunedDesign, validated_design

Lines = list[list[str]]  # of each run, its overrides
Code = dict[str, str]  # the files that the runs import, with their hashes
Launch = Callable[[list[DictConfig], Lines, Code], Sequence[JobReturn]]


def sweep(
    loader: ConfigLoader,
    config: DictConfig,
    params: Mapping[str, str],
    arguments: Sequence[str],
    launch: Launch,
) -> list[Sequence[JobReturn]]:
    """Understand, compose, plan, launch: once, or as often as a tuned design decides.

    Args:
        params: an experiment's grid, before which a design's stands; a key in `arguments`, the
            command line, replaces both.
    Raises:
        UserError: something in the sweep could not run; then nothing of it has run.
    """
    design = validated_design(config)
    varied = axes({**design.grid, **params}, arguments, loader)
    if isinstance(design, TunedDesign):
        done, directory = _tuned(loader, config, seeded(varied, design), launch)
    else:
        done, directory = _fixed(loader, config, combinations(varied), launch)
    print(f"judge it: python analyze.py {shlex.quote(str(directory))}", file=sys.stderr)
    return done


def _fixed(
    loader: ConfigLoader, config: DictConfig, runs: Lines, launch: Launch
) -> tuple[list[Sequence[JobReturn]], Path]:
    with claimed(config) as directory:
        configs = compose(loader, config, runs)
        left, code = plan(configs, runs, directory, _command())
    _for_hydra(config, directory)
    return [_launched(launch, configs, runs, left, code)], directory


def _tuned(
    loader: ConfigLoader, config: DictConfig, varied: Axes, launch: Launch
) -> tuple[list[Sequence[JobReturn]], Path]:
    """Batch after batch, each decided on the records of those before it."""
    done, recorded = list[Sequence[JobReturn]](), dict[Identity, RecordedRun]()
    with claimed(config) as directory:
        rule = rule_of(varied, lambda runs: compose(loader, config, runs))
        frozen = tuned.Frozen(directory)
        made = course(rule, recorded)
        while not made.is_finished:
            runs = [tuned.line(varied, run, rule.grid) for run in made.batches[-1].runs]
            configs = compose(loader, config, runs)
            frozen.check(configs, made.batches[-1].runs)
            left, code = plan(configs, runs, directory, _command(), made)
            if not done:
                _for_hydra(config, directory)
                frozen.code = code
                tell_rule(made)
            tell_stage(made, len(left))
            done.append(_launched(launch, configs, runs, left, frozen.code))
            recorded |= tuned.read(directory, configs, made.batches[-1].runs)
            made = course(rule, recorded)
    tell_end(made)
    return done, directory


def _launched(
    launch: Launch, configs: list[DictConfig], runs: Lines, left: Sequence[int], code: Code
) -> Sequence[JobReturn]:
    jobs = launch([configs[i] for i in left], [runs[i] for i in left], code)
    for job in jobs:
        _ = job.return_value  # raises what the run raised
    return jobs


def _command() -> str:
    return shlex.join(["python", *typed()])


def _for_hydra(config: DictConfig, directory: Path) -> None:
    OmegaConf.save(config, directory / "multirun.yaml")  # where Hydra's users look
