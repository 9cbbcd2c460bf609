"""A chaotic series, trained a step ahead, judged running free."""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from tracks.track import Metric, Split, Streams, Track


class Rollout(Track):
    """The logistic map x ← 3.9·x·(1 − x): N values → the next one, or `horizon` of them in turn.

    Trained with the next value at every token; scored on what it says when it reads its own words.
    """

    metric: ClassVar[str] = "horizon"
    metrics: ClassVar[Mapping[str, Metric]] = {
        "horizon": Metric("max", bounds=(0.0, None), can_tie=True),  # steps within `close`
        "mse": Metric("min", bounds=(0.0, None), can_tie=False),
    }
    mean_over: ClassVar[str] = "the values that are said"
    time_axis: ClassVar[int | None] = 0

    def __init__(self, streams: Streams, context: int, horizon: int, rows: int, close: float):
        self.horizon, self.close = horizon, close
        splits = {}
        for name in ("train", "validation", "test"):
            x = [streams(name).uniform(0.1, 0.9, size=rows)]
            for _ in range(context + horizon - 1):
                x.append(3.9 * x[-1] * (1 - x[-1]))
            values = torch.from_numpy(np.stack(x, axis=1).astype(np.float32))  # (n, N + horizon)
            following = values[:, 1 : context + 1] if name == "train" else values[:, context:]
            splits[name] = Split(values[:, :context, None], following)
        super().__init__(splits, axes=(context,))

    def encoder(self, dim: int) -> nn.Module:
        return nn.Linear(1, dim)

    def head(self, dim: int) -> nn.Module:
        return nn.Linear(dim, 1)

    def readout(self, outputs: Tensor) -> Tensor:  # (B, N, 1) → (B, N)
        return outputs[..., 0]

    def predict(self, network: nn.Module, inputs: Tensor) -> Tensor:  # (B, N, 1) → (B, horizon)
        said: list[Tensor] = []
        for _ in range(self.horizon):
            said.append(self.readout(network(inputs))[:, -1:])
            inputs = torch.cat([inputs[:, 1:], said[-1][..., None]], dim=1)
        return torch.cat(said, dim=1)

    def loss(self, predictions: Tensor, targets: Tensor) -> Tensor:
        return (predictions - targets).square().mean(1)

    def scores(self, predictions: Tensor, targets: Tensor) -> dict[str, Tensor]:
        near = ((predictions - targets).abs() < self.close).float().cumprod(1)
        return {"horizon": near.sum(1), "mse": self.loss(predictions, targets)}
