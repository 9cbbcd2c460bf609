"""Sandwich: the products of sinusoidal positions, as a lag bias."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from models.lag_bias import LagBias


class Sandwich(LagBias):
    """b_h(lag) = γ · H/(8h) · Σ_k cos(lag / 10000^(2k/D)), k = 0 … D/2 − 1, never trained.

    Chi et al. 2023, arXiv 2212.10356; the first head's is the strongest.

    Args:
        heads: H.
        width: D, of the sinusoidal positions that are multiplied.
        gamma: strength, the number in front.
    Raises:
        ValueError: a width below 2, or odd.
    """

    by_construction: ClassVar[Mapping[str, str]] = {
        "bias_max_first_difference": "nothing of it is trained",
        "bias_min_second_difference": "nothing of it is trained",
    }

    def __init__(self, heads: int, width: int = 128, gamma: float = 1.0) -> None:
        super().__init__(heads, gamma)
        if width < 2 or width % 2:
            raise ValueError(f"width is {width}, must be an even number ≥ 2")
        self.width = width

    def curve(self, lags: Tensor) -> Tensor:  # (L,) → (H, L)
        # float64, as the angles of far lags have no digits left in less
        k = torch.arange(self.width // 2, dtype=torch.float64, device=lags.device)
        angles = lags[:, None] * 10000.0 ** (-2 * k / self.width)  # (L, D/2)
        head = torch.arange(1, self.heads + 1, device=lags.device)[:, None]
        return (self.gamma * self.heads / 8 / head * angles.cos().sum(-1)).float()
