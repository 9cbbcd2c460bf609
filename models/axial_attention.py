"""Attention along one axis of the grid at a time."""

from __future__ import annotations

from torch import Tensor, nn

from models.attention import Attention
from models.grid import on_grid
from models.mixer import Mixer


class AxialAttention(Mixer):
    """Σₐ attention along axis a, both ways, each with projections of its own.

    After Ho et al. 2019 (arXiv 1912.12180), whose layers take the axes in turn: here every layer
    sums over them, so that a grid of any number of axes fits any number of layers. A token sees
    its row and column in one layer, the whole grid of two axes in two.

    Args:
        dim, heads, axes: d, H, and the grid.
    Raises:
        ValueError: heads do not divide dim.
    """

    def __init__(self, dim: int, heads: int, axes: tuple[int, ...]) -> None:
        super().__init__()
        self.axes = axes
        self.along = nn.ModuleList(Attention(dim, heads, (n,), causal=False) for n in axes)

    def forward(self, x: Tensor) -> Tensor:  # (B, N, d) → (B, N, d)
        grid = on_grid(x, self.axes, self)  # (B, n₁, …, nₐ, d)
        mixed = x.new_zeros(())
        for axis, attention in enumerate(self.along, start=1):
            lines = grid.movedim(axis, -2)  # (B, …, nₐ, d)
            seen = attention(lines.flatten(0, -3)).view_as(lines)
            mixed = mixed + seen.movedim(-2, axis)
        return mixed.flatten(1, -2)
