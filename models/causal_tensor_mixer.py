"""Decay along time and concentration along space: the two ideas in one."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, arange, nn

from models.exp_mixture import ExpMixture
from models.grid import on_grid
from models.lag_bias import lags_between
from models.mixer import Mechanism, Mixer, Observed
from models.tensor_mixer import Start, TensorMixer


class CausalTensorMixer(Mixer, Mechanism):
    """x ↦ (D_h ⊗ K) x: exponential decay over the frames so far, a tensor mixer within each.

    D_h is lower triangular, D_h[t, s] = w_h(t − s), one curve for each of H groups of channels: a
    mixture of exponentials whose values over the T lags sum to 1, so that its norm is at most 1
    (Young's inequality). K is the tensor mixer's. A triangular part of K itself would do neither:
    it may exceed norm 1, and what is both symmetric and triangular is diagonal.

    Args:
        heads, axes, time_axis: H, the grid, and which of its axes is time.
        rank, start: of the axes of space, as the tensor mixer's.
        components: exponentials of each decay.
    Raises:
        ValueError: a grid without an axis of time, or with nothing beside it; H does not divide d.
    """

    causal = True

    def __init__(
        self,
        dim: int,
        heads: int,
        axes: tuple[int, ...],
        time_axis: int | None = None,
        rank: int | Literal["auto"] | list[int] = "auto",
        start: Start = "random",
        components: int = 8,
    ) -> None:
        super().__init__()
        if time_axis is None or len(axes) == 1:
            raise ValueError(
                f"CausalTensorMixer needs an axis of time and others beside it, and the track's "
                f"tokens have axes {axes} with time_axis {time_axis}: choose another mixer"
            )
        if dim % heads:
            raise ValueError(f"model.heads is {heads}, must divide model.dim {dim}")
        self.axes, self.time_axis, self.heads = axes, time_axis, heads
        self.space = TensorMixer(axes[:time_axis] + axes[time_axis + 1 :], rank, start=start)
        self.time = ExpMixture(heads, components)

    def decay(self) -> Tensor:
        """D of each head, (H, T, T)."""
        steps = self.axes[self.time_axis]
        weights = self.time.curve(arange(steps, device=self.time.log_rates.device)).softmax(-1)
        lag = lags_between(steps, steps, weights.device)
        return weights[:, lag.clamp(min=0)].tril()

    def forward(self, x: Tensor) -> Tensor:  # (B, N, d) → (B, N, d)
        frames = on_grid(x, self.axes, self).movedim(1 + self.time_axis, 1)  # (B, T, …, d)
        shape = frames.shape
        mixed = self.space(frames.flatten(0, 1).flatten(1, -2))  # (B·T, S, d)
        mixed = mixed.unflatten(0, shape[:2]).unflatten(-1, (self.heads, -1))  # (B, T, S, H, dₕ)
        mixed = mixed.movedim(-2, 1).flatten(3)  # (B, H, T, S·dₕ)
        mixed = (self.decay().to(x.dtype) @ mixed).unflatten(-1, (-1, shape[-1] // self.heads))
        return mixed.movedim(1, -2).reshape(shape).movedim(1, 1 + self.time_axis).flatten(1, -2)

    def neutral(self) -> nn.Module:
        return nn.Identity()

    def signature(self, start: Mixer, x: Tensor) -> dict[str, Observed]:
        assert isinstance(start, CausalTensorMixer)
        frames = on_grid(x, self.axes, self).movedim(1 + self.time_axis, 1)
        within = self.space.signature(start.space, frames.flatten(0, 1).flatten(1, -2))
        lags = arange(self.axes[self.time_axis], device=x.device)
        return within | self.time.shape_signature(start.time, lags)

    def artifacts(self, x: Tensor) -> dict[str, Tensor]:
        return self.space.artifacts(x) | {"decay": self.decay()[:, -1].flip(-1)}  # (H, T) by lag
