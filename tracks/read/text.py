"""Text: a file, or the help texts that every Python has."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def bytes_of(path: str) -> bytes:
    """A file as it stands.

    Raises:
        ValueError: it cannot be read.
    """
    if not Path(path).is_file():
        raise ValueError(f"text is {path}, no such file: give the path of a text file")
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ValueError(f"text is {path}, which cannot be read: {error.strerror}") from error


def text_of(path: str) -> str:
    """A file in UTF-8, line ends as they stand there, a byte order mark left out.

    Raises:
        ValueError: it cannot be read, or is not UTF-8.
    """
    found = bytes_of(path)
    try:
        return found.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = found[: error.start].count(b"\n") + 1
        raise ValueError(
            f"text is {path}, which must be UTF-8: byte {error.start}, in line {line}, is "
            f"0x{found[error.start]:02x}, {error.reason}: convert it, or say units=bytes"
        ) from error


def help_texts() -> str:
    """The interpreter's own help, about 0.4 MB of English; another Python has another.

    `pydoc_data.topics`, by name. Many topics repeat whole sections of others: each paragraph stands
    where it comes first.
    """
    from pydoc_data.topics import topics

    together = "\n\n".join(topics[name] for name in sorted(topics))
    return "\n\n".join({each.strip(): each for each in together.split("\n\n")}.values())


def characters(text: str) -> np.ndarray:
    """Their code points, (T,)."""
    return np.frombuffer(text.encode("utf-32-le"), np.uint32).astype(np.int64)
