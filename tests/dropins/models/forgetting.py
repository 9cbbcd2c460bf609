"""A logit bias that content decides: how much is forgotten on the way (Lin et al. 2025)."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from models.lag_bias import LogitBias
from models.mixer import Observed, Trains


class Forgetting(LogitBias):
    """b(i, j) = Σ of log f(x_t) over j < t ≤ i, f = sigmoid(Wx + c) in each head."""

    any_length = True

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.gate = nn.Linear(dim, heads)
        self.offset = nn.Parameter(3 * self.gate.bias.new_ones(heads))  # forgets little at first

    def forward(self, q: Tensor, k: Tensor, x: Tensor) -> Tensor:  # → (B, H, Nq, Nk)
        kept = F.logsigmoid(self.gate(x).float() + self.offset).mT.cumsum(-1)  # (B, H, Nk)
        return kept[..., -q.shape[-2] :, None] - kept[..., None, :]

    def trains(self, name: str) -> Trains | None:
        """Its layer as the network's weights do; the offset is its own number."""
        return Trains() if name == "offset" else None

    def signature(self, start: LogitBias, q: Tensor, k: Tensor, x: Tensor) -> dict[str, Observed]:
        kept = (self.gate(x) + self.offset).sigmoid()
        return {"kept_share": Observed(kept.mean().item(), least=0.0, most=1.0)}
