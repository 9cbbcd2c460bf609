"""A learned table over where one token lies from another, on a grid of any number of axes."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from models.lag_bias import LogitBias
from models.mixer import Observed, at_least_float32


class OffsetTable(LogitBias):
    """b_h(Δ) = γ · table[h, Δ], Δ = (i₁ − j₁, …, iₐ − jₐ) the offset of key j from query i.

    One free number per head and offset, starting at 0: (2n₁ − 1)·…·(2nₐ − 1) of them, as the
    relative position bias of Swin's windows (Liu et al. 2021, arXiv 2103.14030, eq. 4). Unlike a
    lag table it tells before from after.

    Args:
        heads, axes: H, and the grid.
        gamma: strength, the number in front.
    """

    def __init__(self, heads: int, axes: tuple[int, ...], gamma: float = 1.0) -> None:
        super().__init__()
        self.axes, self.gamma = axes, gamma
        self.table = nn.Parameter(torch.zeros(heads, math.prod(2 * n - 1 for n in axes)))
        # of every pair of tokens, its entry: the offset in base (2n₁ − 1, …, 2nₐ − 1)
        entry = torch.zeros(1, 1, dtype=torch.long)
        for n in axes:
            at = torch.arange(n)
            offset = at[:, None] - at + n - 1  # (n, n), 0 … 2n − 2
            entry = torch.kron(entry * (2 * n - 1), torch.ones_like(offset)) + offset.repeat(
                entry.shape
            )
        self.entry: Tensor  # (N, N)
        self.register_buffer("entry", entry, persistent=False)

    def forward(self, q: Tensor, k: Tensor, x: Tensor) -> Tensor:  # → (1, H, Nq, Nk)
        if k.shape[-2] != len(self.entry):
            raise ValueError(
                f"OffsetTable is built for a grid of {self.axes}, {len(self.entry)} tokens, found "
                f"{k.shape[-2]}: build it for these"
            )
        entry = self.entry[-q.shape[-2] :]
        table = self.gamma * at_least_float32(self.table)
        return table.index_select(1, entry.flatten()).unflatten(1, entry.shape)[None]

    def signature(self, start: OffsetTable, q: Tensor, k: Tensor, x: Tensor) -> dict[str, Observed]:
        moved = self.gamma * (self.table - start.table).double().square().mean().sqrt()
        return {"table_distance_from_start": Observed(moved.item(), least=0.0)}
