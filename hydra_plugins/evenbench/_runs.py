"""Run all of a sweep's runs, so many at a time, and tell how it goes."""

from __future__ import annotations

import math
import os
import shlex
import signal
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from hydra.core.utils import JobReturn, JobStatus, run_job, setup_globals
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, open_dict
from rich.console import Console
from rich.text import Text

from hydra_plugins.evenbench import _processes
from hydra_plugins.evenbench._processes import ROOT
from hydra_plugins.evenbench._progress import told
from hydra_plugins.evenbench._resume import RECORD
from training.files import file_hash

LOG, FIRST_LOG = "run.log", "run.first.log"  # what a run says, in its own directory


@dataclass
class Run:
    """One run of a sweep: its configuration, its folder, and how it went so far."""

    config: DictConfig
    name: str
    directory: Path
    tries: int = 0
    deadline: float = math.inf  # of the present try
    error: str | None = None


def run_all(
    configs: list[DictConfig],
    task: TaskFunction,
    workers: int | None,
    timeout: float | None,
    code: dict[str, str],
) -> list[JobReturn]:
    """Run every configuration in a process of its own, `workers` at a time.

    A run counts as finished where its `result.json` is there, whatever its process said; one that
    left none is tried once more.

    Args:
        timeout: seconds after which a run is killed; None for never.
        code: the project's files that the runs import, with their hashes.
    Raises:
        SystemExit: status 1, after the last run, where any left no record or the code changed;
            130 on Ctrl-C or SIGTERM.
    """
    if not configs:
        return []
    runs = [_prepare(config, number) for number, config in enumerate(configs)]
    workers = workers or max(1, cores() // max(config.threads for config in configs))
    module = task.__module__ if task.__module__ != "__main__" else Path(sys.argv[0]).stem
    waiting = deque(runs)
    running: dict[int, tuple[Run, ForkServerProcess]] = {}
    console = Console(stderr=True)
    sweep = configs[0].hydra.sweep.dir
    console.print(Text(f"{len(runs)} runs, {workers} at a time → {sweep}"), soft_wrap=True)
    edited: list[str] = []

    try:
        with _interruptible(), told(console, runs) as tell:
            while running or (waiting and not edited):
                while waiting and len(running) < workers:
                    edited = edited or _edited(code)
                    if edited:
                        break
                    run = waiting.popleft()
                    run.tries += 1
                    run.deadline = time.monotonic() + (timeout or math.inf)
                    try:
                        run.directory.mkdir(parents=True, exist_ok=True)
                    except OSError as error:
                        run.error = str(error)
                        tell(run)
                        continue
                    process = _processes.start(_work, (run.config, module, task.__name__))
                    running[process.sentinel] = run, process
                if not running:
                    continue
                soonest = min((run.deadline for run, _ in running.values()), default=math.inf)
                patience = None if math.isinf(soonest) else max(0.0, soonest - time.monotonic())
                ended = wait(list(running), patience)
                late = [s for s, (run, _) in running.items() if time.monotonic() > run.deadline]
                for sentinel in {*ended, *late}:
                    run, process = running.pop(sentinel)  # type: ignore[arg-type]
                    process.kill()
                    process.join()
                    finished = (run.directory / RECORD).exists()
                    run.error = None if finished else _why(run, process.exitcode, timeout)
                    if run.error and run.tries == 1:
                        if (run.directory / LOG).exists():
                            (run.directory / LOG).replace(run.directory / FIRST_LOG)
                        waiting.append(run)
                    else:
                        tell(run)
    except KeyboardInterrupt:
        for _, process in running.values():
            process.kill()
        left = sum(not (run.directory / RECORD).exists() for run in runs)
        console.print(
            Text(f"interrupted; {left} of {len(runs)} runs are left. To resume:\n{_again(sweep)}"),
            soft_wrap=True,
        )
        raise SystemExit(130) from None

    failed = [run for run in runs if run.error]
    for run in failed:
        console.print(Text(f"failed: {run.name}: {run.error}", style="red"), soft_wrap=True)
    if failed:
        console.print(f"{len(failed)} of {len(runs)} runs failed")
    if edited:
        console.print(
            Text(
                f"{', '.join(edited)} changed under way: {len(waiting)} runs were not started, for "
                f"they would not have been made as the others. To go on, with what is stale done "
                f"anew:\n{_again(sweep)}",
                style="red",
            ),
            soft_wrap=True,
        )
    if failed or edited:
        raise SystemExit(1)
    return [JobReturn(status=JobStatus.COMPLETED) for _ in runs]


def _edited(code: dict[str, str]) -> list[str]:
    """The files that are not what they were when the sweep was planned."""
    return [name for name, was in code.items() if file_hash(ROOT / name) != was]


def _again(sweep: str) -> str:
    """The command that resumes this sweep."""
    given = [argument for argument in sys.argv if not argument.startswith("hydra.sweep.dir=")]
    return shlex.join(["python", *given, f"hydra.sweep.dir={sweep}"])


@contextmanager
def _interruptible() -> Iterator[None]:
    """SIGTERM is Ctrl-C, as long as the context lasts."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def cores() -> int:
    """Processors that this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _prepare(config: DictConfig, number: int) -> Run:
    with open_dict(config):
        config.hydra.job.id, config.hydra.job.num = str(number), number
        # The child is to find the folders as they are now: no clock, no name is looked up again.
        config.hydra.sweep.dir = str(config.hydra.sweep.dir)
        config.hydra.sweep.subdir = str(config.hydra.sweep.subdir)
    name = config.hydra.sweep.subdir
    return Run(config, name, Path(config.hydra.sweep.dir) / name)


def _work(config: DictConfig, module: str, function: str) -> None:
    """One run, in a process of its own, with all that it says in its log."""
    from hydra._internal.callbacks import Callbacks
    from hydra.core.utils import JobRuntime

    log = os.open(
        Path(config.hydra.sweep.dir) / config.hydra.sweep.subdir / LOG,
        os.O_WRONLY | os.O_CREAT | os.O_TRUNC,
        0o644,
    )
    os.dup2(log, sys.stdout.fileno())
    os.dup2(log, sys.stderr.fileno())

    setup_globals()
    JobRuntime.instance().set("name", config.hydra.job.name)
    returned = run_job(
        task_function=getattr(import_module(module), function),
        config=config,
        job_dir_key="hydra.sweep.dir",
        job_subdir_key="hydra.sweep.subdir",
        hydra_context=HydraContext(
            config_loader=None,  # type: ignore[arg-type]  # a job composes nothing
            callbacks=Callbacks(config),
        ),
    )
    _ = returned.return_value  # raises what the run raised


def _why(run: Run, exit_code: int | None, timeout: float | None) -> str:
    """Why a run left no record, in one line, and where it says more."""
    log = run.directory / LOG
    if time.monotonic() > run.deadline:
        reason = f"killed after run_timeout = {timeout:g} s"
    elif exit_code is not None and exit_code < 0:
        reason = f"killed by {signal.Signals(-exit_code).name}"
    else:
        lines = log.read_text(errors="replace").split("\n") if log.exists() else []
        said = [line.strip() for line in lines if line.strip()]
        reason = f"{said[-1] if said else 'it said nothing'} (exit status {exit_code})"
    return f"{reason}; see {log}"
