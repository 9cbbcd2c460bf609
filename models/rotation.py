"""What turns attention's queries and keys before they meet."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from torch import Tensor, nn

from models.mixer import Mechanism, Observed


class Rotation(Mechanism):
    """Turns queries and keys, so that their product knows where they stand.

    Its constructor is given what it names of `dim`, `heads`, `context` (N while training), `axes`
    and `time_axis`, as a mixer is.
    """

    given: ClassVar[frozenset[str]] = frozenset({"dim", "heads", "context", "axes", "time_axis"})
    any_length: bool = False  # claims to take other contexts than it was built for

    @abstractmethod
    def forward(self, q: Tensor, k: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Queries (B, H, Nq, dₕ) and keys (B, H, Nk, dₕ) → the same, turned.

        Args:
            q, k: the queries are the last Nq of the Nk tokens.
            x: what the mixer reads, (B, Nk, d).
        """

    def signature(self, start: Rotation, q: Tensor, k: Tensor, x: Tensor) -> dict[str, Observed]:
        """What the mechanism looks like after training, by metric; `start` is as before it."""
        return {}

    def neutral(self) -> nn.Module:
        return Unrotated()


class Unrotated(nn.Module):
    """Queries and keys as they are."""

    def forward(self, q: Tensor, k: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        return q, k
