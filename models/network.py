"""The network around the mixers; it is the same for every variant."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal, cast

import torch
from torch import Generator, Tensor, nn

from models.mixer import Mechanism, Mixer, offered
from models.mlp import MLPS

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


class Block(nn.Module):
    """Pre-norm residual block: a token mixer, then an MLP per token, or none."""

    def __init__(self, dim: int, mixer: Mixer, mlp: nn.Module | None) -> None:
        super().__init__()
        self.mixer_norm = nn.LayerNorm(dim)
        self.mixer = mixer
        self.mlp_norm = nn.LayerNorm(dim) if mlp else None
        self.mlp = mlp

    def forward(self, x: Tensor) -> Tensor:  # (B, N, d) → (B, N, d)
        x = x + self.mixer(self.mixer_norm(x))
        if self.mlp is not None and self.mlp_norm is not None:
            x = x + self.mlp(self.mlp_norm(x))
        return x


class Network(nn.Module):
    """The track's encoder (+ positions) → blocks → norm → the track's head.

    Args:
        encoder: what the track reads → tokens, (B, N, d).
        head: tokens → what the track's readout reads, (B, N, d) → (B, N, out).
        axes: lengths of the token grid's axes while training; N is their product.
        time_axis: which of them is time, None where none is.
        mixers: build the blocks' token mixers, one after the other, and over again.
        dim, heads, layers: width d, attention heads H, blocks.
        mlp: a name in `models.mlp.MLPS`, or None for blocks without.
        positions: `learned` adds one vector per token; `none` leaves order to the mixers.
    Raises:
        ValueError: layers are not a multiple of the mixers, or no MLP has that name.
    """

    def __init__(
        self,
        encoder: nn.Module,
        head: nn.Module,
        axes: tuple[int, ...],
        mixers: Sequence[Callable[..., Mixer]],
        time_axis: int | None = None,
        dim: int = 64,
        heads: int = 4,
        layers: int = 2,
        mlp: str | None = "gelu",
        positions: Literal["learned", "none"] = "learned",
    ) -> None:
        super().__init__()
        if layers % len(mixers):
            raise ValueError(
                f"{len(mixers)} mixers, whose number must divide model.layers {layers}"
            )
        if mlp is not None and mlp not in MLPS:
            raise ValueError(f"model.mlp is {mlp}, must be null or one of {', '.join(MLPS)}")
        self.axes = axes
        self.embed = encoder
        self.positions = (
            nn.Parameter(torch.zeros(math.prod(axes), dim)) if positions == "learned" else None
        )
        self.blocks = nn.ModuleList(
            Block(
                dim,
                offered(
                    mixers[i % len(mixers)], dim=dim, heads=heads, axes=axes, time_axis=time_axis
                ),
                None if mlp is None else MLPS[mlp](dim),
            )
            for i in range(layers)
        )
        self.norm = nn.LayerNorm(dim)
        self.head = head

    def forward(self, inputs: Tensor) -> Tensor:  # (B, …) → (B, N, out)
        x = self.embed(inputs)  # (B, N, d)
        if self.positions is not None:
            x = x + self.positions[: x.shape[1]]
        for block in self.blocks:
            x = block(x)
        out: Tensor = self.head(self.norm(x))
        return out

    @property
    def mixers(self) -> list[Mixer]:
        """The blocks' mixers, first to last."""
        return [cast(Block, block).mixer for block in self.blocks]


def mechanisms(network: nn.Module) -> dict[str, Mechanism]:
    """The mechanisms in a network, by the name of their module."""
    return {name: m for name, m in network.named_modules() if isinstance(m, Mechanism)}


def mechanism_parameters(network: nn.Module) -> dict[str, nn.Parameter]:
    """The mechanisms' own parameters, by their names in the network."""
    return {
        f"{name}.{parameter_name}": parameter
        for name, mechanism in mechanisms(network).items()
        for parameter_name, parameter in mechanism.named_parameters()
    }


@torch.no_grad()
def initialise(
    network: nn.Module, again: nn.Module, generator_for: Callable[[str], Generator]
) -> None:
    """Draw every random start, each parameter from a stream keyed by its own name.

    So a parameter that two networks share by name and shape starts bitwise equal in both, whatever
    else they hold. The first that applies: what a module around it draws, by a method
    `draw(name, generator)`; positions are normal with std 0.02; what a constructor sets without
    chance stays (norms are the identity); weights of linear layers and convolutions are normal with
    variance 1/fan_in (LeCun et al. 1998) and their biases 0; embeddings are standard normal,
    their padding 0.

    Args:
        again: the same network, constructed once more: what is not the same in it, a constructor
            drew from torch's global stream, or nobody set.
        generator_for: the random stream of the parameter of that name.
    Raises:
        TypeError: a parameter that a constructor draws, of a module that has no rule here; a
            buffer that it draws; a start of another shape.
    """
    twins = dict(again.named_parameters())
    for prefix, module in network.named_modules():
        for name, parameter in module.named_parameters(prefix, recurse=False):
            if name not in twins:  # shared with another module: it starts by its first name
                continue
            drawn = _drawn(network, name, generator_for)
            if drawn is None and not isinstance(module, Network) and parameter.equal(twins[name]):
                continue
            start = _by_rule(module, name, parameter, generator_for) if drawn is None else drawn
            if start.shape != parameter.shape:
                raise TypeError(
                    f"{name} was drawn as {tuple(start.shape)}, must be {tuple(parameter.shape)}"
                )
            parameter.copy_(start)
    buffers = dict(again.named_buffers())
    for name, buffer in network.named_buffers():
        if not buffer.equal(buffers[name]):
            raise TypeError(
                f"the buffer {name} is random: make it a parameter that is not trained "
                f"(requires_grad=False), drawn in the method draw(name, generator) of a Mechanism"
            )


def _drawn(
    network: nn.Module, name: str, generator_for: Callable[[str], Generator]
) -> Tensor | None:
    """The start that the innermost module around a parameter draws for it, if one does."""
    around = [
        (prefix, module)
        for prefix, module in network.named_modules()
        if prefix and name.startswith(f"{prefix}.") and hasattr(module, "draw")
    ]
    for prefix, module in reversed(around):
        drawn: Tensor | None = module.draw(name.removeprefix(f"{prefix}."), generator_for(name))
        if drawn is not None:
            return drawn
    return None


def _by_rule(
    module: nn.Module,
    name: str,
    parameter: nn.Parameter,
    generator_for: Callable[[str], Generator],
) -> Tensor:
    """The start of a layer's parameter, as the layer's kind has it."""
    if isinstance(module, Network):  # positions
        return 0.02 * torch.randn(parameter.shape, generator=generator_for(name))
    if isinstance(module, nn.Embedding):
        rows = torch.randn(parameter.shape, generator=generator_for(name))  # (ids, d)
        if module.padding_idx is not None:
            rows[module.padding_idx] = 0  # as torch has it
        return rows
    if not isinstance(module, (nn.Linear, *CONVOLUTIONS)):
        raise TypeError(
            f"{name} of {type(module).__name__} starts at random, and no rule says how: set it to "
            f"values without chance in the constructor, or make it part of a Mechanism, whose "
            f"method draw(name, generator) draws it"
        )
    if parameter.ndim == 1:
        return torch.zeros(parameter.shape)
    weight = torch.randn(parameter.shape, generator=generator_for(name))  # (out, in, …)
    return weight / math.sqrt(math.prod(parameter.shape[1:]))
