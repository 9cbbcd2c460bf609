"""What turns attention's queries and keys before they meet."""

from __future__ import annotations

from abc import abstractmethod

from torch import Tensor, nn

from models.mixer import Slot


class Rotation(Slot):
    """Turns queries and keys, so that their product knows where they stand."""

    @abstractmethod
    def forward(self, q: Tensor, k: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Queries (B, H, Nq, dₕ) and keys (B, H, Nk, dₕ) → the same, turned.

        Args:
            q, k: the queries are the last Nq of the Nk tokens.
            x: what the mixer reads, (B, Nk, d).
        """

    def neutral(self) -> nn.Module:
        return Unrotated()


class Unrotated(nn.Module):
    """Queries and keys as they are."""

    def forward(self, q: Tensor, k: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        return q, k
