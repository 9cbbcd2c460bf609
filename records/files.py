"""Files that are whole or not there."""

from __future__ import annotations

import hashlib
import json
import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

PLAN = "plan.json"  # of a sweep, in its directory
SUPERSEDED = "superseded"  # beside a plan: the runs that were done anew; no analysis looks there

# in a run's directory
RECORD = "result.json"  # written last: where it is, the run is finished
EXAMPLES = "examples.npz"
ARTIFACTS = "artifacts.npz"
HISTORY = "history.csv"
WEIGHTS = "weights.pt"


@contextmanager
def whole(path: Path) -> Iterator[IO[bytes]]:
    """A file to write what is to lie at `path`: there at the end, and not at all before."""
    partial = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        with open(partial, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Write JSON, whole or not at all; what is not finite becomes null."""
    with whole(path) as file:
        file.write(json.dumps(finite(value), indent=1, allow_nan=False).encode())


def file_hash(path: Path) -> str:
    """SHA-256 of a file's bytes, in hex; empty where there is no file."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError:
        return ""


def located(root: Path, file: str) -> Path | None:
    """Where a file of code lies: below the root, or where Python finds a package of the user's."""
    for folder in (root, *map(Path, sys.path)):
        if (folder / file).is_file():
            return folder / file
    return None


def finite(value: Any) -> Any:
    """The value with every number that is not finite replaced by None."""
    if isinstance(value, dict):
        return {key: finite(v) for key, v in value.items()}
    if isinstance(value, list):
        return [finite(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
