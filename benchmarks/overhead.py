"""What the bench costs beside a bare PyTorch loop: ratios, both sides measured in one run.

    python benchmarks/overhead.py [step] [parts] [compile] [launch] [sweep] [--seeds 8]

step     one training step against the same step written bare
parts    share of a run that goes into probes, costs and records
compile  one training step compiled against the same step eager
launch   500 runs that do nothing, against Hydra's basic launcher
sweep    the default 48-run sweep against one bare process per core, and against Hydra's basic
         launcher with one thread and with as many threads as there are cores
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
CORES = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
EARLIER = (  # the windows and epochs that all ratios so far were measured with
    *("track.train=800", "track.validation=200", "track.test=300", "training.epochs=10"),
)
GRID = [
    (variant, seed, lr)
    for seed in range(8)
    for variant in ("baseline", "idea")
    for lr in (0.0015, 0.003, 0.006)
]


class Bare(nn.Module):
    """The default network as anyone would write it by hand, with either lag bias."""

    def __init__(self, mixture: bool) -> None:
        super().__init__()
        self.embed, self.head, self.norm = nn.Linear(1, 64), nn.Linear(64, 8), nn.LayerNorm(64)
        self.positions = nn.Parameter(0.02 * torch.randn(32, 64))
        self.norm1 = nn.ModuleList(nn.LayerNorm(64) for _ in range(2))
        self.norm2 = nn.ModuleList(nn.LayerNorm(64) for _ in range(2))
        self.qkv = nn.ModuleList(nn.Linear(64, 192) for _ in range(2))
        self.out = nn.ModuleList(nn.Linear(64, 64) for _ in range(2))
        self.mlp = nn.ModuleList(
            nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)) for _ in range(2)
        )
        self.mixture = mixture
        self.bias = nn.ParameterList(torch.zeros(4, 8 if mixture else 32) for _ in range(2))
        slopes = 2.0 ** (-2.0 * torch.arange(1, 5))[:, None] * 2.0 ** torch.linspace(-2, 1, 8)
        self.rates = nn.ParameterList(slopes.log().clone() for _ in range(2 * mixture))
        lag = torch.arange(32)[:, None] - torch.arange(32)
        self.future = torch.zeros(32, 32).masked_fill(lag < 0, -math.inf)
        self.lag = lag.clamp(min=0)

    def forward(self, x: Tensor) -> Tensor:  # (B, 32, 1) → (B, 32, 8)
        x = self.embed(x) + self.positions
        for i in range(2):
            curve = self.bias[i]
            if self.mixture:
                decay = self.rates[i].exp()[..., None] * torch.arange(32)
                curve = (curve.log_softmax(-1)[..., None] - decay).logsumexp(1)
            mask = curve[:, self.lag] + self.future
            qkv = self.qkv[i](self.norm1[i](x))
            q, k, v = qkv.view(len(x), 32, 3, 4, 16).permute(2, 0, 3, 1, 4)
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            x = x + self.out[i](mixed.transpose(1, 2).flatten(-2))
            x = x + self.mlp[i](self.norm2[i](x))
        return self.head(self.norm(x))


class BareRun:
    """A network, its optimizer and its data, without records, probes or checks."""

    def __init__(self, variant: str, seed: int, lr: float) -> None:
        torch.manual_seed(seed)
        rng = np.random.default_rng(seed)
        t = rng.uniform(0, 7, (1300, 2, 1)) + rng.uniform(0.2, 0.4, (1300, 2, 1)) * np.arange(40)
        windows = np.sin(t).sum(1) + 0.2 * rng.standard_normal((1300, 40))
        data = torch.from_numpy(windows.astype(np.float32))
        self.x, self.y = data[:, :32, None], data[:, 32:]
        self.network = Bare(variant == "idea")
        own = [*self.network.bias, *self.network.rates]
        ids = {id(p) for p in own}
        rest = [p for p in self.network.parameters() if id(p) not in ids]
        plain = [p for p in rest if p.ndim == 1]
        groups: list[dict[str, Any]] = [
            {"params": [p for p in rest if p.ndim > 1]},
            {"params": plain, "weight_decay": 0.0},
            {"params": own, "lr": 10 * lr, "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(groups, lr=lr, weight_decay=0.01, fused=True)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda step: 0.5 + 0.5 * math.cos(math.pi * min(step, 250) / 250)
        )

    def epoch(self) -> None:
        for batch in torch.randperm(800).split(32):
            loss = F.mse_loss(self.network(self.x[batch])[:, -1], self.y[batch])
            self.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
            self.optimizer.step()
            self.scheduler.step()

    @torch.inference_mode()
    def score(self, part: slice) -> float:
        return F.mse_loss(self.network(self.x[part])[:, -1], self.y[part]).item()


def bare(jobs: list[tuple[str, int, float]]) -> None:
    torch.set_num_threads(1)
    for job in jobs:
        run = BareRun(*job)
        for _ in range(10):
            run.epoch()
            run.score(slice(800, 1000))
        run.score(slice(1000, None))


def bare_sweep(jobs: list[tuple[str, int, float]]) -> None:
    """The trainings in one process per core, dealt out in advance."""
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=bare, args=(jobs[i::CORES],)) for i in range(CORES)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        if process.exitcode:
            raise SystemExit("a bare process failed")


def hydra_sweep(seeds: int, *overrides: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        command = [
            sys.executable,
            "train.py",
            "-m",
            "variant=baseline,idea",
            "lr=0.0015,0.003,0.006",
        ]
        command += [*EARLIER, f"seed=range({seeds})"]
        subprocess.run(
            [*command, f"hydra.sweep.dir={directory}", *overrides],
            cwd=ROOT,
            check=True,
            capture_output=True,
        )


def launch(runs: int = 500) -> None:
    """Wall time of whole commands over runs that only leave a record."""
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "benchmarks")))

    def sweep(directory: str, *overrides: str) -> None:
        command = [sys.executable, "benchmarks/noop.py", "-m", f"seed=range({runs})"]
        subprocess.run(
            [*command, f"hydra.sweep.dir={directory}", *overrides],
            cwd=ROOT,
            check=True,
            capture_output=True,
            env={**os.environ, "PYTHONPATH": paths},
        )

    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        ours = timed(lambda: sweep(one))
        basic = timed(lambda: sweep(other, "hydra/launcher=basic", "hydra/sweeper=basic"))
    print(f"launch  {runs} runs: {1000 * ours / runs:.0f} ms each, all that is around them")
    print(f"        / Hydra's basic launcher                     {ours / basic:.3f}   ≤ 0.6")


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def sweep(seeds: int) -> None:
    """Wall time of whole commands, imports and all."""
    jobs = [job for job in GRID if job[1] < seeds]
    basic = ("hydra/launcher=basic", "hydra/sweeper=basic")
    by_hand = timed(lambda: bare_sweep(jobs))
    ours = timed(lambda: hydra_sweep(seeds))
    many = timed(lambda: hydra_sweep(seeds, *basic, f"threads={CORES}"))
    one = timed(lambda: hydra_sweep(seeds, *basic))
    print(f"sweep   {len(jobs)} runs on {CORES} cores: {ours:.0f} s")
    print(f"        / a bare loop in one process per core        {ours / by_hand:.3f}   ≤ 1.15")
    print(f"        / Hydra's basic launcher, {CORES} torch threads     {ours / many:.3f}   ≤ 0.85")
    print(f"        / Hydra's basic launcher, one torch thread   {ours / one:.3f}   ≤ 0.55")


def step(repeats: int = 15) -> None:
    """25 steps of each at a time, in turn, in processor time of one thread."""
    from training.build import build
    from training.config import validated
    from training.fit import batch_order, fit
    from training.run import composed

    for variant in ("baseline", "idea"):
        # one validation of one example: what is timed is the steps
        config = validated(composed(f"variant={variant}", "track.train=800", "track.validation=1"))
        track, network, _, optimizers = build(config)
        by_hand = BareRun(variant, 0, 0.0015)
        order = batch_order(config, 800)
        ratios = []
        for repeat in range(repeats + 1):
            began = time.process_time()
            fit(network, track, optimizers, order, config)
            middle = time.process_time()
            by_hand.epoch()
            if repeat:  # the first warms up
                ratios.append((middle - began) / (time.process_time() - middle))
        low, high = min(ratios), max(ratios)
        print(
            f"step    {variant:9} / bare, median of {repeats}: {statistics.median(ratios):.3f}"
            f"   ≤ 1.05   ({low:.3f} … {high:.3f})"
        )


def compiled_step(repeats: int = 15) -> None:
    """25 steps of each at a time, in turn, in processor time of one thread, after compilation."""
    from training.build import build
    from training.config import validated
    from training.run import composed
    from training.step import batch_loss

    def prepared(*overrides: str) -> Callable[[], None]:
        config = validated(composed(*overrides))
        track, network, _, (optimizer,) = build(config)
        loss_of = batch_loss(network, track, config)

        def epoch() -> None:
            for batch in torch.arange(800).split(32):
                loss = loss_of(track.train.inputs[batch], track.train.targets[batch])
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(network.parameters(), 1.0)
                optimizer.step()

        return epoch

    for variant in ("baseline", "idea", "tensor_mixer"):
        eager = prepared(f"variant={variant}")
        fast = prepared(f"variant={variant}", "compile=true")
        first = timed(fast) - timed(eager)
        ratios = []
        for _ in range(repeats):
            began = time.process_time()
            fast()
            middle = time.process_time()
            eager()
            ratios.append((middle - began) / (time.process_time() - middle))
        print(
            f"compile {variant:12} compiled / eager, median of {repeats}: "
            f"{statistics.median(ratios):.3f}   ({min(ratios):.3f} … {max(ratios):.3f}); "
            f"compiling, or reading what was compiled: {first:.1f} s"
        )


def parts(repeats: int = 5) -> None:
    """A whole run in this process; what is neither building, training nor scoring is overhead."""
    run: Any = import_module("training.run")  # whose names are replaced below

    spent = 0.0

    def counted(function: Callable[..., object]) -> Callable[..., object]:
        def wrapper(*args: object) -> object:
            nonlocal spent
            began = time.process_time()
            result = function(*args)
            spent += time.process_time() - began
            return result

        return wrapper

    plain = run.build, run.fit
    shares = []
    for repeat in range(repeats + 1):
        with tempfile.TemporaryDirectory() as directory:
            cfg = run.composed(*EARLIER)
            # train_one looks these up when it is called; what fit calls inside counts once
            run.build = counted(plain[0])
            run.fit = counted(plain[1])
            spent, began = 0.0, time.process_time()
            run.train_one(cfg, Path(directory))
            total = time.process_time() - began
            if repeat:
                shares.append((total - spent) / total)
    run.build, run.fit = plain
    print(
        f"parts   probes, costs, records and final scores / run, median of {repeats}: "
        f"{statistics.median(shares):.3f}   ≤ 0.05"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*", default=["step", "parts", "compile", "launch", "sweep"])
    parser.add_argument("--seeds", type=int, default=8, help="seeds of the sweep")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for name in arguments.what:
        {
            "step": step,
            "parts": parts,
            "compile": compiled_step,
            "launch": launch,
            "sweep": lambda: sweep(arguments.seeds),
        }[name]()


if __name__ == "__main__":
    main()
