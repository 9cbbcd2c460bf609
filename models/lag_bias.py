"""Additive biases of attention logits that depend on the lag between two tokens alone."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn

from models.mixer import Mechanism, Observed


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

    def shape_signature(self, start: LagBias, lags: Tensor) -> dict[str, Observed]:
        """The curves at the context's lags 0, 1, …, (N,), against those of `start`.

        Here: the largest rise from one lag to the next, and the smallest change of that rise.
        """
        bias = self(lags).double()  # (H, N)
        found = {}
        if len(lags) > 1:
            found["bias_max_first_difference"] = Observed(bias.diff().max().item(), over="max")
        if len(lags) > 2:
            found["bias_min_second_difference"] = Observed(bias.diff(n=2).min().item(), over="min")
        return found

    def neutral(self) -> nn.Module:
        return NoBias(self.heads)


class NoBias(nn.Module):
    """b = 0 at every lag."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def forward(self, lags: Tensor) -> Tensor:  # (L,) → (H, L)
        return torch.zeros(self.heads, len(lags), device=lags.device)
