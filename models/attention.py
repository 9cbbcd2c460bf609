"""Multi-head softmax attention, with or without a lag bias."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.lag_bias import LagBias
from models.mixer import Mixer, Observed


class Attention(Mixer):
    """softmax(QKᵀ/√dₕ + b(lag)) V (Vaswani et al. 2017, arXiv 1706.03762).

    Lags are counted from 0 at the token itself, backwards: lag = i − j for query i and key j.
    Where attention is not causal, lag = |i − j|.

    Args:
        causal: later tokens get −inf on their logits.
        bias: builds the lag bias, as `bias(heads=H, context=N)`; None for none.
    Raises:
        ValueError: heads do not divide dim.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        axes: tuple[int, ...],
        causal: bool = True,
        bias: Callable[..., LagBias] | None = None,
    ) -> None:
        super().__init__()
        if dim % heads:
            raise ValueError(f"model.heads is {heads}, must divide model.dim {dim}")
        self.heads = heads
        self.causal = causal
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        n = math.prod(axes)
        self.bias = bias(heads=heads, context=n) if bias else None
        lag = torch.arange(n)[:, None] - torch.arange(n)  # (N, N), negative for later keys
        future = torch.zeros(n, n).masked_fill(lag < 0, -math.inf) if causal else torch.zeros(n, n)
        self.lag: Tensor
        self.future: Tensor
        self.register_buffer("lag", lag.clamp(min=0) if causal else lag.abs(), persistent=False)
        self.register_buffer("future", future, persistent=False)

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(B, N, d) → queries, keys, values, each (B, H, N, dₕ)."""
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return q, k, v

    @property
    def lags(self) -> Tensor:
        """All that the context has, (N,)."""
        return torch.arange(len(self.lag), device=self.lag.device)

    def mask(self) -> Tensor | None:
        """What is added to the logits, (H, N, N); None where there is no bias."""
        if self.bias is None:
            return None
        curve: Tensor = self.bias(self.lags)  # (H, N)
        return curve[:, self.lag] + self.future

    def forward(self, x: Tensor) -> Tensor:  # (B, N, d) → (B, N, d)
        q, k, v = self.project(x)
        mask = self.mask()
        mixed = F.scaled_dot_product_attention(
            q,
            k,
            v,
            attn_mask=None if mask is None else mask.to(q.dtype),
            is_causal=self.causal and mask is None,
        )
        out: Tensor = self.out(mixed.transpose(1, 2).flatten(-2))  # (B, H, N, dₕ) → (B, N, d)
        return out

    def profile(self, x: Tensor) -> Tensor:
        """Mean attention that the last token pays to each lag, (B, N, d) → (H, N).

        The last token is the one that every lag of the context can act on.
        """
        q, k, _ = self.project(x)
        logits = q[:, :, -1:] @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])  # (B, H, 1, N)
        mask = self.mask()
        if mask is not None:
            logits = logits + mask[:, -1:]
        return logits.softmax(-1)[:, :, 0].mean(0).flip(-1)  # by key → by lag

    def signature(self, start: Mixer, x: Tensor) -> dict[str, Observed]:
        assert isinstance(start, Attention)
        rise = self.profile(x).double().diff(dim=-1).amax(-1)  # (H,) largest rise from lag to lag
        before = start.profile(x).double().diff(dim=-1).amax(-1)
        observed = {
            "attention_max_first_difference": Observed(
                rise.max().item(), over="max", least=-1.0, most=1.0
            ),
            "attention_rise_over_start": Observed(
                (rise - before).mean().item(), least=-2.0, most=2.0
            ),
            "nonmonotone_heads": Observed((rise > 0).double().mean().item(), least=0.0, most=1.0),
        }
        if isinstance(self.bias, LagBias):
            assert isinstance(start.bias, LagBias)
            observed |= self.bias.shape_signature(start.bias, self.lags)
        return observed

    def artifacts(self, x: Tensor) -> dict[str, Tensor]:
        found = {"attention": self.profile(x)}  # (H, N)
        if self.bias is not None:
            found["bias"] = self.bias(self.lags)  # (H, N)
        return found
