"""Small pictures: say the pixels that are hidden, or what they show."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tracks.pixels import Pixels, hide_all, scale_of, tokens
from tracks.read.cifar import read_cifar
from tracks.read.idx import read_idx
from tracks.track import SPLITS, Metric, References, Split, Streams

Parts = dict[str, np.ndarray]  # of each split
MOST_CLASSES = 10_000  # each is an output of the network
CLASSES: Mapping[str, Metric] = {
    "cross_entropy": Metric("min", bounds=(0.0, None), can_tie=False),
    "accuracy": Metric("max", bounds=(0.0, 1.0), can_tie=True),
}


def photographs() -> list[np.ndarray]:
    """scikit-learn's two, a temple and a flower, in grey: (427, 640) each, 0 … 255."""
    from sklearn.datasets import load_sample_images

    return [picture.mean(-1) for picture in load_sample_images().images]


def regions(width: int, size: int, validation: float, test: float) -> dict[str, tuple[int, int]]:
    """Columns of a photograph that each split may read: train left, then validation, then test.

    Between two of them lie `size` columns that none reads: no patch touches one of another split.

    Raises:
        ValueError: a region is too narrow for a patch.
    """
    first, second = round(width * (1 - validation - test)), round(width * (1 - test))
    found = {"train": (0, first), "validation": (first + size, second)}
    found["test"] = (second + size, width)
    for name, (begin, end) in found.items():
        if end - begin < size:
            raise ValueError(
                f"size is {size}, but the {name} region of a photograph has {end - begin} columns: "
                f"give a smaller size or a larger share"
            )
    return found


def patches(
    rngs: Mapping[str, np.random.Generator],
    pictures: Sequence[np.ndarray],
    size: int,
    rows: int,
    validation: float,
    test: float,
) -> tuple[Parts, float]:
    """Square patches of photographs (H, W), (n, size, size, 1) of each split, and their scale.

    `rows` of train, anywhere in its regions; validation's and test's lie side by side and share no
    pixel, the first of them a few pixels from the corner.
    """
    found: dict[str, list[np.ndarray]] = {name: [] for name in SPLITS}
    trained_on = []
    for i, picture in enumerate(pictures):
        for name, (begin, end) in regions(picture.shape[1], size, validation, test).items():
            region = picture[:, begin:end]
            windows = np.lib.stride_tricks.sliding_window_view(region, (size, size))
            if name == "train":
                trained_on.append(region)
                n = rows * (i + 1) // len(pictures) - rows * i // len(pictures)
                top, left = (rngs[name].integers(most, size=n) for most in windows.shape[:2])
                found[name].append(windows[top, left])
            else:
                top, left = (rngs[name].integers((n - 1) % size + 1) for n in windows.shape[:2])
                found[name].append(windows[top::size, left::size].reshape(-1, size, size))
    parts = {name: np.concatenate(each)[..., None] for name, each in found.items()}
    return parts, scale_of(trained_on)


def read_pictures(images: list[str], labels: list[str]) -> tuple[np.ndarray, np.ndarray | None]:
    """Pictures (n, H, W, C) and their classes (n,), of files given one after the other.

    Names that end in .bin are files of CIFAR-10's binary version, which hold both; others are IDX
    files of pictures (n, H, W), their classes in further ones.

    Raises:
        ValueError: a file that cannot be read, or files that do not fit one another.
    """
    pictures: list[np.ndarray] = []
    classes: list[np.ndarray] = []
    for path in images:
        if path.endswith(".bin"):
            found, of_these = read_cifar(path)
            classes.append(of_these)
        else:
            found = read_idx(path)
            if found.ndim != 3:
                raise ValueError(f"{path} must hold pictures (n, height, width), not {found.shape}")
            found = found[..., None]
        if pictures and found.shape[1:] != pictures[0].shape[1:]:
            raise ValueError(
                f"{path} must hold pictures of {pictures[0].shape[1:]}, as {images[0]} does, found "
                f"{found.shape[1:]}"
            )
        pictures.append(found)
    classes += [_labels(path) for path in labels]
    n = sum(map(len, pictures))
    if classes and sum(each.size for each in classes) != n:
        raise ValueError(
            f"{', '.join(labels or images)} must hold a class for each of {n} pictures, found "
            f"{sum(each.size for each in classes)}"
        )
    return np.concatenate(pictures), np.concatenate(classes).ravel() if classes else None


