"""The learned lag table: the least constrained lag bias there is, and so the baseline."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from models.lag_bias import LagBias
from models.mixer import Observed, at_least_float32
from models.nearest_mixture import mixture_residual


class LagTable(LagBias):
    """b_h(lag) = γ · table[h, lag], one free number per head and lag, starting at 0.

    Beyond its length the table repeats its last entry: it has nothing to say about lags that it
    never saw. As the relative position biases of T5 (Raffel et al. 2020, arXiv 1910.10683), with
    one bucket per lag.

    Args:
        heads, context: H, and the number of lags that the context has.
        length: lags in the table, or, below 1, its share of the context's; None for all of these.
        gamma: strength, the number in front.
    Raises:
        ValueError: a length that is no number of lags ≥ 1, nor a share that has one.
    """

    def __init__(
        self, heads: int, context: int, length: float | None = None, gamma: float = 1.0
    ) -> None:
        super().__init__(heads, gamma)
        entries = context if length is None else length * context if length < 1 else length
        if entries < 1 or (length is not None and length > 1 and length % 1):
            raise ValueError(
                f"length is {length}, must be a whole number of lags ≥ 1, or, below 1, a share of "
                f"the context's {context}"
            )
        self.table = nn.Parameter(torch.zeros(heads, int(entries)))  # (H, L)

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
        return found | self._nearest_mixture(bias)

    def _nearest_mixture(self, bias: Tensor) -> dict[str, Observed]:
        """How far the curves, (H, N), are from γ · log of eight exponentials each.

        Means over heads, in logits, and as a share of their spread over lags. A flat table has no
        shape to explain: its share is 1, so that a small one does not hold before training.
        """
        if bias.shape[1] < 2:
            return {}
        gamma = self.gamma or 1.0  # of 0, all is flat
        residual = abs(gamma) * mixture_residual(bias / gamma).mean().item()
        spread = bias.std(1, correction=0).mean().item()
        share = min(residual / spread, 1.0) if spread else 1.0
        return {
            "mixture_residual": Observed(residual, least=0.0),
            "mixture_residual_share": Observed(share, least=0.0, most=1.0),
        }
