"""Forecasting: read a context, predict the horizon that follows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from tracks.track import Metric, References, Split, Track


class Forecasting(Track):
    """A context of N steps, one per token → the `horizon` steps that follow, of every channel.

    All of the horizon is read off at the last token, where every lag of the context can act; what
    the model says at earlier tokens is not asked for. Example: context 32, horizon 8 and 1 channel
    give inputs (n, 32, 1), outputs (B, 32, 8) of which [:, −1] counts, targets (n, 8); 3 channels
    give inputs (n, 32, 3) and targets (n, 24), a step's channels side by side.

    Args:
        windows: of each split, (n, context + horizon) or (n, context + horizon, channels); the last
            `horizon` steps are the targets.
    """

    metric: ClassVar[str] = "mse"
    metrics: ClassVar[Mapping[str, Metric]] = {
        "mse": Metric("min", bounds=(0.0, None), can_tie=False),
        "mae": Metric("min", bounds=(0.0, None), can_tie=False),
    }
    mean_over: ClassVar[str] = "the horizon's values"
    time_axis: ClassVar[int | None] = 0

    def __init__(
        self,
        windows: Mapping[str, np.ndarray],
        horizon: int,
        references: References | None = None,
        fitted: References | None = None,
    ) -> None:
        splits = {}
        for name, window in windows.items():
            values = torch.from_numpy(window.astype(np.float32).reshape(*window.shape[:2], -1))
            splits[name] = Split(values[:, :-horizon], values[:, -horizon:].flatten(1))
        context, self.channels = splits["train"].inputs.shape[1:]
        super().__init__(splits, (context,), references, fitted)
        self.horizon = horizon

    def encoder(self, dim: int) -> nn.Module:
        return nn.Linear(self.channels, dim)

    def head(self, dim: int) -> nn.Module:
        return nn.Linear(dim, self.horizon * self.channels)

    def readout(self, outputs: Tensor) -> Tensor:  # (B, N, horizon · channels) → (B, …)
        return outputs[:, -1]

    def loss(self, predictions: Tensor, targets: Tensor) -> Tensor:
        return (predictions - targets).square().mean(-1)

    def scores(self, predictions: Tensor, targets: Tensor) -> dict[str, Tensor]:
        error = predictions - targets  # (B, horizon · channels)
        return {"mse": error.square().mean(-1), "mae": error.abs().mean(-1)}
