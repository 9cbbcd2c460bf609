"""The network around a mixer; it is the same for every variant."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import Generator, Tensor, nn

from models.mixer import Mechanism, Mixer


class Block(nn.Module):
    """Pre-norm residual block: a token mixer, then an MLP per token."""

    def __init__(self, dim: int, mixer: Mixer) -> None:
        super().__init__()
        self.mixer_norm = nn.LayerNorm(dim)
        self.mixer: nn.Module = mixer
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
    def mixers(self) -> list[nn.Module]:
        """The blocks' mixers, first to last."""
        return [block.mixer for block in self.blocks]  # type: ignore[misc]


def mechanisms(network: nn.Module) -> dict[str, Mechanism]:
    """The mechanisms in a network, by the name of their module."""
    return {name: m for name, m in network.named_modules() if isinstance(m, Mechanism)}


@torch.no_grad()
def initialise(network: nn.Module, generator_for: Callable[[str], Generator]) -> None:
    """Draw every random start, each parameter from a stream keyed by its own name.

    So a parameter that two networks share by name and shape starts bitwise equal in both, whatever
    else they hold. Weights are normal with variance 1/fan_in (LeCun et al. 1998), positions normal
    with std 0.02, biases 0; norms and mechanisms as their classes say.

    Args:
        generator_for: the random stream of the parameter of that name.
    """
    for prefix, module in network.named_modules():
        for name, parameter in module.named_parameters(
            prefix, recurse=isinstance(module, Mechanism)
        ):
            generator = generator_for(name)
            drawn: Tensor | None = None
            if isinstance(module, Mechanism):
                drawn = module.start(name.removeprefix(f"{prefix}."), generator)
            elif isinstance(module, nn.Linear) and parameter.ndim == 1:
                drawn = torch.zeros(parameter.shape)
            elif isinstance(module, nn.Linear):
                drawn = torch.randn(parameter.shape, generator=generator)
                drawn /= math.sqrt(parameter.shape[1])
            elif isinstance(module, Network):
                drawn = 0.02 * torch.randn(parameter.shape, generator=generator)
            if drawn is not None:
                parameter.copy_(drawn)
