"""The network around a mixer; it is the same for every variant."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, cast

import torch
from torch import Generator, Tensor, nn

from models.mixer import Mechanism, Mixer


class Block(nn.Module):
    """Pre-norm residual block: a token mixer, then an MLP per token."""

    def __init__(self, dim: int, mixer: Mixer) -> None:
        super().__init__()
        self.mixer_norm = nn.LayerNorm(dim)
        self.mixer = mixer
        self.mlp_norm = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x: Tensor) -> Tensor:  # (B, N, d) → (B, N, d)
        x = x + self.mixer(self.mixer_norm(x))
        return x + self.mlp(self.mlp_norm(x))


class Network(nn.Module):
    """Embedding (+ positions) → blocks → norm → head: (B, N, in) → (B, N, out).

    Args:
        in_features, out_features: numbers per token, read and given.
        axes: lengths of the token grid's axes; N is their product.
        mixer: builds one block's token mixer, as `mixer(dim=d, heads=H, axes=axes)`.
        dim, heads, layers: width d, attention heads H, blocks.
        positions: `learned` adds one vector per token; `none` leaves order to the mixer.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        axes: tuple[int, ...],
        mixer: Callable[..., Mixer],
        dim: int = 64,
        heads: int = 4,
        layers: int = 2,
        positions: Literal["learned", "none"] = "learned",
    ) -> None:
        super().__init__()
        self.embed = nn.Linear(in_features, dim)
        self.positions = (
            nn.Parameter(torch.zeros(math.prod(axes), dim)) if positions == "learned" else None
        )
        self.blocks = nn.ModuleList(
            Block(dim, mixer(dim=dim, heads=heads, axes=axes)) for _ in range(layers)
        )
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, out_features)

    def forward(self, x: Tensor) -> Tensor:  # (B, N, in) → (B, N, out)
        x = self.embed(x)
        if self.positions is not None:
            x = x + self.positions
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
    else they hold. The first that applies: what its mechanism draws; positions are normal with std
    0.02; what a constructor sets without chance stays (norms are the identity); of a linear layer,
    weights are normal with variance 1/fan_in (LeCun et al. 1998) and biases 0.

    Args:
        again: the same network, constructed once more: what is not the same in it, a constructor
            drew from torch's global stream, or nobody set.
        generator_for: the random stream of the parameter of that name.
    Raises:
        TypeError: a parameter that a constructor draws, of a module that has no rule here; a
            buffer that it draws.
    """
    twins = dict(again.named_parameters())
    for prefix, module in network.named_modules():
        for name, parameter in module.named_parameters(prefix, recurse=False):
            if name not in twins:  # shared with another module: it starts by its first name
                continue
            drawn = _drawn(network, name, generator_for)
            if drawn is not None:
                parameter.copy_(drawn)
            elif isinstance(module, Network):
                parameter.copy_(0.02 * torch.randn(parameter.shape, generator=generator_for(name)))
            elif parameter.equal(twins[name]):
                continue
            elif isinstance(module, nn.Linear) and parameter.ndim == 1:
                parameter.zero_()
            elif isinstance(module, nn.Linear):
                weight = torch.randn(parameter.shape, generator=generator_for(name))  # (out, in)
                parameter.copy_(weight / math.sqrt(parameter.shape[1]))
            else:
                raise TypeError(
                    f"{name} of {type(module).__name__} starts at random, and no rule says how: "
                    f"set it to values without chance in the constructor, or draw it in the "
                    f"method draw(name, generator) of a Mechanism"
                )
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
    """The start that the innermost mechanism around a parameter draws for it, if one does."""
    around = [
        (prefix, mechanism)
        for prefix, mechanism in mechanisms(network).items()
        if name.startswith(f"{prefix}.")
    ]
    for prefix, mechanism in reversed(around):
        drawn = mechanism.draw(name.removeprefix(f"{prefix}."), generator_for(name))
        if drawn is not None:
            return drawn
    return None
