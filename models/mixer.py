"""What every token mixer and every mechanism in it offers."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Generator, Tensor, nn


def at_least_float32(t: Tensor) -> Tensor:
    """The tensor in float32, or in float64 if it is that already."""
    return t.to(torch.promote_types(t.dtype, torch.float32))


class Observed(NamedTuple):
    """One number of a signature, seen in one block.

    `over` says how the blocks' values become the network's; `least` and `most` bound what it can
    be with the mechanism's settings, whatever it learns: a prediction must be able to fail.
    """

    value: float
    over: Literal["mean", "max", "min"] = "mean"
    least: float = -math.inf
    most: float = math.inf


class Mixer(nn.Module, ABC):
    """Mixes tokens, (B, N, d) → (B, N, d): the one part of the network that a variant changes.

    The network builds one per block, as `mixer(dim=d, heads=H, axes=(n₁, …))` with N = ∏ nₐ.
    """

    given: ClassVar[frozenset[str]] = frozenset({"dim", "heads", "axes"})  # no keys of its YAML
    causal: bool = False  # claims that a token's output depends on no later token

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:  # (B, N, d) → (B, N, d)
        ...

    def signature(self, start: Mixer, x: Tensor) -> dict[str, Observed]:
        """What the mixer's mechanism looks like after training, by metric.

        Args:
            start: the same mixer as it was before training.
            x: what the mixer read in a forward pass over validation examples, (B, N, d).
        """
        return {}

    def artifacts(self, x: Tensor) -> dict[str, Tensor]:
        """Small arrays that a figure of the mixer needs; x as in `signature`."""
        return {}


class Mechanism(nn.Module, ABC):
    """The part of a mixer that is the idea: it has parameters of its own, and can be taken out.

    A parameter starts as `draw` says, else as its constructor sets it without chance, else by the
    rule of its layer (`models.network.initialise`). All train at `lr · mechanism_lr_scale` and take
    no weight decay; the probes ask whether they are reached by the loss, and what the score loses
    when `neutral()` stands instead.
    """

    # Metrics of the signature that no training could refute, and why: shown, but no evidence.
    by_construction: ClassVar[Mapping[str, str]] = {}

    @abstractmethod
    def neutral(self) -> nn.Module:
        """The module that stands in its place when it is taken out: same shapes, no effect."""

    def draw(self, name: str, generator: Generator) -> Tensor | None:
        """A random start value of the parameter `name`, or None where it is not drawn here.

        Args:
            name: within the mechanism, such as `free.0`.
            generator: the parameter's own stream.
        """
        return None
