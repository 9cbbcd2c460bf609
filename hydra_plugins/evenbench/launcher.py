"""The launcher: one process per run, one run per core."""

from __future__ import annotations

from collections.abc import Sequence

from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


class WorkersLauncher(Launcher):
    """Runs a sweep's runs side by side; one that fails or is killed costs itself alone.

    Args:
        workers: runs at a time; None for ⌊cores/threads⌋.
        run_timeout: seconds after which a run is killed; None for never.
    Raises:
        ValueError: workers below 1, or a timeout that is not above 0.
    """

    def __init__(self, workers: int | None = None, run_timeout: float | None = None) -> None:
        if workers is not None and (not isinstance(workers, int) or workers < 1):
            raise ValueError(f"workers is {workers}, must be a whole number ≥ 1, or null")
        if run_timeout is not None and not (
            isinstance(run_timeout, int | float) and run_timeout > 0
        ):
            raise ValueError(f"run_timeout is {run_timeout}, must be seconds above 0, or null")
        self.workers = workers
        self.run_timeout = run_timeout
        self.composed: list[DictConfig] | None = None  # by the sweeper, one per job
        self.code: dict[str, str] = {}  # by the sweeper: files that the runs import, and hashes

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        from hydra_plugins.evenbench import _processes

        self.hydra_context = hydra_context
        self.task_function = task_function
        self.config = config
        _processes.start_server()  # imports torch while the sweep is being composed

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        """Raises SystemExit(1) after the last run, where any failed; names each and its error."""
        from hydra_plugins.evenbench import _runs

        loader = self.hydra_context.config_loader
        configs = self.composed
        if configs is None:
            configs = [loader.load_sweep_config(self.config, list(o)) for o in job_overrides]
        return _runs.run_all(configs, self.task_function, self.workers, self.run_timeout, self.code)