def _labels(path: str) -> np.ndarray:
    """The classes in an IDX file, whole numbers from 0 on.

    Raises:
        ValueError: what is no such file.
    """
    found = read_idx(path)
    if found.dtype.kind not in "iu" or found.min() < 0 or found.max() >= MOST_CLASSES:
        raise ValueError(
            f"{path} must hold classes, whole numbers from 0 to {MOST_CLASSES - 1}, found "
            f"{found.min():g} to {found.max():g} ({found.dtype})"
        )
    return found.astype(np.int64)


Files = str | list[str] | None


def named_files(
    images: Files, labels: Files, test_images: Files, test_labels: Files
) -> list[list[str]]:
    """The files of each kind, in this order.

    Raises:
        ValueError: some that would not be read, or that stand in training and test.
    """
    kinds = [images, labels, test_images, test_labels]
    files = [[each] if isinstance(each, str) else each or [] for each in kinds]
    for given, name, needed, lacks in (
        (files[1], "labels", files[0], "images"),
        (files[2], "test_images", files[0], "images"),
        (files[3], "test_labels", files[2], "test_images"),
    ):
        if given and not needed:
            raise ValueError(f"{name} is given without {lacks}, and would not be read: give both")
    if images is not None and not files[0]:
        raise ValueError("images is an empty list: give a file, or null")
    if both := {*files[0]} & {*files[2]}:
        raise ValueError(f"test_images names {min(both)}, which images names too")
    return files


class Image(Pixels):
    """Pictures (H, W), a token per pixel, of one of two tasks.

    masked: a share of the pixels is hidden, and asked for (see `tracks.pixels.masked`). Reference
    `mean_mse`: the mean of the visible pixels. classify: what does the picture show? Read off at
    the mean of all tokens, at the last one in raster order. Reference `majority_cross_entropy`: how
    frequent each class is in training; no single answer does better without looking.

    Args:
        task: masked or classify.
        order: grid, tokens on the axes (H, W), none of them time; raster, pixels one after the
            other as a sequence in time, (H · W,), on which what is causal can be tried.
        source: photographs, patches of scikit-learn's two, each split from a region of its own;
            digits, its 1797 handwritten ones of 8 × 8, split in their order. Unless `images`.
        images, labels: IDX files (packed by gzip or not) of pictures and their classes, or files of
            CIFAR-10's binary version (NAME.bin), which hold both: one path, or several. Split in
            their order.
        test_images, test_labels: the same of a published test split; `test` is then not used.
        size: side of a photograph's patch.
        hidden: share of the pixels that are hidden.
        rows: training pictures to draw, each with its mask; null: each one once.
        validation, test: shares of the pictures, or of the photographs' width.
    Raises:
        ValueError: a value that makes no sense, or a file that cannot be used.
    """

    def __init__(
        self,
        streams: Streams,
        task: Literal["masked", "classify"] = "masked",
        order: Literal["grid", "raster"] = "grid",
        source: Literal["photographs", "digits"] = "photographs",
        images: Files = None,
        labels: Files = None,
        test_images: Files = None,
        test_labels: Files = None,
        size: int = 16,
        token_side: int = 2,
        hidden: float = 0.7,
        rows: int | None = 16000,
        validation: float = 0.15,
        test: float = 0.3,
    ) -> None:
        if not (validation > 0 and test > 0 and validation + test < 1):
            raise ValueError("validation and test must be shares > 0 with a sum below 1")
        if rows is not None and rows < 1:
            raise ValueError(f"rows is {rows}, must be a whole number ≥ 1, or null for each once")
        files = named_files(images, labels, test_images, test_labels)
        rngs = {name: streams(name) for name in SPLITS}
        classes: Parts | None = None
        drawn: np.ndarray | slice = slice(None)  # which of train's
        if images is None and source == "photographs":
            if rows is None:
                raise ValueError("rows is null, must be a number of patches to draw of photographs")
            if size < 2:
                raise ValueError(f"size is {size}, must be a whole number ≥ 2")
            pictures, scale = patches(rngs, photographs(), size, rows, validation, test)
        else:
            pictures, classes = _in_order(files, validation, test)
            scale = scale_of([pictures["train"]])
            if rows is not None:
                drawn = rngs["train"].integers(len(pictures["train"]), size=rows)

        self.task, self.order = task, order
        found = {name: tokens(each, token_side) for name, each in pictures.items()}
        flat = {name: each for name, (each, _) in found.items()}
        grid = found["train"][1]
        if task == "masked":
            flat["train"] = flat["train"][drawn]
            splits, references = hide_all(rngs, flat, hidden, scale)
        elif classes is None:
            raise ValueError(
                "task is classify, which needs classes: say source: digits, or give labels"
            )
        else:
            splits, references = _classified(flat, classes, scale)
            train = splits["train"]
            splits["train"] = Split(train.inputs[drawn], train.targets[drawn])
            self.classes = 1 + max(int(each.max()) for each in classes.values())
            # what a class says of all its runs, these say of one
            self.metric, self.metrics = "cross_entropy", CLASSES  # type: ignore[misc]
            self.mean_over = "one answer"  # type: ignore[misc]
        if order == "raster":
            self.time_axis = 0  # type: ignore[misc]
        axes = grid if order == "grid" else (math.prod(grid),)
        super().__init__(splits, axes, references)

    def head(self, dim: int) -> nn.Module:
        return super().head(dim) if self.task == "masked" else nn.Linear(dim, self.classes)

    def readout(self, outputs: Tensor) -> Tensor:  # (B, N, out) → (B, N, P, C), or (B, classes)
        if self.task == "masked":
            return super().readout(outputs)
        return outputs[:, -1] if self.order == "raster" else outputs.mean(1)

    def loss(self, predictions: Tensor, targets: Tensor) -> Tensor:
        if self.task == "masked":
            return super().loss(predictions, targets)
        return F.cross_entropy(predictions, targets, reduction="none")

    def scores(self, predictions: Tensor, targets: Tensor) -> dict[str, Tensor]:
        if self.task == "masked":
            return super().scores(predictions, targets)
        right = (predictions.argmax(-1) == targets).float()
        return {"cross_entropy": self.loss(predictions, targets), "accuracy": right}


