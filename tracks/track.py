"""What every track offers: named splits, how a network reads and answers, loss and scores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

Streams = Callable[[str], np.random.Generator]  # a split's name → where its examples are drawn from
Direction = Literal["min", "max"]
References = dict[str, dict[str, float]]  # name → split → score
SPLITS = ("train", "validation", "test")  # that every track has


@dataclass(frozen=True)
class Split:
    """Examples of one split: inputs (n, …) and targets (n, …).

    Raises:
        TypeError: one of them is no tensor.
    """

    inputs: Tensor
    targets: Tensor

    def __post_init__(self) -> None:
        for name, given in (("inputs", self.inputs), ("targets", self.targets)):
            if not isinstance(given, Tensor):
                raise TypeError(f"a split's {name} must be a Tensor, found {type(given).__name__}")

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
    Raises:
        ValueError: another direction.
    """

    direction: Direction
    bounds: tuple[float | None, float | None]
    can_tie: bool

    def __post_init__(self) -> None:
        if self.direction not in ("min", "max"):
            raise ValueError(f"a metric's direction is {self.direction}, must be min or max")


class Track(ABC):
    """What the arms are trained on. A track's YAML is built as `track(streams=…, **its keys)`.

    Each split is drawn from `streams(its name)` alone, so that the size of one changes no other.
    (A constructor that names no `streams` is given none: its data do not depend on the seed.)

    Args:
        splits: `train`, `validation`, `test`, disjoint, and any further test splits, such as
            `test@64`: these are scored, recorded and compared, and nothing is chosen by them.
            Where there are several axes, their grid must be that of training.
        axes: lengths of the training tokens' grid, one per axis; N is their product.
        references: scores of trivial predictions by the primary metric, such as repeating the last
            value: {name: {"validation": …, "test": …}}. An arm that beats none has learned nothing.
        fitted: the same of predictions that were fitted to the training split, such as a linear
            map: shown beside the arms, and no arm need beat them.
    Raises:
        ValueError: a split that every track has is missing, or a further one is named otherwise.
    """

    given: ClassVar[frozenset[str]] = frozenset({"streams"})  # no key of its YAML
    metric: ClassVar[str]  # the primary score, a mean over examples
    metrics: ClassVar[Mapping[str, Metric]]  # what each of `scores` is like
    mean_over: ClassVar[str]  # what an example's loss and scores are means over, in words
    # Which of `axes` is time; None where none is. Inputs have its steps along dimension
    # 1 + time_axis, outputs along that axis of the token grid. A causal mixer, and the probe for
    # leaks, cut between them.
    time_axis: ClassVar[int | None] = None
    requires_causal: ClassVar[bool] = False  # must a token's output depend on no later time step?

    def __init__(
        self,
        splits: Mapping[str, Split],
        axes: tuple[int, ...],
        references: References | None = None,
        fitted: References | None = None,
    ) -> None:
        further = [name for name in splits if name not in SPLITS]
        if absent := [name for name in SPLITS if name not in splits]:
            raise ValueError(f"the track lacks the split {absent[0]}: it must have all of {SPLITS}")
        if wrong := [name for name in further if not name.startswith("test@")]:
            raise ValueError(f"a further test split is named test@…, not {wrong[0]}")
        self.splits = {name: splits[name] for name in (*SPLITS, *further)}
        self.axes = axes
        self.references, self.fitted = references or {}, fitted or {}

    @property
    def train(self) -> Split:
        return self.splits["train"]

    @property
    def validation(self) -> Split:
        return self.splits["validation"]

    @property
    def test(self) -> Split:
        return self.splits["test"]

    @property
    def overlap(self) -> int:
        """How many of the test examples that follow one share values with it; 0: drawn apart.

        Examples that overlap say less than as many that do not: analysis takes blocks of them.
        """
        return 0

    @property
    def tests(self) -> dict[str, Split]:
        """All splits that are scored after training, `test` first."""
        return {n: split for n, split in self.splits.items() if n not in ("train", "validation")}

    def to(self, device: torch.device) -> Track:
        """The track, its data moved to the device."""
        self.splits = {name: split.to(device) for name, split in self.splits.items()}
        return self

    @abstractmethod
    def encoder(self, dim: int) -> nn.Module:
        """A new module that makes tokens of inputs, (B, …) → (B, N, d)."""

    @abstractmethod
    def head(self, dim: int) -> nn.Module:
        """A new module that makes outputs of tokens, (B, N, d) → (B, N, out)."""

    def readout(self, outputs: Tensor) -> Tensor:
        """What loss and scores look at of a network's outputs, (B, N, out) → (B, …)."""
        return outputs

    def predict(self, network: nn.Module, inputs: Tensor) -> Tensor:
        """What a trained network says of inputs, (B, …) → (B, …), as loss and scores take it.

        One pass, unless the task is a rollout. All that is measured after training goes through it,
        with gradients where a probe asks for them: it must not take them away.
        """
        return self.readout(network(inputs))

    @abstractmethod
    def loss(self, predictions: Tensor, targets: Tensor) -> Tensor:
        """The loss of each example, (B, …) and (B, …) → (B,): what training minimises."""

    @abstractmethod
    def scores(self, predictions: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """The scores of each example by name, (B,): the primary metric and secondary ones."""

    def measured(self, predictions: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """`scores`, and the loss beside a primary metric that can tie: it tells two models apart.

        (B, …) and (B, …) → (B,) by name.
        """
        smooth = {"loss": self.loss(predictions, targets)} if self.can_tie else {}
        return smooth | self.scores(predictions, targets)

    def describe(self, name: str) -> Metric:
        """What the score of that name, one of `measured`, is like.

        Raises:
            KeyError: a score that the track gives and `metrics` leaves out.
        """
        if name == "loss" and name not in self.metrics:
            return Metric("min", bounds=(None, None), can_tie=False)
        return self.metrics[name]

    @property
    def can_tie(self) -> bool:
        """Whether the primary metric can."""
        return self.metrics[self.metric].can_tie
