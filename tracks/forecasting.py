"""Forecasting: read a context, predict the horizon that follows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from tracks.track import Track


@dataclass
class Forecasting(Track):
    """A context of N values, one per token → the next `out_features` values.

    All of the horizon is read off at the last token, where every lag of the context can act; what
    the model says at earlier tokens is not asked for. Example: context 32, horizon 8 gives inputs
    (n, 32, 1), outputs (B, 32, 8) of which [:, −1] counts, targets (n, 8).
    """

    metric: ClassVar[str] = "mse"
    direction: ClassVar[Literal["min", "max"]] = "min"

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs[:, -1] - targets).square().mean(-1)

    def scores(self, outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        error = outputs[:, -1] - targets  # (B, horizon)
        return {"mse": error.square().mean(-1), "mae": error.abs().mean(-1)}
