"""The network around the mixers; it is the same for every variant."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, cast

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
        mixers: the token mixers of its blocks, first to last.
        context: N while training.
        dim: width d.
        mlp: a name in `models.mlp.MLPS`, or None for blocks without.
        mlp_width: of its hidden layer; None: as that MLP usually has it.
        positions: `learned` adds one vector per token; `none` leaves order to the mixers.
    Raises:
        ValueError: no MLP has that name.
    """

    def __init__(
        self,
        encoder: nn.Module,
        head: nn.Module,
        mixers: Sequence[Mixer],
        context: int,
        dim: int = 64,
        mlp: str | None = "gelu",
        mlp_width: int | None = None,
        positions: Literal["learned", "none"] = "learned",
    ) -> None:
        super().__init__()
        if mlp is not None and mlp not in MLPS:
            raise ValueError(f"mlp is {mlp}, must be null or one of {', '.join(MLPS)}")
        self.embed = encoder
        self.positions = nn.Parameter(torch.zeros(context, dim)) if positions == "learned" else None
        self.mlp_width = width = (mlp_width or MLPS[mlp].usual(dim)) if mlp else None
        self.blocks = nn.ModuleList(
            Block(dim, mixer, MLPS[mlp].build(dim, width) if mlp and width else None)
            for mixer in mixers
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

    def draw(self, name: str, generator: Generator) -> Tensor | None:
        """A start of the positions: normal with std 0.02."""
        if name != "positions" or self.positions is None:
            return None
        return 0.02 * torch.randn(self.positions.shape, generator=generator)

    @property
    def mixers(self) -> list[Mixer]:
        """The blocks' mixers, first to last."""
        return [cast(Block, block).mixer for block in self.blocks]


def mixers_in_turn(makes: Sequence[Callable[..., Mixer]], layers: int, **given: Any) -> list[Mixer]:
    """A mixer for each layer: what the first builds, then the next, and over again.

    Args:
        given: what each of them is offered (`models.mixer.GIVEN`).
    Raises:
        ValueError: layers are not a multiple of the mixers.
    """
    if layers % len(makes):
        raise ValueError(f"{len(makes)} mixers, whose number must divide model.layers {layers}")
    return [offered(makes[i % len(makes)], **given) for i in range(layers)]


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
    `draw(name, generator)`, the innermost first; what a constructor sets without chance stays
    (norms are the identity); weights of linear layers and convolutions are normal with
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
            if drawn is None and parameter.equal(twins[name]):
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
                f"(requires_grad=False), drawn in a method draw(name, generator) of a module "
                f"around it"
            )


def _drawn(
    network: nn.Module, name: str, generator_for: Callable[[str], Generator]
) -> Tensor | None:
    """The start that the innermost module around a parameter draws for it, if one does."""
    inside = {f"{path}." if path else "": module for path, module in network.named_modules()}
    around = [path for path in inside if name.startswith(path) and hasattr(inside[path], "draw")]
    for path in reversed(around):
        drawn: Tensor | None = inside[path].draw(name.removeprefix(path), generator_for(name))
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
    if isinstance(module, nn.Embedding):
        rows = torch.randn(parameter.shape, generator=generator_for(name))  # (ids, d)
        if module.padding_idx is not None:
            rows[module.padding_idx] = 0  # as torch has it
        return rows
    if not isinstance(module, (nn.Linear, *CONVOLUTIONS)):
        raise TypeError(
            f"{name} of {type(module).__name__} starts at random, and no rule says how: set it to "
            f"values without chance in the constructor, or draw it in a method "
            f"draw(name, generator) of a module around it, as a Mechanism has one"
        )
    if parameter.ndim == 1:
        return torch.zeros(parameter.shape)
    weight = torch.randn(parameter.shape, generator=generator_for(name))  # (out, in, …)
    return weight / math.sqrt(math.prod(parameter.shape[1:]))
