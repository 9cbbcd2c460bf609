"""What every token mixer and every mechanism in it offers."""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

import torch
from torch import Generator, Tensor, nn


def at_least_float32(t: Tensor) -> Tensor:
    """The tensor in float32, or in float64 if it is that already."""
    return t.to(torch.promote_types(t.dtype, torch.float32))


def named(of: object, method: str = "") -> str:
    """`models.mine.Mine.forward`, for messages."""
    cls = type(of)
    return f"{cls.__module__}.{cls.__qualname__}{method and f'.{method}'}"


# What a constructor is given of the network around it, if it names it: no keys of the YAML.
GIVEN = frozenset({"dim", "heads", "context", "axes", "time_axis"})
Built = TypeVar("Built")


def offered(make: Callable[..., Built], **given: Any) -> Built:
    """Call it with what it names of the arguments that are given."""
    names = inspect.signature(make).parameters
    return make(**{name: value for name, value in given.items() if name in names})


class Observed(NamedTuple):
    """One number of a signature, seen in one block.

    `over` says how the blocks' values become the network's; `least` and `most` bound what it can
    be with the mechanism's settings, whatever it learns: a prediction must be able to fail.
    """

    value: float
    over: Literal["mean", "max", "min"] = "mean"
    least: float = -math.inf
    most: float = math.inf


class Trains(NamedTuple):
    """How a mechanism's parameter trains.

    At `scale` times the learning rate, None for the run's `mechanism_lr_scale`; with the
    optimizer's weight decay or without.
    """

    scale: float | None = None
    decay: bool = False


class Mixer(nn.Module, ABC):
    """Mixes tokens, (B, N, d) → (B, N, d): the one part of the network that a variant changes.

    There is one per block. Its constructor is given what it names of `dim` (d), `heads` (H),
    `context` (N while training), `axes` (lengths of the token grid's axes, N is their product) and
    `time_axis` (which of them is time, None where none is); its other arguments are keys of the
    YAML.
    """

    given: ClassVar[frozenset[str]] = GIVEN
    causal: bool = False  # claims that a token's output depends on no later time step
    any_length: bool = False  # claims to take grids of other lengths than it was built for

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
    """The part of a mixer that is the idea, and can be taken out.

    All that it needs it says itself. A parameter starts as `draw` says, else as its constructor
    sets it without chance, else by the rule of its layer (`models.network.initialise`). The probes
    ask whether its parameters are reached by the loss, and what the score loses when `neutral()`
    stands instead.
    """

    # Metrics of the signature that no training could refute, and why: shown, but no evidence.
    by_construction: ClassVar[Mapping[str, str]] = {}
    # FLOPs of operations that torch's counter does not know: operation → f(shapes of its arguments)
    flop_rules: ClassVar[Mapping[Any, Callable[..., int]]] = {}

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

    def trains(self, name: str) -> Trains | None:
        """How the parameter `name` trains: here, each as one of the mechanism's own numbers.

        None: as it would in any other part of the network.
        """
        return Trains()


class Slot(Mechanism):
    """A mechanism within attention. Its constructor is given what a mixer's is.

    It is asked for the last Nq of the Nk tokens: all of them, but for probes that ask for one.
    """

    given: ClassVar[frozenset[str]] = GIVEN
    any_length: bool = False  # claims to take other contexts than it was built for

    @abstractmethod
    def forward(self, q: Tensor, k: Tensor, x: Tensor) -> Any:
        """As its kind says, of queries (B, H, Nq, dₕ), keys (B, H, Nk, dₕ) and x, (B, Nk, d)."""

    def signature(self, start: Any, q: Tensor, k: Tensor, x: Tensor) -> dict[str, Observed]:
        """What the mechanism looks like after training, by metric; `start` is as before it."""
        return {}
