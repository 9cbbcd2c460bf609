"""MEP: the mean of an exponential and a Gaussian kernel of the lag."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from models.alibi import slopes
from models.lag_bias import LagBias
from models.mixer import at_least_float32


class Mep(LagBias):
    """b_h(lag) = γ · ln(½·e^(−m_h·lag) + ½·e^(−m_h·lag²)), m_h as ALiBi has it, never trained.

    The version without parameters of Gao 2024, arXiv 2403.17698, whose mean multiplies the weights
    of attention: its logarithm, added to the logits, does the same.

    Args:
        heads: H.
        gamma: strength, the number in front.
    """

    by_construction: ClassVar[Mapping[str, str]] = {
        "bias_max_first_difference": "both kernels fall, and are not trained",
        "bias_min_second_difference": "nothing of it is trained",
    }

    def __init__(self, heads: int, gamma: float = 1.0) -> None:
        super().__init__(heads, gamma)
        self.slopes: Tensor  # (H,)
        self.register_buffer("slopes", slopes(heads), persistent=False)

    def curve(self, lags: Tensor) -> Tensor:  # (L,) → (H, L)
        m = at_least_float32(self.slopes)[:, None]
        far = lags.to(m.dtype)
        mean = torch.stack([-m * far, -m * far.square()]).logsumexp(0) - math.log(2)
        return self.gamma * mean
