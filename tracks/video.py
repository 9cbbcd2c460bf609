"""Short clips: say the pixels that are hidden, or the next frame."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import numpy as np

from tracks.pixels import Pixels, asking, hide_all, scale_of, tokens
from tracks.read.array import read_array, read_frames
from tracks.shares import check_shares, share_out
from tracks.track import SPLITS, References, Split, Streams

MOVES = np.array([(down, right) for down in (-1, 0, 1) for right in (-1, 0, 1) if down or right])


def moving(
    rng: np.random.Generator, shapes: np.ndarray, n: int, frames: int, size: int, count: int
) -> np.ndarray:
    """Clips of moving shapes (k, h, w), at the same steady pace each: (n, frames, size, size).

    A clip has `count` of them, each from a random place, a pixel a frame in one of eight
    directions; what leaves on one side comes in on the other. Where two meet, the brighter is seen.
    """
    height, width = shapes.shape[1:]
    which = rng.integers(len(shapes), size=(n, count))
    start = rng.integers(size, size=(n, count, 1, 2))
    move = MOVES[rng.integers(len(MOVES), size=(n, count))][:, :, None]
    at = start + move * np.arange(frames)[:, None]  # (n, count, frames, 2), of the upper left
    canvas = np.zeros((len(shapes), size, size))
    canvas[:, :height, :width] = shapes
    places = np.arange(size)
    rows = (places - at[..., :1]) % size  # (n, count, frames, size): what of the canvas is seen
    columns = (places - at[..., 1:]) % size
    seen = canvas[which[:, :, None, None, None], rows[..., None], columns[..., None, :]]
    return seen.max(1)


def crops(
    rng: np.random.Generator, video: np.ndarray, n: int | None, frames: int, size: int
) -> np.ndarray:
    """Stretches of clips (k, T, H, W), each of a square at a random place: (n, frames, size, size).

    Args:
        n: how many, beginning anywhere; None: one after the other, none sharing a frame.
    """
    clips, length, height, width = video.shape
    if n is None:
        begin = np.arange(0, length - frames + 1, frames)
        which, begin = (each.ravel() for each in np.meshgrid(np.arange(clips), begin))
    else:
        which = rng.integers(clips, size=n)
        begin = rng.integers(length - frames + 1, size=n)
    top = rng.integers(height - size + 1, size=len(which))
    left = rng.integers(width - size + 1, size=len(which))
    at = np.lib.stride_tricks.sliding_window_view(video, (frames, size, size), axis=(1, 2, 3))
    return at[which, begin, top, left]


def read_video(path: str) -> np.ndarray:
    """Clips (n, T, H, W): of an .npy file (T, H, W) or (n, T, H, W), or a folder of frames.

    Raises:
        ValueError: what cannot be read.
    """
    if Path(path).is_dir():
        return read_frames(path)[None]
    video = read_array(path, {3: "(time, height, width)", 4: "(clips, time, height, width)"})
    return video.reshape(-1, *video.shape[-3:])


class Video(Pixels):
    """Clips (T, H, W), tokens on a grid whose first axis is time, of one of two tasks.

    masked: a share of the pixels is hidden, and asked for (see `tracks.pixels.masked`). Reference
    `mean_mse`: the mean of the visible pixels. next_frame: at every frame but the first, from which
    no motion can be seen, the frame that follows; causal by frame: tokens of one frame may see each
    other. References `last_frame_mse`: the frame again; `mean_mse`: the mean of the frame.

    Args:
        task: masked or next_frame.
        file: an .npy file (time, height, width), one video that is split in time, or
            (clips, time, height, width), whole clips in each split; or a folder of frames, .png or
            .npy; in grey. Null: digits of scikit-learn that move, those of each split its own.
        frames, size: of a clip, in frames and pixels; a file's clips are squares of larger frames.
        token_side: side, in pixels, of the square that is a token.
        digits: in a clip that is made.
        hidden: share of the pixels that are hidden.
        train, validation, test: clips; of a file's validation and test all, none sharing a frame.
        validation_share, test_share: of the digits, or of the file.
    Raises:
        ValueError: a value that makes no sense, or a file that cannot be used.
    """

    time_axis = 0

    def __init__(
        self,
        streams: Streams,
        task: Literal["masked", "next_frame"] = "masked",
        file: str | None = None,
        frames: int = 4,
        size: int = 8,
        token_side: int = 2,
        digits: int = 1,
        hidden: float = 0.7,
        train: int = 16000,
        validation: int = 500,
        test: int = 1000,
        validation_share: float = 0.15,
        test_share: float = 0.3,
    ) -> None:
        if min(train, validation, test, size, digits) < 1 or frames < 2:
            raise ValueError(
                f"train is {train}, validation {validation}, test {test}, size {size}, digits "
                f"{digits}, frames {frames}: must be whole numbers ≥ 1, frames ≥ 2"
            )
        check_shares(validation_share, test_share)
        if file is None and size < 8:
            raise ValueError(f"size is {size}, must be at least the 8 pixels of a digit")
        rngs = {name: streams(name) for name in SPLITS}
        sizes = {"train": train, "validation": validation, "test": test}
        length = frames + (task == "next_frame")
        video = _digits() if file is None else read_video(file)
        parts = share_out(video, validation_share, test_share)
        clips = {}
        for name, part in parts.items():
            if file is None:
                clips[name] = moving(rngs[name], part[0], sizes[name], length, size, digits)
                continue
            if not len(part) or part.shape[1] < length or min(part.shape[2:]) < size:
                raise ValueError(
                    f"{name} gets {part.shape[0]} stretches of {part.shape[1]} frames of "
                    f"{part.shape[2]} × {part.shape[3]} pixels of {file}; a clip needs {length} "
                    f"frames of {size} × {size}: give more, or smaller clips"
                )
            n = sizes[name] if name == "train" else None
            clips[name] = crops(rngs[name], part, n, length, size)
        scale = scale_of([parts["train"]])
        found = {name: tokens(each[..., None], token_side) for name, each in clips.items()}
        _, (_, *grid) = found["train"]
        cut = {name: each for name, (each, _) in found.items()}
        if task == "masked":
            splits, references = hide_all(rngs, cut, hidden, scale)
        else:
            self.requires_causal = True  # type: ignore[misc]  # what a class says of all its runs
            splits, references = _next_frames(cut, math.prod(grid), scale)
        super().__init__(splits, (frames, *grid), references)


def _digits() -> np.ndarray:
    """scikit-learn's 1797 handwritten digits of 8 × 8, as frames, (1, 1797, 8, 8)."""
    from sklearn.datasets import load_digits

    return np.asarray(load_digits().images)[None]


def _next_frames(
    clips: Mapping[str, np.ndarray], per_frame: int, scale: float
) -> tuple[dict[str, Split], References]:
    """Tokens of all frames but the last, (n, N, P, C), and of those that follow them."""
    splits: dict[str, Split] = {}
    references: References = {"last_frame_mse": {}, "mean_mse": {}}
    for name, values in clips.items():
        seen, wanted = values[:, :-per_frame] / scale, values[:, per_frame:] / scale
        asked = np.ones((*seen.shape[:-1], 1), dtype=bool)
        asked[:, :per_frame] = False
        splits[name] = asking(seen, wanted, asked)
        if name != "train":
            last, following = seen[:, per_frame:], wanted[:, per_frame:]
            by_frame = last.reshape(len(last), -1, per_frame, *last.shape[2:])
            mean = by_frame.mean((2, 3), keepdims=True)
            references["last_frame_mse"][name] = float(np.square(following - last).mean())
            of_mean = following.reshape(by_frame.shape) - mean
            references["mean_mse"][name] = float(np.square(of_mean).mean())
    return splits, references
