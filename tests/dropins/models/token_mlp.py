"""Mixing tokens by an MLP (Tolstikhin et al. 2021, arXiv 2105.01601)."""

from __future__ import annotations

import math

from torch import Tensor, nn

from models.mixer import Mechanism, Mixer


class TokenMLP(Mixer, Mechanism):
    """MLP over the token axis, the same for all channels.

    Args:
        hidden: its width.
    """

    def __init__(self, axes: tuple[int, ...], hidden: int = 16) -> None:
        super().__init__()
        n = math.prod(axes)
        self.layers = nn.Sequential(nn.Linear(n, hidden), nn.GELU(), nn.Linear(hidden, n))

    def forward(self, x: Tensor) -> Tensor:  # (B, N, d) → (B, N, d)
        out: Tensor = self.layers(x.mT).mT
        return out

    def neutral(self) -> nn.Module:
        return nn.Identity()

    def trains(self, name: str) -> None:
        """Its layers as the network's do."""
