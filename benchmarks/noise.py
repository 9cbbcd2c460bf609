"""Where the spread of paired differences comes from, and what lowers it for the same compute.

    python benchmarks/noise.py [--seeds 8] [--lr 0.003]

Table against mixture on `sequence`, over seeds. Every setting changes one thing of the first two
rows; `compute` is processor time of a pair, training and scoring, as a ratio to the first row's.
`MDE at equal compute` is what as many pairs as 16 of the first row's cost could find (power .8,
level .05): the figure to lower. A spread from 8 seeds is itself known to ±25 %. `chaos` moves all
start values by 1e-7 and trains the same seed again, in each arm: a floor that no pairing removes.
Takes ten minutes on two idle cores; writes results/noise.json, from which README's table is made.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from analysis.judge.statistics import detectable_dz, spread
from training.build import build
from training.config import validated
from training.fit import batch_order, evaluate, fit
from training.run import composed
from training.seeding import torch_stream

RESULT = Path(__file__).resolve().parent.parent / "results" / "noise.json"
ARMS = ("lag_table", "exp_mixture")
TEST = 3000  # windows that everything is scored on, whatever a setting says
ONCE = ("training.epochs=1", "training.batch_size=32")
FRESH = ("track.train=8000", *ONCE)
SETTINGS: dict[str, tuple[str, ...]] = {  # a key that stands twice has its last value
    "800 windows, 10 epochs": ("track.train=800", *ONCE, "training.epochs=10"),
    "fresh: 8 000 windows, 1 epoch": FRESH,
    "fresh, twice as long": ("track.train=16000", *ONCE),
    "fresh, half as long": ("track.train=4000", *ONCE),
    "fresh, batches of 64": ("track.train=16000", *ONCE, "training.batch_size=64"),
    "fresh, batches of 16": (*FRESH, "training.batch_size=16"),
    "fresh, width 32": (*FRESH, "model.dim=32"),
    "fresh, width 128": (*FRESH, "model.dim=128"),
    "fresh, mechanism_lr_scale 1": (*FRESH, "mechanism_lr_scale=1"),
    "fresh, constant lr": (*FRESH, "optimizer.schedule=constant"),
}
AVERAGED = ("fresh: 8 000 windows, 1 epoch", "fresh, constant lr")  # also scored by mean weights
CHAOTIC = ("800 windows, 10 epochs", "fresh: 8 000 windows, 1 epoch", "fresh, mechanism_lr_scale 1")
MOVED = 1e-7  # what start values are moved by, as a standard deviation


class Job(NamedTuple):
    """One training."""

    setting: str
    arm: str
    seed: int
    lr: float
    moved: bool


class Row(NamedTuple):
    """What a setting gives; spreads in units of the metric, of the differences of 1 pair."""

    setting: str
    kind: str  # of weights: last, or a mean of them
    mse: float  # the table's
    sd: float
    share_of_examples: float  # of the variance, by TEST windows
    mde_pct_16: float  # of 16 pairs, of the table's mean
    compute: float
    mde_pct_at_equal_compute: float


def train(job: Job) -> tuple[Job, dict[str, NDArray[np.float32]], float]:
    """Every test window's score by kind of weights, and the processor seconds that it took."""
    torch.set_num_threads(1)
    overrides = (f"variant={job.arm}", f"seed={job.seed}", f"lr={job.lr}", f"track.test={TEST}")
    config = validated(composed(*overrides, *SETTINGS[job.setting]))
    track, network, _, optimizers = build(config)
    if job.moved:
        generator = torch_stream(job.seed, "moved")
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.add_(MOVED * torch.randn(parameter.shape, generator=generator))
    order = batch_order(config, len(track.train))
    steps = math.ceil(order.shape[1] / config.training.batch_size) * len(order)
    averages = {}
    if job.setting in AVERAGED:
        averages = {"EMA .98": _Ema(network, 0.98), "mean of the last fifth": _Tail(network, steps)}
        for average in averages.values():
            optimizers[-1].register_step_post_hook(lambda *_, a=average: a.update())
    since = time.process_time()
    fit(network, track, optimizers, order, config)
    found = {"last": evaluate(network, track, track.test)["mse"].numpy()}
    seconds = time.process_time() - since
    for kind, average in averages.items():
        average.put_in_place()
        found[kind] = evaluate(network, track, track.test)["mse"].numpy()
    return job, found, seconds


class _Ema:
    """An exponential moving average of a network's weights."""

    def __init__(self, network: torch.nn.Module, decay: float) -> None:
        self.network, self.decay, self.steps = network, decay, 0
        self.mean = [p.detach().clone() for p in network.parameters()]

    def weight(self) -> float:
        """What the newest weights count."""
        return max(1 - self.decay, 1 / self.steps)  # of the first ones the plain mean

    @torch.no_grad()
    def update(self) -> None:
        self.steps += 1
        for mean, parameter in zip(self.mean, self.network.parameters(), strict=True):
            mean.lerp_(parameter, self.weight())

    @torch.no_grad()
    def put_in_place(self) -> None:
        for mean, parameter in zip(self.mean, self.network.parameters(), strict=True):
            parameter.copy_(mean)


