"""Pictures: what is hidden, what is asked, and that no split sees a pixel of another."""

from __future__ import annotations

import gzip
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from omegaconf import DictConfig
from sklearn.datasets import load_digits

from tests.tracks.test_read import idx
from tests.tracks.test_sequence import streams
from tracks.image import Image, patches
from tracks.pixels import masked, tokens
from training.build import build
from training.config import validated
from training.probes.causal import ignores_later_steps


def test_a_token_is_a_square_of_pixels() -> None:
    pictures = np.random.default_rng(0).normal(size=(2, 3, 4, 6, 5))  # n, T, H, W, C
    found, axes = tokens(pictures, 2)
    assert axes == (3, 2, 3)
    assert found.shape == (2, 18, 4, 5)
    for frame in range(3):
        for row in range(4):
            for column in range(6):
                token = (frame * 2 + row // 2) * 3 + column // 2
                pixel = (row % 2) * 2 + column % 2
                np.testing.assert_array_equal(
                    found[:, token, pixel], pictures[:, frame, row, column]
                )
    with pytest.raises(ValueError, match="token_side is 4, must divide the pictures' 4 × 6"):
        tokens(pictures, 4)


def test_hidden_pixels_are_asked_for_and_not_seen() -> None:
    pictures = np.random.default_rng(1).normal(3.0, 2.0, size=(5, 6, 4, 2))
    split, of_mean = masked(np.random.default_rng(0), pictures, 0.7)
    errors = []
    for picture, inputs, targets in zip(pictures, split.inputs, split.targets, strict=True):
        asked = [(i, j) for i in range(6) for j in range(4) if targets[i, j, -1] == 1]
        assert len(asked) == round(0.7 * 24)
        seen = [(i, j) for i in range(6) for j in range(4) if (i, j) not in asked]
        mean = sum(picture[at] for at in seen) / len(seen)  # (C,)
        for at in asked:
            assert inputs[at].tolist() == [0, 0, 1]
        for at in seen:
            np.testing.assert_allclose(inputs[at], [*(picture[at] - mean), 0], atol=1e-6)
        for at in [*asked, *seen]:
            np.testing.assert_allclose(targets[at][:-1], picture[at] - mean, atol=1e-6)
        errors.append(np.mean([(picture[at] - mean) ** 2 for at in asked]))
    assert of_mean == pytest.approx(np.mean(errors))


def test_what_says_the_mean_scores_as_the_reference() -> None:
    track = Image(streams(), source="digits", rows=50, token_side=1)
    for name in ("validation", "test"):
        targets = track.splits[name].targets
        said = track.scores(torch.zeros_like(targets[..., :-1]), targets)
        assert said["mse"].mean().item() == pytest.approx(track.references["mean_mse"][name])


def test_loss_looks_at_what_is_asked_alone() -> None:
    track = Image(streams(), source="digits", rows=4, token_side=1)
    targets = track.train.targets
    off = torch.where(targets[..., -1:] == 1, 0.5, 7.0)
    said = targets[..., :-1] + off
    torch.testing.assert_close(track.loss(said, targets), torch.full((4,), 0.25))
    torch.testing.assert_close(track.scores(said, targets)["mae"], torch.full((4,), 0.5))


@pytest.mark.parametrize("size", [5, 16, 32])
def test_no_patch_touches_one_of_another_split(size: int) -> None:
    """Pictures whose values are where they stand: a patch says what it has read."""
    where = [np.arange(120 * 300).reshape(120, 300), np.arange(36000, 72000).reshape(120, 300)]
    rngs = {name: streams()(name) for name in ("train", "validation", "test")}
    found, _ = patches(rngs, where, size, 200, 0.3, 0.35)
    read: dict[str, set[tuple[int, int, int]]] = {}
    for name, values in found.items():
        assert values.shape[1:] == (size, size, 1)
        for patch in values[..., 0]:  # whole squares
            assert (np.diff(patch, axis=0) == 300).all()
            assert (np.diff(patch, axis=1) == 1).all()
        read[name] = {(v // 36000, v % 36000 // 300, v % 300) for v in values.ravel().tolist()}
    assert len(read["test"]) == found["test"].size  # test patches share nothing with each other
    assert len(read["validation"]) == found["validation"].size
    assert {i for i, _, _ in read["train"]} == {0, 1}
    near = [(down, right) for down in (-1, 0, 1) for right in (-1, 0, 1)]
    for one, other in (("test", "train"), ("test", "validation"), ("validation", "train")):
        around = {(i, y + down, x + right) for i, y, x in read[one] for down, right in near}
        assert not around & read[other]


def test_photographs_give_the_sizes_that_the_yaml_has() -> None:
    track = Image(streams(), rows=101)
    assert track.axes == (8, 8)
    assert [len(split) for split in track.splits.values()] == [101, 260, 572]
    assert track.train.inputs.shape == (101, 64, 4, 2)
    other = Image(streams(1), rows=101)
    assert not other.test.inputs.equal(track.test.inputs)


def test_digits_keep_their_order_and_their_class() -> None:
    track = Image(streams(), task="classify", source="digits", rows=None, token_side=1)
    digits = load_digits()
    parts = [track.splits[name] for name in ("train", "validation", "test")]
    assert [len(part) for part in parts] == [988, 270, 539]
    pixels = torch.cat([part.inputs for part in parts]).reshape(1797, 8, 8).double()
    labels = torch.cat([part.targets for part in parts])
    assert labels.tolist() == digits.target.tolist()
    trained_on = digits.images[:988]
    expected = (digits.images - trained_on.mean()) / trained_on.std()
    np.testing.assert_allclose(pixels, expected, atol=1e-5)


def test_majority_is_what_the_frequencies_of_training_say() -> None:
    track = Image(streams(), task="classify", source="digits", rows=None)
    digits = load_digits().target.tolist()
    counts = [digits[:988].count(k) + 1 for k in range(10)]
    surprise = [-math.log(counts[k] / sum(counts)) for k in digits[-539:]]
    found = track.references["majority_cross_entropy"]["test"]
    assert found == pytest.approx(sum(surprise) / len(surprise))


def test_raster_is_the_grid_row_by_row_in_time() -> None:
    grid = Image(streams(), task="classify", source="digits", rows=None, token_side=1)
    raster = Image(
        streams(), task="classify", source="digits", rows=None, token_side=1, order="raster"
    )
    assert (grid.axes, grid.time_axis) == ((8, 8), None)
    assert (raster.axes, raster.time_axis) == ((64,), 0)
    assert raster.train.inputs.equal(grid.train.inputs)
    outputs = torch.randn(3, 64, 10)
    assert raster.readout(outputs).equal(outputs[:, -1])
    assert grid.readout(outputs).equal(outputs.mean(1))
    assert Image.metric == "mse"  # the class is what it was
    assert (grid.metric, Image.time_axis) == ("cross_entropy", None)


@pytest.mark.parametrize("variant", ["baseline", "idea"])
def test_a_raster_is_causal_pixel_by_pixel(
    composed: Callable[..., DictConfig], variant: str
) -> None:
    track, network, _, _ = build(validated(composed("track=image_raster", f"variant={variant}")))
    assert ignores_later_steps(network, track)


@pytest.fixture
def fashion(tmp_path: Path) -> dict[str, Any]:
    """Four IDX files as Fashion-MNIST has them, smaller; two of them packed."""
    rng = np.random.default_rng(0)
    made = {
        "images": rng.integers(256, size=(20, 6, 6)),
        "labels": rng.integers(7, size=20),
        "test_images": rng.integers(256, size=(5, 6, 6)),
        "test_labels": rng.integers(7, size=5),
    }
    for name, values in made.items():
        content = idx(values)
        (tmp_path / name).write_bytes(gzip.compress(content) if "test" in name else content)
    return made | {"paths": {name: str(tmp_path / name) for name in made}}


def test_pictures_are_read_by_path_and_keep_a_published_test_split(fashion: dict[str, Any]) -> None:
    paths = fashion["paths"]
    track = Image(streams(), task="classify", rows=None, token_side=1, **paths)
    assert [len(split) for split in track.splits.values()] == [17, 3, 5]
    assert track.train.targets.tolist() == fashion["labels"][:17].tolist()
    assert track.test.targets.tolist() == fashion["test_labels"].tolist()
    first = fashion["images"][:17]
    expected = (fashion["test_images"] - first.mean()) / first.std()
    np.testing.assert_allclose(track.test.inputs.reshape(5, 6, 6), expected, atol=1e-5)

    paths.pop("test_images"), paths.pop("test_labels")
    paths |= {"images": [paths["images"]] * 2, "labels": [paths["labels"]] * 2}
    track = Image(streams(), task="classify", rows=None, **paths)
    assert [len(split) for split in track.splits.values()] == [22, 6, 12]
    del paths["labels"]
    track = Image(streams(), rows=30, **paths)  # masked, without classes
    assert [len(split) for split in track.splits.values()] == [30, 6, 12]


def test_cifar_is_read_in_colour(tmp_path: Path) -> None:
    content = np.random.default_rng(0).integers(256, size=(8, 3073)).astype(np.uint8)
    content[:, 0] = [1, 2, 3, 4, 5, 6, 7, 9]
    (tmp_path / "data_batch_1.bin").write_bytes(content.tobytes())
    file = str(tmp_path / "data_batch_1.bin")
    track = Image(streams(), task="classify", images=file, rows=None, validation=0.25, test=0.25)
    assert track.train.inputs.shape == (4, 256, 4, 3)
    assert track.test.targets.tolist() == [7, 9]
    assert track.head(16).out_features == 10
    hidden = Image(streams(), images=file, rows=5, validation=0.25, test=0.25)
    assert hidden.train.targets.shape == (5, 256, 4, 4)  # a pixel is hidden in all its colours


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"task": "classify"}, "needs classes"),
        ({"hidden": 0.0}, "hidden is 0.0"),
        ({"hidden": 1.0}, "hidden is 1.0"),
        ({"hidden": float("nan")}, "hidden is nan"),
        ({"token_side": 16}, "token_side is 16, which makes one token"),
        ({"rows": None}, "rows is null"),
        ({"rows": 0}, "rows is 0"),
        ({"token_side": 3}, "token_side is 3, must divide the pictures' 16 × 16"),
        ({"size": 200}, "size is 200, but the validation region"),
        ({"size": 1}, "size is 1"),
        ({"validation": 0.5, "test": 0.5}, "sum below 1"),
        ({"images": "/no/such/file"}, "/no/such/file: no such file"),
    ],
)
def test_values_that_make_no_sense_are_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Image(streams(), **wrong)


def test_files_that_do_not_fit_are_refused(fashion: dict[str, Any], tmp_path: Path) -> None:
    paths = fashion["paths"]
    odd = tmp_path / "odd"
    odd.write_bytes(idx(np.ones((3, 4, 4))))
    flat = tmp_path / "flat"
    flat.write_bytes(idx(np.full((20, 6, 6), 9)))
    for wrong, said in (
        ({"labels": paths["test_labels"]}, "a class for each of 20 pictures, found 5"),
        ({"images": paths["labels"]}, r"must hold pictures \(n, height, width\), not \(20,\)"),
        ({"images": [paths["images"], str(odd)]}, r"odd must hold pictures of \(6, 6, 1\)"),
        ({"test_images": str(odd), "test_labels": None}, "test_images must be pictures as images"),
        ({"images": str(flat)}, "all pixels of training are 9, must differ"),
    ):
        with pytest.raises(ValueError, match=said):
            Image(streams(), task="classify", rows=None, **{**paths, **wrong})
