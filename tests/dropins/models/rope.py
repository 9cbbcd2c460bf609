"""Rotary positions (Su et al. 2021, arXiv 2104.09864)."""

from __future__ import annotations

import torch
from torch import Tensor

from models.rotation import Rotation


class Rope(Rotation):
    """Turns the pair (x₂ⱼ, x₂ⱼ₊₁) at position t by t·base^(−2j/dₕ): products then know t − s alone.

    Args:
        base: of the wavelengths.
    """

    any_length = True

    def __init__(self, base: float = 10000.0) -> None:
        super().__init__()
        self.base = base

    def forward(self, q: Tensor, k: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        keys = k.shape[-2]
        return self.turned(q, keys - q.shape[-2]), self.turned(k, 0)

    def turned(self, x: Tensor, first: int) -> Tensor:  # (B, H, N, dₕ), from position `first` on
        n, d = x.shape[-2:]
        rates = self.base ** (-torch.arange(0, d, 2, device=x.device) / d)  # (dₕ/2,)
        angles = torch.arange(first, first + n, device=x.device)[:, None] * rates  # (N, dₕ/2)
        even, odd = x[..., ::2], x[..., 1::2]
        cos, sin = angles.cos(), angles.sin()
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)
