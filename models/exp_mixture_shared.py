"""The exponential mixture, one for all heads."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from models.exp_mixture import ExpMixture


class ExpMixtureShared(ExpMixture):
    """b(lag) = γ · log Σⱼ softmax(w)ⱼ · exp(−rⱼ · lag) in every head.

    The rates start spread log-evenly over all that the heads' own would have covered.
    """

    def __init__(self, heads: int, components: int = 8, gamma: float = 1.0) -> None:
        super().__init__(heads, components, gamma)
        fast, slow = self.log_rates.max().item(), self.log_rates.min().item()
        if components == 1:
            fast = slow = (fast + slow) / 2
        self.log_rates = nn.Parameter(torch.linspace(slow, fast, components)[None])  # (1, J)
        self.logits = nn.Parameter(torch.zeros(1, components), components > 1)  # (1, J)

    def curve(self, lags: Tensor) -> Tensor:  # (L,) → (H, L)
        return super().curve(lags).expand(self.heads, -1)
