"""The plug by which Hydra finds the sweeper; what it does is in sweeping/.

Hydra looks for plugins below `hydra_plugins.` alone, and imports every module there at each start,
unless its name begins with an underscore. So this module is here, and nothing slow at its top.
conf/hydra/sweeper/planned.yaml names the class.
"""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Sequence

from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf


class PlannedSweeper(Sweeper):
    """The product of all swept values, checked and planned before anything runs.

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
        """Understand, compose, plan, launch.

        Raises:
            UserError: something in the sweep could not run; then nothing has run.
        """
        from hydra_plugins.evenbench.launcher import EvenLauncher
        from sweeping.arguments import combinations, typed
        from sweeping.compose import compose
        from sweeping.directory import claimed
        from sweeping.plan import plan

        signal.signal(signal.SIGTERM, signal.default_int_handler)  # is Ctrl-C from here on
        runs = combinations(self.params, arguments, self.loader)
        with claimed(self.config) as directory:
            configs = compose(self.loader, self.config, runs)
            left, code = plan(configs, runs, directory, shlex.join(["python", *typed()]))
        OmegaConf.save(self.config, directory / "multirun.yaml")  # where Hydra's users look
        if isinstance(self.launcher, EvenLauncher):
            jobs = self.launcher.run([configs[i] for i in left], code)
        else:  # one of Hydra's own, which composes them once more
            jobs = self.launcher.launch([runs[i] for i in left], initial_job_idx=0)
        for job in jobs:
            _ = job.return_value  # raises what the run raised
        print(f"judge it: python analyze.py {shlex.quote(str(directory))}", file=sys.stderr)
        return [jobs]
