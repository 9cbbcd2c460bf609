"""Chaotic systems: trained one step ahead, and run free."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
from scipy import fft
from torch import Tensor, nn

from tracks.read.array import read_array
from tracks.shares import check_shares, share_out
from tracks.track import SPLITS, Metric, Split, Streams, Track

Parts = dict[str, np.ndarray]  # of each split
ROUNDING = 1e-12  # of the largest value: what varies by less does not vary
FARTHEST = 1e3  # spreads from the training median, as the middle half has it


@dataclass(frozen=True)
class System:
    """An equation of motion, and how it is sampled.

    Args:
        substep: of the integration, in units of its time.
        substeps: between two samples.
        settle: time until a start has come to the attractor.
        exponent: largest Lyapunov exponent, per unit of time.
        observed: every so many-th channel is seen, unless another number is asked for.
    """

    substep: float
    substeps: int
    settle: float
    exponent: float
    observed: int

    @property
    def step(self) -> float:
        """From sample to sample, in Lyapunov times."""
        return self.substep * self.substeps * self.exponent


# Lorenz (1963) with σ 10, ρ 28, β 8/3; its exponent .9056 (Sprott 2003, p. 431).
# Kuramoto–Sivashinsky uₜ = −u·uₓ − uₓₓ − uₓₓₓₓ, periodic on 0 … 22, at 32 points; its exponent .043
# (Edson et al. 2019, arXiv 1902.09651).
LENGTH, POINTS = 22.0, 32
SYSTEMS = {
    "lorenz": System(substep=0.01, substeps=10, settle=5.0, exponent=0.9056, observed=3),
    "kuramoto_sivashinsky": System(
        substep=0.25, substeps=8, settle=100.0, exponent=0.043, observed=4
    ),
}


def lorenz(start: np.ndarray, samples: int, every: int, step: float) -> np.ndarray:
    """Lorenz-63 from states (n, 3) by Runge and Kutta's fourth-order rule: (n, samples, 3).

    Args:
        every: steps from one sample to the next; the first is `every` steps after the start.
    """

    def slope(s: np.ndarray) -> np.ndarray:  # (3, n)
        x, y, z = s
        found = np.empty_like(s)
        found[0] = 10 * (y - x)
        found[1] = x * (28 - z) - y
        found[2] = x * y - 8 / 3 * z
        return found

    s = start.T.copy()
    found = np.empty((samples, *s.shape))
    for i in range(samples):
        for _ in range(every):
            a = slope(s)
            b = slope(s + step / 2 * a)
            c = slope(s + step / 2 * b)
            s += step / 6 * (a + 2 * b + 2 * c + slope(s + step * c))
        found[i] = s
    return found.transpose(2, 0, 1)


def kuramoto_sivashinsky(start: np.ndarray, samples: int, every: int, step: float) -> np.ndarray:
    """The same of Kuramoto–Sivashinsky, (n, points) → (n, samples, points), by ETDRK4.

    Exponential time differencing (Cox & Matthews 2002), its coefficients by contour integrals, as
    their closed forms lose all digits for small wavenumbers (Kassam & Trefethen 2005).
    """
    points = start.shape[-1]
    wave = 2 * np.pi / LENGTH * np.arange(points // 2 + 1)
    linear = step * (wave**2 - wave**4)
    whole, half = np.exp(linear), np.exp(linear / 2)
    z = linear[:, None] + np.exp(1j * np.pi * (np.arange(32) + 0.5) / 32)  # by its upper half

    def mean(values: np.ndarray) -> np.ndarray:
        return step * values.mean(1).real

    e = np.exp(z)
    into_half = mean((np.exp(z / 2) - 1) / z)
    first = mean((-4 - z + e * (4 - 3 * z + z**2)) / z**3)
    middle = 2 * mean((2 + z + e * (z - 2)) / z**3)
    last = mean((-4 - 3 * z - z**2 + e * (4 - z)) / z**3)

    def bent(v: np.ndarray) -> np.ndarray:  # −u·uₓ = −(u²)ₓ / 2
        return -0.5j * wave * fft.rfft(np.square(fft.irfft(v, points)))

    v = fft.rfft(start)
    found = np.empty((samples, *start.shape))
    for i in range(samples):
        for _ in range(every):
            at_v = bent(v)
            a = half * v + into_half * at_v
            at_a = bent(a)
            b = half * v + into_half * at_a
            at_b = bent(b)
            c = half * a + into_half * (2 * at_b - at_v)
            v = whole * v + first * at_v + middle * (at_a + at_b) + last * bent(c)
        found[i] = fft.irfft(v, points)
    return found.transpose(1, 0, 2)


def drawn(rng: np.random.Generator, name: str, n: int, samples: int) -> np.ndarray:
    """n trajectories on the attractor, (n, samples, channels)."""
    system = SYSTEMS[name]
    if name == "lorenz":
        solve, start = lorenz, rng.normal((0.0, 0.0, 25.0), 5.0, size=(n, 3))
    else:
        x = 2 * np.pi * np.arange(POINTS) / POINTS
        size, phase = rng.normal(size=(n, 3, 1)), rng.uniform(0, 2 * np.pi, size=(n, 3, 1))
        start = (size * np.cos(np.arange(1, 4)[:, None] * x + phase)).sum(1)
        solve = kuramoto_sivashinsky
    coarse = 2 * system.substep  # on the way to the attractor no digit counts
    settled = solve(start, 1, round(system.settle / coarse), coarse)[:, 0]
    return solve(settled, samples, system.substeps, system.substep)


def windows(trajectories: np.ndarray, length: int, every: int) -> np.ndarray:
    """Stretches of trajectories (n, T, C), beginning every so many samples: (m, length, C)."""
    cut = np.lib.stride_tricks.sliding_window_view(trajectories, length, axis=1)[:, ::every]
    return np.moveaxis(cut, -1, 2).reshape(-1, length, trajectories.shape[-1])


def of_file(values: np.ndarray, validation: float, test: float, least: int) -> Parts:
    """Each split's share of trajectories (n, T, C), in order: whole ones, or samples of one.

    Raises:
        ValueError: one of them gets none, or one shorter than `least` samples.
    """
    n, samples, _ = values.shape
    found = share_out(values, validation, test)
    for name, each in found.items():
        if not len(each) or each.shape[1] < least:
            what = f"{samples} samples" if n == 1 else f"{n} trajectories of {samples} samples"
            raise ValueError(
                f"{name} gets {each.shape[0]} trajectories of {each.shape[1]} samples, of {what}, "
                f"and a window needs context + horizon = {least}: give more, or a smaller context"
            )
    return found


def scales(known: np.ndarray, found: Parts, names: list[str]) -> tuple[np.ndarray, ...]:
    """Mean and standard deviation of each channel of trajectories (n, T, C), and of its changes.

    The changes are those of states in units of their standard deviation: (C,) each.

    Args:
        known: what they are measured on.
        found: each split's, (n, T, C), to be in reach of that.
        names: of the channels, for messages.
    Raises:
        ValueError: a channel that is constant, that changes by the same at every sample, or has a
            value in some split that is too far off to be one of the system.
    """
    middle, spread = known.mean((0, 1)), known.std((0, 1))
    if (still := spread <= ROUNDING * np.abs(known).max((0, 1))).any():
        raise ValueError(
            f"{names[int(still.argmax())]} is constant in training: it must change, to be forecast"
        )
    change = np.diff(known / spread, axis=1).std((0, 1))
    if (straight := change <= ROUNDING * np.abs(known / spread).max((0, 1))).any():
        raise ValueError(
            f"{names[int(straight.argmax())]} changes by the same at every sample of training: "
            f"there is nothing to learn"
        )
    low, median, high = np.percentile(known, [25, 50, 75], axis=(0, 1))
    # an outlier does not widen the middle half; where that is one value, the deviation is left
    middle_half = np.where(high > low, high - low, spread)
    for split, each in found.items():
        off = np.abs(each - median).max((0, 1)) / middle_half
        if off.max() > FARTHEST:
            raise ValueError(
                f"{names[int(off.argmax())]} has a value in {split} that is {off.max():.1g} "
                f"spreads of training from its median: that is an error, or says that there is no "
                f"value: mend it"
            )
    return middle, spread, change


class Dynamics(Track):
    """N samples of a chaotic system, a token each → at every token, by how much the next differs.

    States are in units of their standard deviations, changes in those of theirs: to say no change
    at all, `persistence_mse`, scores about 1. Run free, a network reads what it has said itself,
    for `horizon` samples after the context; `valid_time` is how long that stays closer to the truth
    than `close` (rms over the channels, in standard deviations), in Lyapunov times, in which two
    states that are close drift apart by a factor of e.

    Args:
        system: lorenz (Lorenz-63, sampled every 0.1) or kuramoto_sivashinsky (every 2).
        file: instead, trajectories in an .npy file: (time,), (time, channels), one that is split in
            time, or (trajectories, time, channels), each wholly in one split.
        exponent: of a file's system, the largest Lyapunov exponent per sample; null: valid times
            are counted in samples.
        observed: every so many-th channel is seen, from the first; null: of lorenz 3 (x alone), of
            kuramoto_sivashinsky 4, of a file 1.
        context, horizon: samples read, and samples that it runs free.
        close: in standard deviations.
        train, validation, test: windows of each split; of a file at most. Those of training begin
            every `context`/8 samples of a trajectory, the others share none.
        validation_share, test_share: of a file.
    Raises:
        ValueError: a value that makes no sense, or a file that cannot be used.
    """

    metric: ClassVar[str] = "mse"
    mean_over: ClassVar[str] = "the context's tokens and their channels"
    time_axis: ClassVar[int | None] = 0
    requires_causal: ClassVar[bool] = True

    def __init__(
        self,
        streams: Streams,
        system: Literal["lorenz", "kuramoto_sivashinsky"] = "lorenz",
        file: str | None = None,
        exponent: float | None = None,
        observed: int | None = None,
        context: int = 32,
        horizon: int = 60,
        close: float = 0.4,
        train: int = 24000,
        validation: int = 128,
        test: int = 256,
        validation_share: float = 0.15,
        test_share: float = 0.15,
    ) -> None:
        if observed is None:
            observed = SYSTEMS[system].observed if file is None else 1
        if context < 2 or min(horizon, observed, train, validation, test) < 1:
            raise ValueError(
                f"context is {context}, horizon {horizon}, observed {observed}, train {train}, "
                f"validation {validation}, test {test}: must be whole numbers, context ≥ 2 and the "
                f"others ≥ 1"
            )
        if not close > 0 or not (exponent is None or exponent > 0):
            raise ValueError(f"close is {close} and exponent {exponent}, must be > 0 (or null)")
        if file is None and exponent is not None:
            raise ValueError(f"exponent is {exponent}, of a file, and file is null: leave it out")
        check_shares(validation_share, test_share)
        sizes = {"train": train, "validation": validation, "test": test}
        lengths = dict.fromkeys(SPLITS, context + horizon) | {"train": context + 1}
        strides = dict(lengths) | {"train": max(1, context // 8)}
        if file is None:
            self.step = SYSTEMS[system].step
            known = drawn(np.random.default_rng(0), system, 32, 100)  # the same in every run
            found = {}
            for name, n in sizes.items():
                each = min(n, 32) if name == "train" else 1  # windows in a trajectory
                samples = lengths[name] + strides[name] * (each - 1)
                found[name] = drawn(streams(name), system, -(-n // each), samples)
        else:
            self.step = exponent or 1.0
            axes = {1: "(time,)", 2: "(time, channels)", 3: "(trajectories, time, channels)"}
            values = read_array(file, axes)
            values = (
                values.reshape(-1, *values.shape[-2:]) if values.ndim > 1 else values[None, :, None]
            )
            found = of_file(values, validation_share, test_share, context + horizon)
            known = found["train"]
        seen = {name: each[..., ::observed] for name, each in found.items()}
        of = f"of {file or system}"
        names = [f"channel {1 + observed * i} {of}" for i in range(seen["train"].shape[-1])]
        self.middle, self.spread, self.change = scales(known[..., ::observed], seen, names)
        splits = {}
        errors = {}
        for name, n in sizes.items():
            states = (seen[name] - self.middle) / self.spread
            cut = windows(states, lengths[name], strides[name])
            cut = cut[np.linspace(0, len(cut) - 1, min(n, len(cut))).round().astype(int)]
            changes = np.diff(cut[:, : context + 1], axis=1) / self.change
            if name == "train":
                wanted = changes
            else:
                wanted = np.concatenate([changes, cut[:, context:]], 1)
                errors[name] = float(np.square(changes).mean())
            splits[name] = Split(
                torch.from_numpy(cut[:, :context]).float(), torch.from_numpy(wanted).float()
            )
        self.horizon, self.close = horizon, close
        super().__init__(splits, (context,), {"persistence_mse": errors})
        self.metrics = {  # type: ignore[misc]  # what a class says of all its runs
            "mse": Metric("min", bounds=(0.0, None), can_tie=False),
            "valid_time": Metric("max", bounds=(0.0, horizon * self.step), can_tie=True),
        }

    def encoder(self, dim: int) -> nn.Module:
        return nn.Linear(self.train.inputs.shape[-1], dim)

    def head(self, dim: int) -> nn.Module:
        return nn.Linear(dim, self.train.inputs.shape[-1])

    def predict(self, network: nn.Module, inputs: Tensor) -> Tensor:
        """Changes at the context's tokens, then states of the free run: (B, N + horizon, C)."""
        change = torch.as_tensor(self.change, dtype=inputs.dtype, device=inputs.device)
        changes = network(inputs)
        said = [changes, inputs[:, -1:] + change * changes[:, -1:]]
        for _ in range(self.horizon - 1):
            inputs = torch.cat([inputs[:, 1:], said[-1]], 1)
            said.append(inputs[:, -1:] + change * network(inputs)[:, -1:])
        return torch.cat(said, 1)

    def loss(self, predictions: Tensor, targets: Tensor) -> Tensor:
        n = self.axes[0]
        return (predictions[:, :n] - targets[:, :n]).square().mean((1, 2))

    def scores(self, predictions: Tensor, targets: Tensor) -> dict[str, Tensor]:
        n = self.axes[0]
        off = (predictions[:, n:] - targets[:, n:]).square().mean(2).sqrt()  # (B, horizon)
        valid = (off < self.close).float().cumprod(1).sum(1) * self.step
        return {"mse": self.loss(predictions, targets), "valid_time": valid}
