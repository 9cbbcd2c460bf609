"""The plug by which Hydra finds the sweeper; what it does is in sweeping/.

Hydra looks for plugins below `hydra_plugins.` alone, and imports every module there at each start,
unless its name begins with an underscore. So this module is here, and nothing slow at its top.
conf/hydra/sweeper/planned.yaml names the class.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence

from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


class PlannedSweeper(Sweeper):
    """The product of all swept values, or a tuned design, checked before anything runs.

    Args:
        params: an experiment's grid; a key on the command line replaces it.
    """

    def __init__(self, params: dict[str, str] | None = None) -> None:
        self.params = params or {}

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        from hydra.core.plugins import Plugins

        self.config: DictConfig = config
        self.loader = hydra_context.config_loader
        self.launcher: Launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> list[Sequence[JobReturn]]:
        """Raises UserError where something in the sweep could not run; then nothing has run."""
        from sweeping.sweep import sweep

        signal.signal(signal.SIGTERM, signal.default_int_handler)  # is Ctrl-C from here on
        return sweep(self.loader, self.config, self.params, arguments, self._launch)

    def _launch(
        self, configs: list[DictConfig], lines: list[list[str]], code: dict[str, str]
    ) -> Sequence[JobReturn]:
        from hydra_plugins.evenbench.launcher import EvenLauncher

        if isinstance(self.launcher, EvenLauncher):
            return self.launcher.run(configs, code)
        return self.launcher.launch(lines, initial_job_idx=0)  # Hydra's own composes once more
