"""A power law: attention that fades as a power of the distance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from models.lag_bias import LagBias
from models.mixer import at_least_float32


class PowerLaw(LagBias):
    """b_h(lag) = −γ · α_h · ln(1 + lag), α > 0: weights ∝ (1 + lag)^(−γα).

    The decay of Powerformer (Hegazy et al. 2025, arXiv 2502.06151); here α is learned, one for each
    head, from 2h/H on. It is KERPLE's logarithm with a = 1.

    Args:
        heads: H.
        gamma: strength, the number in front.
    """

    by_construction: ClassVar[Mapping[str, str]] = {
        "bias_max_first_difference": "b falls from lag to lag for every α > 0",
        "bias_min_second_difference": "b is convex for every α > 0, but for rounding",
    }

    def __init__(self, heads: int, gamma: float = 1.0) -> None:
        super().__init__(heads, gamma)
        self.log_alpha = nn.Parameter((2 * torch.arange(1, heads + 1) / heads).log())  # (H,)

    def curve(self, lags: Tensor) -> Tensor:  # (L,) → (H, L)
        alpha = at_least_float32(self.log_alpha).exp()[:, None]
        return -self.gamma * alpha * lags.to(alpha.dtype).log1p()
