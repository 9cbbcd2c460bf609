"""Which number is the highest so far?"""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tracks.track import Metric, Split, Streams, Track


class Highest(Track):
    """Token ids (n, N) → at each but the first, the highest id so far: 3 1 9 2 → – 3 9 9."""

    metric: ClassVar[str] = "cross_entropy"
    metrics: ClassVar[Mapping[str, Metric]] = {
        "cross_entropy": Metric("min", bounds=(0.0, None), can_tie=False),
        "accuracy": Metric("max", bounds=(0.0, 1.0), can_tie=True),
    }
    mean_over = "all tokens but the first"
    time_axis = 0
    requires_causal = True

    def __init__(self, streams: Streams, vocabulary: int = 16, context: int = 12, rows: int = 256):
        self.vocabulary = vocabulary
        splits = {}
        for name, n in {"train": rows, "validation": rows // 4, "test": rows // 4}.items():
            ids = streams(name).integers(vocabulary, size=(n, context))
            highest = np.maximum.accumulate(ids, axis=1)
            splits[name] = Split(torch.from_numpy(ids), torch.from_numpy(highest))
        super().__init__(splits, axes=(context,))

    def encoder(self, dim: int) -> nn.Module:
        return nn.Embedding(self.vocabulary, dim)

    def head(self, dim: int) -> nn.Module:
        return nn.Linear(dim, self.vocabulary)

    def loss(self, predictions: Tensor, targets: Tensor) -> Tensor:  # (B, N, V), (B, N) → (B,)
        return F.cross_entropy(predictions.mT, targets, reduction="none")[:, 1:].mean(1)

    def scores(self, predictions: Tensor, targets: Tensor) -> dict[str, Tensor]:
        right = (predictions.argmax(-1) == targets)[:, 1:].float().mean(1)
        return {"cross_entropy": self.loss(predictions, targets), "accuracy": right}
