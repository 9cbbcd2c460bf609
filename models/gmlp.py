"""gMLP's spatial gating."""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from models.grid import on_grid
from models.mixer import Mechanism, Mixer, Trains


class GMLP(Mixer, Mechanism):
    """out(u ⊙ (W·norm(v) + 1 + c)), (u, v) the halves of gelu(in(x)), W any matrix over N tokens.

    The spatial gating unit (Liu et al. 2021, arXiv 2105.08050, eq. 4–6): W starts near 0 and the
    gate at 1, so that at first tokens hardly talk to each other. Its channel projections are within
    the mixer; the block's own MLP comes after.

    Args:
        dim, axes: d, and the grid.
        expansion: of both halves together, in d.
    Raises:
        ValueError: an expansion that is odd or below 2.
    """

    def __init__(self, dim: int, axes: tuple[int, ...], expansion: int = 2) -> None:
        super().__init__()
        if expansion < 2 or expansion % 2:
            raise ValueError(f"expansion is {expansion}, must be an even number ≥ 2")
        n, half = math.prod(axes), expansion * dim // 2
        self.axes = axes
        self.into = nn.Linear(dim, 2 * half)
        self.norm = nn.LayerNorm(half)
        self.weight = nn.Parameter(torch.zeros(n, n))
        self.gate = nn.Parameter(torch.zeros(n, 1))  # c, beside 1
        self.out = nn.Linear(half, dim)

    def draw(self, name: str, generator: Generator) -> Tensor | None:
        """The start of W: normal with std 0.001."""
        if name != "weight":
            return None
        return 0.001 * torch.randn(self.weight.shape, generator=generator)

    def trains(self, name: str) -> Trains | None:
        return None  # layers like any other

    def forward(self, x: Tensor) -> Tensor:  # (B, N, d) → (B, N, d)
        x = on_grid(x, self.axes, self).flatten(1, -2)
        u, v = F.gelu(self.into(x)).chunk(2, dim=-1)  # (B, N, d·e/2) each
        out: Tensor = self.out(u * (self.weight @ self.norm(v) + 1 + self.gate))
        return out

    def neutral(self) -> nn.Module:
        return nn.Identity()
