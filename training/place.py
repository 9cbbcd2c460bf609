"""Where in a track's or a variant's own code an error was raised, told in one line."""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from training.errors import UserError

OURS = (  # the machinery around a track and a mechanism
    *("training.", "records.", "sweeping.", "train.", "__main__.", "tracks.track."),
    *("models.network.", "models.mixer.", "models.attention."),
)
LIBRARIES = (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), "<")


@contextmanager
def told(where: str) -> Iterator[None]:
    """Whatever goes wrong is a UserError: `where`, then whose line raised what."""
    try:
        yield
    except UserError:
        raise
    except (Exception, SystemExit) as error:  # whatever the code of a track or mechanism raises
        raise UserError(f"{where}: {_place(error)}{_kind(error)}") from error


@contextmanager
def built(key: str) -> Iterator[None]:
    """The same of a constructor, whose ValueError says enough, as does a call that it cannot take.

    Args:
        key: of the configuration, that it is built from.
    """
    with told(key):
        try:
            yield
        except (ValueError, TypeError) as error:
            if isinstance(error, TypeError) and _place(error):
                raise
            raise UserError(f"{key}: {error}") from error


def _kind(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _place(error: BaseException) -> str:
    """`models.mine.Mine.forward (line 12): `, the innermost place of the user's, if one is.

    That is the last frame below a module that is neither this project's machinery nor a library's.
    """
    place = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        module, code = str(frame.f_globals.get("__name__")), frame.f_code
        if not code.co_filename.startswith(LIBRARIES) and not f"{module}.".startswith(OURS):
            place = f"{module}.{code.co_qualname} (line {line}): "
    return place
