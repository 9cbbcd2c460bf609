"""This machine: processes forked from a server with torch already imported: 15 ms each, not 2 s."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import types
from collections.abc import Callable, Collection
from contextlib import suppress
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerProcess
from typing import Any

from sweeping.work import Task, environment, work

LOST = 255  # multiprocessing's word for a process of which it will hear no more
context = multiprocessing.get_context("forkserver")


class Processes:
    """An `Engine` of one process per run, `slots` at a time."""

    def __init__(self, slots: int) -> None:
        self.slots = slots

    def start(self, tasks: list[Task]) -> list[ForkServerProcess]:
        return [start(work, (task,)) for task in tasks]

    def wait(
        self, processes: Collection[ForkServerProcess], seconds: float | None
    ) -> list[ForkServerProcess]:
        ended = wait([process.sentinel for process in processes], seconds)
        return [process for process in processes if process.sentinel in ended]

    def stop(self, process: ForkServerProcess) -> None:
        process.kill()
        process.join()

    def end(self, process: ForkServerProcess) -> int | str:
        process.join()
        code = process.exitcode or 0
        if code == LOST and process.pid:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)  # it may well be alive
            return "the server that it was forked from was killed"
        return f"killed by {signal.Signals(-code).name}" if code < 0 else code


def cores() -> int:
    """Processors that this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def start_server() -> None:
    """Have the server import torch and the project, while this process goes on.

    It imports what every run needs and no mechanism or track, so that a run imports only its own.
    """
    from multiprocessing.forkserver import ensure_running

    # The server looks for what it preloads in PYTHONPATH alone. Its children get their threads
    # from `threads`; a thread pool in the server itself would not survive a fork.
    os.environ.update(environment())
    context.set_forkserver_preload(["sweeping.engines.preload"])
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # which the server inherits
    ensure_running()
    signal.signal(signal.SIGINT, before)


def start(target: Callable[..., None], arguments: tuple[Any, ...]) -> ForkServerProcess:
    """Start `target(*arguments)` in a new process; it dies with this one."""
    # A child would execute the main script anew, from disk, where it may have been edited since.
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")

    def begin() -> ForkServerProcess:
        process = context.Process(target=_child, args=(target, arguments), daemon=True)
        process.start()
        return process

    try:
        return begin()
    except (EOFError, ConnectionError):  # the server was killed meanwhile: this starts another
        return begin()
    finally:
        sys.modules["__main__"] = main


def _child(target: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    threading.Thread(target=die_with_parent, daemon=True).start()
    target(*arguments)


def die_with_parent() -> None:
    """Wait for the parent's end, and end with it; for a thread."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
