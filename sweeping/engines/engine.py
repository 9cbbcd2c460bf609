"""What an engine is: a place where runs are run."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Protocol

from sweeping.work import Task


class Engine(Protocol):
    """Where runs are run. What it starts is a job, which it alone knows how to ask."""

    @property
    def slots(self) -> float:
        """Jobs at a time."""

    def start(self, tasks: list[Task]) -> list[Any]:
        """A job for every task."""

    def wait(self, jobs: Collection[Any], seconds: float | None) -> list[Any]:
        """Those that have ended, as soon as one has or the time is over."""

    def stop(self, job: Any) -> None:
        """End it now; it may have ended already."""

    def end(self, job: Any) -> int | str:
        """The exit status of an ended job's run, or in words why it has none."""
