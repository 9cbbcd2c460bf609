"""Slurm, or submitit's imitation of it on this machine: a job per run."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import submitit
from submitit.core.utils import FailedSubmissionError

from sweeping.work import Task, environment, work_elsewhere
from training.errors import UserError

Job = submitit.Job[int | str]
INTERVAL = 0.5  # seconds between two looks at the jobs


class Submitit:
    """An `Engine` of submitit's jobs; those that are started together are one job array.

    Args:
        cluster: slurm or local.
        folder: where submitit keeps its own files.
        slots: runs submitted at a time; None for all.
        parameters: submitit's own, as `timeout_min`.
    Raises:
        UserError: there is no such cluster here, or no such parameter.
    """

    def __init__(
        self, cluster: str, folder: Path, slots: int | None, parameters: Mapping[str, Any]
    ) -> None:
        self.slots = slots or math.inf
        os.environ.update(environment())  # which a job inherits
        given = {name: value for name, value in parameters.items() if value is not None}
        try:
            self.executor = submitit.AutoExecutor(folder / "%j", cluster=cluster)
            self.executor.update_parameters(**given)
        except (RuntimeError, ValueError, NameError, AssertionError) as error:
            raise UserError(f"hydra/launcher=submitit_{cluster}: {error}") from None

    def start(self, tasks: list[Task]) -> list[Job]:
        """Raises UserError where the cluster refuses them."""
        try:
            with _undisturbed() as interrupts, self.executor.batch():
                jobs = [self.executor.submit(work_elsewhere, task) for task in tasks]
        except FailedSubmissionError as error:  # at the end of the batch
            raise UserError(
                f"jobs with {self.executor.parameters} are not taken: {error}; "
                f"see the keys of hydra.launcher"
            ) from None
        if interrupts:
            for job in jobs:
                job.cancel()
            raise KeyboardInterrupt
        return jobs

    def wait(self, jobs: Collection[Job], seconds: float | None) -> list[Job]:
        deadline = time.monotonic() + (math.inf if seconds is None else seconds)
        while not (ended := [job for job in jobs if job.done()]) and time.monotonic() < deadline:
            time.sleep(INTERVAL)
        return ended

    def stop(self, job: Job) -> None:
        job.cancel()

    def end(self, job: Job) -> int | str:
        if job.paths.result_pickle.exists():
            error = job.exception()  # outside the run: while it was unpickled
            return str(error).splitlines()[-1] if error else job.result()
        return f"job {job.job_id} ended as {job.state.lower()}; see {job.paths.stderr}"


@contextmanager
def _undisturbed() -> Iterator[list[int]]:
    """Interrupts wait until all jobs are submitted, and are collected; nothing started here talks.

    What is started takes an interrupt, as submitit sends it to cancel a job, even where this
    process was told to ignore them, as behind a shell's `&`. What a run says is in its log, and
    what submitit says of a job in its own folder.
    """
    interrupts: list[int] = []
    before = {
        each: signal.signal(each, lambda number, _: interrupts.append(number))
        for each in (signal.SIGINT, signal.SIGTERM)
    }
    stderr = os.dup(2)
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield interrupts
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        for each, handler in before.items():
            signal.signal(each, handler)
