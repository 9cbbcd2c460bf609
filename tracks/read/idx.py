"""IDX, the format of MNIST and Fashion-MNIST (Y. LeCun, C. Cortes, C. Burges)."""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path

import numpy as np

from tracks.read.array import LARGEST

KINDS = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
GZIP = b"\x1f\x8b"
MOST_AXES = 8


def read_bytes(path: str) -> bytes:
    """What the file holds; unpacked if it is packed by gzip, whatever its name.

    Raises:
        ValueError: no such file, or one that cannot be read or unpacked.
    """
    if not Path(path).is_file():
        raise ValueError(f"{path}: no such file")
    try:
        content = Path(path).read_bytes()
        return gzip.decompress(content) if content.startswith(GZIP) else content
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{path} cannot be read, cut short or damaged: {error}") from error


def read_idx(path: str) -> np.ndarray:
    """The array in an IDX file, packed by gzip or not.

    Two zero bytes, one for the kind of number, one for the number of axes; each axis's length as
    four bytes, largest first; then the numbers, row by row, largest byte first.

    Raises:
        ValueError: a file that is not of this form, cut short, too long, or of numbers that are
            not finite.
    """
    content = read_bytes(path)
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in KINDS or not content[3]:
        raise ValueError(
            f"{path} is no IDX file: it must begin with 00 00, a kind of number and the number of "
            f"axes (00 00 08 03: pictures of bytes), found {content[:4].hex(' ') or 'nothing'}"
        )
    kind, axes = np.dtype(KINDS[content[2]]), content[3]
    if axes > MOST_AXES:
        raise ValueError(f"{path} must have at most {MOST_AXES} axes, found {axes}")
    start = 4 + 4 * axes
    if len(content) < start:
        raise ValueError(f"{path} is cut short: the lengths of {axes} axes must follow its start")
    shape = tuple(np.frombuffer(content, ">u4", axes, 4).tolist())
    expected, found = start + kind.itemsize * math.prod(shape), len(content)
    if found != expected:
        raise ValueError(
            f"{path} is {'cut short' if found < expected else 'too long'}: an IDX file of shape "
            f"{shape} and {kind.itemsize} bytes a number must have {expected} bytes, found {found}"
        )
    values = np.frombuffer(content, kind, offset=start).reshape(shape)
    if not values.size:
        raise ValueError(f"{path} must hold numbers, found none: its shape is {shape}")
    if not np.isfinite(values).all() or np.abs(values.astype(np.float64)).max() > LARGEST:
        raise ValueError(f"{path} must hold finite numbers of at most {LARGEST:g} in size")
    return values
