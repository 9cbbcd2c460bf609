"""Run all of a sweep's runs, so many at a time, and tell how it goes."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
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
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from hydra_plugins.evenbench import _processes

LOG = "run.log"  # what a run says, in its own directory


@dataclass
class Run:
    """One run of a sweep: its configuration, its folder, and how it ended."""

    config: DictConfig
    name: str
    directory: Path
    error: str | None = None


def run_all(
    configs: list[DictConfig], task: TaskFunction, workers: int | None, first: int
) -> list[JobReturn]:
    """Run every configuration in a process of its own, `workers` at a time.

    A run counts as finished where its `result.json` is there, whatever its process said.

    Raises:
        SystemExit: status 1, after the last run, where any left no record.
    """
    runs = [_prepare(config, first + i) for i, config in enumerate(configs)]
    workers = workers or max(1, cores() // max(config.threads for config in configs))
    module = task.__module__ if task.__module__ != "__main__" else Path(sys.argv[0]).stem
    waiting = list(reversed(runs))
    running: dict[int, tuple[Run, ForkServerProcess]] = {}
    console = Console(stderr=True)
    console.print(f"{len(runs)} runs, {workers} at a time → {configs[0].hydra.sweep.dir}")

    with _told(console, runs) as tell:
        while waiting or running:
            while waiting and len(running) < workers:
                run = waiting.pop()
                try:
                    run.directory.mkdir(parents=True, exist_ok=True)
                except OSError as error:
                    run.error = str(error)
                    tell(run)
                    continue
                process = _processes.start(_work, (run.config, module, task.__name__))
                running[process.sentinel] = run, process
            for sentinel in wait(list(running)):
                run, process = running.pop(sentinel)  # type: ignore[arg-type]
                process.join()
                if not (run.directory / "result.json").exists():
                    run.error = _why(run, process.exitcode)
                tell(run)

    failed = [run for run in runs if run.error]
    for run in failed:
        console.print(Text(f"failed: {run.name}: {run.error}", style="red"), soft_wrap=True)
    if failed:
        console.print(f"{len(failed)} of {len(runs)} runs failed")
        raise SystemExit(1)
    return [JobReturn(status=JobStatus.COMPLETED) for _ in runs]


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


def _why(run: Run, exit_code: int | None) -> str:
    """Why a run left no record, in one line, and where it says more."""
    log = run.directory / LOG
    if exit_code is not None and exit_code < 0:
        reason = f"killed by {signal.Signals(-exit_code).name}"
    else:
        lines = log.read_text(errors="replace").split("\n") if log.exists() else []
        said = [line.strip() for line in lines if line.strip()]
        reason = f"{said[-1] if said else 'it said nothing'} (exit status {exit_code})"
    return f"{reason}; see {log}"


@contextmanager
def _told(console: Console, runs: list[Run]) -> Iterator[Callable[[Run], None]]:
    """How far the sweep is: a bar with an ETA on a terminal, else a line per tenth of the runs."""
    began, ended = time.monotonic(), list[Run]()

    def failures() -> str:
        count = sum(run.error is not None for run in ended)
        return f"{count} failed" if count else ""

    def line(run: Run) -> None:
        ended.append(run)
        if len(ended) * 10 // len(runs) > (len(ended) - 1) * 10 // len(runs):
            passed = time.monotonic() - began
            left = passed / len(ended) * (len(runs) - len(ended))
            text = f"{len(ended)} of {len(runs)} runs, {passed:.0f} s, {left:.0f} s to go"
            console.print(", ".join(filter(None, [text, failures()])))

    if not console.is_terminal:
        yield line
        return

    with Progress(
        TextColumn("runs"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("ETA"),
        TimeRemainingColumn(),
        TextColumn("[red]{task.fields[failed]}"),
        console=console,
    ) as progress:
        bar = progress.add_task("", total=len(runs), failed="")

        def advance(run: Run) -> None:
            ended.append(run)
            progress.update(bar, advance=1, failed=failures())

        yield advance
