"""FNet: a Fourier transform in place of attention."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from models.grid import on_grid
from models.mixer import Mechanism, Mixer


def fft_flops(shape: torch.Size, dims: list[int], *args: Any, **kwargs: Any) -> int:
    """5·M·log₂ of what is transformed, of M complex numbers in all: radix 2's own, (B, …, d)."""
    return int(5 * math.prod(shape) * math.log2(math.prod(shape[dim] for dim in dims)))


class FNet(Mixer, Mechanism):
    """x ↦ Re(F x), the Fourier transform over all token axes and the channels.

    Lee-Thorp et al. 2022 (arXiv 2105.03824, eq. 3), here orthonormal: theirs grows a vector by
    √(N·d), which a norm after the sum takes back, and a norm before it does not. It learns nothing.
    """

    flop_rules: ClassVar[Mapping[Any, Callable[..., int]]] = {torch.ops.aten._fft_c2c: fft_flops}

    def __init__(self, axes: tuple[int, ...]) -> None:
        super().__init__()
        self.axes = axes

    def forward(self, x: Tensor) -> Tensor:  # (B, N, d) → (B, N, d)
        grid = on_grid(x, self.axes, self)
        dims = tuple(range(1, grid.ndim))
        mixed = torch.fft.fftn(grid.float().to(torch.complex64), dim=dims, norm="ortho").real
        return mixed.to(x.dtype).flatten(1, -2)

    def neutral(self) -> nn.Module:
        return nn.Identity()
