"""The sweeper: the product of all swept values, checked and planned before anything runs."""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from omegaconf import open_dict


class PlannedSweeper(BasicSweeper):
    """Hydra's basic sweeper, with the whole sweep composed, checked and planned first.

    Args:
        params: an experiment's grid; a key on the command line replaces it.
    """

    def __init__(self, params: dict[str, str] | None = None) -> None:
        super().__init__(max_batch_size=None, params=params)

    def sweep(self, arguments: list[str]) -> Any:
        """Raises UserError where something in the sweep could not run; then nothing has run."""
        from sweeping.arguments import understood
        from training.errors import UserError

        signal.signal(signal.SIGTERM, signal.default_int_handler)  # is Ctrl-C from here on

        assert self.config is not None
        assert self.hydra_context is not None
        overrides = understood(arguments, self.hydra_context.config_loader)
        self._parse_config()  # an experiment's mistake is told before a folder is made
        for override in overrides:
            if override.key_or_group == "experiment" and override.is_sweep_override():
                raise UserError(
                    f"experiment cannot be swept ({override.input_line}): each one has a grid of "
                    f"its own; run them one after the other"
                )
        named = any("hydra.sweep.dir=" in each for each in self.config.hydra.overrides.hydra)
        asked = Path(self.config.hydra.sweep.dir)
        directory = _claim(asked, named)
        if directory != asked:
            with open_dict(self.config):
                self.config.hydra.sweep.dir = str(directory)
                # every run is composed anew from these, by this launcher or another
                self.config.hydra.overrides.hydra.append(f"hydra.sweep.dir='{directory}'")
        return super().sweep([str(override.input_line) for override in overrides])

    def _parse_config(self) -> list[str]:
        """The experiment's grid, as overrides; `seed: 0-7` is one too."""
        from sweeping.arguments import understood

        assert self.hydra_context is not None
        lines = super()._parse_config()
        return [str(o.input_line) for o in understood(lines, self.hydra_context.config_loader)]

    def validate_batch_is_legal(self, batch: Sequence[Sequence[str]]) -> None:
        """Compose and check every run of the sweep, write its plan, leave out what is finished."""
        from sweeping import compose, plan

        assert self.config is not None
        assert self.hydra_context is not None
        assert isinstance(batch, list)
        configs = compose.compose(self.hydra_context.config_loader, self.config, batch)
        left, code = plan.plan(configs, batch, Path(self.config.hydra.sweep.dir))
        batch[:] = [batch[i] for i in left]  # for whatever launcher follows
        # Our own need not compose them a second time; others do not look here.
        self.launcher.composed = [configs[i] for i in left]  # type: ignore[union-attr]
        self.launcher.code = code  # type: ignore[union-attr]


def _claim(directory: Path, named: bool) -> Path:
    """Make the sweep's directory and lock it for as long as this process lives.

    One that was named may be there already, to be resumed; two sweeps that begin in the same second
    would both take its name, so that the second takes another.

    Raises:
        UserError: another process is sweeping there.
    """
    from training.errors import UserError

    first, number = directory, 1
    while True:
        directory.mkdir(parents=True, exist_ok=True)
        lock = os.open(directory / ".lock", os.O_RDWR | os.O_CREAT, 0o644)  # held until we end
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if named or not (directory / "plan.json").exists():
                return directory
        except BlockingIOError:
            if named:
                raise UserError(
                    f"{directory}: another sweep is running there; wait for it, or choose another "
                    f"hydra.sweep.dir"
                ) from None
        os.close(lock)
        number += 1
        directory = first.with_name(f"{first.name}-{number}")
