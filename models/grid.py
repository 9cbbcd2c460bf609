"""Tokens as a grid, and linear maps along one of its axes."""

from __future__ import annotations

import math

from torch import Tensor

from models.mixer import Mixer


def on_grid(x: Tensor, axes: tuple[int, ...], mixer: Mixer) -> Tensor:
    """Tokens in their grid, (B, N, d) → (B, n₁, …, nₐ, d).

    Raises:
        ValueError: another number of tokens than the mixer was built for.
    """
    if x.shape[1] != math.prod(axes):
        raise ValueError(
            f"{type(mixer).__name__} is built for a grid of {axes}, {math.prod(axes)} tokens, "
            f"found {x.shape[1]}: build it for these"
        )
    return x.unflatten(1, axes)


def along(matrix: Tensor, grid: Tensor, axis: int) -> Tensor:
    """The matrix (m, nₐ) on an axis of a grid, (B, …, nₐ, …, d) → (B, …, m, …, d)."""
    return (matrix @ grid.movedim(1 + axis, -2)).movedim(-2, 1 + axis)
