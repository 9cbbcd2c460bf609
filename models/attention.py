"""Multi-head softmax attention, with a slot for what turns its queries and keys, one for a bias."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.lag_bias import LagBias, LogitBias
from models.mixer import Mixer, Observed, Slot, named, offered
from models.rotation import Rotation


class Attention(Mixer):
    """softmax(QKᵀ/√dₕ + b) V (Vaswani et al. 2017, arXiv 1706.03762).

    Args:
        causal: later time steps get −inf on their logits; tokens of one step see each other.
        rotation: builds what turns queries and keys; None for nothing.
        bias: builds what is added to the logits; None for nothing.
    Raises:
        ValueError: heads do not divide dim, or causal without a time axis.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        axes: tuple[int, ...],
        time_axis: int | None = None,
        causal: bool = True,
        rotation: Callable[..., Rotation] | None = None,
        bias: Callable[..., LogitBias] | None = None,
    ) -> None:
        super().__init__()
        if dim % heads:
            raise ValueError(f"model.heads is {heads}, must divide model.dim {dim}")
        if causal and time_axis is None:
            raise ValueError("causal is true, but the track has no time axis: say causal: false")
        self.heads = heads
        self.causal = causal
        self.axes, self.time_axis = axes, time_axis
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        context = math.prod(axes)
        given: dict[str, Any] = {"dim": dim, "heads": heads, "axes": axes, "time_axis": time_axis}
        self.bias = offered(bias, **given, context=context) if bias else None
        self.rotation = offered(rotation, **given, context=context) if rotation else None
        slots = [each for each in (self.bias, self.rotation) if each is not None]
        # a later axis of time cannot be found again in a grid of another length
        known = not causal or time_axis == 0
        self.any_length = known and all(slot.any_length for slot in slots)
        self.future: Tensor  # (N, N), kept: a mask of another length is made when it is needed
        self.register_buffer("future", self._later(context, context), persistent=False)

    def _later(self, queries: int, keys: int, device: torch.device | None = None) -> Tensor:
        """−inf where a key stands in a later time step than the query, else 0: (Nq, Nk)."""
        if not self.causal:
            return torch.zeros(queries, keys, device=device)
        assert self.time_axis is not None
        per_step = math.prod(self.axes[self.time_axis + 1 :])
        step = torch.arange(keys, device=device) // per_step
        if self.time_axis > 0:  # along the first axis there may be more steps than in training
            step = step % self.axes[self.time_axis]
        later = step > step[keys - queries :, None]
        return torch.zeros(queries, keys, device=device).masked_fill(later, -math.inf)

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(B, N, d) → queries, keys, values, each (B, H, N, dₕ)."""
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return q, k, v

    def mask(self, q: Tensor, k: Tensor, x: Tensor) -> Tensor | None:
        """What is added to the logits, (B or 1, H or 1, Nq, Nk); None where torch's own will do."""
        queries, keys = q.shape[-2], k.shape[-2]
        if self.bias is None and (not self.causal or (len(self.axes) == 1 and queries == keys)):
            return None
        known = self.future.shape == (queries, keys)
        future = self.future if known else self._later(queries, keys, q.device)
        if self.bias is None:
            return future
        bias = self.bias(q, k, x)
        shapes = [(b, h, queries, keys) for b in (1, q.shape[0]) for h in (1, self.heads)]
        _must_give("(B or 1, H or 1, Nq, Nk)", shapes, self.bias, bias)
        if not bias.is_floating_point():  # true hides in one API and shows in the next
            raise ValueError(
                f"{named(self.bias, 'forward')} must give logits, found {bias.dtype}: say 0 for "
                f"what is seen, -inf for what is not"
            )
        return bias + future

    def rotated(self, q: Tensor, k: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Queries and keys as they meet."""
        if self.rotation is None:
            return q, k
        turned_q, turned_k = self.rotation(q, k, x)
        _must_give("queries (B, H, Nq, dₕ)", [q.shape], self.rotation, turned_q)
        _must_give("keys (B, H, Nk, dₕ)", [k.shape], self.rotation, turned_k)
        return turned_q, turned_k

    def forward(self, x: Tensor) -> Tensor:  # (B, N, d) → (B, N, d)
        mixed = self.attend(*self.project(x), x)
        out: Tensor = self.out(mixed.transpose(1, 2).flatten(-2))  # (B, H, N, dₕ) → (B, N, d)
        return out

    def attend(self, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
        """All between the projections: queries, keys, values → (B, H, N, dₕ)."""
        mask = self.mask(q, k, x)
        q, k = self.rotated(q, k, x)
        return F.scaled_dot_product_attention(
            q,
            k,
            v,
            # of four axes (or two), or torch leaves its fast kernel even where nothing is learned
            attn_mask=None if mask is None else mask.to(q.dtype),
            is_causal=self.causal and mask is None,
        )

    def profile(self, x: Tensor) -> Tensor:
        """Mean attention that the last token pays to each lag, (B, N, d) → (H, N).

        The last token is the one that every lag of the context can act on.
        """
        q, k, _ = self.project(x)
        q = q[:, :, -1:]
        mask = self.mask(q, k, x)
        q, k = self.rotated(q, k, x)
        logits = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])  # (B, H, 1, N)
        if mask is not None:
            logits = logits + mask
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
        q, k, _ = self.project(x)
        for slot, of_start in ((self.bias, start.bias), (self.rotation, start.rotation)):
            if slot is not None:
                observed |= slot.signature(of_start, q, k, x)
        return observed

    def artifacts(self, x: Tensor) -> dict[str, Tensor]:
        found = {"attention": self.profile(x)}  # (H, N)
        if isinstance(self.bias, LagBias):
            found["bias"] = self.bias.curve(torch.arange(x.shape[1], device=x.device))  # (H, N)
        return found


def _must_give(what: str, shapes: Sequence[tuple[int, ...]], slot: Slot, found: Tensor) -> None:
    """Refuse what would be broadcast to something else, unseen, in a slot's own name."""
    if found.shape not in shapes:
        raise ValueError(
            f"{named(slot, 'forward')} must give {what} = {tuple(shapes[-1])}, "
            f"found {tuple(found.shape)}"
        )
