"""The control in which tokens never talk to each other."""

from __future__ import annotations

from torch import Tensor

from models.mixer import Mixer


class NoMixer(Mixer):
    """x ↦ x: what the rest of the network can do alone."""

    causal = True
    any_length = True

    def forward(self, x: Tensor) -> Tensor:  # (B, N, d) → (B, N, d)
        return x
