"""FIRE: a learned function of the lag as a share of what the query can see."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from models.lag_bias import LogitBias, lags_between
from models.mixer import Trains, at_least_float32


class Fire(LogitBias):
    """b_h(i, j) = γ · MLP(ψ(i − j) / ψ(max(i, L)))_h, ψ(x) = ln(1 + c·x); L and c are learned.

    Li et al. 2024, arXiv 2310.04418. i counts from 0. Where attention sees both ways, |i − j|.

    Args:
        heads, context: H, and the trained length in tokens.
        length: what L starts from; None for the context's.
        hidden: width of the MLP, which has one hidden layer and ReLUs.
        gamma: strength, the number in front.
    Raises:
        ValueError: a length that is not above 0.
    """

    any_length = True

    def __init__(
        self,
        heads: int,
        context: int,
        length: float | None = None,
        hidden: int = 32,
        gamma: float = 1.0,
    ) -> None:
        super().__init__()
        length = context if length is None else length
        if length <= 0:
            raise ValueError(f"length is {length}, must be above 0")
        self.gamma = gamma
        self.log_c = nn.Parameter(torch.tensor(0.1).log())
        self.log_length = nn.Parameter(torch.tensor(float(length)).log())
        self.inner = nn.Linear(1, hidden)
        self.outer = nn.Linear(hidden, heads, bias=False)  # one would cancel in the softmax

    def forward(self, q: Tensor, k: Tensor, x: Tensor) -> Tensor:  # → (1, H, Nq, Nk)
        lag = lags_between(q.shape[-2], k.shape[-2], q.device)  # (Nq, Nk)
        at = lag[:, :1]  # the query's position: its lag to token 0
        c, length = at_least_float32(self.log_c).exp(), at_least_float32(self.log_length).exp()
        share = (c * lag.abs()).log1p() / (c * torch.maximum(at, length)).log1p()
        # autocast would leave bfloat16's three digits to tell lags by
        with torch.autocast(q.device.type, enabled=False):
            weight, bias = at_least_float32(self.inner.weight), at_least_float32(self.inner.bias)
            inner = (share[..., None] * weight[:, 0] + bias).relu()  # (Nq, Nk, hidden)
            outer = inner @ at_least_float32(self.outer.weight).T  # (Nq, Nk, H)
        return self.gamma * outer.movedim(-1, 0)[None]

    def trains(self, name: str) -> Trains | None:
        """Its layers as the network's weights do; c and L are its own numbers."""
        return Trains() if name.startswith("log_") else None
