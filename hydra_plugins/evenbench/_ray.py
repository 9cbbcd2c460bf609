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

from hydra_plugins.evenbench._work import Task, environment, work_elsewhere
from training.errors import UserError

Job = ray.ObjectRef[int]


class Ray:
    """An `Engine` of Ray's tasks, each in a fresh process that takes `threads` processors.

    Args:
        address: of a running cluster (auto: the one of this machine); None to start one here, which
            ends with the sweep.
        slots: runs at a time; None for as many as there are processors for.
        gpus: that one run takes; may be a fraction.
    Raises:
        UserError: there is no cluster at the address.
    """

    def __init__(self, address: str | None, slots: int | None, threads: int, gpus: float) -> None:
        os.environ.update(environment())  # which a cluster that begins here inherits
        interrupt = signal.getsignal(signal.SIGTERM)
        try:
            if address and ":" in address and "//" not in address:
                host, _, port = address.rpartition(":")
                socket.create_connection(
                    (host, int(port)), timeout=10
                ).close()  # Ray tries on and on
            ray.init(
                address=address,
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.WARNING,
            )
        except (OSError, ValueError) as error:
            raise UserError(f"hydra.launcher.address is {address}: {error}") from None
        signal.signal(signal.SIGTERM, interrupt)  # Ray has put its own in the place
        self.slots = slots or max(1, int(ray.cluster_resources()["CPU"] // threads))
        self.remote = ray.remote(num_cpus=threads, num_gpus=gpus, max_calls=1, max_retries=0)(
            work_elsewhere
        )

    def start(self, tasks: list[Task]) -> list[Job]:
        return [self.remote.remote(task) for task in tasks]

    def wait(self, tasks: Collection[Job], seconds: float | None) -> list[Job]:
        return ray.wait(list(tasks), timeout=seconds)[0]

    def stop(self, task: Job) -> None:
        ray.cancel(task, force=True)

    def end(self, task: Job) -> int | str:
        try:
            return ray.get(task)
        except RayError as error:
            return str(error).splitlines()[0]
