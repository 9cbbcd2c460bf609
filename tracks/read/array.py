"""Arrays in .npy files, and folders of frames."""

from __future__ import annotations

import re
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

LARGEST = 1e15


def read_array(path: str, axes: dict[int, str]) -> np.ndarray:
    """The numbers in an .npy file, float64; no pickle is ever opened.

    Args:
        axes: what it may be, by its number of axes: {2: "(time, channels)"}.
    Raises:
        ValueError: no such file, one that is not one whole .npy file, of another number of axes, or
            empty, or of what are not finite real numbers.
    """
    if not Path(path).is_file():
        raise ValueError(f"{path}: no such file")
    try:
        with open(path, "rb") as file:
            values = np.load(file, allow_pickle=False)
            if isinstance(values, np.ndarray) and (rest := len(file.read())):
                raise ValueError(f"{rest} bytes follow the array's end")
    except (ValueError, OSError, EOFError, MemoryError, BadZipFile) as error:
        said = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"{path} cannot be read as an .npy file of numbers: {said}") from error
    if not isinstance(values, np.ndarray):
        raise ValueError(f"{path} must be one .npy array, found an archive of several (.npz)")
    if values.dtype.kind not in "biuf":
        raise ValueError(f"{path} must hold real numbers, found {values.dtype}")
    if values.ndim not in axes or not values.size:
        wanted = " or ".join(axes.values())
        raise ValueError(f"{path} must be an array {wanted}, not empty, found shape {values.shape}")
    values = values.astype(np.float64)
    if not np.isfinite(values).all():
        at = tuple(np.argwhere(~np.isfinite(values))[0].tolist())
        raise ValueError(f"{path} must hold finite numbers, found {values[at]} at {at}")
    if np.abs(values).max() > LARGEST:
        at = tuple(np.argwhere(np.abs(values) > LARGEST)[0].tolist())
        raise ValueError(
            f"{path} must hold numbers of at most {LARGEST:g} in size, whose squares float32 still "
            f"holds, found {values[at]:g} at {at}: give it in larger units"
        )
    return values


def read_frames(path: str) -> np.ndarray:
    """The frames in a folder, (time, height, width) float64, in the order of their names.

    All of them are .npy arrays (height, width), or pictures, which are read in grey. Numbers in
    the names count as such: frame9 comes before frame10.

    Raises:
        ValueError: no such folder, one without frames or with both kinds, a frame that cannot be
            read, or is of another size than the first.
    """
    if not Path(path).is_dir():
        raise ValueError(f"{path}: no such folder")
    files = {kind: sorted(Path(path).glob(f"*.{kind}"), key=_by_number) for kind in ("npy", "png")}
    found = [each for each in files.values() if each]
    if len(found) != 1:
        counts = ", ".join(f"{len(each)} .{kind}" for kind, each in files.items())
        raise ValueError(f"{path} must hold frames of one kind, .npy or .png, found {counts}")
    frames = [_frame(str(file)) for file in found[0]]
    for file, frame in zip(found[0], frames, strict=True):
        if frame.shape != frames[0].shape:
            raise ValueError(
                f"{file} must be as large as {found[0][0].name}, {frames[0].shape}, found "
                f"{frame.shape}"
            )
    return np.stack(frames)


def _by_number(file: Path) -> list[tuple[int, str]]:
    return [(int(n or 0), text) for n, text in re.findall(r"(\d+)|(\D+)", file.stem)]


def _frame(path: str) -> np.ndarray:
    if path.endswith(".npy"):
        return read_array(path, {2: "(height, width)"})
    from PIL import Image

    try:
        with Image.open(path) as picture:
            if picture.mode.startswith(
                ("I", "F")
            ):  # grey of 16 or 32 bits, which L would cut at 255
                return np.asarray(picture, dtype=np.float64)
            return np.asarray(picture.convert("L"), dtype=np.float64)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise ValueError(f"{path} cannot be read as a picture: {error}") from error
