"""JSON that anyone may have written: read, validated, never executed."""

from __future__ import annotations

import errno
import os
import re
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

MALFORMED = (msgspec.DecodeError, RecursionError)  # how damaged or hostile JSON shows itself
Read = TypeVar("Read", bound="Part")
NotNegative = Annotated[float, Meta(ge=0)]
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class Unreadable(Exception):
    """A file of a run that cannot be used; the text says why."""


class Part(Struct):
    """Fields that a later version adds are ignored; a string or a NaN is never a number."""


def content(path: str) -> bytes:
    """What a file holds; raises `Unreadable` where it cannot be read."""
    try:
        with open(regular(path), "rb", buffering=0) as file:
            return file.read()
    except OSError as error:
        raise Unreadable(error.strerror or str(error)) from error


def decoded(kind: type[Read], text: bytes) -> Read:
    """Validated JSON; raises `Unreadable` where it is none, or a field is wrong."""
    try:
        return msgspec.json.decode(text, type=kind)
    except MALFORMED as error:
        raise Unreadable(what_is_wrong(error)) from error


def parsed(text: bytes) -> Any:
    """JSON as plain values; raises `Unreadable` where it is none."""
    try:
        return msgspec.json.decode(text)
    except MALFORMED as error:
        raise Unreadable(what_is_wrong(error)) from error


def converted(kind: type[Read], value: Any) -> Read:
    """Plain values, validated; raises `Unreadable` where a field is wrong."""
    try:
        return msgspec.convert(value, kind)
    except MALFORMED as error:
        raise Unreadable(what_is_wrong(error)) from error


def regular(path: str) -> str:
    """The path, if a regular file is there: a pipe or a device would be read for ever.

    Raises:
        OSError: it is none.
    """
    if not os.path.isfile(path):
        raise OSError(errno.EINVAL, "not a regular file")
    return path


def what_is_wrong(error: Exception) -> str:
    """What is wrong with a file, in one line: the field and why."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if not isinstance(error, msgspec.ValidationError):
        return f"no valid JSON: {str(error).removeprefix('JSON is malformed: ')}"
    found = re.fullmatch(r"(.*) - at `\$\.?(.*)`", str(error), re.DOTALL)
    text, field = found.groups() if found else (str(error), "")
    if missing := re.fullmatch(r"Object missing required field `(.+)`", text):
        field, text = f"{field}.{missing[1]}".strip("."), "required, and not there"
    return f"{field.replace('[...]', '')}: {text}" if field else text
