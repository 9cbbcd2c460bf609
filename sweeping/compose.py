"""A sweep's configurations, composed by all cores: Hydra takes 40 ms and more for each."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager

from hydra.core.config_loader import ConfigLoader
from hydra.errors import ConfigCompositionException, MissingConfigException
from omegaconf import DictConfig

from sweeping.engines.processes import cores, die_with_parent
from training.errors import UserError, readable

INTERRUPTS = (signal.SIGINT, signal.SIGTERM)
ENOUGH = 16  # runs for which other processes are worth their start

Batch = Sequence[Sequence[str]]
_given: tuple[ConfigLoader, DictConfig, Batch]  # what a forked process works with


def compose(loader: ConfigLoader, master: DictConfig, batch: Batch) -> list[DictConfig]:
    """The configuration of every run, `batch` being its overrides.

    Raises:
        UserError, HydraException, OmegaConfBaseException: of the first that cannot be composed.
    """
    found: list[DictConfig | None] = [None] * len(batch)
    # elsewhere than on Linux a fork is not safe
    if cores() > 1 and len(batch) >= ENOUGH and sys.platform == "linux":
        fork = multiprocessing.get_context("fork")
        pool = ProcessPoolExecutor(cores(), fork, _take, (loader, master, batch))
        try:
            with _held():
                composed = pool.map(_one, range(len(batch)))  # one by one: an interrupt is quick
            for number, config in enumerate(composed):
                found[number] = config
        except BrokenProcessPool:  # one was killed: what is missing is composed here
            pass
        finally:
            pool.shutdown(cancel_futures=True)
    return [
        _composed(loader, master, overrides) if config is None else config
        for config, overrides in zip(found, batch, strict=True)
    ]


def _composed(loader: ConfigLoader, master: DictConfig, overrides: Sequence[str]) -> DictConfig:
    try:
        return loader.load_sweep_config(master, list(overrides))
    except MissingConfigException:  # which names the arm
        raise
    except ConfigCompositionException as error:
        arm = " ".join(each for each in overrides if each.startswith(("track=", "variant=")))
        raise UserError(f"{arm}: {readable(error)}" if arm else readable(error)) from error


@contextmanager
def _held() -> Iterator[None]:
    """Interrupts wait: one that comes during a fork, where Python cannot raise, would be lost."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _take(*given: object) -> None:
    global _given
    _given = given  # type: ignore[assignment]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTS)
    threading.Thread(target=die_with_parent, daemon=True).start()  # its lock is ours too


def _one(number: int) -> DictConfig | None:
    """None where it cannot be composed: the parent tries it once more, to say why."""
    loader, master, batch = _given
    try:
        return loader.load_sweep_config(master, list(batch[number]))
    except Exception:  # of any kind
        return None
