"""Exponentials with weights of any sign, without the mixture's logarithm."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from models.exp_mixture import ExpMixture
from models.lag_bias import LagBias
from models.mixer import at_least_float32


class ExpMixtureSigned(LagBias):
    """b_h(lag) = γ · Σⱼ w_hⱼ · exp(−r_hⱼ · lag), rates r = exp(ρ) > 0, weights of any sign.

    Unlike the mixture it may rise and turn, and flattens out far away. The rates start as the
    mixture's, the weights at 1/J each.

    Args:
        heads: H.
        components: exponentials per head, J.
        gamma: strength, the number in front.
    Raises:
        ValueError: fewer than one component.
    """

    def __init__(self, heads: int, components: int = 8, gamma: float = 1.0) -> None:
        super().__init__(heads, gamma)
        self.log_rates = ExpMixture(heads, components).log_rates  # (H, J)
        self.weights = nn.Parameter(torch.full((heads, components), 1 / components))  # (H, J)

    def curve(self, lags: Tensor) -> Tensor:  # (L,) → (H, L)
        decayed = (-at_least_float32(self.log_rates).exp()[..., None] * lags).exp()  # (H, J, L)
        return self.gamma * (at_least_float32(self.weights)[..., None] * decayed).sum(1)
