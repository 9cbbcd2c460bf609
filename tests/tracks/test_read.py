"""Files of arrays: read as they are, or refused in one line that says what was found."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tracks.read.array import read_array, read_frames
from tracks.read.cifar import read_cifar
from tracks.read.idx import read_idx

CODES = {"u1": 8, "i1": 9, ">i2": 11, ">i4": 12, ">f4": 13, ">f8": 14}


def idx(values: np.ndarray, kind: str = "u1") -> bytes:
    """As the format's description has it."""
    lengths = struct.pack(f">{values.ndim}I", *values.shape)
    return bytes([0, 0, CODES[kind], values.ndim]) + lengths + values.astype(kind).tobytes()


PICTURES = np.arange(24).reshape(2, 3, 4)
GOOD = idx(PICTURES)


@pytest.mark.parametrize("kind", CODES)
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_idx_is_read(tmp_path: Path, kind: str, pack: Callable[[bytes], bytes]) -> None:
    file = tmp_path / "images-idx3-ubyte"
    file.write_bytes(pack(idx(PICTURES, kind)))
    np.testing.assert_array_equal(read_idx(str(file)), PICTURES)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no IDX file.*found nothing"),
        (b"\x89PNG....", "no IDX file.*found 89 50 4e 47"),
        (b"\0\0\x07" + GOOD[3:], "no IDX file.*found 00 00 07 03"),
        (GOOD[:7], "cut short: the lengths of 3 axes"),
        (GOOD[:-1], r"cut short.*\(2, 3, 4\).*must have 40 bytes, found 39"),
        (GOOD + b"\0", "too long.*must have 40 bytes, found 41"),
        (gzip.compress(GOOD, mtime=0)[:-9], "cannot be read, cut short or damaged"),
        (gzip.compress(GOOD, mtime=0)[:10] + b"\xff" * 20, "cannot be read, cut short or damaged"),
        (idx(np.array([1.0, np.nan]), ">f4"), "must hold finite numbers"),
    ],
)
def test_damaged_idx_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    file = tmp_path / "images"
    file.write_bytes(content)
    with pytest.raises(ValueError, match=said) as refused:
        read_idx(str(file))
    assert str(file) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_cifar_has_a_class_then_three_planes_of_pixels(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    pictures = rng.integers(256, size=(3, 32, 32, 3))
    content = bytearray()
    for label, picture in zip((9, 0, 4), pictures, strict=True):
        content.append(label)
        for channel in range(3):
            for row in range(32):
                content += bytes(picture[row, :, channel].tolist())
    file = tmp_path / "data_batch_1.bin"
    file.write_bytes(content)
    found, labels = read_cifar(str(file))
    np.testing.assert_array_equal(found, pictures)
    assert labels.tolist() == [9, 0, 4]

    for wrong, said in (
        (content[:-1], "multiple of 3073 bytes, found 9218"),
        (content + b"\0", "multiple of 3073 bytes, found 9220"),
        (b"", "found 0"),
        (content[:3073] + b"\x0a" + content[3074:], "class from 0 to 9, found 10 in record 2"),
    ):
        file.write_bytes(wrong)
        with pytest.raises(ValueError, match=said):
            read_cifar(str(file))


AXES = {1: "(time,)", 2: "(time, channels)"}


def test_npy_is_read_as_float64(tmp_path: Path) -> None:
    file = tmp_path / "x.npy"
    np.save(file, PICTURES[0].astype(np.float32))
    found = read_array(str(file), AXES)
    np.testing.assert_array_equal(found, PICTURES[0])
    assert found.dtype == np.float64


def test_no_pickle_is_opened(tmp_path: Path) -> None:
    opened = tmp_path / "opened"

    class Trap:
        def __reduce__(self) -> tuple[object, tuple[Path]]:
            return Path.touch, (opened,)

    file = tmp_path / "x.npy"
    np.save(file, np.array([Trap()], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"cannot be read as an \.npy file of numbers"):
        read_array(str(file), AXES)
    assert not opened.exists()


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (
            np.zeros((2, 2, 2)),
            r"\(time,\) or \(time, channels\), not empty, found shape \(2, 2, 2\)",
        ),
        (np.zeros((0, 3)), r"not empty, found shape \(0, 3\)"),
        (np.array([1.0, np.nan]), r"finite numbers, found nan at \(1,\)"),
        (np.array([1j]), "real numbers, found complex128"),
        (np.array(["a"]), "real numbers, found <U1"),
    ],
)
def test_npy_of_something_else_is_refused(tmp_path: Path, values: np.ndarray, said: str) -> None:
    np.save(tmp_path / "x.npy", values)
    with pytest.raises(ValueError, match=said):
        read_array(str(tmp_path / "x.npy"), AXES)


def test_npy_that_is_none_or_cut_short_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.npy"
    np.save(file, np.arange(10.0))
    whole = file.read_bytes()
    for wrong in (b"", b"1,2\n", whole[:-8], whole[:20], whole + b"\0" * 8):
        file.write_bytes(wrong)
        with pytest.raises(ValueError, match=r"cannot be read as an \.npy file") as refused:
            read_array(str(file), AXES)
        assert "\n" not in str(refused.value)
    np.savez(tmp_path / "x.npz", a=np.zeros(2))
    with pytest.raises(ValueError, match="archive of several"):
        read_array(str(tmp_path / "x.npz"), AXES)
    with pytest.raises(ValueError, match=r"y\.npy: no such file"):
        read_array(str(tmp_path / "y.npy"), AXES)


@pytest.mark.parametrize("kind", ["npy", "png"])
def test_frames_come_by_number(tmp_path: Path, kind: str) -> None:
    rng = np.random.default_rng(0)
    frames = rng.integers(256, size=(12, 4, 6)).astype(np.uint8)
    for i, frame in enumerate(frames):
        if kind == "npy":
            np.save(tmp_path / f"frame{i}.npy", frame)
        else:
            Image.fromarray(frame).save(tmp_path / f"frame{i}.png")
    (tmp_path / "notes.txt").write_text("frames of a camera")
    np.testing.assert_array_equal(read_frames(str(tmp_path)), frames)


def test_coloured_frames_are_read_in_grey(tmp_path: Path) -> None:
    Image.new("RGB", (5, 3), (200, 100, 0)).save(tmp_path / "a.png")
    found = read_frames(str(tmp_path))
    assert found.shape == (1, 3, 5)
    assert (abs(found - (0.299 * 200 + 0.587 * 100)) <= 1).all()  # ITU-R 601-2


def test_folders_that_are_no_frames_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"of one kind.*0 \.npy, 0 \.png"):
        read_frames(str(tmp_path))
    with pytest.raises(ValueError, match="no such folder"):
        read_frames(str(tmp_path / "none"))
    np.save(tmp_path / "1.npy", np.zeros((4, 4)))
    np.save(tmp_path / "2.npy", np.zeros((4, 5)))
    with pytest.raises(ValueError, match=r"2\.npy must be as large as 1\.npy, \(4, 4\)"):
        read_frames(str(tmp_path))
    (tmp_path / "3.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    with pytest.raises(ValueError, match=r"of one kind.*2 \.npy, 1 \.png"):
        read_frames(str(tmp_path))
    for file in tmp_path.glob("*.npy"):
        file.unlink()
    with pytest.raises(ValueError, match=r"3\.png cannot be read as a picture"):
        read_frames(str(tmp_path))
