"""A small gated recurrence behind a short convolution, as in Griffin (De et al. 2024)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.mixer import Mechanism, Mixer, Observed, Trains


class Recurrence(Mixer, Mechanism):
    """h_t = a_t·h_{t−1} + (1 − a_t)·u_t, u = conv(x), a = sigmoid(decay + Wx); out = V h.

    Args:
        width: tokens that the convolution sees.
    """

    causal = True
    any_length = True

    def __init__(self, dim: int, width: int = 3) -> None:
        super().__init__()
        self.width = width
        self.conv = nn.Conv1d(dim, dim, width, groups=dim)
        self.gate = nn.Linear(dim, dim)
        self.decay = nn.Parameter(torch.linspace(-2, 4, dim))  # channels that forget differently
        self.out = nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:  # (B, N, d) → (B, N, d)
        u = self.conv(F.pad(x.mT, (self.width - 1, 0))).mT
        keep = (self.decay + self.gate(x)).sigmoid()
        h, states = torch.zeros_like(x[:, 0]), []
        for t in range(x.shape[1]):
            h = keep[:, t] * h + (1 - keep[:, t]) * u[:, t]
            states.append(h)
        out: Tensor = self.out(torch.stack(states, dim=1))
        return out

    def neutral(self) -> nn.Module:
        return nn.Identity()

    def trains(self, name: str) -> Trains | None:
        return Trains() if name == "decay" else None

    def signature(self, start: Mixer, x: Tensor) -> dict[str, Observed]:
        assert isinstance(start, Recurrence)
        moved = (self.decay - start.decay).abs().mean().item()
        return {"decay_moved": Observed(moved, least=0.0)}
