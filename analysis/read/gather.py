"""From sweep directories to runs: walk, read, validate."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from analysis.errors import AnalysisError
from analysis.read.recorded import RecordedRun
from analysis.text import how_many
from records.design import Rule
from records.files import PLAN, RECORD, SUPERSEDED
from records.reading import Unreadable
from records.record import Plan, PlannedRun, Record, read_plan, read_record

Read = TypeVar("Read", Plan, Record)
Place = tuple[int, int]  # device and number of a folder on disk


@dataclass
class Gathered:
    """Everything that was found below the directories that were named."""

    runs: list[RecordedRun] = field(default_factory=list)  # in path order
    planned: list[PlannedRun] = field(default_factory=list)
    designs: list[Rule] = field(default_factory=list)  # whose runs the records decide
    commands: list[str] = field(default_factory=list)  # that the sweeps were started with
    unreadable: list[str] = field(default_factory=list)  # path and reason, one a file


def newest_sweep(root: Path) -> Path:
    """The sweep below `root` whose plan was written last.

    Raises:
        AnalysisError: there is none.
    """
    plans = []
    for folder, below, files in _walk(root, [], set()):
        if PLAN in files:
            below.clear()  # a sweep holds runs, not sweeps
            plans.append((os.lstat(os.path.join(folder, PLAN)).st_mtime_ns, folder))
    if not plans:
        raise AnalysisError(
            f"no sweep (a directory with {PLAN}) below {root}: "
            "make one with `python train.py -m …`, or name a directory of runs"
        )
    return Path(max(plans)[1])


def gather(paths: Sequence[Path]) -> Gathered:
    """Read every plan and record at or below `paths`, any number of sweeps pooled.

    Whatever leads to a folder, it is read once. What cannot be read is told, and hides nothing
    else.

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

    seen = set[Place]()
    for root in sorted(paths, key=lambda path: Path(os.path.realpath(path))):
        for folder, _, files in _walk(root, found.unreadable, seen):
            if PLAN in files and (plan := attempt(read_plan, folder, PLAN)):
                if plan.design:
                    found.designs.append(plan.design)
                else:
                    found.planned += plan.runs
                found.commands += [each for each in plan.commands if each not in found.commands]
            if RECORD in files and (record := attempt(read_record, folder, RECORD)):
                found.runs.append(RecordedRun(record, folder))
    if not found.runs:
        raise AnalysisError(_nothing_found(paths, found))
    return found


def _walk(
    root: Path, unreadable: list[str], seen: set[Place]
) -> Iterator[tuple[str, list[str], set[str]]]:
    """As `os.walk`, in path order, links followed, but each real folder once.

    Left out are hidden folders, and the superseded runs beside a plan. What cannot be listed, a
    link that leads nowhere, and one to a folder around it that is not walked, are told.

    Args:
        unreadable: path and reason are added.
        seen: the folders that were walked before; others are added.
    Raises:
        AnalysisError: `root` is no directory.
    """
    try:
        is_directory = stat.S_ISDIR(os.stat(root).st_mode)
        what = "not a directory"
    except FileNotFoundError:
        is_directory, what = False, "no such directory"
    except OSError as error:
        is_directory, what = False, error.strerror or "not readable"
    if not is_directory:
        raise AnalysisError(f"{root}: {what}; expected a sweep's, such as multirun/DAY/TIME")

    waiting = [str(root)]
    while waiting:
        folder = waiting.pop()
        try:
            if (place := _place(folder)) in seen:
                continue
            with os.scandir(folder) as entries:
                visible = [entry for entry in entries if entry.name[0] != "."]
            seen.add(place)
            astray = {entry.path: why for entry in visible if (why := _astray(entry, seen))}
            found = [entry for entry in visible if entry.path not in astray]
            below = sorted(entry.name for entry in found if entry.is_dir())
        except OSError as error:
            unreadable.append(f"{folder}: {error.strerror}")
            continue
        unreadable += [f"{link}: {why}" for link, why in sorted(astray.items())]
        files = {entry.name for entry in found}.difference(below)
        if PLAN in files and SUPERSEDED in below:
            below.remove(SUPERSEDED)
        yield folder, below, files
        waiting += [os.path.join(folder, name) for name in reversed(below)]


def _astray(entry: os.DirEntry[str], seen: set[Place]) -> str | None:
    """Why a link is not followed; None where it is, and for whatever is no link."""
    if not entry.is_symlink():
        return None
    if not os.path.exists(entry.path):
        return "a link that leads nowhere"
    target = os.path.realpath(entry.path)
    is_around = Path(os.path.realpath(os.path.dirname(entry.path))).is_relative_to(target)
    if is_around and _place(target) not in seen:
        return "a link to a folder around it: name that folder to have it read"
    return None


def _place(folder: str) -> Place:
    """What one folder is known by, whatever leads to it."""
    found = os.stat(folder)
    return found.st_dev, found.st_ino


def _nothing_found(paths: Sequence[Path], found: Gathered) -> str:
    where = ", ".join(str(path) for path in paths)
    if found.unreadable:
        return (
            f"no readable record in {where}: {len(found.unreadable)} found; {found.unreadable[0]}"
        )
    if found.planned:
        return (
            f"no record ({RECORD}) in {where}, though the plans hold "
            f"{how_many(len(found.planned), 'run')}: see their logs, or wait for the first to end"
        )
    return (
        f"no record ({RECORD}) in {where}; expected a sweep's directory, such as "
        "multirun/DAY/TIME, which `python train.py -m …` leaves"
    )
