"""Forecasting: read a context, predict the horizon that follows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from tracks.track import Metric, Split, Track


class Forecasting(Track):
    """A context of N values, one per token → the `horizon` values that follow.

    All of the horizon is read off at the last token, where every lag of the context can act; what
    the model says at earlier tokens is not asked for. Example: context 32, horizon 8 gives inputs
    (n, 32, 1), outputs (B, 32, 8) of which [:, −1] counts, targets (n, 8).
    """

    metric: ClassVar[str] = "mse"
    metrics: ClassVar[Mapping[str, Metric]] = {
        "mse": Metric("min", bounds=(0.0, None)),
        "mae": Metric("min", bounds=(0.0, None)),
    }

    def __init__(
        self,
        windows: Sequence[np.ndarray],
        context: int,
        references: dict[str, dict[str, float]] | None = None,
    ) -> None:
        """Args: windows of train, validation and test, each (n, context + horizon)."""
        values = [torch.from_numpy(w.astype(np.float32)) for w in windows]
        train, validation, test = (Split(v[:, :context, None], v[:, context:]) for v in values)
        super().__init__(
            train,
            validation,
            test,
            axes=(context,),
            in_features=1,
            out_features=train.targets.shape[1],
            references=references,
        )

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs[:, -1] - targets).square().mean(-1)

    def scores(self, outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        error = outputs[:, -1] - targets  # (B, horizon)
        return {"mse": error.square().mean(-1), "mae": error.abs().mean(-1)}
