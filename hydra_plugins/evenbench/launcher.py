"""The plugs by which Hydra finds the launchers; what they do is in sweeping/ (see sweeper.py).

The YAMLs in conf/hydra/launcher name these classes and give their arguments.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from training.errors import UserError

if TYPE_CHECKING:  # Hydra loads this module to see what it offers, and must not wait for the rest
    from sweeping.engines.engine import Engine


class EvenLauncher(Launcher):
    """Runs a sweep's runs on an engine; one that fails or is killed costs itself alone.

    Args:
        workers: runs at a time; None leaves it to the engine.
        run_timeout: seconds after which a run is stopped; None for never.
    Raises:
        ValueError: workers below 1, or a timeout that is not above 0.
    """

    package: str | None = None  # that it needs beside those of requirements.txt

    def __init__(self, workers: int | None = None, run_timeout: float | None = None) -> None:
        if workers is not None and (type(workers) is not int or workers < 1):
            raise ValueError(f"workers is {workers}, must be a whole number ≥ 1, or null")
        if run_timeout is not None and not (type(run_timeout) in (int, float) and run_timeout > 0):
            raise ValueError(f"run_timeout is {run_timeout}, must be seconds above 0, or null")
        self.workers = workers
        self.run_timeout = run_timeout

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Raises UserError where its package is missing."""
        if self.package and not find_spec(self.package):
            raise UserError(
                f"{type(self).__name__} needs {self.package}, which is not installed: "
                f"pip install -r requirements-cluster.txt"
            )
        self.hydra_context = hydra_context
        self.task_function = task_function
        self.config = config

    @abstractmethod
    def engine(self, folder: Path, threads: int) -> Engine:
        """Where the runs are run; `folder` is the sweep's, `threads` what one run takes."""

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        """As Hydra's other sweepers call it, which compose nothing."""
        loader = self.hydra_context.config_loader
        return self.run([loader.load_sweep_config(self.config, list(o)) for o in job_overrides], {})

    def run(self, configs: list[DictConfig], code: dict[str, str]) -> Sequence[JobReturn]:
        """Run every configuration; `code`: the files that the runs import, with their hashes.

        Raises:
            SystemExit: status 1 after the last run, where any failed; names each and its error.
        """
        from sweeping.runs import run_all

        if not configs:
            return []
        threads = max(config.threads for config in configs)
        engine = self.engine(Path(configs[0].hydra.sweep.dir), threads)
        return run_all(configs, self.task_function, engine, self.run_timeout, code)


class WorkersLauncher(EvenLauncher):
    """This machine: one process per run, one run per core."""

    def setup(self, **given: Any) -> None:
        from sweeping.engines import processes

        super().setup(**given)
        processes.start_server()  # imports torch while the sweep is being composed

    def engine(self, folder: Path, threads: int) -> Engine:
        from sweeping.engines import processes

        return processes.Processes(self.workers or max(1, processes.cores() // threads))


class SubmititLauncher(EvenLauncher):
    """Slurm by way of submitit, or submitit's imitation of it on this machine.

    Args:
        cluster: slurm or local.
        parameters: submitit's own, as `timeout_min`.
    """

    package = "submitit"

    def __init__(self, cluster: str, workers: int | None = None, **parameters: Any) -> None:
        super().__init__(workers)
        self.cluster = cluster
        self.parameters = parameters

    def engine(self, folder: Path, threads: int) -> Engine:
        from sweeping.engines import processes, submitit

        slots = self.workers
        if self.cluster == "local":  # which would start them all at once
            slots = slots or max(1, processes.cores() // threads)
        return submitit.Submitit(self.cluster, folder / ".submitit", slots, self.parameters)


class RayLauncher(EvenLauncher):
    """A Ray cluster: the one at `address`, or one of this machine, which ends with the sweep."""

    package = "ray"

    def __init__(
        self,
        address: str | None = None,
        gpus: float = 0,
        workers: int | None = None,
        run_timeout: float | None = None,
    ) -> None:
        super().__init__(workers, run_timeout)
        self.address = address
        self.gpus = gpus

    def engine(self, folder: Path, threads: int) -> Engine:
        from sweeping.engines import ray

        return ray.Ray(self.address, self.workers, threads, self.gpus)
