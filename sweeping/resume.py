"""Which of a sweep's runs are finished already, and would come out the same today."""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from records.files import ARTIFACTS, EXAMPLES, RECORD, SUPERSEDED, write_json
from records.identity import FULL, Identity, identity
from training.errors import UserError


def finished(directory: Path) -> dict[str, Any] | None:
    """The record in a run's directory; None where there is none, or a file that is damaged."""
    try:
        record = json.loads((directory / RECORD).read_text())
        if not all(isinstance(record[key], dict) for key in ("hashes", "environment", "scores")):
            return None
        declared = record.get("analysis") or {}
        if not isinstance(declared.get("tuning_seeds", []), list):
            return None
        hash(who(record))  # else it has none
        for name in (ARTIFACTS, EXAMPLES)[: 2 if record["status"] == "finished" else 1]:
            with zipfile.ZipFile(directory / name) as arrays:
                if arrays.testzip():
                    return None
        return record
    except (OSError, ValueError, TypeError, KeyError, AttributeError, zipfile.BadZipFile):
        return None


def elsewhere(sweeps: Sequence[str]) -> dict[Identity, tuple[Path, dict[str, Any]]]:
    """Finished runs of other sweeps: who each is → its folder and record.

    Raises:
        UserError: there is no such directory.
    """
    found: dict[Identity, tuple[Path, dict[str, Any]]] = {}
    for sweep in map(Path, sweeps):
        if not sweep.is_dir():
            raise UserError(f"reuse: {sweep} is no directory; name sweeps that have finished runs")
        for path in sorted(sweep.rglob(RECORD)):
            record = finished(path.parent)
            parts = path.relative_to(sweep).parts
            if record and not any(part == SUPERSEDED or part[0] == "." for part in parts):
                found.setdefault(who(record), (path.parent, record))
    return found


def who(run: Mapping[str, Any]) -> Identity:
    """A run's identity, from its record or its line of a plan."""
    factor = run.get("budget_factor", FULL)  # older ones do not say it
    return identity(run["track"], run["variant"], run["seed"], run["hyper"], factor)


def changed(then: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """What a run was made of that is otherwise today, in words; None if nothing is."""
    for part, today in now.items():
        before = then.get(part)
        if before == today:
            continue
        if not (isinstance(before, dict) and isinstance(today, dict)):
            return part
        keys = sorted(k for k in before.keys() | today.keys() if before.get(k) != today.get(k))
        if part == "probes":  # one that is new was not measured then: no run is another for that
            keys = [k for k in keys if k in before and k in today]
            if not keys:
                continue
        return ", ".join(keys) if part in ("code", "probes") else f"{part} ({', '.join(keys)})"
    return None


def take(source: Path, directory: Path, baseline: str | None, analysis: Mapping[str, Any]) -> None:
    """Copy a finished run from another sweep, whole or not at all; its record says where from.

    Args:
        baseline: the arm that this sweep names as baseline, which makes no difference to a run.
        analysis: what this sweep declares of its comparisons, no more does that; what is not in it
            is as the run declared it.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    draft = directory.with_name(f".{directory.name}.{os.getpid()}")
    shutil.copytree(source, draft)
    record = json.loads((draft / RECORD).read_text())
    if record.get("analysis"):
        record["analysis"] |= analysis
    write_json(draft / RECORD, record | {"baseline": baseline, "taken_from": str(source)})
    if directory.exists():
        shutil.rmtree(directory)  # what an unfinished try left
    draft.rename(directory)


def set_aside(sweep: Path, name: str) -> None:
    """Move a run's folder to where it is kept and no longer counts."""
    kept, number = sweep / SUPERSEDED / name, 1
    while kept.exists():
        number += 1
        kept = sweep / SUPERSEDED / f"{name}-{number}"
    kept.parent.mkdir(parents=True, exist_ok=True)
    (sweep / name).rename(kept)
