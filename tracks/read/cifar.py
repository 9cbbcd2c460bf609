"""CIFAR-10's binary version (Krizhevsky 2009)."""

from __future__ import annotations

import numpy as np

from tracks.read.idx import read_bytes

RECORD = 1 + 3 * 32 * 32  # a byte that says the class, then the red, green and blue pixels


def read_cifar(path: str) -> tuple[np.ndarray, np.ndarray]:
    """Pictures (n, 32, 32, 3) and classes (n,), both of bytes.

    Raises:
        ValueError: a file that is no whole number of records, or has a class above 9.
    """
    content = np.frombuffer(read_bytes(path), np.uint8)
    if not len(content) or len(content) % RECORD:
        raise ValueError(
            f"{path} is cut short or no file of CIFAR-10's binary version: it must have a multiple "
            f"of {RECORD} bytes, found {len(content)}"
        )
    records = content.reshape(-1, RECORD)
    labels = records[:, 0]
    if labels.max() > 9:
        at = int((labels > 9).argmax())
        raise ValueError(
            f"{path} is no file of CIFAR-10's binary version: each record of {RECORD} bytes must "
            f"begin with a class from 0 to 9, found {labels[at]} in record {at + 1}"
        )
    return records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), labels
