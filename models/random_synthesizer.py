"""The factorised random Synthesizer: attention whose weights no content decides."""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor, nn

from models.grid import on_grid
from models.mixer import Mechanism, Mixer


class RandomSynthesizer(Mixer, Mechanism):
    """softmax(L·Rᵀ) V per head, L and R learned, (N, k) each: no queries and keys.

    Tay et al. 2021 (arXiv 2005.00743, §3.2): the closest published relative of the tensor mixer,
    with a softmax, values and heads.

    Args:
        dim, heads, axes: d, H, and the grid.
        rank: k; half of the tokens by default, as the tensor mixer's on one axis.
    Raises:
        ValueError: heads do not divide dim, or a rank below 1.
    """

    def __init__(
        self, dim: int, heads: int, axes: tuple[int, ...], rank: int | None = None
    ) -> None:
        super().__init__()
        n = math.prod(axes)
        rank = max(n // 2, 1) if rank is None else rank
        if dim % heads:
            raise ValueError(f"model.heads is {heads}, must divide model.dim {dim}")
        if rank < 1:
            raise ValueError(f"rank is {rank}, must be a whole number ≥ 1")
        self.axes, self.heads = axes, heads
        self.left = nn.Parameter(torch.empty(heads, n, rank))
        self.right = nn.Parameter(torch.empty(heads, n, rank))
        self.value = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)

    def draw(self, name: str, generator: Generator) -> Tensor | None:
        """Of the factors: logits L·Rᵀ of variance 1."""
        if name not in ("left", "right"):
            return None
        shape = self.left.shape
        return torch.randn(shape, generator=generator) / shape[-1] ** 0.25

    def forward(self, x: Tensor) -> Tensor:  # (B, N, d) → (B, N, d)
        x = on_grid(x, self.axes, self).flatten(1, -2)
        weights = (self.left @ self.right.transpose(-1, -2)).softmax(-1)  # (H, N, N)
        v = self.value(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (B, H, N, dₕ)
        out: Tensor = self.out((weights @ v).transpose(1, 2).flatten(-2))
        return out

    def neutral(self) -> nn.Module:
        return nn.Identity()
