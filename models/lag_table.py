"""The learned lag table: the least constrained lag bias there is, and so the baseline."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from models.lag_bias import LagBias
from models.mixer import Observed, at_least_float32


class LagTable(LagBias):
    """b_h(lag) = γ · table[h, lag], one free number per head and lag, starting at 0.

    Beyond its length the table repeats its last entry: it has nothing to say about lags that it
    never saw. As the relative position biases of T5 (Raffel et al. 2020, arXiv 1910.10683), with
    one bucket per lag.

    Args:
        heads, context: H, and the number of lags that the context has.
        length: lags in the table; None for the context's.
        gamma: strength, the number in front.
    Raises:
        ValueError: a length below 1.
    """

    def __init__(
        self, heads: int, context: int, length: int | None = None, gamma: float = 1.0
    ) -> None:
        super().__init__(heads, gamma)
        length = context if length is None else length
        if length < 1:
            raise ValueError(f"length is {length}, must be a whole number ≥ 1")
        self.table = nn.Parameter(torch.zeros(heads, length))  # (H, L)

    def curve(self, lags: Tensor) -> Tensor:  # (L,) → (H, L)
        last = self.table.shape[1] - 1
        return self.gamma * at_least_float32(self.table[:, lags.clamp(max=last)])

    def shape_signature(self, start: LagBias, lags: Tensor) -> dict[str, Observed]:
        bias, before = self.curve(lags).double(), start.curve(lags).double()  # (H, N)
        distance = (bias - before).square().mean().sqrt().item()
        found = super().shape_signature(start, lags)
        found["table_distance_from_start"] = Observed(distance, least=0.0)
        shares = {
            "negative_first_differences": bias.diff() < 0,
            "positive_second_differences": bias.diff(n=2) > 0,
        }
        for metric, holds in shares.items():
            if holds.numel():  # which two lags alone do not have
                share = holds.double().mean().item()
                found[metric] = Observed(share, least=0.0, most=1.0)
        return found
