"""Files and values that look right and would train on something else: one line each."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from omegaconf import DictConfig
from PIL import Image

from tracks.read.array import read_array, read_frames
from tracks.read.idx import read_idx
from training.build import build_track
from training.config import validated
from training.errors import UserError

Compose = Callable[..., DictConfig]
KINDS = {"u1": 8, "i1": 9, ">f4": 13, ">f8": 14}


def idx(path: Path, values: Any, kind: str = "u1") -> Path:
    array = np.asarray(values).astype(kind)
    sizes = struct.pack(f">{array.ndim}I", *array.shape)
    path.write_bytes(bytes([0, 0, KINDS[kind], array.ndim]) + sizes + array.tobytes())
    return path


def refused(composed: Compose, *overrides: str) -> str:
    with pytest.raises(UserError) as error:
        build_track(validated(composed(*overrides)))
    assert "\n" not in str(error.value)
    return str(error.value)


def test_pictures_of_sixteen_bits_are_not_cut(tmp_path: Path) -> None:
    pixels = np.arange(64, dtype=np.uint16).reshape(8, 8) * 1000
    Image.fromarray(pixels).save(tmp_path / "frame1.png")
    assert np.array_equal(read_frames(str(tmp_path))[0], pixels)


@pytest.mark.parametrize("value", [1e16, -1e300])
def test_numbers_whose_squares_are_infinite_are_refused(tmp_path: Path, value: float) -> None:
    np.save(tmp_path / "x.npy", np.array([[0.0, value]]))
    with pytest.raises(ValueError, match=r"at most 1e\+15 .* at \(0, 1\)"):
        read_array(str(tmp_path / "x.npy"), {2: "(time, channels)"})
    with pytest.raises(ValueError, match=r"at most 1e\+15"):
        read_idx(str(idx(tmp_path / "x.idx", [[0.0, value]], ">f8")))


def test_an_idx_file_without_numbers_or_of_many_axes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"found none: its shape is \(3, 0\)"):
        read_idx(str(idx(tmp_path / "x", np.zeros((3, 0)))))
    (tmp_path / "y").write_bytes(bytes([0, 0, 8, 65]) + struct.pack(">65I", *[1] * 65) + b"\0")
    with pytest.raises(ValueError, match="at most 8 axes, found 65"):
        read_idx(str(tmp_path / "y"))


def test_an_array_that_cannot_be_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", a=np.zeros(9))
    cut = (tmp_path / "x.npz").read_bytes()[:-30]
    (tmp_path / "x.npy").write_bytes(cut)
    with pytest.raises(ValueError, match=r"cannot be read as an \.npy file"):
        read_array(str(tmp_path / "x.npy"), {1: "(time,)"})


@pytest.mark.parametrize(
    ("labels", "kind", "told"),
    [
        ([0.5] * 40, ">f4", "whole numbers from 0"),
        ([-1] * 40, "i1", "found -1 to -1"),
    ],
)
def test_classes_that_are_none(
    composed: Compose, tmp_path: Path, labels: list[float], kind: str, told: str
) -> None:
    images = idx(tmp_path / "images", np.arange(40 * 16).reshape(40, 4, 4) % 251)
    classes = idx(tmp_path / "labels", labels, kind)
    given = (f"track.images={images}", f"track.labels={classes}", "track.task=classify")
    assert told in refused(composed, "track=image_digits", *given)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("labels=x", "labels is given without images"),
        ("test_images=x", "test_images is given without images"),
        ("test_labels=x", "test_labels is given without test_images"),
        ("images=[]", "images is an empty list"),
    ],
)
def test_files_that_would_not_be_read(composed: Compose, given: str, told: str) -> None:
    assert told in refused(composed, "track=image", "variant=dense_attention", f"track.{given}")


def test_a_test_split_that_was_trained_on(composed: Compose, tmp_path: Path) -> None:
    images = idx(tmp_path / "images", np.arange(40 * 16).reshape(40, 4, 4) % 251)
    given = (f"track.images={images}", f"track.test_images={images}")
    assert "which images names too" in refused(composed, "track=image", *given)


def test_an_exponent_of_no_file(composed: Compose) -> None:
    assert "of a file, and file is null" in refused(composed, "track=dynamics", "track.exponent=1")


def test_rounding_is_no_change(composed: Compose, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.full(900, 0.1))
    given = (f"track.file={tmp_path}/x.npy", "track.context=8", "track.horizon=4")
    assert "channel 1 of" in refused(composed, "track=dynamics", "track.observed=1", *given)


def test_an_outlier_in_training_is_one_too(composed: Compose, tmp_path: Path) -> None:
    values = np.sin(np.arange(300.0))
    values[50] = 1e8
    (tmp_path / "x.csv").write_text("v\n" + "\n".join(map(str, values)) + "\n")
    told = refused(composed, "track=series", f"track.csv={tmp_path}/x.csv", "track.columns=v")
    assert "value 51 of column 1 is 1e+08" in told


def test_a_code_for_no_value_is_one_too(composed: Compose, tmp_path: Path) -> None:
    values = np.sin(np.arange(300.0))
    values[100] = -9999
    (tmp_path / "x.csv").write_text("v\n" + "".join(f"{v}\n" for v in values))
    told = refused(composed, "track=series", f"track.csv={tmp_path}/x.csv", "track.columns=v")
    assert "value 101 of column 1 is -9999" in told


def test_time_stamps_too_large_to_tell_steps(composed: Compose, tmp_path: Path) -> None:
    rows = [(0, 1), *((1e308, 2), (-1e308, 3)), *((i, i % 7) for i in range(1, 300))]
    (tmp_path / "x.csv").write_text("t,v\n" + "".join(f"{t},{v}\n" for t, v in rows))
    given = (f"track.csv={tmp_path}/x.csv", "track.columns=v", "track.time=t")
    assert "expected a time stamp such as" in refused(composed, "track=series", *given)


def test_a_column_of_holes_is_not_filled(composed: Compose, tmp_path: Path) -> None:
    cells = [str(i) if i % 3 == 0 else "" for i in range(301)]
    rows = "".join(f"{i},{cell}\n" for i, cell in enumerate(cells))
    (tmp_path / "x.csv").write_text("t,v\n" + rows)
    given = (f"track.csv={tmp_path}/x.csv", "track.columns=v", "track.missing=interpolate")
    assert "column v: 200 of 301 cells have no value" in refused(composed, "track=series", *given)


def test_queries_spread_over_infinity(composed: Compose) -> None:
    with pytest.raises(UserError, match="spread"):
        build_track(validated(composed("track=recall", "track.spread=.inf")))
