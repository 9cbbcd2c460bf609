"""Pictures and clips: some of their pixels are asked for, from those that are seen."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from tracks.track import Metric, References, Split, Track

MSE: Mapping[str, Metric] = {
    "mse": Metric("min", bounds=(0.0, None), can_tie=False),
    "mae": Metric("min", bounds=(0.0, None), can_tie=False),
}


def scale_of(train: Sequence[np.ndarray]) -> float:
    """What pixels are divided by: the standard deviation of all that may be trained on.

    Not of what was drawn of them: validation and test must not depend on that.

    Raises:
        ValueError: all of them are equal.
    """
    pixels = np.concatenate([each.ravel() for each in train])
    if pixels.min() == pixels.max():
        raise ValueError(f"all pixels of training are {pixels[0]:g}, must differ to be learned")
    return float(pixels.std())


def tokens(pictures: np.ndarray, side: int) -> tuple[np.ndarray, tuple[int, ...]]:
    """Squares of side² pixels are a token each: (n, …, H, W, C) → (n, N, P, C), and N's axes.

    Raises:
        ValueError: the side does not divide height and width, or all is one token.
    """
    n, *lead, height, width, channels = pictures.shape
    if side < 1 or height % side or width % side:
        raise ValueError(
            f"token_side is {side}, must divide the pictures' {height} × {width} pixels"
        )
    axes = (*lead, height // side, width // side)
    if math.prod(axes) == 1:
        raise ValueError(
            f"token_side is {side}, which makes one token of {height} × {width} pixels, and there "
            f"is nothing to mix: give a smaller one"
        )
    cut = pictures.reshape(n, *axes[:-1], side, axes[-1], side, channels)
    return np.moveaxis(cut, -4, -3).reshape(n, math.prod(axes), side**2, channels), axes


def masked(rng: np.random.Generator, pictures: np.ndarray, hidden: float) -> tuple[Split, float]:
    """Hide a share of each picture's pixels, and ask for these; with the mse of their mean.

    Inputs (n, N, P, C + 1): pixels relative to the mean of the picture's visible ones, 0 where
    hidden, and 1 where hidden. Targets (n, N, P, C + 1): all pixels, relative to the same mean, and
    1 where asked. What says 0 everywhere says the visible pixels' mean: its mse is the reference.

    Args:
        pictures: N tokens of P pixels each, (n, N, P, C), scaled. Every picture hides
            ⌊hidden · N · P⌉ of its pixels, each with all its channels.
    """
    n, places, inside, _ = pictures.shape
    most = round(hidden * places * inside)
    asked = rng.permuted(np.tile(np.arange(places * inside) < most, (n, 1)), axis=1)
    asked = asked.reshape(n, places, inside, 1)
    seen = np.where(asked, 0, pictures)
    relative = pictures - seen.sum((1, 2), keepdims=True) / (places * inside - most)
    of_mean = np.square(relative).mean(where=asked)
    return asking(np.where(asked, 0, relative), relative, asked), float(of_mean)


def asking(seen: np.ndarray, wanted: np.ndarray, asked: np.ndarray) -> Split:
    """A split of pixels (n, N, P, C) that are seen and wanted, and which are asked (n, N, P, 1)."""
    inputs, targets = (np.concatenate([part, asked], -1) for part in (seen, wanted))
    return Split(torch.from_numpy(inputs).float(), torch.from_numpy(targets).float())


def hide_all(
    rngs: Mapping[str, np.random.Generator],
    pictures: Mapping[str, np.ndarray],
    hidden: float,
    scale: float,
) -> tuple[dict[str, Split], References]:
    """`masked` of each split.

    Args:
        rngs: where each split's masks are drawn from.
        pictures: (n, N, P, C) each.
        scale: what pixels are divided by.
    Raises:
        ValueError: nothing would be hidden, or nothing seen.
    """
    pixels = pictures["train"][0, :, :, 0].size
    if not 0 < hidden < 1 or not 1 <= round(hidden * pixels) < pixels:
        raise ValueError(
            f"hidden is {hidden}, must be a share between 0 and 1 that hides some of the {pixels} "
            f"pixels and leaves some"
        )
    splits, errors = {}, {}
    for name, values in pictures.items():
        splits[name], errors[name] = masked(rngs[name], values / scale, hidden)
    del errors["train"]
    return splits, {"mean_mse": errors}


class Pixels(Track):
    """Says the pixels that are asked: targets hold all of them, and which those are.

    Inputs and targets (n, N, P, …): N tokens of P pixels. Targets have the C channels, and whether
    the pixel is asked. Loss and scores are means over the asked pixels' channels.
    """

    metric: ClassVar[str] = "mse"
    metrics: ClassVar[Mapping[str, Metric]] = MSE
    mean_over: ClassVar[str] = "the asked pixels' channels"

    def encoder(self, dim: int) -> nn.Module:
        numbers = self.train.inputs[0, 0].numel()
        return nn.Sequential(nn.Flatten(2), nn.Linear(numbers, dim))

    def head(self, dim: int) -> nn.Module:
        return nn.Linear(dim, self.train.targets[0, 0, :, :-1].numel())

    def readout(self, outputs: Tensor) -> Tensor:  # (B, N, P·C) → (B, N, P, C)
        inside, channels = self.train.targets.shape[2:]
        return outputs.unflatten(-1, (inside, channels - 1))

    def loss(self, predictions: Tensor, targets: Tensor) -> Tensor:
        return self._mean((predictions - targets[..., :-1]).square(), targets)

    def scores(self, predictions: Tensor, targets: Tensor) -> dict[str, Tensor]:
        error = (predictions - targets[..., :-1]).abs()  # (B, N, P, C)
        return {"mse": self._mean(error.square(), targets), "mae": self._mean(error, targets)}

    @staticmethod
    def _mean(values: Tensor, targets: Tensor) -> Tensor:  # (B, N, P, C) → (B,)
        asked = targets[..., -1]
        return (values.mean(-1) * asked).sum((-1, -2)) / asked.sum((-1, -2))
