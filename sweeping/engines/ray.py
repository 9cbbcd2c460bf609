"""A Ray cluster, on this machine or on many: a task per run."""

from __future__ import annotations

import logging
import os
import signal
import socket
from collections.abc import Collection

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nobody is told
os.environ.setdefault("RAY_AUTH_MODE", "disabled")  # else Ray writes a token into the home folder

import ray
from ray.exceptions import RayError

from sweeping.work import Task, environment, work_elsewhere
from training.errors import UserError

Job = ray.ObjectRef[int | str]


class Ray:
    """An `Engine` of Ray's tasks, each in a fresh process that takes `threads` processors.

    Args:
        address: of a running cluster (auto: the one of this machine); None to start one here, which
            ends with the sweep.
        slots: runs at a time; None for as many as there is room for.
        gpus: that one run takes; may be a fraction.
    Raises:
        UserError: there is no cluster at the address, or none that has room for a run.
    """

    def __init__(self, address: str | None, slots: int | None, threads: int, gpus: float) -> None:
        os.environ.update(environment())  # which a cluster that begins here inherits
        if not ray.is_initialized():  # else by the batch of runs before
            _join(address)
        there = ray.cluster_resources()
        room = int(there.get("CPU", 0) // threads)
        if gpus:
            room = min(room, int(there.get("GPU", 0) // gpus))
        if room < 1:  # Ray would wait for it to grow, without a word
            raise UserError(
                f"the Ray cluster has {there.get('CPU', 0):g} processors and "
                f"{there.get('GPU', 0):g} GPUs, a run takes {threads} (threads) and {gpus:g} "
                f"(hydra.launcher.gpus): take less, or another cluster"
            )
        self.slots = min(slots or room, room)
        self.remote = ray.remote(num_cpus=threads, num_gpus=gpus, max_calls=1, max_retries=0)(
            work_elsewhere
        )

    def start(self, tasks: list[Task]) -> list[Job]:
        return [self.remote.remote(task) for task in tasks]

    def wait(self, tasks: Collection[Job], seconds: float | None) -> list[Job]:
        return ray.wait(list(tasks), timeout=seconds)[0]

    def stop(self, task: Job) -> None:
        ray.cancel(task, force=True)
        ray.wait([task], timeout=10)

    def end(self, task: Job) -> int | str:
        try:
            return ray.get(task)
        except RayError as error:
            return str(error).splitlines()[0]


def _join(address: str | None) -> None:
    """Join the cluster at an address, or start one; raises a UserError where that cannot be."""
    interrupt = signal.getsignal(signal.SIGTERM)
    try:
        if address and ":" in address and "//" not in address:
            host, _, port = address.rpartition(":")
            # Ray itself would try for minutes.
            socket.create_connection((host, int(port)), timeout=10).close()
        ray.init(
            address=address,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.WARNING,
        )
    except (OSError, ValueError, RuntimeError) as error:
        raise UserError(f"hydra.launcher.address is {address}: {error}") from None
    signal.signal(signal.SIGTERM, interrupt)  # Ray has put its own in the place
