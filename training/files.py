"""Files that are whole or not there."""

from __future__ import annotations

import hashlib
import json
import math
import os
from pathlib import Path
from typing import Any


def write_json(path: Path, value: Any) -> None:
    """Write JSON atomically (temporary file, fsync, rename); what is not finite becomes null."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    with open(partial, "w") as file:
        json.dump(finite(value), file, indent=1, allow_nan=False)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def file_hash(path: Path) -> str:
    """SHA-256 of a file's bytes, in hex; empty where there is no file."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError:
        return ""


def finite(value: Any) -> Any:
    """The value with every number that is not finite replaced by None."""
    if isinstance(value, dict):
        return {key: finite(v) for key, v in value.items()}
    if isinstance(value, list):
        return [finite(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
