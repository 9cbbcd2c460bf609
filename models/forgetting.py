"""The Forgetting Transformer's bias: content says how much is forgotten on the way."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.lag_bias import LogitBias
from models.mixer import Observed, Trains, at_least_float32


class Forgetting(LogitBias):
    """b_h(i, j) = γ · Σ ln f_h(x_t) over j < t ≤ i, f = sigmoid(Wx + c) (Lin et al. 2025).

    arXiv 2503.02130. Where attention sees both ways, a later token is as far as an earlier one.

    Args:
        dim, heads: d, and H.
        kept: what c starts from, as sigmoid(c): the share kept from token to token where Wx is 0.
        gamma: strength, the number in front.
    Raises:
        ValueError: a share that is not between 0 and 1.
    """

    any_length = True

    def __init__(self, dim: int, heads: int, kept: float = 0.9, gamma: float = 1.0) -> None:
        super().__init__()
        if not 0 < kept < 1:
            raise ValueError(f"kept is {kept}, must be between 0 and 1")
        self.gamma = gamma
        self.gate = nn.Linear(dim, heads, bias=False)
        self.offset = nn.Parameter(torch.full((heads,), math.log(kept / (1 - kept))))  # c, (H,)

    def log_kept(self, x: Tensor) -> Tensor:
        """ln f of every token, (B, N, d) → (B, H, N)."""
        return F.logsigmoid(at_least_float32(self.gate(x)) + at_least_float32(self.offset)).mT

    def forward(self, q: Tensor, k: Tensor, x: Tensor) -> Tensor:  # → (B, H, Nq, Nk)
        kept = self.log_kept(x).cumsum(-1)
        return -self.gamma * (kept[..., -q.shape[-2] :, None] - kept[..., None, :]).abs()

    def trains(self, name: str) -> Trains | None:
        """W as the network's weights do; c is its own number."""
        return Trains() if name == "offset" else None

    def signature(self, start: LogitBias, q: Tensor, k: Tensor, x: Tensor) -> dict[str, Observed]:
        kept = self.log_kept(x).exp().mean().item()
        return {"kept_share": Observed(kept, least=0.0, most=1.0)}
