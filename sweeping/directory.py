"""The directory of a sweep, or of a single run: held against others."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from omegaconf import DictConfig, open_dict

from records.files import PLAN
from training.errors import UserError

LOCK = ".lock"


@contextmanager
def claimed(config: DictConfig) -> Iterator[Path]:
    """The directory of the sweep that `config` sets up, locked for as long as this process lives.

    One that was named may be there already, to be resumed; two sweeps that begin in the same second
    would both take its name, so that the second takes another, and `config` is told. What was made
    here and is still empty when something raises is taken away.

    Raises:
        UserError: another process is sweeping there, or it is no folder.
    """
    named = any("hydra.sweep.dir=" in each for each in config.hydra.overrides.hydra)
    asked = Path(config.hydra.sweep.dir)
    made: list[Path] = []
    try:
        directory = _lock(asked, named, made)
        if directory != asked:
            with open_dict(config):
                config.hydra.sweep.dir = str(directory)
                # every run is composed anew from these, by this launcher or another
                config.hydra.overrides.hydra.append(f"hydra.sweep.dir='{directory}'")
        yield directory
    except BaseException:
        for folder in reversed(made):
            _remove_if_empty(folder)
        raise


def _lock(first: Path, named: bool, made: list[Path]) -> Path:
    """Lock the first directory that is to be had; `made` takes in the folders that are made."""
    directory, number = first, 1
    while True:
        made += _make(directory)
        lock = _held(directory)
        if lock is None and named:
            raise UserError(
                f"{directory}: another sweep is running there; wait for it, or choose another "
                f"hydra.sweep.dir"
            )
        if lock is not None:
            if named or not (directory / PLAN).exists():
                return directory
            os.close(lock)
        number += 1
        directory = first.with_name(f"{first.name}-{number}")


def claim_run(directory: Path) -> None:
    """Hold a single run's directory for as long as this process lives.

    Raises:
        UserError: another process is running there.
    """
    if _held(directory) is None:
        raise UserError(
            f"{directory}: another run is under way there; wait for it, or choose another "
            f"hydra.run.dir"
        )


def _held(directory: Path) -> int | None:
    """The lock on a directory, which ends with this process; None where another has it."""
    lock = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def _make(directory: Path) -> list[Path]:
    """Make a folder with those above it; which were not there, the outermost first."""
    missing = [each for each in (directory, *directory.parents) if not each.exists()]
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise UserError(
            f"hydra.sweep.dir={directory}: Not a directory, or below a file: name a new folder, or "
            f"that of a sweep to resume"
        ) from None
    return missing[::-1]


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        if os.listdir(folder) in ([], [LOCK]):
            (folder / LOCK).unlink(missing_ok=True)
            folder.rmdir()