def _in_order(files: list[list[str]], validation: float, test: float) -> tuple[Parts, Parts | None]:
    """Pictures (n, H, W, C) and classes (n,) of each split, in their order; digits without files.

    Args:
        files: images, labels, test images, test labels.
    """
    images, labels, test_images, test_labels = files
    if not images:
        from sklearn.datasets import load_digits

        digits = load_digits()
        pictures, classes = digits.images[..., None], digits.target
    else:
        pictures, classes = read_pictures(images, labels)
    end = len(pictures) if test_images else round(len(pictures) * (1 - test))
    begin = end - round(len(pictures) * validation)
    cut = {"train": slice(0, begin), "validation": slice(begin, end), "test": slice(end, None)}
    parts = {name: pictures[where] for name, where in cut.items()}
    of_parts = None if classes is None else {name: classes[where] for name, where in cut.items()}
    if test_images:
        parts["test"], found = read_pictures(test_images, test_labels)
        if parts["test"].shape[1:] != pictures.shape[1:] or (found is None) != (classes is None):
            raise ValueError(
                "test_images must be pictures as images are, with classes if they have"
            )
        if of_parts is not None and found is not None:
            of_parts["test"] = found
    for name, each in parts.items():
        if not len(each):
            raise ValueError(f"{name} gets none of {len(pictures)} pictures, must get some")
    return parts, of_parts


def _classified(
    pictures: Parts, classes: Parts, scale: float
) -> tuple[dict[str, Split], References]:
    """Pixels (n, N, C), of mean 0 in training and in units of `scale`, and their classes (n,)."""
    middle = pictures["train"].mean()
    known = 1 + max(each.max() for each in classes.values())
    counts = 1 + np.bincount(classes["train"], minlength=known)  # 1: no class is impossible
    surprise = -np.log(counts / counts.sum())
    splits, errors = {}, {}
    for name, each in pictures.items():
        inputs = torch.from_numpy((each - middle) / scale).float()
        splits[name] = Split(inputs, torch.from_numpy(classes[name].astype(np.int64)))
        if name != "train":
            errors[name] = float(surprise[classes[name]].mean())
    return splits, {"majority_cross_entropy": errors}