class _Tail(_Ema):
    """The plain mean of the weights of the last fifth of all steps."""

    def __init__(self, network: torch.nn.Module, steps: int) -> None:
        super().__init__(network, 0.0)
        self.first = steps - steps // 5

    def weight(self) -> float:
        return 1 / max(1, self.steps - self.first)


def rows(found: dict[Job, tuple[dict[str, Any], float]], seeds: range) -> list[Row]:
    """One for each setting and kind of weights, in the order of `SETTINGS`."""
    by_setting: dict[tuple[str, str], list[tuple[Any, Any]]] = defaultdict(list)
    seconds: dict[str, float] = defaultdict(float)
    for setting in SETTINGS:
        for seed in seeds:
            one, other = (
                next(v for job, v in found.items() if job[:3] == (setting, arm, seed)
                     and not job.moved) for arm in ARMS
            )  # fmt: skip
            seconds[setting] += (one[1] + other[1]) / len(seeds)
            for kind in one[0]:
                by_setting[setting, kind].append((one[0][kind], other[0][kind]))
    first = seconds[next(iter(SETTINGS))]
    return [
        _row(setting, kind, pairs, seconds[setting] / first)
        for (setting, kind), pairs in by_setting.items()
    ]


def _row(setting: str, kind: str, pairs: list[tuple[Any, Any]], compute: float) -> Row:
    d = np.array([float(np.mean(idea - table, dtype=np.float64)) for table, idea in pairs])
    mse = float(np.mean([table.mean(dtype=np.float64) for table, _ in pairs]))
    sampled = np.mean([np.var(idea - table, ddof=1) / len(table) for table, idea in pairs])
    sd, dz = spread(d), detectable_dz(16, 0.05)
    assert sd is not None
    assert dz is not None
    mde = 100 * dz * sd / mse
    share = min(1.0, float(sampled) / sd**2)
    return Row(setting, kind, mse, sd, share, mde, compute, mde * math.sqrt(compute))


def chaos(found: dict[Job, tuple[dict[str, Any], float]]) -> list[dict[str, Any]]:
    """How far start values that are moved by 1e-7 move the test score of the same seed."""
    told = []
    for setting in CHAOTIC:
        for arm in ARMS:
            moved = {j.seed: v for j, (v, _) in found.items()
                     if (j.setting, j.arm, j.moved) == (setting, arm, True)}  # fmt: skip
            still = {j.seed: v for j, (v, _) in found.items()
                     if (j.setting, j.arm, j.moved) == (setting, arm, False)}  # fmt: skip
            one = np.array([still[s]["last"].mean(dtype=np.float64) for s in sorted(moved)])
            two = np.array([moved[s]["last"].mean(dtype=np.float64) for s in sorted(moved)])
            sd = float(np.sqrt(np.mean((two - one) ** 2)))
            told.append({"setting": setting, "arm": arm, "mse": float(one.mean()), "sd": sd,
                         "sd_pct": 100 * sd / float(one.mean())})  # fmt: skip
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--lr", type=float, default=0.003)
    parser.add_argument("--out", type=Path, default=RESULT)
    given = parser.parse_args()
    seeds = range(given.seeds)
    jobs = [
        Job(setting, arm, seed, given.lr, moved)
        for seed in seeds
        for setting in SETTINGS
        for arm in ARMS
        for moved in ((False, True) if setting in CHAOTIC else (False,))
    ]
    found = {}
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        for job, scores, seconds in pool.map(train, jobs):
            found[job] = scores, seconds
            print(f"{len(found)} of {len(jobs)}", end="\r", file=sys.stderr, flush=True)
    table, moved = rows(found, seeds), chaos(found)
    for row in table:
        print(
            f"{row.setting:30} {row.kind:23} mse {row.mse:.4f}  sd {row.sd:.4f}  examples "
            f"{row.share_of_examples:4.0%}  MDE16 {row.mde_pct_16:.2f} %  compute "
            f"{row.compute:.2f}  at equal compute {row.mde_pct_at_equal_compute:.2f} %"
        )
    for each in moved:
        print(f"chaos: {each['setting']:30} {each['arm']:12} sd {each['sd']:.4f}"
              f" ({each['sd_pct']:.1f} %)")  # fmt: skip
    written = {
        "command": f"python benchmarks/noise.py --seeds {given.seeds} --lr {given.lr}",
        "rows": [row._asdict() for row in table],
        "chaos": moved,
    }
    given.out.write_text(json.dumps(written, indent=1) + "\n")


if __name__ == "__main__":
    main()
