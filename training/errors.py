"""A user's mistake is told in one line, with exit status 2."""

from __future__ import annotations

import difflib
import errno
import os
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError


class UserError(Exception):
    """Something that the user can mend: the message names it, what was expected and found."""


TRACEBACK = os.environ.get("HYDRA_FULL_ERROR") == "1"  # asked for by whoever debugs


def full_hydra_errors() -> None:
    """Have Hydra raise its errors, instead of printing them its own way."""
    os.environ["HYDRA_FULL_ERROR"] = "1"


_started = False


def started() -> None:
    """From here on, what goes wrong is no longer a matter of what was typed, or of the YAMLs."""
    global _started
    _started = True


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn a user's mistake, ours or Hydra's to find, into one line on stderr and exit status 2."""
    try:
        yield
    except (UserError, HydraException, OmegaConfBaseException, YAMLError) as error:
        _tell(error)
    except (ValueError, OSError, RecursionError) as error:  # while composing: of Hydra's own
        if _started and not _is_full(error):
            raise
        _tell(error)
    except KeyboardInterrupt:
        print("interrupted; what had finished is kept", file=sys.stderr)
        raise SystemExit(130) from None


def _tell(error: Exception) -> NoReturn:
    if TRACEBACK:
        raise error
    print(f"error: {readable(error)}", file=sys.stderr)
    raise SystemExit(2) from None


def _is_full(error: Exception) -> bool:
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def readable(error: Exception) -> str:
    """An error's message in one line; where Hydra only says `struct`, what that means."""
    if _is_full(error):
        return "the disk is full: make room, and give the command again; what had finished is kept"
    text = " ".join(str(error).split())
    if isinstance(error, OverrideParseException):
        return f"{error.override} is no override: {text} (quote what the shell would take)"
    if isinstance(error, MissingConfigException) and error.missing_cfg_file and error.options:
        return _no_such_yaml(text, error.missing_cfg_file, list(error.options))
    if isinstance(error, RecursionError):
        return (
            f"conf/{_read_last(error)}.yaml: its defaults lead back to itself: take that line out"
        )
    if isinstance(error, UnicodeDecodeError):
        return f"conf/{_read_last(error)}.yaml must be text in UTF-8, and is not: {text}"
    merged = re.match(r"Error merging override (([^=]+)=.*)", text)
    if merged:
        key = merged[2].lstrip("+")
        value = merged[1].partition("=")[2]
        return (
            f"{merged[1]}: {key} is of another kind, into which this cannot be merged; to replace "
            f"it say ~{key} +{key}={value}, or write a YAML of your own"
        )
    unknown = re.match(r"Could not override '([^']+)'", text)
    if unknown:
        return _no_such_key(unknown[1], error.__cause__)
    return text.partition(" Config search path:")[0]


def _read_last(error: Exception) -> str:
    """The YAML that Hydra was reading, `variant/mine`: it does not say, but its frames know."""
    last = "…"
    for frame, _ in traceback.walk_tb(error.__traceback__):
        parent: Any = frame.f_locals.get("parent")
        if hasattr(parent, "get_config_path"):
            last = parent.get_config_path()
        last = frame.f_locals.get("config_path") or last
    return last


def _no_such_yaml(text: str, file: str, options: list[str]) -> str:
    """Of a group's choice that is not there, typed or in the defaults of another YAML."""
    group, _, name = file.rpartition("/")
    said = re.match(r"In '([^']+)'", text)
    typed = not said or said[1] in ("config", "hydra/config")
    where = "" if typed else f"conf/{said[1]}.yaml: "  # type: ignore[index]
    return f"{where}{group}={name}: no such {group}; {no_such(name, options)}"


def _no_such_key(key: str, cause: BaseException | None) -> str:
    """Of an override whose key is not there: which part of it OmegaConf missed, and beside what."""
    said = f"{key} is no key of this configuration"
    parent = cause.parent_node if isinstance(cause, OmegaConfBaseException) else None
    if not isinstance(cause, OmegaConfBaseException) or not isinstance(parent, DictConfig):
        return f"{said}; `python train.py --cfg job` lists them"
    beside = [str(each) for each in parent if each != "hydra"]
    if not beside:
        return f"{said}: {key.rpartition('.')[0]} has no keys"
    part = "" if cause.full_key == key else f" ({cause.full_key} is none)"
    return f"{said}{part}; {no_such(str(cause.key), beside)}"


def no_such(name: str, known: list[str]) -> str:
    """The closest known name, if one is close, and all of them."""
    close = difflib.get_close_matches(name, known, n=1)
    return (f"did you mean {close[0]}? " if close else "") + f"known: {', '.join(sorted(known))}"
