"""Clips: how shapes move in them, what is asked of them, and that time is cut between frames."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from omegaconf import DictConfig
from sklearn.datasets import load_digits

from tests.tracks.test_sequence import streams
from tracks.pixels import tokens
from tracks.video import Video, moving
from training.build import build
from training.config import validated
from training.errors import UserError
from training.probes.causal import ignores_later_steps

FEW: dict[str, Any] = {"train": 12, "validation": 8, "test": 9}


def test_shapes_move_a_pixel_a_frame_and_come_in_again() -> None:
    """Of one shape alone: some shape, start and move of eight explain the clip, by rolling."""
    shapes = np.random.default_rng(0).uniform(1, 2, size=(3, 2, 4))
    clips = moving(np.random.default_rng(1), shapes, 40, 3, 6, 1)
    moves = set()
    for clip in clips:
        found = []
        for k in range(3):
            canvas = np.zeros((6, 6))
            canvas[:2, :4] = shapes[k]
            for down in (-1, 0, 1):
                for right in (-1, 0, 1):
                    for y in range(6):
                        for x in range(6):
                            frames = [
                                np.roll(canvas, (y + t * down, x + t * right), (0, 1))
                                for t in range(3)
                            ]
                            if np.array_equal(frames, clip):
                                found.append((k, (down, right)))
        assert len(found) == 1
        moves.add(found[0][1])
    assert len(moves) == 8
    assert (0, 0) not in moves


def test_the_brighter_of_two_shapes_is_seen() -> None:
    shapes = np.stack([np.full((2, 2), 1.0), np.full((2, 2), 5.0)])
    clips = moving(np.random.default_rng(0), shapes, 200, 4, 3, 2)
    for clip in clips:
        bright = {int((frame == 5).sum()) for frame in clip}
        dim = {int((frame >= 1).sum()) for frame in clip}
        assert bright in ({0}, {4}) or min(bright) >= 4  # a bright shape is never covered
        assert min(dim) >= 4


def test_next_frames_are_asked_for_after_the_second() -> None:
    track = Video(streams(), task="next_frame", token_side=2, **FEW)
    clips = moving(streams()("test"), load_digits().images[-539:], 9, 5, 8, 1)
    cut, axes = tokens(clips[..., None], 2)
    assert axes == (5, 4, 4)
    assert track.axes == (4, 4, 4)
    frames = cut.reshape(9, 5, 16, 4, 1) / load_digits().images[:988].std()
    for clip, inputs, targets in zip(frames, track.test.inputs, track.test.targets, strict=True):
        for t in range(4):
            here = slice(16 * t, 16 * (t + 1))
            np.testing.assert_allclose(inputs[here, :, :1], clip[t], atol=1e-6)
            np.testing.assert_allclose(targets[here, :, :1], clip[t + 1], atol=1e-6)
            assert (targets[here, :, 1] == (t > 0)).all()
    for of, said in (
        ("last_frame_mse", frames[:, 1:4]),
        ("mean_mse", frames[:, 1:4].mean((2, 3), keepdims=True)),
    ):
        error = np.mean((frames[:, 2:] - said) ** 2)
        assert track.references[of]["test"] == pytest.approx(error)


def test_each_split_has_digits_of_its_own() -> None:
    images = load_digits().images
    bounds = {"train": (0, 988), "validation": (988, 1258), "test": (1258, 1797)}
    # rolled back to where it is whole, a frame is one of the split's own digits
    track = Video(streams(), task="next_frame", token_side=1, **FEW)
    for name, (begin, end) in bounds.items():
        own = {image.astype(int).tobytes() for image in images[begin:end]}
        first = track.splits[name].inputs[:, :64, 0, 0] * images[:988].std()
        for frame in first.round().int().numpy().reshape(-1, 8, 8):
            rolled = (np.roll(frame, (y, x), (0, 1)) for y in range(8) for x in range(8))
            assert any(each.astype(int).tobytes() in own for each in rolled)


def test_masked_clips_are_asked_for_what_is_hidden() -> None:
    track = Video(streams(), **FEW)
    assert track.train.inputs.shape == (12, 64, 4, 2)
    asked = track.train.targets[..., -1]
    assert (asked.sum((1, 2)) == round(0.7 * 256)).all()
    assert (track.train.inputs[..., 0][asked == 1] == 0).all()
    assert not track.requires_causal


@pytest.mark.parametrize("variant", ["baseline", "idea"])
def test_time_is_cut_between_frames(composed: Callable[..., DictConfig], variant: str) -> None:
    """Tokens of one frame see each other, none sees a later frame."""
    small = ("track.train=8", "track.validation=8", "track.test=8", f"variant={variant}")
    track, network, _, _ = build(validated(composed("track=video_next", *small)))
    assert track.requires_causal
    assert ignores_later_steps(network, track)
    inputs = track.validation.inputs[:1]
    frame = torch.arange(64) // 16
    for token in (16, 31):  # the first and the last of the second frame
        changed = inputs.clone()
        changed[:, token] += 1
        moved = (network(changed) - network(inputs)).abs().amax((0, 2)) > 1e-6
        assert moved.equal(frame >= 1)


def test_an_arm_that_looks_ahead_is_refused_the_next_frame(
    composed: Callable[..., DictConfig],
) -> None:
    from training.check import check

    small = ("track.train=8", "track.validation=8", "track.test=8", "variant=tensor_mixer")
    with pytest.raises(UserError, match="Video requires mixers that are causal"):
        check(validated(composed("track=video_next", *small)))
    check(validated(composed("track=video", *small)))


def where_it_is(frames: int, height: int, width: int) -> np.ndarray:
    """A video whose pixels say where and when they are."""
    return np.arange(frames * height * width, dtype=float).reshape(frames, height, width)


@pytest.mark.parametrize("kind", ["one", "several", "folder"])
def test_a_file_is_split_in_time_or_by_clip(tmp_path: Path, kind: str) -> None:
    video = where_it_is(120, 6, 9)
    path = tmp_path / "video.npy"
    if kind == "folder":
        path = tmp_path / "frames"
        path.mkdir()
        for i, frame in enumerate(video):
            np.save(path / f"{i}.npy", frame)
    else:
        np.save(path, video if kind == "one" else video.reshape(20, 6, 6, 9))
    track = Video(streams(), "next_frame", str(path), frames=3, size=4, token_side=1, train=30)
    scale = video[:66].std()
    assert [len(split) for split in track.splits.values()] == (
        [30, 3, 6] if kind == "several" else [30, 4, 9]
    )
    bounds = {"train": (0, 66), "validation": (66, 84), "test": (84, 120)}
    for name, (begin, end) in bounds.items():
        inputs = track.splits[name].inputs[..., 0, 0].double() * scale
        values = inputs.round().reshape(-1, 3, 4, 4).numpy()
        when = values // 54
        assert (np.diff(when, axis=1) == 1).all()  # frames follow one another
        assert (np.diff(values, axis=3) == 1).all()  # squares of pixels side by side
        assert (np.diff(values, axis=2) == 9).all()
        assert when.min() >= begin
        assert when.max() < end - 1  # and its next frame belongs to the split, too
        if name != "train":
            assert len(np.unique(when)) == 3 * len(when)  # no frame twice
        if kind == "several":
            assert (when // 6 == when[:, :1, :1, :1] // 6).all()  # within one clip


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"frames": 1}, "frames 1"),
        ({"train": 0}, "train is 0"),
        ({"digits": 0}, "digits 0"),
        ({"hidden": 1.0}, "hidden is 1.0"),
        ({"token_side": 3}, "token_side is 3"),
        ({"test_share": 1.0}, "sum below 1"),
        ({"size": 6}, "size is 6, must be at least the 8 pixels of a digit"),
        ({"file": "/no/such.npy"}, "/no/such.npy: no such file"),
    ],
)
def test_values_that_make_no_sense_are_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Video(streams(), **{**FEW, **wrong})


def test_files_that_are_too_small_are_refused(tmp_path: Path) -> None:
    for shape, said in (
        ((20, 8, 8), "validation gets 1 stretches of 3 frames of 8 × 8"),
        ((100, 7, 8), "train gets 1 stretches of 55 frames of 7 × 8"),
        ((2, 50, 8, 8), "validation gets 0 stretches"),
    ):
        np.save(tmp_path / "v.npy", np.random.default_rng(0).normal(size=shape))
        with pytest.raises(ValueError, match=said):
            Video(streams(), file=str(tmp_path / "v.npy"), **FEW)
