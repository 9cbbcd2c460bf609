"""What a block does to each token by itself, after its mixer: by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import Tensor, nn
from torch.nn import functional as F


def gelu(dim: int) -> nn.Module:
    """Two layers with a GELU between, four times as wide (Vaswani et al. 2017, §3.3)."""
    return nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))


class SwiGLU(nn.Module):
    """(silu(Gx) ⊙ Ux) W, as many parameters as `gelu` has (Shazeer 2020, arXiv 2002.05202)."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        inner = round(8 * dim / 3)
        self.gate = nn.Linear(dim, inner)
        self.up = nn.Linear(dim, inner)
        self.down = nn.Linear(inner, dim)

    def forward(self, x: Tensor) -> Tensor:  # (…, d) → (…, d)
        out: Tensor = self.down(F.silu(self.gate(x)) * self.up(x))
        return out


MLPS: Mapping[str, Callable[[int], nn.Module]] = {"gelu": gelu, "swiglu": SwiGLU}
