"""Rotary positions (Su et al. 2021, arXiv 2104.09864)."""

from __future__ import annotations

import torch
from torch import Tensor

from models.rotation import Rotation


class Rope(Rotation):
    """Turns the pair (x₂ⱼ, x₂ⱼ₊₁) at position t by t·base^(−2j/d): products then know t − s alone.

    d is the number of turned dimensions of a head, its first ones; the others stay as they are.

    Args:
        dim, heads, context: of the network; dₕ = dim / heads, and the trained length.
        base: of the wavelengths.
        share: of a head's dimensions that are turned, at least one pair of them.
        stretch: of N tokens, more than L, the base becomes base·s^(d/(d−2)) with s = N/L: the
            slowest pair turns as far over N tokens as it did over L, the fastest as fast as ever
            (“NTK-aware” scaling; Peng et al. 2023, arXiv 2309.00071, §3.1).
        length: L, in tokens; None for the context's.
    Raises:
        ValueError: a share outside 0 … 1, heads of an odd width, or a length below 1.
    """

    any_length = True

    def __init__(
        self,
        dim: int,
        heads: int,
        context: int,
        base: float = 10000.0,
        share: float = 1.0,
        stretch: bool = False,
        length: int | None = None,
    ) -> None:
        super().__init__()
        if not 0 < share <= 1:
            raise ValueError(f"share is {share}, must be above 0 and at most 1")
        if dim // heads % 2:
            raise ValueError(
                f"model.dim / model.heads is {dim // heads}, must be even: rotary positions turn "
                f"pairs"
            )
        self.pairs = max(1, int(share * (dim // heads)) // 2)
        self.base, self.stretch = base, stretch
        self.length = context if length is None else length
        if self.length < 1:
            raise ValueError(f"length is {length}, must be a whole number ≥ 1")

    def forward(self, q: Tensor, k: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        n = k.shape[-2]
        angles = self.angles(n, torch.promote_types(k.dtype, torch.float32), k.device)
        return self.turned(q, angles[n - q.shape[-2] :]), self.turned(k, angles)

    def angles(self, tokens: int, dtype: torch.dtype, device: torch.device) -> Tensor:
        """By how much each pair of each token is turned, (N, pairs)."""
        pair = torch.arange(self.pairs, dtype=dtype, device=device)
        rates = self.base ** (-pair / self.pairs)
        if self.stretch and tokens > self.length:
            slower = torch.linspace(0, 1, self.pairs, dtype=dtype, device=device)  # 2j/(d−2)
            rates = rates * (self.length / tokens) ** slower
        return torch.arange(tokens, dtype=dtype, device=device)[:, None] * rates

    def turned(self, x: Tensor, angles: Tensor) -> Tensor:  # (B, H, N, dₕ), (N, pairs)
        turning, rest = x[..., : 2 * self.pairs], x[..., 2 * self.pairs :]
        even, odd = turning[..., ::2], turning[..., 1::2]
        cos, sin = angles.cos(), angles.sin()
        pairs = torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1)
        return torch.cat([pairs.flatten(-2).to(x.dtype), rest], dim=-1)
