"""What every track offers: data in three disjoint splits, a loss and a metric."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Self

import torch
from torch import Tensor


@dataclass(frozen=True)
class Split:
    """Examples of one split: inputs (n, N, in) and targets (n, …)."""

    inputs: Tensor
    targets: Tensor

    def __len__(self) -> int:
        return len(self.inputs)


@dataclass
class Track(ABC):
    """What the arms are trained on.

    Built as `track(rng=numpy.random.Generator)`; a track whose data are fixed draws nothing.
    """

    train: Split
    validation: Split
    test: Split
    axes: tuple[int, ...]  # lengths of the token grid's axes
    in_features: int  # numbers per token that a model reads
    out_features: int  # numbers per token that a model gives

    metric: ClassVar[str]  # the primary score, a mean over examples
    direction: ClassVar[Literal["min", "max"]]  # which way the metric is better
    requires_causal: ClassVar[bool] = False  # must a token's output depend on no later token?

    # scores of trivial predictions, {name: {"validation": …, "test": …}}, shown beside the model's
    references: dict[str, dict[str, float]] = field(default_factory=dict, kw_only=True)

    def to(self, device: torch.device) -> Self:
        """The track with its data on the device."""
        for name in ("train", "validation", "test"):
            split: Split = getattr(self, name)
            setattr(self, name, Split(split.inputs.to(device), split.targets.to(device)))
        return self

    @abstractmethod
    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The loss of each example, (B, N, out) and (B, …) → (B,): what training minimises."""

    @abstractmethod
    def scores(self, outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """The score of each example, (B,), by name: the primary metric and secondary ones."""
