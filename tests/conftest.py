"""What the tests share: composed configurations, small enough to train in a second."""

from __future__ import annotations

import gc
import io
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, cast

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig

from sweeping import directory
from training import errors

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


# Both ways, and built for one grid
GRID_MIXERS = {
    *("dense_lag_table", "axial_attention", "mlp_mixer", "fnet", "gmlp", "random_synthesizer"),
    *(name for name in names("variant") if name.startswith("tensor_mixer")),
}
# Those of one axis of time: all but what needs axes beside it
ON_SEQUENCES = [name for name in names("variant") if name != "causal_tensor_mixer"]
ATTENTION = [n for n in ON_SEQUENCES if n not in GRID_MIXERS | {"base_conv", "no_mixer"}]

QUICK = {"baseline", "idea", "tensor_mixer", "dense_attention", "no_mixer", "base_conv", "cope"}


def variants() -> list[Any]:
    """Every variant, for tests that train each; most of them with the slow tests."""
    return [
        pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in ON_SEQUENCES
    ]


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


def here(*command: str, root: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run a command as `shell` does, but in this process: several seconds sooner.

    Its runs are forked from one server for all tests. The project's modules are those that were
    imported; `root` says where train.py and conf/ are.
    """
    hydra, environment = GlobalHydra.instance(), os.environ.copy()
    composing, hydra.hydra = hydra.hydra, None
    out, err = io.StringIO(), io.StringIO()
    locks, held, status = list[Any](), directory._held, cast(Any, 0)
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(root)
        patch.setattr(sys, "argv", list(command))
        patch.setattr(errors, "_started", False)
        patch.setenv("COLUMNS", "200")
        patch.setattr(directory, "_held", lambda path: locks.append(held(path)) or locks[-1])
        try:
            runpy.run_path(str(root / command[0]), run_name="__main__")
        except SystemExit as end:
            status = end.code or 0
        finally:
            hydra.hydra = composing
            os.environ.clear()
            os.environ.update(environment)
            gc.enable()
            for lock in filter(None, locks):  # which would be held as long as this process lives
                os.close(lock)
    return subprocess.CompletedProcess(command, status, out.getvalue(), err.getvalue())
