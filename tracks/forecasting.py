"""Forecasting: read a context, predict the horizon that follows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from tracks.track import Metric, Split, Track


class Forecasting(Track):
    """A context of N values, one per token → the `horizon` values that follow.

    All of the horizon is read off at the last token, where every lag of the context can act; what
    the model says at earlier tokens is not asked for. Example: context 32, horizon 8 gives inputs
    (n, 32, 1), outputs (B, 32, 8) of which [:, −1] counts, targets (n, 8).

    Args:
        windows: of each split, (n, context + horizon); the last `horizon` values are the targets.
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
        references: dict[str, dict[str, float]] | None = None,
    ) -> None:
        splits = {}
        for name, window in windows.items():
            values = torch.from_numpy(window.astype(np.float32))
            splits[name] = Split(values[:, :-horizon, None], values[:, -horizon:])
        super().__init__(splits, (splits["train"].inputs.shape[1],), references)
        self.horizon = horizon

    def encoder(self, dim: int) -> nn.Module:
        return nn.Linear(1, dim)

    def head(self, dim: int) -> nn.Module:
        return nn.Linear(dim, self.horizon)

    def readout(self, outputs: Tensor) -> Tensor:  # (B, N, horizon) → (B, horizon)
        return outputs[:, -1]

    def loss(self, predictions: Tensor, targets: Tensor) -> Tensor:
        return (predictions - targets).square().mean(-1)

    def scores(self, predictions: Tensor, targets: Tensor) -> dict[str, Tensor]:
        error = predictions - targets  # (B, horizon)
        return {"mse": error.square().mean(-1), "mae": error.abs().mean(-1)}
