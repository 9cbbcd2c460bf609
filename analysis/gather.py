"""From sweep directories to runs: walk, read, validate."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from analysis.errors import AnalysisError
from analysis.record import Plan, PlannedRun, Record, Run, Unreadable, read_plan, read_record

Read = TypeVar("Read", Plan, Record)

SUPERSEDED = "superseded"  # beside a plan: the records of runs that were done anew
RECORD, PLAN = "result.json", "plan.json"


@dataclass
class Gathered:
    """Everything that was found below the directories that were named."""

    runs: list[Run] = field(default_factory=list)  # in path order
    planned: list[PlannedRun] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)  # path and reason, one a file


def newest_sweep(root: Path) -> Path:
    """The sweep below `root` whose plan was written last.

    Raises:
        AnalysisError: there is none.
    """
    plans = []
    for folder, below, files in _walk(root, []):
        if PLAN in files:
            below.clear()  # a sweep holds runs, not sweeps
            plans.append((os.lstat(os.path.join(folder, PLAN)).st_mtime_ns, folder))
    if not plans:
        raise AnalysisError(
            f"no sweep (a directory with {PLAN}) below {root}: "
            "make one with `python train.py -m …`, or name a directory of runs"
        )
    return Path(max(plans)[1])


def outermost(paths: Sequence[Path]) -> list[Path]:
    """`paths`, sorted, without those that lie in or are another: no run is gathered twice."""
    kept: list[Path] = []
    last: Path | None = None
    for resolved, path in sorted((Path(os.path.realpath(path)), path) for path in paths):
        if last is None or not resolved.is_relative_to(last):  # what is below follows at once
            kept.append(path)
            last = resolved
    return kept


def gather(paths: Sequence[Path]) -> Gathered:
    """Read every plan and record at or below `paths`, any number of sweeps pooled.

    What cannot be read is told, and hides nothing else.

    Raises:
        AnalysisError: a path is no directory, or no record can be read.
    """
    found = Gathered()

    def attempt(read: Callable[[str], Read], folder: str, name: str) -> Read | None:
        path = os.path.join(folder, name)
        try:
            return read(path)
        except Unreadable as error:
            found.unreadable.append(f"{path}: {error}")
            return None

    for root in outermost(paths):
        for folder, _, files in _walk(root, found.unreadable):
            if PLAN in files and (plan := attempt(read_plan, folder, PLAN)):
                found.planned += plan.runs
            if RECORD in files and (record := attempt(read_record, folder, RECORD)):
                found.runs.append(Run(record, folder))
    if not found.runs:
        raise AnalysisError(_nothing_found(paths, found))
    return found


def _walk(root: Path, unreadable: list[str]) -> Iterator[tuple[str, list[str], list[str]]]:
    """As `os.walk`, in path order; folders that cannot be listed are added to `unreadable`."""
    try:
        is_directory = stat.S_ISDIR(os.stat(root).st_mode)
        what = "not a directory"
    except FileNotFoundError:
        is_directory, what = False, "no such directory"
    except OSError as error:
        is_directory, what = False, error.strerror or "not readable"
    if not is_directory:
        raise AnalysisError(f"{root}: {what}; expected a sweep's, such as multirun/DAY/TIME")

    def cannot_list(error: OSError) -> None:
        unreadable.append(f"{error.filename}: {error.strerror}")

    for folder, below, files in os.walk(root, onerror=cannot_list):
        beside = SUPERSEDED if PLAN in files else None
        below[:] = sorted(name for name in below if name[0] != "." and name != beside)
        yield folder, below, files


def _nothing_found(paths: Sequence[Path], found: Gathered) -> str:
    where = ", ".join(str(path) for path in paths)
    if found.unreadable:
        return (
            f"no readable record in {where}: {len(found.unreadable)} found; {found.unreadable[0]}"
        )
    if found.planned:
        return (
            f"no record ({RECORD}) in {where}, though {len(found.planned)} runs were planned: "
            "see their logs, or wait for the first to finish"
        )
    return (
        f"no record ({RECORD}) in {where}; expected a sweep's directory, such as "
        "multirun/DAY/TIME, which `python train.py -m …` leaves"
    )
