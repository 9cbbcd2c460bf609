"""Does a sweep survive? Random kills, a resume after each, and a count of what came of the runs.

    python benchmarks/faults.py [--kills 200] [--seeds 8] [--seed 0] [--tuned] [--directory DIR]

A small sweep is run undisturbed, then again and again with SIGKILL sent to one of its processes at
a random moment: a run's (while it trains, or while it writes what it leaves), the sweep's own, or
the server's that the runs are forked from. Whatever is left is resumed by the same command. Once a
sweep is whole, the next one begins. In the end every planned run must have exactly one whole
record, equal to the undisturbed one; a tuned design (--tuned), the same decisions in the same
batches. Linux only: finds the processes in /proc.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RUNS = (
    *("-m", "variant=baseline,idea"),
    *("track.train=200", "track.validation=32", "track.test=32", "training.epochs=10"),
    *("model.dim=16", "model.heads=2"),
)
FIXED = ("lr=0.003,0.006",)
TUNED = (
    *("design=tuned", "lr=0.003,0.006,0.012", "design.tuning_seeds=[90,91]"),
    *("design.looks=[7,8,9]", "design.extend=1", "design.futility=0"),
)
TARGETS = ("training", "writing", "sweep", "server")
PATIENCE = 60.0  # seconds to wait for a process of the wanted kind


def start(directory: Path, swept: Sequence[str]) -> subprocess.Popen[bytes]:
    """The sweep's command, in a directory that may hold a part of it already."""
    command = [sys.executable, "train.py", *RUNS, *swept, f"hydra.sweep.dir={directory}"]
    with open(directory.with_suffix(".log"), "ab") as log:
        return subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)


def working(directory: Path) -> dict[Path, int]:
    """The folders of the runs that are running below a directory, and their processes."""
    found = {}
    for entry in Path("/proc").iterdir():
        try:
            said = Path(os.readlink(entry / "fd/1")) if entry.name.isdigit() else Path()
        except OSError:  # ended meanwhile
            continue
        if said.name == "run.log" and said.is_relative_to(directory):
            found[said.parent] = int(entry.name)
    return found


def writes(folder: Path) -> bool:
    """Has a run written some of its files, and not yet its record?"""
    return (folder / "history.csv").exists() and not (folder / "result.json").exists()


def server(sweep: int) -> list[int]:
    """The processes that a sweep's own process has started: the server, and what watches it."""
    try:
        return [
            int(pid) for pid in Path(f"/proc/{sweep}/task/{sweep}/children").read_text().split()
        ]
    except OSError:
        return []


def kill(target: str, sweep: subprocess.Popen[bytes], directory: Path, rng: random.Random) -> bool:
    """Send one SIGKILL; False where the sweep ended before there was anything to send it to."""
    deadline = time.monotonic() + PATIENCE
    delay = time.monotonic() + rng.uniform(0, 1.5)
    if target == "sweep":  # at any time at all, while it is still planning too
        delay += rng.uniform(0, 8)
    victims: list[int] = []
    while sweep.poll() is None and time.monotonic() < deadline:
        runs = working(directory)
        if target == "writing":
            while not victims and runs and sweep.poll() is None:  # the moment is short: look on
                victims = [pid for folder, pid in runs.items() if writes(folder)]
                if not all(Path(f"/proc/{pid}").exists() for pid in runs.values()):
                    break
                time.sleep(0.001)
        elif time.monotonic() > delay:
            if target == "sweep":
                victims = [sweep.pid]
            elif runs:
                victims = list(runs.values()) if target == "training" else server(sweep.pid)
        if victims:
            try:
                os.kill(rng.choice(victims), signal.SIGKILL)
            except ProcessLookupError:
                victims = []
                continue
            return True
        time.sleep(0.02)
    return False


def records(directory: Path) -> dict[str, bytes]:
    """Every record below a directory that counts, by its folder."""
    return {
        str(path.parent.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("result.json")
        if "superseded" not in path.relative_to(directory).parts
    }


def lasting(folder: Path) -> tuple[dict[str, Any], bytes]:
    """A record without its times, and the losses beside it."""
    record = json.loads((folder / "result.json").read_text())
    for key in ("train_seconds", "evaluate_seconds"):
        del record["cost"][key]
    return record, (folder / "examples.npz").read_bytes()


def decided(directory: Path) -> Any:
    """What a design decided, batch by batch; None of a fixed one."""
    return json.loads((directory / "plan.json").read_text()).get("batches")


def torn(found: dict[str, bytes]) -> int:
    """Records that cannot be read."""
    count = 0
    for text in found.values():
        try:
            json.loads(text)
        except ValueError:
            count += 1
    return count


def disturb(kills: int, swept: Sequence[str], seed: int, home: Path) -> dict[str, int]:
    """Run sweeps below `home` until so many kills were sent; what came of their runs."""
    rng = random.Random(seed)
    whole = home / "undisturbed"
    if start(whole, swept).wait():
        raise SystemExit(f"the undisturbed sweep failed; see {whole.with_suffix('.log')}")
    expected = {name: lasting(whole / name) for name in records(whole)}
    sent: Counter[str] = Counter()
    result = Counter(
        dict.fromkeys(("resumes", "planned", "torn", "lost", "duplicated", "other"), 0)
    )

    while sent.total() < kills:
        directory = home / f"sweep{result['planned'] // len(expected)}"
        result["planned"] += len(expected)
        before: dict[str, bytes] = {}
        code: int | None = None
        while code != 0:
            sweep = start(directory, swept)
            while sweep.poll() is None and sent.total() < kills:
                target = rng.choice(TARGETS)
                if kill(target, sweep, directory, rng):
                    sent[target] += 1
            code = sweep.wait()
            if code == 2:
                raise SystemExit(f"refused, which a resume must not be; see {directory}.log")
            result["resumes"] += code != 0
            now = records(directory)
            result["torn"] += torn(now)
            result["lost"] += sum(now.get(name) != text for name, text in before.items())
            before = now
        result["lost"] += len(expected.keys() - before.keys())
        result["duplicated"] += len(before.keys() - expected.keys())
        result["other"] += sum(
            lasting(directory / name) != expected[name] for name in before.keys() & expected.keys()
        )
        result["other"] += decided(directory) != decided(whole)
        print({**sent, **result}, file=sys.stderr)
    return {f"kills: {target}": sent[target] for target in TARGETS} | result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=8, help="of a sweep: four runs each")
    parser.add_argument("--seed", type=int, default=0, help="of the kills")
    parser.add_argument("--tuned", action="store_true", help="sweeps of a tuned design")
    parser.add_argument(
        "--directory", type=Path, help="where to leave the sweeps; default: nowhere"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as away:
        home = arguments.directory or Path(away)
        swept = TUNED if arguments.tuned else (*FIXED, f"seed=range({arguments.seeds})")
        result = disturb(arguments.kills, swept, arguments.seed, home)
    for name, count in result.items():
        print(f"{name:18}{count:6}")
    if any(result.get(name) for name in ("torn", "lost", "other", "duplicated")):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
