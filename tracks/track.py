"""What every track offers: data in three disjoint splits, a loss and a metric."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

Streams = Callable[[str], np.random.Generator]  # a split's name → where its examples are drawn from
Direction = Literal["min", "max"]


@dataclass(frozen=True)
class Split:
    """Examples of one split: inputs (n, N, in) and targets (n, …)."""

    inputs: Tensor
    targets: Tensor

    def __len__(self) -> int:
        return len(self.inputs)

    def to(self, device: torch.device) -> Split:
        return Split(self.inputs.to(device), self.targets.to(device))


@dataclass(frozen=True)
class Metric:
    """What a score's values are like.

    Args:
        direction: which way it is better.
        bounds: its smallest and largest value, None where it has none.
        can_tie: whether two different models can score the same to the last digit, as by an
            accuracy, which counts. Such a metric cannot tell whether two models are one.
    """

    direction: Direction
    bounds: tuple[float | None, float | None] = (None, None)
    can_tie: bool = False


class Track(ABC):
    """What the arms are trained on. A track's YAML is built as `track(streams=…, **its keys)`.

    Each split is drawn from `streams(its name)` alone, so that the size of one changes no other.

    Args:
        train, validation, test: the examples.
        axes: lengths of the token grid's axes; N is their product.
        in_features, out_features: numbers per token that a model reads and gives.
        references: scores of trivial predictions, {name: {"validation": …, "test": …}}.
    """

    given: ClassVar[frozenset[str]] = frozenset({"streams"})  # no key of its YAML
    metric: ClassVar[str]  # the primary score, a mean over examples
    metrics: ClassVar[Mapping[str, Metric]]  # what each of `scores` is like
    requires_causal: ClassVar[bool] = False  # must a token's output depend on no later token?

    def __init__(
        self,
        train: Split,
        validation: Split,
        test: Split,
        axes: tuple[int, ...],
        in_features: int,
        out_features: int,
        references: dict[str, dict[str, float]] | None = None,
    ) -> None:
        self.train, self.validation, self.test = train, validation, test
        self.axes = axes
        self.in_features, self.out_features = in_features, out_features
        self.references = references or {}

    def to(self, device: torch.device) -> Track:
        """The track, its data moved to the device."""
        self.train = self.train.to(device)
        self.validation, self.test = self.validation.to(device), self.test.to(device)
        return self

    @abstractmethod
    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The loss of each example, (B, N, out) and (B, …) → (B,): what training minimises."""

    @abstractmethod
    def scores(self, outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """The scores of each example by name, (B,): the primary metric and secondary ones."""

    def measured(self, outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """`scores`, and the loss beside a primary metric that can tie: it tells two models apart.

        (B, N, out) and (B, …) → (B,) by name.
        """
        smooth = {"loss": self.loss(outputs, targets)} if self.can_tie else {}
        return smooth | self.scores(outputs, targets)

    def describe(self, name: str) -> Metric:
        """What the score of that name, one of `measured`, is like.

        Raises:
            KeyError: a score that the track gives and `metrics` leaves out.
        """
        if name == "loss" and name not in self.metrics:
            return Metric("min")
        return self.metrics[name]

    @property
    def can_tie(self) -> bool:
        """Whether the primary metric can."""
        return self.metrics[self.metric].can_tie
