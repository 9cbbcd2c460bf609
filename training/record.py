"""The run record: everything about one run that passes from training to analysis."""

from __future__ import annotations

import ast
import csv
import hashlib
import io
import platform
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from models.network import Network
from records.files import (
    ARTIFACTS,
    EXAMPLES,
    HISTORY,
    RECORD,
    WEIGHTS,
    file_hash,
    located,
    whole,
    write_json,
)
from tracks.track import Track
from training.config import ROOT, Config, Variant
from training.errors import UserError

CODE = ("models.", "tracks.")


def sha256(*tensors: Tensor) -> str:
    """SHA-256, in hex, over the tensors' bytes, shapes and types, in their order."""
    total = hashlib.sha256()
    for tensor in tensors:
        total.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
        total.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return total.hexdigest()


def hashes(track: Track, start: Network, order: Tensor, allow: Sequence[str]) -> dict[str, Any]:
    """What a run is made of, but for its configuration: taken before it trains.

    Args:
        allow: packages outside the project that tracks and mixers may live in.
    """
    return {
        # now: an edit from here on is not what runs
        "code": code_hashes(track, start, allow),
        "probes": probe_hashes(),
        "data": data_hash(track),
        "order": sha256(order),
        "init": init_hashes(start),
    }


def data_hash(track: Track) -> str:
    """Over all examples of all splits."""
    return sha256(*(t for s in track.splits.values() for t in (s.inputs, s.targets)))


def init_hashes(start: Network) -> dict[str, str]:
    """Of every parameter before training, as `{"embed.weight 64x1": …}`."""
    return {
        f"{name} {'x'.join(map(str, p.shape))}": sha256(p)[:16]
        for name, p in start.named_parameters()
    }


def starts(variant: Variant) -> dict[str, Any]:
    """What a variant's YAML says of its start values: the stream, and every key named `start`.

    Where two arms say the same, what they share starts bitwise equal.
    """

    def said(path: str, node: Any) -> dict[str, Any]:
        if isinstance(node, list):
            inside = {f"{path}.{i}": each for i, each in enumerate(node)}
        elif isinstance(node, dict):
            inside = {f"{path}.{key}": value for key, value in node.items()}
        else:
            return {}
        found: dict[str, Any] = {}
        for place, value in inside.items():
            found |= {place: value} if place.endswith(".start") else said(place, value)
        return found

    return {"initial_stream": variant.initial_stream} | said("mixer", variant.mixer)


def code_hashes(track: Track, network: Network, allow: Sequence[str]) -> dict[str, str]:
    """Of every file of code that the run is made of, by its path from the root or its package.

    `train.py`, all of `training/`, and those in which the track, the network and its
    modules are defined, with whatever of the project or of `allow` these import: not what else
    this process has imported for other runs, and not the probes, which change no run.
    """
    waiting = {cls.__module__ for each in (track, *network.modules()) for cls in type(each).__mro__}
    paths = [ROOT / "train.py", *(ROOT / "training").glob("*.py")]
    found = {path.relative_to(ROOT).as_posix(): path for path in paths}
    seen: set[str] = set()
    while waiting - seen:
        name = (waiting - seen).pop()
        seen.add(name)
        if f"{name}.".startswith((*CODE, *(f"{package}." for package in allow))):
            file = f"{name.replace('.', '/')}.py"
            if path := located(ROOT, file):
                found[file] = path
                waiting |= _imported(path)
    return {file: file_hash(path) for file, path in sorted(found.items())}


def probe_hashes() -> dict[str, str]:
    """Of every probe's file: an edited one measures otherwise, a new one what was not measured."""
    paths = sorted((ROOT / "training" / "probes").glob("*.py"))
    return {path.relative_to(ROOT).as_posix(): file_hash(path) for path in paths}


def _imported(path: Path) -> set[str]:
    """All that a file of Python may import, wherever in it: `a`, `a.b` for `from a import b`."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def environment(config: Config, device: torch.device) -> dict[str, Any]:
    """Where and how the run ran. The commit is null outside a git checkout, or without git."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "machine": f"{platform.system()} {platform.machine()}",
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "threads": torch.get_num_threads(),
        "compiled": config.compile,
        "precision": config.precision,
        "commit": _commit(),
    }


@cache
def _commit() -> str | None:
    git = shutil.which("git")
    if git is None:
        return None
    head = [git, "-C", str(ROOT), "rev-parse", "HEAD"]
    return subprocess.run(head, capture_output=True, text=True, check=False).stdout.strip() or None


def refuse_overwriting(directory: Path) -> None:
    """Raise a UserError where a finished run lies already."""
    if (directory / RECORD).exists():
        raise UserError(
            f"{directory} already holds a finished run, and nothing is overwritten: "
            f"choose another hydra.run.dir"
        )


def write(
    directory: Path,
    record: dict[str, Any],
    history: list[dict[str, float]],
    examples: Mapping[str, Mapping[str, Tensor]],
    artifacts: dict[str, Tensor],
    weights: dict[str, Tensor] | None,
) -> None:
    """Write the run's files, each whole or not at all, `result.json` last: then it is finished.

    Args:
        history: a row per validation.
        examples: every example's scores by test split and name, (n,) float32 each; empty after
            divergence.
        artifacts: small arrays for figures.
        weights: the trained network's, None where they are not wanted.
    """
    with whole(directory / HISTORY) as file:
        text = io.StringIO(newline="")
        table = csv.DictWriter(text, ["epoch", "train_loss", "validation", "seconds"])
        table.writeheader()
        table.writerows(history)
        file.write(text.getvalue().encode())
    if examples:
        arrays = {
            f"{s}/{name}": each for s, scores in examples.items() for name, each in scores.items()
        }
        _write_arrays(directory / EXAMPLES, arrays)
    _write_arrays(directory / ARTIFACTS, artifacts)
    if weights is not None:
        with whole(directory / WEIGHTS) as file:
            torch.save(weights, file)
    write_json(directory / RECORD, record)


def _write_arrays(path: Path, tensors: Mapping[str, Tensor]) -> None:
    arrays: dict[str, Any] = {name: tensor.cpu().numpy() for name, tensor in tensors.items()}
    with whole(path) as file:
        np.savez(file, **arrays)
