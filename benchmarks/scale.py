"""What it takes to judge thousands of runs: `python analyze.py`, as a user types it.

    python benchmarks/scale.py [ideas] [tracks] [grid] [--records 1000 2000 5000 10000]

Trains one model for an epoch, and writes what it left over and over, with other scores and hashes,
as sweeps of 8 seeds. Takes a few minutes on 2 cores, and 200 MB of the temporary directory.

ideas   a baseline and as many ideas as it takes, 5 learning rates, on one track: one large family
tracks  a baseline and 4 ideas, 5 learning rates, on as many tracks as it takes, each a family
grid    a baseline and an idea, tuned over as many learning rates as it takes

`growth` is the exponent with which the processor time grows with the records, both beyond those of
the smallest sweep, whose time is mostly imports: 1 is linear.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
SEEDS = 8
LRS = (0.0015, 0.003, 0.006, 0.012, 0.024)
MIB = 2**20 if sys.platform == "darwin" else 2**10  # in units of ru_maxrss

Json = dict[str, Any]


class Job(NamedTuple):
    """What tells one run of a sweep from the others."""

    track: str
    variant: str
    lr: float
    seed: int
    family: str  # of comparisons: all, or track


class Row(NamedTuple):
    """What one command took."""

    records: int
    comparisons: int
    wall: float  # seconds
    processor: float  # seconds of all threads, in the program and the system
    peak: float  # MiB


def ideas(records: int) -> Iterator[Job]:
    for arm in range(records // (len(LRS) * SEEDS)):
        for lr, seed in itertools.product(LRS, range(SEEDS)):
            yield Job("sequence", f"idea{arm}" if arm else "baseline", lr, seed, "all")


def tracks(records: int) -> Iterator[Job]:
    for track in range(records // (5 * len(LRS) * SEEDS)):
        for job in ideas(5 * len(LRS) * SEEDS):
            yield job._replace(track=f"track{track}", family="track")


def grid(records: int) -> Iterator[Job]:
    lrs = np.geomspace(LRS[0], LRS[-1], records // (2 * SEEDS)).tolist()
    for variant, lr, seed in itertools.product(("baseline", "idea"), lrs, range(SEEDS)):
        yield Job("sequence", variant, lr, seed, "all")


SHAPES: dict[str, Callable[[int], Iterator[Job]]] = {"ideas": ideas, "tracks": tracks, "grid": grid}


def trained(run: Path) -> None:
    """Train one model for an epoch in the folder `run`."""
    command = [sys.executable, "train.py", "variant=idea", "training.epochs=1"]
    subprocess.run([*command, f"hydra.run.dir={run}"], cwd=ROOT, check=True, capture_output=True)


def write_sweep(sweep: Path, run: Path, jobs: Sequence[Job]) -> None:
    """Write a sweep of `jobs`: its plan, and all that `run` left, with scores that are drawn."""
    template = (run / "result.json").read_text()
    generator = np.random.default_rng(0)
    gains = {job.variant: generator.normal(0, 0.02) for job in jobs}
    luck = generator.normal(0, 0.05, SEEDS)
    planned = []
    for i, job in enumerate(jobs):
        folder = sweep / str(i)
        shutil.copytree(run, folder, copy_function=os.link)  # nothing here is written to
        level = 0.4 + luck[job.seed] + gains[job.variant] + 0.02 * abs(np.log(job.lr / LRS[2]))
        losses = generator.exponential(level, 300).astype(np.float32)
        record = json.loads(template)
        vary(record, job, float(losses.mean(dtype=np.float64)), generator.normal(level, 0.02))
        for name in ("result.json", "examples.npz"):
            (folder / name).unlink()  # else the link's other ends would change too
        (folder / "result.json").write_text(json.dumps(record, indent=1))
        arrays: Json = {f"test/{record['metric']['name']}": losses}
        np.savez(folder / "examples.npz", **arrays)
        planned.append({key: record[key] for key in ("track", "variant", "seed", "hyper")})
    (sweep / "plan.json").write_text(json.dumps({"schema": record["schema"], "runs": planned}))


def vary(record: Json, job: Job, test: float, validation: float) -> None:
    """Make a record that of `job`, with such scores."""
    track, variant, seed = job.track, job.variant, str(job.seed)
    record |= {"track": track, "variant": variant, "seed": job.seed}
    record["hyper"]["lr"] = job.lr
    record["analysis"]["family"] = job.family
    record["scores"] = {"validation": validation, "test": test}
    hashes = record["hashes"]
    hashes["config"] |= {"track": digest(track), "variant": digest(variant)}
    hashes |= {"data": digest(track, seed), "order": digest("order", seed)}
    hashes["init"] = {name: digest(name, seed)[:16] for name in hashes["init"]}


def digest(*words: str) -> str:
    return hashlib.sha256("/".join(words).encode()).hexdigest()


def judged(sweep: Path, records: int) -> Row:
    """Judge a sweep as a user does, in a process of its own."""
    began = time.perf_counter()
    command = [sys.executable, "analyze.py", str(sweep)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"analyze.py failed with status {process.returncode}")
    report = json.loads((sweep / "report" / "report.json").read_text())
    comparisons = len(report["comparisons"])
    return Row(records, comparisons, wall, used.ru_utime + used.ru_stime, used.ru_maxrss / MIB)


def measured(shape: str, records: int, run: Path) -> Row:
    with tempfile.TemporaryDirectory(dir=run.parent) as directory:
        jobs = list(SHAPES[shape](records))
        write_sweep(Path(directory), run, jobs)
        return judged(Path(directory), len(jobs))


def show(shape: str, smallest: Row, rows: Sequence[Row]) -> None:
    table = Table("records", "comparisons", "wall", "processor", "per 1000", "peak", box=SIMPLE)
    for row in (smallest, *rows):
        table.add_row(
            str(row.records),
            str(row.comparisons),
            f"{row.wall:.2f} s",
            f"{row.processor:.2f} s",
            f"{1000 * row.wall / row.records:.2f} s",
            f"{row.peak:.0f} MiB",
        )
    sizes = [row.records - smallest.records for row in rows]
    times = [row.processor - smallest.processor for row in rows]
    growth = np.polyfit(np.log(sizes), np.log(times), 1)[0]
    Console().print(f"{shape}: growth {growth:.2f}", table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shapes", nargs="*", default=list(SHAPES), metavar="SHAPE")
    parser.add_argument("--records", type=int, nargs="+", default=[1000, 2000, 5000, 10_000])
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        run = Path(directory) / "run"
        trained(run)
        for shape in asked.shapes:
            rows = [measured(shape, records, run) for records in (200, *asked.records)]
            show(shape, rows[0], rows[1:])


if __name__ == "__main__":
    main()
