"""Where in a track's or a variant's own code an error was raised."""

from __future__ import annotations

import sysconfig
import traceback

OURS = ("training.", "records.", "sweeping.", "train.", "__main__.", "models.network.")
LIBRARIES = (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), "<")


def raised_by(error: BaseException) -> str:
    """`models.mine.Mine.forward (line 12): RuntimeError: …`: the innermost place of the user's.

    That is the last frame below a module that is neither this project's machinery nor a library's.
    """
    place = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        module, code = str(frame.f_globals.get("__name__")), frame.f_code
        if not code.co_filename.startswith(LIBRARIES) and not f"{module}.".startswith(OURS):
            place = f"{module}.{code.co_qualname} (line {line}): "
    return f"{place}{type(error).__name__}: {' '.join(str(error).split())}"
