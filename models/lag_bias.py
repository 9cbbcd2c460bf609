"""Additive biases of attention logits that depend on the lag between two tokens alone."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn

from models.mixer import Mechanism


class LagBias(Mechanism):
    """b_h(lag), one curve per head, strength γ included.

    Built by attention as `bias(heads=H, context=N)`; N is the number of lags in the context.
    """

    given: ClassVar[frozenset[str]] = frozenset({"heads", "context"})  # no keys of its YAML

    def __init__(self, heads: int, gamma: float) -> None:
        super().__init__()
        self.heads = heads
        self.gamma = gamma

    @abstractmethod
    def forward(self, lags: Tensor) -> Tensor:
        """Lags in tokens, integers ≥ 0, (L,) → the bias in logits, (H, L), at least float32."""

    @abstractmethod
    def shape_signature(self, start: LagBias, context: int) -> dict[str, float]:
        """The curves over lags 0 … context − 1, against those of `start` (before training)."""

    def neutral(self) -> nn.Module:
        return NoBias(self.heads)


class NoBias(nn.Module):
    """b = 0 at every lag."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def forward(self, lags: Tensor) -> Tensor:  # (L,) → (H, L)
        return torch.zeros(self.heads, len(lags), device=lags.device)
