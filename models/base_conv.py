"""BaseConv: a long convolution, gated by what stands at the token itself."""

from __future__ import annotations

import torch
from torch import Generator, Tensor, nn

from models.lag_bias import lags_between
from models.mixer import Mechanism, Mixer, Trains


class BaseConv(Mixer, Mechanism):
    """y = (xW + b₁) ⊙ (h ∗ x + b₂), h a learned causal filter per channel.

    Arora et al. 2023 (Zoology, arXiv 2312.04927), definition 4.1; the biases are the same at every
    token, as in their code. Filters know lags alone: content decides by the product, and only
    between what one channel holds.

    Args:
        dim, context, axes, time_axis: d, N while training, and the token grid.
        length: lags that the filter has, it is 0 beyond; None for the context's.
    Raises:
        ValueError: a token grid that is not one axis of time; a length below 1.
    """

    causal = True
    any_length = True

    def __init__(
        self,
        dim: int,
        context: int,
        axes: tuple[int, ...],
        time_axis: int | None = None,
        length: int | None = None,
    ) -> None:
        super().__init__()
        if len(axes) != 1 or time_axis != 0:
            raise ValueError(
                f"BaseConv convolves along one axis of time alone, and the track's tokens have "
                f"axes {axes} with time_axis {time_axis}: choose another mixer"
            )
        length = context if length is None else length
        if length < 1:
            raise ValueError(f"length is {length}, must be a whole number ≥ 1")
        self.gate = nn.Linear(dim, dim)
        self.filter = nn.Parameter(torch.empty(dim, length))  # (d, L)
        self.bias = nn.Parameter(torch.zeros(dim))

    def draw(self, name: str, generator: Generator) -> Tensor | None:
        """The filter's start: normal with variance 1/L, as a layer's with L inputs."""
        if name != "filter":
            return None
        shape = self.filter.shape
        return torch.randn(shape, generator=generator) / shape[1] ** 0.5

    def trains(self, name: str) -> Trains | None:
        return None  # layers like any other

    def forward(self, x: Tensor) -> Tensor:  # (B, N, d) → (B, N, d)
        # As a product with Toeplitz matrices: exactly causal, which an FFT's rounding is not, and
        # faster than it at short contexts.
        lag = lags_between(x.shape[1], x.shape[1], x.device)
        last = self.filter.shape[1] - 1
        taps = self.filter[:, lag.clamp(0, last)].masked_fill((lag < 0) | (lag > last), 0)
        convolved = (taps @ x.permute(2, 1, 0)).permute(2, 1, 0)  # (d, N, N) @ (d, N, B)
        gated: Tensor = self.gate(x) * (convolved + self.bias)
        return gated

    def neutral(self) -> nn.Module:
        return nn.Identity()
