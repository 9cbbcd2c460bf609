"""The bytes of a file, out of the archive that its name says it is."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile
import zlib
from pathlib import Path

SUFFIXES = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zip": "zip"}
UNREAD = (".tar", ".tgz", ".zst", ".7z", ".rar")  # nothing here opens these
BEGINS = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\x00": "xz", b"PK\x03\x04": "zip"}
DAMAGED = (
    *(OSError, EOFError, ValueError, zlib.error, lzma.LZMAError, zipfile.BadZipFile),
    *(RuntimeError, NotImplementedError),  # a password; an unknown method of a zip
)


def unpack(path: str | Path) -> bytes:
    """A file's bytes, unpacked where its name ends in .gz, .bz2, .xz, or .zip (of one file).

    Raises:
        ValueError: no such file; a file that is damaged, or is not what its name says.
    """
    path = Path(path)
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise ValueError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None
    if {suffix.lower() for suffix in path.suffixes} & set(UNREAD):
        raise ValueError(f"{path} is an archive that is not read: unpack it, or pack it as .gz")
    expected = SUFFIXES.get(path.suffix.lower(), "not packed")
    found = next((kind for begin, kind in BEGINS.items() if raw.startswith(begin)), "not packed")
    if found != expected:
        raise ValueError(
            f"{path} must be {expected}, as its name ends, and is {found}: unpack it, or name it "
            f"as what it is"
        )
    try:
        files = _unpacked(raw, found)
    except DAMAGED as error:
        raise ValueError(
            f"{path} is damaged, cut short or locked ({error}): make or fetch it anew"
        ) from None
    if len(files) != 1:
        raise ValueError(f"{path} must hold one file, and holds {len(files)}: unpack the one meant")
    return files[0]


def _unpacked(raw: bytes, kind: str) -> list[bytes]:
    if kind == "gzip":
        return [gzip.decompress(raw)]
    if kind == "bzip2":
        return [bz2.decompress(raw)]
    if kind == "xz":
        return [lzma.decompress(raw)]
    if kind == "zip":
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            return [
                archive.read(each)
                for each in archive.namelist()
                if not each.endswith("/") and not each.startswith("__MACOSX/")
            ]
    return [raw]
