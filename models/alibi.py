"""ALiBi: a straight line in lag, never trained."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from models.lag_bias import LagBias
from models.mixer import at_least_float32


def slopes(heads: int) -> Tensor:
    """ALiBi's slope of each head, (H,), steepest first: m_h = 2^(−8h/H), h = 1 … H.

    Where H is no power of two: those of the power below it, then every other one of twice that.
    """
    power = 2 ** int(math.log2(heads))
    h = torch.arange(1, 2 * power + 1, dtype=torch.float64)
    twice = (2.0 ** (-4 * h / power)).float()  # every second one is that of the power itself
    return torch.cat([twice[1::2], twice[::2]])[:heads]


class Alibi(LagBias):
    """b_h(lag) = −γ · m_h · lag (Press et al. 2022, arXiv 2108.12409).

    Args:
        heads: H.
        gamma: strength, the number in front.
    """

    by_construction: ClassVar[Mapping[str, str]] = {
        "bias_max_first_difference": "b is a line that falls, and is not trained",
        "bias_min_second_difference": "b is a line, and is not trained",
    }

    def __init__(self, heads: int, gamma: float = 1.0) -> None:
        super().__init__(heads, gamma)
        self.slopes: Tensor  # (H,)
        self.register_buffer("slopes", slopes(heads), persistent=False)

    def curve(self, lags: Tensor) -> Tensor:  # (L,) → (H, L)
        return -self.gamma * at_least_float32(self.slopes)[:, None] * lags
