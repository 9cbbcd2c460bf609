"""MLP-Mixer's token mixing, along each axis of the grid."""

from __future__ import annotations

from torch import Tensor, nn

from models.grid import on_grid
from models.mixer import Mechanism, Mixer, Trains


class MLPMixer(Mixer, Mechanism):
    """Σₐ MLPₐ along axis a, all channels alike: Linear(nₐ, e·nₐ), GELU, Linear(e·nₐ, nₐ).

    MLP-Mixer's token mixing (Tolstikhin et al. 2021, arXiv 2105.01601, eq. 1), one MLP for each
    axis and their sum, as the Vision Permutator has it (Hou et al. 2022, arXiv 2106.12368). On one
    axis it is MLP-Mixer's own.

    Args:
        expansion: e, how many times as wide as its axis the hidden layer is.
    Raises:
        ValueError: an expansion below 1.
    """

    def __init__(self, axes: tuple[int, ...], expansion: int = 4) -> None:
        super().__init__()
        if expansion < 1:
            raise ValueError(f"expansion is {expansion}, must be a whole number ≥ 1")
        self.axes = axes
        self.along = nn.ModuleList(
            nn.Sequential(nn.Linear(n, expansion * n), nn.GELU(), nn.Linear(expansion * n, n))
            for n in axes
        )

    def trains(self, name: str) -> Trains | None:
        return None  # layers like any other

    def forward(self, x: Tensor) -> Tensor:  # (B, N, d) → (B, N, d)
        grid = on_grid(x, self.axes, self)
        mixed = x.new_zeros(())
        for axis, mlp in enumerate(self.along, start=1):
            mixed = mixed + mlp(grid.movedim(axis, -1)).movedim(-1, axis)
        return mixed.flatten(1, -2)

    def neutral(self) -> nn.Module:
        return nn.Identity()
