"""The sweeper: the product of all swept values, checked and planned before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser


class PlannedSweeper(BasicSweeper):
    """Hydra's basic sweeper, with the whole sweep composed, checked and planned first.

    Args:
        params: an experiment's grid; a key on the command line replaces it.
    """

    def __init__(self, params: dict[str, str] | None = None) -> None:
        super().__init__(max_batch_size=None, params=params)

    def sweep(self, arguments: list[str]) -> Any:
        """Raises UserError where something in the sweep could not run; then nothing has run."""
        from training.errors import UserError

        assert self.config is not None
        for override in OverridesParser.create().parse_overrides(arguments):
            if override.key_or_group == "experiment" and override.is_sweep_override():
                raise UserError(
                    f"experiment cannot be swept ({override.input_line}): each one has a grid of "
                    f"its own; run them one after the other"
                )
        if (Path(self.config.hydra.sweep.dir) / "plan.json").exists():
            raise UserError(
                f"{self.config.hydra.sweep.dir} already holds a sweep, and nothing is overwritten: "
                f"choose another hydra.sweep.dir"
            )
        return super().sweep(arguments)

    def validate_batch_is_legal(self, batch: Sequence[Sequence[str]]) -> None:
        """Compose and check every run of the sweep, then write its plan."""
        from hydra_plugins.evenbench import _plan

        assert self.config is not None
        assert self.hydra_context is not None
        loader = self.hydra_context.config_loader
        configs = [loader.load_sweep_config(self.config, list(o)) for o in batch]
        _plan.plan(configs, batch, Path(self.config.hydra.sweep.dir))
        # Our own launcher need not compose them a second time; others do not look here.
        self.launcher.composed = configs  # type: ignore[union-attr]
