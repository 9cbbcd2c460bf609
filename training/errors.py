"""A user's mistake is told in one line, with exit status 2."""

from __future__ import annotations

import difflib
import errno
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

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
    except (ValueError, OSError) as error:  # while composing: of Hydra's own, or a folder's
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
    unknown = re.match(r"Could not override '([^']+)'", text)
    if unknown:
        return _no_such_key(unknown[1], error.__cause__)
    return text.partition(" Config search path:")[0]


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
