"""What the tests share: composed configurations, small enough to train in a second."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig

# Behind a shell's & Ctrl-C is ignored, and would be by all that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).resolve().parent.parent
SMALL = (
    "track.train=64",
    "track.validation=32",
    "track.test=32",
    "++track.batch_size=32",  # of any track
    "training.epochs=2",
    "model.dim=16",
    "model.heads=2",
)


def once(*arguments: str) -> tuple[str, ...]:
    """The last of each key, for none may be given twice."""
    return tuple({argument.partition("=")[0]: argument for argument in arguments}.values())


def small(*overrides: str) -> tuple[str, ...]:
    """SMALL and more, which may set one of its keys otherwise."""
    return once(*SMALL, *overrides)


def names(group: str) -> list[str]:
    """The YAMLs of a group: a test over them covers a new one by its being there."""
    return sorted(path.stem for path in (ROOT / "conf" / group).glob("*.yaml"))


@pytest.fixture(scope="session")
def composed() -> Iterator[Callable[..., DictConfig]]:
    """Composes a run's configuration from overrides, Hydra's own part included."""
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        yield lambda *overrides: compose(
            "config", overrides=list(overrides), return_hydra_config=True
        )


@pytest.fixture
def shell(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a command of the README in the repository's root, as a user would."""

    def run(*command: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *command],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            env={**os.environ, "COLUMNS": "200"},
        )

    return run
