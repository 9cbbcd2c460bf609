"""CoPE: positions that count what the query cares for, not tokens."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from models.lag_bias import LogitBias, lags_between
from models.mixer import at_least_float32


class Cope(LogitBias):
    """b(i, j) = γ · q_i · e[p_ij], p_ij = Σ sigmoid(q_i·k_t/√dₕ) over j ≤ t ≤ i.

    Contextual positions (Golovneva et al. 2024, arXiv 2405.18719). p lies between the whole numbers
    of which e has a vector, the same in all heads, and the bias between theirs; the last stands for
    all beyond. Tokens after the query count nothing: where it can see them, their p is 0.

    Args:
        dim, heads, context: of the network; dₕ = dim / heads, and the trained length.
        length: vectors in e, which start at 0; None for the context's.
        gamma: strength, the number in front.
    Raises:
        ValueError: a length below 2.
    """

    any_length = True

    def __init__(
        self, dim: int, heads: int, context: int, length: int | None = None, gamma: float = 1.0
    ) -> None:
        super().__init__()
        length = context if length is None else length
        if length < 2:
            raise ValueError(f"length is {length}, must be a whole number ≥ 2")
        self.gamma = gamma
        self.table = nn.Parameter(torch.zeros(dim // heads, length))  # (dₕ, P)

    def forward(self, q: Tensor, k: Tensor, x: Tensor) -> Tensor:  # → (B, H, Nq, Nk)
        lag = lags_between(q.shape[-2], k.shape[-2], q.device)  # (Nq, Nk)
        with torch.autocast(q.device.type, enabled=False):  # it would round the positions
            q, k, table = (at_least_float32(each) for each in (q, k, self.table))
            gates = (q @ k.mT / math.sqrt(q.shape[-1])).sigmoid() * (lag >= 0)
            far = gates.flip(-1).cumsum(-1).flip(-1)  # from the query back to each key
            last = table.shape[1] - 1
            far = far.clamp(max=last)
            below = far.detach().floor().clamp(max=last - 1).long()
            at_whole = q @ table  # (B, H, Nq, P)
            low, high = at_whole.gather(-1, below), at_whole.gather(-1, below + 1)
            return self.gamma * low.lerp(high, far - below)
