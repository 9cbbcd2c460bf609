"""KERPLE's two kernels: a lag bias that falls as a logarithm of lag, or as a power of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from models.alibi import slopes
from models.lag_bias import LagBias
from models.mixer import at_least_float32


class KerpleLog(LagBias):
    """b_h(lag) = −γ · p_h · ln(1 + a_h · lag), p, a > 0 (Chi et al. 2022, arXiv 2205.09921).

    It starts with p = 1 and as steep as ALiBi at lag 0.

    Args:
        heads: H.
        gamma: strength, the number in front.
    """

    by_construction: ClassVar[Mapping[str, str]] = {
        "bias_max_first_difference": "b falls from lag to lag for all p, a > 0",
        "bias_min_second_difference": "b is convex for all p, a > 0, but for rounding",
    }

    def __init__(self, heads: int, gamma: float = 1.0) -> None:
        super().__init__(heads, gamma)
        self.log_p = nn.Parameter(torch.zeros(heads))  # (H,)
        self.log_a = nn.Parameter(slopes(heads).log())  # (H,)

    def curve(self, lags: Tensor) -> Tensor:  # (L,) → (H, L)
        p, a = (at_least_float32(each).exp()[:, None] for each in (self.log_p, self.log_a))
        return -self.gamma * p * (a * lags).log1p()


class KerplePower(LagBias):
    """b_h(lag) = −γ · a_h · lag^p_h, a > 0 and 0 < p < 2 (Chi et al. 2022, arXiv 2205.09921).

    It starts as ALiBi: p = 1.

    Args:
        heads: H.
        gamma: strength, the number in front.
    """

    by_construction: ClassVar[Mapping[str, str]] = {
        "bias_max_first_difference": "b falls from lag to lag for all p, a > 0",
    }

    def __init__(self, heads: int, gamma: float = 1.0) -> None:
        super().__init__(heads, gamma)
        self.log_a = nn.Parameter(slopes(heads).log())  # (H,)
        self.free_p = nn.Parameter(torch.zeros(heads))  # (H,), p = 2·sigmoid(free_p)

    def curve(self, lags: Tensor) -> Tensor:  # (L,) → (H, L)
        a = at_least_float32(self.log_a).exp()[:, None]
        p = 2 * at_least_float32(self.free_p).sigmoid()[:, None]
        return -self.gamma * a * lags**p
