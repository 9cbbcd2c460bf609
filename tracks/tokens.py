"""Saying tokens: one of a vocabulary at each token that is asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tracks.track import Metric, References, Split, Track

SILENT = -100  # the target of a token that is asked nothing


class Tokens(Track):
    """Rows of token ids (n, N) → at each token that is asked, one of the vocabulary; causal.

    Example: inputs 3 11 1 9 1 3, targets – – – – 9 11, where – is `SILENT`: the last two are asked.

    Args:
        rows: of each split, inputs and targets, whole numbers (n, N) both. Of every row at least
            one token is asked.
        vocabulary: how many ids there are, from 0 on.
    """

    metric: ClassVar[str] = "cross_entropy"
    metrics: ClassVar[Mapping[str, Metric]] = {
        "cross_entropy": Metric("min", bounds=(0.0, None), can_tie=False),  # in nats
        "accuracy": Metric("max", bounds=(0.0, 1.0), can_tie=True),
    }
    time_axis: ClassVar[int | None] = 0
    requires_causal: ClassVar[bool] = True

    def __init__(
        self,
        rows: Mapping[str, tuple[np.ndarray, np.ndarray]],
        vocabulary: int,
        references: References | None = None,
        fitted: References | None = None,
    ) -> None:
        splits = {
            name: Split(torch.from_numpy(inputs), torch.from_numpy(targets))
            for name, (inputs, targets) in rows.items()
        }
        super().__init__(splits, (splits["train"].inputs.shape[1],), references, fitted)
        self.vocabulary = vocabulary

    def encoder(self, dim: int) -> nn.Module:
        return nn.Embedding(self.vocabulary, dim)

    def head(self, dim: int) -> nn.Module:
        return nn.Linear(dim, self.vocabulary)

    def loss(self, predictions: Tensor, targets: Tensor) -> Tensor:  # (B, N, V), (B, N) → (B,)
        each = F.cross_entropy(
            predictions.flatten(0, 1), targets.flatten(), ignore_index=SILENT, reduction="none"
        )
        return each.view(targets.shape).sum(1) / (targets != SILENT).sum(1)

    def scores(self, predictions: Tensor, targets: Tensor) -> dict[str, Tensor]:
        asked = targets != SILENT
        right = (self.hits(predictions, targets) & asked).sum(1) / asked.sum(1)
        return {"cross_entropy": self.loss(predictions, targets), "accuracy": right}

    def hits(self, predictions: Tensor, targets: Tensor) -> Tensor:
        """Where the likeliest id is the target, (B, N, V), (B, N) → (B, N)."""
        return predictions.argmax(-1) == targets
