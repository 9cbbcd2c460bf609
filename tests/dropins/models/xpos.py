"""Rotary positions that also fade with distance (Sun et al. 2022, arXiv 2212.10554)."""

from __future__ import annotations

import torch
from torch import Tensor

from models.rotation import Rotation


class XPos(Rotation):
    """Turns the pair j by t·10000^(−2j/dₕ), and scales queries by ζⱼᵗ and keys by ζⱼ⁻ᵗ.

    ζⱼ = (2j/dₕ + γ)/(1 + γ): of a pair's product at lag d there is a share ζⱼᵈ left.

    Args:
        offset: γ; the larger, the slower all fade.
    """

    any_length = True

    def __init__(self, offset: float = 4.0) -> None:
        super().__init__()
        self.offset = offset

    def forward(self, q: Tensor, k: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        keys = k.shape[-2]
        return self.turned(q, keys - q.shape[-2], 1.0), self.turned(k, 0, -1.0)

    def turned(self, x: Tensor, first: int, sign: float) -> Tensor:  # (B, H, N, dₕ)
        n, d = x.shape[-2:]
        pair = torch.arange(0, d, 2, device=x.device) / d  # (dₕ/2,)
        t = torch.arange(first, first + n, device=x.device)[:, None]
        left = ((pair + self.offset) / (1 + self.offset)) ** (sign * t)  # (N, dₕ/2)
        angles = t * 10000.0**-pair
        even, odd = x[..., ::2], x[..., 1::2]
        cos, sin = left * angles.cos(), left * angles.sin()
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)
