"""A logit bias that content decides: how much a token asks to be seen, whoever looks."""

from __future__ import annotations

from torch import Tensor, nn

from models.lag_bias import LogitBias
from models.mixer import Observed, Trains


class Salience(LogitBias):
    """b(i, j) = s_h · (Wx_j)_h in head h, with a strength s of its own."""

    any_length = True

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.of = nn.Linear(dim, heads, bias=False)  # a bias would cancel in the softmax
        self.strength = nn.Parameter(self.of.weight.new_ones(heads))

    def forward(self, q: Tensor, k: Tensor, x: Tensor) -> Tensor:  # → (B, H, Nq, Nk)
        salient = (self.of(x).float() * self.strength).mT  # (B, H, Nk)
        return salient[..., None, :].expand(-1, -1, q.shape[-2], -1)

    def trains(self, name: str) -> Trains | None:
        """Its layer as the network's weights do; the strength is its own number."""
        return Trains() if name == "strength" else None

    def signature(self, start: LogitBias, q: Tensor, k: Tensor, x: Tensor) -> dict[str, Observed]:
        assert isinstance(start, Salience)
        moved = (self.strength - start.strength).abs().mean().item()
        return {"strength_moved": Observed(moved, least=0.0)}
