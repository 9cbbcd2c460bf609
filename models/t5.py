"""T5's relative positions: one free bias for each of a few ranges of lag."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from models.lag_bias import LagBias
from models.mixer import at_least_float32


class T5(LagBias):
    """b_h(lag) = γ · table[h, bucket(lag)], starting at 0 (Raffel et al. 2020, arXiv 1910.10683).

    The first half of the buckets hold one lag each; the others grow in proportion to the lag up to
    `farthest`, and the last is for all beyond. Where attention sees both ways the two sides share
    their buckets.

    Args:
        heads: H.
        buckets: ranges of lag.
        farthest: the lag, in tokens, from which all share the last bucket.
        gamma: strength, the number in front.
    Raises:
        ValueError: fewer than two buckets, or `farthest` within those of one lag.
    """

    def __init__(
        self, heads: int, buckets: int = 32, farthest: int = 128, gamma: float = 1.0
    ) -> None:
        super().__init__(heads, gamma)
        if buckets < 2:
            raise ValueError(f"buckets is {buckets}, must be a whole number ≥ 2")
        self.exact = buckets // 2
        if farthest <= self.exact:
            raise ValueError(f"farthest is {farthest}, must be above buckets / 2 = {self.exact}")
        self.farthest = farthest
        self.table = nn.Parameter(torch.zeros(heads, buckets))  # (H, buckets)

    def bucket(self, lags: Tensor) -> Tensor:
        """The bucket of each lag, (L,) → (L,), whole numbers."""
        buckets = self.table.shape[1]
        growth = (lags.clamp(min=self.exact) / self.exact).log()
        share = growth / math.log(self.farthest / self.exact)  # 0 … 1 up to `farthest`
        grown = self.exact + (share * (buckets - self.exact)).long()
        return torch.where(lags < self.exact, lags, grown.clamp(max=buckets - 1))

    def curve(self, lags: Tensor) -> Tensor:  # (L,) → (H, L)
        return self.gamma * at_least_float32(self.table[:, self.bucket(lags)])
