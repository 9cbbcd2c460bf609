"""Multi-query associative recall (Arora et al. 2023, arXiv 2312.04927)."""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tracks.track import Metric, Split, Streams, Track

SILENT = -100  # target of a token that is asked nothing


class Recall(Track):
    """Pairs of a key and its value, then the keys again in another order: say each one's value.

    Two pairs: inputs 3 11 1 9 1 3, targets – – – – 9 11. Keys are below half the vocabulary.
    """

    metric: ClassVar[str] = "cross_entropy"
    metrics: ClassVar[Mapping[str, Metric]] = {
        "cross_entropy": Metric("min", bounds=(0.0, None), can_tie=False),
        "accuracy": Metric("max", bounds=(0.0, 1.0), can_tie=True),
    }
    mean_over = "the queries of a row"
    time_axis = 0
    requires_causal = True

    def __init__(self, streams: Streams, vocabulary: int = 16, pairs: int = 4, rows: int = 256):
        self.vocabulary = vocabulary
        sizes = {"train": rows, "validation": rows // 4, "test": rows // 4}
        splits = {name: self.draw(streams(name), n, pairs) for name, n in sizes.items()}
        super().__init__(splits, axes=(3 * pairs,))

    def draw(self, rng: np.random.Generator, n: int, pairs: int) -> Split:
        half = self.vocabulary // 2
        keys = rng.permuted(np.tile(np.arange(half), (n, 1)), axis=1)[:, :pairs]  # (n, pairs)
        values = rng.integers(half, self.vocabulary, size=(n, pairs))
        asked = rng.permuted(np.tile(np.arange(pairs), (n, 1)), axis=1)
        told = np.stack([keys, values], axis=2).reshape(n, 2 * pairs)
        inputs = np.hstack([told, np.take_along_axis(keys, asked, 1)])
        targets = np.hstack([0 * told + SILENT, np.take_along_axis(values, asked, 1)])
        return Split(torch.from_numpy(inputs), torch.from_numpy(targets))  # (n, N) both

    def encoder(self, dim: int) -> nn.Module:
        return nn.Embedding(self.vocabulary, dim)

    def head(self, dim: int) -> nn.Module:
        return nn.Linear(dim, self.vocabulary)

    def loss(self, predictions: Tensor, targets: Tensor) -> Tensor:  # (B, N, V), (B, N) → (B,)
        each = F.cross_entropy(predictions.mT, targets, ignore_index=SILENT, reduction="none")
        return each.sum(1) / (targets != SILENT).sum(1)

    def scores(self, predictions: Tensor, targets: Tensor) -> dict[str, Tensor]:
        asked = targets != SILENT
        right = ((predictions.argmax(-1) == targets) & asked).sum(1) / asked.sum(1)
        return {"cross_entropy": self.loss(predictions, targets), "accuracy": right}
