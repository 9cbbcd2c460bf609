"""What a block does to each token by itself, after its mixer: by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from torch import Tensor, nn
from torch.nn import functional as F


def gelu(dim: int, width: int) -> nn.Module:
    """Two layers with a GELU between (Vaswani et al. 2017, §3.3)."""
    return nn.Sequential(nn.Linear(dim, width), nn.GELU(), nn.Linear(width, dim))


class SwiGLU(nn.Module):
    """(silu(Gx) ⊙ Ux) W (Shazeer 2020, arXiv 2002.05202)."""

    def __init__(self, dim: int, width: int) -> None:
        super().__init__()
        self.gate = nn.Linear(dim, width)
        self.up = nn.Linear(dim, width)
        self.down = nn.Linear(width, dim)

    def forward(self, x: Tensor) -> Tensor:  # (…, d) → (…, d)
        out: Tensor = self.down(F.silu(self.gate(x)) * self.up(x))
        return out


class MLP(NamedTuple):
    """How one is built from d and its width, and how wide it is where nobody says."""

    build: Callable[[int, int], nn.Module]
    usual: Callable[[int], int]


MLPS: Mapping[str, MLP] = {
    "gelu": MLP(gelu, lambda dim: 4 * dim),
    "swiglu": MLP(SwiGLU, lambda dim: round(8 * dim / 3)),  # as many parameters as gelu has
}
