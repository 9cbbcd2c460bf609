"""Which quarter of a noisy picture is the bright one?"""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tracks.track import Metric, Split, Streams, Track


class Blobs(Track):
    """Pictures (H, W) of noise with one quarter brighter → its number; a token per pixel."""

    metric: ClassVar[str] = "accuracy"
    metrics: ClassVar[Mapping[str, Metric]] = {
        "accuracy": Metric("max", bounds=(0.0, 1.0), can_tie=True)
    }
    mean_over: ClassVar[str] = "one answer"

    def __init__(self, streams: Streams, height: int = 4, width: int = 6, rows: int = 128) -> None:
        splits = {}
        for name in ("train", "validation", "test"):
            rng = streams(name)
            quarter = rng.integers(4, size=rows)
            pictures = rng.normal(size=(rows, height, width))
            for i, q in enumerate(quarter):
                top, left = (q // 2) * (height // 2), (q % 2) * (width // 2)
                pictures[i, top : top + height // 2, left : left + width // 2] += 1
            inputs = pictures.astype(np.float32).reshape(rows, height * width, 1)
            splits[name] = Split(torch.from_numpy(inputs), torch.from_numpy(quarter))
        super().__init__(splits, axes=(height, width))

    def encoder(self, dim: int) -> nn.Module:
        return nn.Linear(1, dim)

    def head(self, dim: int) -> nn.Module:
        return nn.Linear(dim, 4)

    def readout(self, outputs: Tensor) -> Tensor:  # (B, N, 4) → (B, 4)
        return outputs.mean(1)

    def loss(self, predictions: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(predictions, targets, reduction="none")

    def scores(self, predictions: Tensor, targets: Tensor) -> dict[str, Tensor]:
        return {"accuracy": (predictions.argmax(-1) == targets).float()}
