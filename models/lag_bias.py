"""What is added to attention's logits, and the case that knows the lag between two tokens alone."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor, nn

from models.mixer import Observed, Slot


def lags_between(queries: int, keys: int, device: torch.device | None = None) -> Tensor:
    """How far back from each query each key lies, in tokens: (Nq, Nk), negative for later keys.

    The queries are the last of the keys' tokens: query i stands at Nk − Nq + i.
    """
    at = torch.arange(keys - queries, keys, device=device)
    return at[:, None] - torch.arange(keys, device=device)


class LogitBias(Slot):
    """Added to attention's logits, as its queries, keys and what it reads say."""

    @abstractmethod
    def forward(self, q: Tensor, k: Tensor, x: Tensor) -> Tensor:
        """The bias in logits, (B or 1, H or 1, Nq, Nk), at least float32.

        Args:
            q, k: (B, H, Nq, dₕ) and (B, H, Nk, dₕ), before they are rotated. The queries are the
                last Nq of the Nk tokens.
            x: what the mixer reads, (B, Nk, d).
        """

    def neutral(self) -> nn.Module:
        return NoBias()


class LagBias(LogitBias):
    """b_h(lag), one curve per head, strength γ included.

    Lags are counted in tokens from 0 at the token itself, backwards; where attention sees both
    ways, lag = |i − j|.
    """

    any_length = True

    def __init__(self, heads: int, gamma: float) -> None:
        super().__init__()
        self.heads = heads
        self.gamma = gamma

    @abstractmethod
    def curve(self, lags: Tensor) -> Tensor:
        """Lags in tokens, integers ≥ 0, (L,) → the bias in logits, (H, L), at least float32."""

    def forward(self, q: Tensor, k: Tensor, x: Tensor) -> Tensor:  # → (1, H, Nq, Nk)
        lag = lags_between(q.shape[-2], k.shape[-2], q.device).abs()
        # curve[:, lag], three times as fast
        return self.curve(self.lags(k)).index_select(1, lag.flatten()).unflatten(1, lag.shape)[None]

    @staticmethod
    def lags(k: Tensor) -> Tensor:
        """All that the keys' tokens have, (Nk,)."""
        return torch.arange(k.shape[-2], device=k.device)

    def signature(self, start: LagBias, q: Tensor, k: Tensor, x: Tensor) -> dict[str, Observed]:
        return self.shape_signature(start, self.lags(k))

    def shape_signature(self, start: LagBias, lags: Tensor) -> dict[str, Observed]:
        """The curves at the context's lags 0, 1, …, (N,), against those of `start`.

        Here: the largest rise from one lag to the next, and the smallest change of that rise.
        """
        bias = self.curve(lags).double()  # (H, N)
        found = {}
        if len(lags) > 1:
            found["bias_max_first_difference"] = Observed(bias.diff().max().item(), over="max")
        if len(lags) > 2:
            found["bias_min_second_difference"] = Observed(bias.diff(n=2).min().item(), over="min")
        return found


class NoBias(nn.Module):
    """b = 0 everywhere."""

    def forward(self, q: Tensor, k: Tensor, x: Tensor) -> Tensor:
        return torch.zeros(1, 1, q.shape[-2], k.shape[-2], device=q.device)
