"""The run record: everything about one run that passes from training to analysis."""

from __future__ import annotations

import ast
import csv
import hashlib
import io
import math
import platform
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict
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
from training.config import Config
from training.errors import UserError
from training.fit import mean
from training.paths import ROOT

CODE = ("models.", "tracks.")
ByMetric = Mapping[str, Mapping[str, Tensor]]  # every example's scores, (n,), by split and name


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
        if not f"{name}.".startswith((*CODE, *(f"{package}." for package in allow))):
            continue
        stem, above = name.replace(".", "/"), name.rpartition(".")[0]
        waiting.add(above)  # a package's own file runs before any module in it
        for file, package in ((f"{stem}.py", above), (f"{stem}/__init__.py", name)):
            if path := located(ROOT, file):
                found[file] = path
                waiting |= _imported(path, package)
    return {file: file_hash(path) for file, path in sorted(found.items())}


def probe_hashes() -> dict[str, str]:
    """Of every probe's file: an edited one measures otherwise, a new one what was not measured."""
    paths = sorted((ROOT / "training" / "probes").glob("*.py"))
    return {path.relative_to(ROOT).as_posix(): file_hash(path) for path in paths}


def _imported(path: Path, package: str) -> set[str]:
    """All that a file of Python may import, wherever in it: `a`, `a.b` for `from a import b`.

    `package` is the file's own, from which `from .a import b` counts.
    """
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package.rsplit(".", node.level - 1)[:1] if node.level else []
            name = ".".join((*above, *([node.module] if node.module else [])))
            found |= {name, *(f"{name}.{alias.name}" for alias in node.names)}
    return found


def measured(track: Track, by_split: ByMetric) -> dict[str, Any]:
    """The record's `metric`, and its `scores` and `secondary` ones.

    Args:
        by_split: every example's scores by split and name, (n,) each; empty after divergence.
    """
    metric = {"name": track.metric, **asdict(track.describe(track.metric))}
    scores, secondary = means(track, by_split)
    return {
        "metric": metric | {"mean_over": track.mean_over},
        "scores": scores,
        "secondary": secondary,
    }


def means(track: Track, by_split: ByMetric) -> tuple[dict[str, float], dict[str, Any]]:
    """Scores of the primary metric by split, and all others with what they are like."""
    names = list(by_split.get("test", {}))
    found = {
        name: {split: mean(by_name[name]) for split, by_name in by_split.items()} for name in names
    }
    nowhere = dict.fromkeys(("validation", *track.tests), math.nan)
    scores = found.pop(track.metric, nowhere)
    secondary = {
        name: asdict(track.describe(name)) | {"scores": by_name} for name, by_name in found.items()
    }
    references = {
        name: {"scores": by_name, "is_fitted": found is track.fitted}
        for found in (track.references, track.fitted)
        for name, by_name in found.items()
    }
    return scores, secondary | references


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
    examples: ByMetric,
    artifacts: dict[str, Tensor],
    weights: dict[str, Tensor] | None,
) -> None:
    """Write the run's files, each whole or not at all, `result.json` last: then it is finished.

    Args:
        history: a row per validation.
        examples: every example's scores by test split and name, (n,) float32 each; empty after
            divergence.
        artifacts: small arrays for figures; empty after divergence.
        weights: the trained network's, None where they are not wanted.
    """
    with whole(directory / HISTORY) as file:
        text = io.StringIO(newline="")
        table = csv.DictWriter(text, ["epoch", "train_loss", "validation", "seconds"])
        table.writeheader()
        table.writerows(history)
        file.write(text.getvalue().encode())
    if examples:
        by_name = {
            f"{s}/{name}": each for s, scores in examples.items() for name, each in scores.items()
        }
        _write_arrays(directory / EXAMPLES, by_name)
    _write_arrays(directory / ARTIFACTS, artifacts)
    if weights is not None:
        with whole(directory / WEIGHTS) as file:
            torch.save(weights, file)
    write_json(directory / RECORD, record)


def arrays(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """What `.npz` files keep of tensors."""
    return {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}


def _write_arrays(path: Path, tensors: Mapping[str, Tensor]) -> None:
    with whole(path) as file:
        np.savez(file, **arrays(tensors))
