"""The tensor mixer with one thing taken away: what is left of it tells what that was worth."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from torch import Generator, Tensor, nn

from models.grid import along, on_grid
from models.mixer import Mechanism, Mixer, Observed, at_least_float32
from models.tensor_mixer import Start, TensorMixer, orthonormal, ranks_of


class NoSigmoid(TensorMixer):
    """The tensor mixer whose spectrum may be any number: θ + ½ in place of sigmoid(θ).

    It starts as the tensor mixer does, and may grow, and turn signs.

    Args:
        rank, start: as the tensor mixer's.
    """

    by_construction: ClassVar[Mapping[str, str]] = {
        "max_orthonormality_error": TensorMixer.by_construction["max_orthonormality_error"]
    }

    def __init__(
        self,
        axes: tuple[int, ...],
        rank: int | Literal["auto"] | list[int] = "auto",
        start: Start = "random",
    ) -> None:
        super().__init__(axes, rank, start=start)

    def eigenvalues(self) -> list[Tensor]:
        return [at_least_float32(theta) + 0.5 for theta in self.theta]

    def signature(self, start: Mixer, x: Tensor) -> dict[str, Observed]:
        found = super().signature(start, x)
        unbounded = ("max_singular_value", "mixing_norm_ratio")
        return found | {name: found[name]._replace(most=math.inf) for name in unbounded}


class Unconstrained(Mixer, Mechanism):
    """x ↦ (A₁ ⊗ … ⊗ Aₐ) x with Aₐ = Lₐ·Rₐᵀ of equal rank: not symmetric, of any norm.

    It starts as the tensor mixer does, L = ½U and R = U.

    Args:
        rank: as the tensor mixer's.
    """

    def __init__(
        self, axes: tuple[int, ...], rank: int | Literal["auto"] | list[int] = "auto"
    ) -> None:
        super().__init__()
        self.axes = axes
        pairs = zip(axes, ranks_of(axes, rank), strict=True)
        self.free = nn.ParameterList([torch.empty(2, n, r) for n, r in pairs])  # L and R

    def draw(self, name: str, generator: Generator) -> Tensor | None:
        shape = self.get_parameter(name).shape[1:]
        u = orthonormal(torch.randn(shape, generator=generator))  # the tensor mixer's own
        return torch.stack([0.5 * u, u])

    def forward(self, x: Tensor) -> Tensor:  # (B, N, d) → (B, N, d)
        grid = on_grid(x, self.axes, self)
        for axis, free in enumerate(self.free):
            left, right = free.to(x.dtype)
            grid = along(left, along(right.T, grid, axis), axis)
        return grid.flatten(1, -2)

    def neutral(self) -> nn.Module:
        return nn.Identity()


class FullMixing(Mixer, Mechanism):
    """x ↦ W·x, W any matrix (N, N), all channels alike: no axes, no low rank.

    As a random Synthesizer without its softmax (Tay et al. 2021, arXiv 2005.00743).
    """

    def __init__(self, axes: tuple[int, ...]) -> None:
        super().__init__()
        n = math.prod(axes)
        self.axes = axes
        self.weight = nn.Parameter(torch.empty(n, n))

    def draw(self, name: str, generator: Generator) -> Tensor | None:
        return torch.randn(self.weight.shape, generator=generator) / self.weight.shape[0] ** 0.5

    def forward(self, x: Tensor) -> Tensor:  # (B, N, d) → (B, N, d)
        return self.weight.to(x.dtype) @ on_grid(x, self.axes, self).flatten(1, -2)

    def neutral(self) -> nn.Module:
        return nn.Identity()
