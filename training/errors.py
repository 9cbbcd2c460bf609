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

from hydra.errors import HydraException, OverrideParseException
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
    unknown = re.match(r"Could not override '([^']+)'", text)
    if unknown:
        return (
            f"{unknown[1]} is no key of this configuration; `python train.py --cfg job` lists them"
        )
    return text.partition(" Config search path:")[0]


def no_such(name: str, known: list[str]) -> str:
    """'is no …' with the closest known name first, if one is close."""
    close = difflib.get_close_matches(name, known, n=1)
    return (f"did you mean {close[0]}? " if close else "") + f"known: {', '.join(sorted(known))}"
