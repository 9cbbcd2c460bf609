"""Run all of a sweep's runs, so many at a time, and tell how it goes."""

from __future__ import annotations

import math
import os
import re
import shlex
import sys
import tempfile
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra.core.utils import JobReturn, JobStatus
from hydra.types import TaskFunction
from omegaconf import DictConfig, open_dict
from rich.console import Console
from rich.text import Text

from records.files import RECORD
from sweeping.arguments import typed
from sweeping.engines.engine import Engine
from sweeping.progress import told
from sweeping.work import LOG, Task, edited

FIRST_LOG = "run.first.log"  # of a try that left no record
ROOM = 2**20  # bytes that must be writable for another run to be worth its while


@dataclass(eq=False)
class Attempt:
    """A run of the sweep as it is attempted: its configuration, its folder, how it went so far."""

    config: DictConfig
    name: str
    directory: Path
    tries: int = 0
    deadline: float = math.inf  # of the present try
    error: str | None = None

    def begin(self, timeout: float | None) -> None:
        """Make its folder, for another try; sets `error` where that cannot be."""
        self.tries += 1
        self.error = None
        self.deadline = time.monotonic() + (timeout or math.inf)
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            self.error = str(error)

    def keep_log(self) -> None:
        """Keep what this try said from the next one's log."""
        if (self.directory / LOG).exists():
            (self.directory / LOG).replace(self.directory / FIRST_LOG)

    @property
    def finished(self) -> bool:
        """Its record is there, whatever its process said."""
        return (self.directory / RECORD).exists()


def run_all(
    configs: list[DictConfig],  # at least one
    task: TaskFunction,
    engine: Engine,
    timeout: float | None,
    code: dict[str, str],
) -> list[JobReturn]:
    """Run every configuration in a job of its own; one that left no record is tried once more.

    Nothing more is started once nothing more could come of it: the code is no longer what was
    planned with, or the disk takes no more.

    Args:
        timeout: seconds after which a run is stopped; None for never.
        code: the project's files that the runs import, with their hashes.
    Raises:
        SystemExit: status 1, after the last run, where any left no record; 130 on Ctrl-C.
    """
    runs = [_prepare(config, number) for number, config in enumerate(configs)]
    module = task.__module__ if task.__module__ != "__main__" else Path(sys.argv[0]).stem
    sweep = Path(configs[0].hydra.sweep.dir)
    waiting, running = deque(runs), dict[Any, Attempt]()
    console = Console(stderr=True)
    slots = "all" if engine.slots == math.inf else engine.slots
    console.print(Text(f"{_runs(len(runs))}, {slots} at a time → {sweep}"), soft_wrap=True)
    halted: str | None = None

    try:
        with told(console, runs) as tell:
            while running or (waiting and not halted):
                halted = halted or _changed(code)
                starting: list[Attempt] = []
                while waiting and not halted and len(running) + len(starting) < engine.slots:
                    run = waiting.popleft()
                    run.begin(timeout)
                    if run.error:
                        halted = _full(sweep)
                        tell(run)
                    else:
                        starting.append(run)
                if starting:
                    tasks = [Task(run.config, module, task.__name__, code) for run in starting]
                    running |= zip(engine.start(tasks), starting, strict=True)
                for job, end in _ended(engine, running, timeout):
                    run = running.pop(job)
                    run.error = None if run.finished else _why(run, end)
                    if run.error:
                        halted = halted or _changed(code) or _full(sweep)
                    if run.error and run.tries == 1:
                        run.keep_log()
                        waiting.append(run)
                    else:
                        tell(run)
    except BaseException as error:
        for job in running:
            engine.stop(job)
        if not isinstance(error, KeyboardInterrupt):
            raise
        left = sum(not run.finished for run in runs)
        _say(console, f"interrupted; {left} of {_runs(len(runs))} left. To resume:", sweep)
        raise SystemExit(130) from None

    failed = _tell_failed(console, runs)
    if halted:
        _say(console, f"{halted}; {_runs(len(waiting))} not made. To go on:", sweep)
    if failed or halted:
        raise SystemExit(1)
    return [JobReturn(status=JobStatus.COMPLETED) for _ in runs]


def _tell_failed(console: Console, runs: list[Attempt]) -> bool:
    """Name each run that left no record, and its error; whether there is any."""
    failed = [run for run in runs if run.error]
    for run in failed:
        console.print(Text(f"failed: {run.name}: {run.error}", style="red"), soft_wrap=True)
    if failed:
        console.print(f"{len(failed)} of {_runs(len(runs))} failed")
    return bool(failed)


def _ended(
    engine: Engine, running: Mapping[Any, Attempt], timeout: float | None
) -> list[tuple[Any, int | str]]:
    """Wait until some jobs have ended, or are to be ended: these, and how their runs did."""
    if not running:
        return []
    soonest = min(run.deadline for run in running.values())
    patience = None if math.isinf(soonest) else max(0.0, soonest - time.monotonic())
    ended = engine.wait(running, patience)
    now = time.monotonic()
    late = [job for job, run in running.items() if job not in ended and now > run.deadline]
    for job in late:
        engine.stop(job)
    return [
        *((job, engine.end(job)) for job in ended),
        *((job, f"killed after run_timeout = {timeout:g} s") for job in late),
    ]


def _changed(code: dict[str, str]) -> str | None:
    """That files of code are not what they were when the sweep was planned, in words."""
    names = edited(code)
    if not names:
        return None
    return f"{', '.join(names)} changed under way, so that other runs would not be made as these"


def _full(directory: Path) -> str | None:
    """Why nothing more can be written there, in words; None where it can."""
    try:
        with tempfile.TemporaryFile(dir=directory) as file:
            file.write(bytes(ROOM))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return f"{directory} takes no more: {error.strerror}"
    return None


def _say(console: Console, text: str, sweep: Path) -> None:
    """The text, and the command that resumes this sweep."""
    given = [each for each in typed() if not each.startswith("hydra.sweep.dir=")]
    plain = re.fullmatch(r"[\w./-]+", str(sweep))
    quoted = str(sweep) if plain else "'" + str(sweep).replace("'", "\\'") + "'"  # for Hydra
    again = shlex.join(["python", *given, f"hydra.sweep.dir={quoted}"])
    console.print(Text(f"{text}\n{again}"), soft_wrap=True)


def _runs(number: int) -> str:
    return "1 run" if number == 1 else f"{number} runs"


def _prepare(config: DictConfig, number: int) -> Attempt:
    with open_dict(config):
        config.hydra.job.id, config.hydra.job.num = str(number), number
        # The job is to find the folders as they are now: no clock, no name is looked up again.
        config.hydra.sweep.dir = str(config.hydra.sweep.dir)
        config.hydra.sweep.subdir = str(config.hydra.sweep.subdir)
    name = config.hydra.sweep.subdir
    return Attempt(config, name, Path(config.hydra.sweep.dir) / name)


def _why(run: Attempt, end: int | str) -> str:
    """Why a run left no record, in one line, and where it says more."""
    log = run.directory / LOG
    if isinstance(end, int):
        lines = log.read_text(errors="replace").split("\n") if log.exists() else []
        said = [line.strip() for line in lines if line.strip()]
        end = f"{said[-1] if said else 'it said nothing'} (exit status {end})"
    return f"{end}; see {log}"
