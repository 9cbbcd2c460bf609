"""Synthetic forecasting, drawn anew from every seed."""

from __future__ import annotations

import math

import numpy as np

from tracks.forecasting import Forecasting
from tracks.lengths import longer
from tracks.track import Streams


def draw(
    rng: np.random.Generator,
    n: int,
    length: int,
    periods: tuple[float, float],
    noise: float,
    correlation: float,
) -> np.ndarray:
    """Windows of two sinusoids plus AR(1) noise, float64 (n, length); see `Sequence`."""
    t = np.arange(length)
    period = np.exp(rng.uniform(np.log(periods[0]), np.log(periods[1]), size=(n, 2, 1)))
    phase = rng.uniform(0, 2 * np.pi, size=(n, 2, 1))
    amplitude = rng.uniform(0.5, 1.5, size=(n, 2, 1))
    signal = (amplitude * np.sin(2 * np.pi * t / period + phase)).sum(1)

    # xᵢ = ρ·xᵢ₋₁ + √(1 − ρ²)·σ·ε, from x₀ ~ N(0, σ²): stationary from the first value on
    ar = noise * rng.standard_normal((n, length))
    ar[:, 1:] *= np.sqrt(1 - correlation**2)
    for i in range(1, length):
        ar[:, i] += correlation * ar[:, i - 1]
    return signal + ar


class Sequence(Forecasting):
    """Windows of two random sinusoids plus AR(1) noise, standardised by their context.

    Periods are log-uniform in `periods` (tokens), phases uniform, amplitudes uniform in ½ … 1½;
    the noise has stationary standard deviation `noise` and lag-1 correlation `correlation`.

    Args:
        streams: where each split's windows are drawn from, `streams("train")` and so on.
        context, horizon: tokens read and values predicted.
        train, validation, test: windows in each split, all independent.
        test_lengths: further test splits, at these multiples of the context (`tracks.lengths`).
    Raises:
        ValueError: sizes below 1 (context below 2), noise outside 0 … 1e6, correlation
            outside (−1, 1), periods that are not 0 < shortest < longest, or wrong test lengths.
    """

    def __init__(
        self,
        streams: Streams,
        context: int = 32,
        horizon: int = 8,
        train: int = 8000,
        validation: int = 1000,
        test: int = 4000,
        periods: tuple[float, float] = (16.0, 32.0),
        noise: float = 0.2,
        correlation: float = 0.5,
        test_lengths: tuple[int, ...] = (),
    ) -> None:
        if context < 2 or min(horizon, train, validation, test) < 1:
            raise ValueError(
                f"context is {context}, horizon {horizon}, train {train}, validation {validation}, "
                f"test {test}: must be whole numbers, context ≥ 2 and the others ≥ 1"
            )
        if not 0 < periods[0] < periods[1] < math.inf:
            raise ValueError(f"periods is {list(periods)}, must be [shortest, longest], both > 0")
        if not 0 <= noise <= 1e6 or not -1 < correlation < 1:
            raise ValueError(
                f"noise is {noise} and correlation {correlation}, must be from 0 to 1e6, and "
                f"between −1 and 1"
            )

        sizes = {"train": (train, context), "validation": (validation, context)}
        sizes["test"] = (test, context)
        sizes |= {name: (test, tokens) for name, tokens in longer(context, test_lengths).items()}
        windows = {}
        for split, (n, tokens) in sizes.items():
            drawn = draw(streams(split), n, tokens + horizon, periods, noise, correlation)
            seen = drawn[:, :tokens]
            mean, std = seen.mean(1, keepdims=True), seen.std(1, keepdims=True)
            windows[split] = (drawn - mean) / (std + 1e-8)
        super().__init__(windows, horizon)
