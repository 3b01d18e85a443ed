"""Tracebacks of unexpected errors: shown where no data were opened, else kept in a closed file of the home.

The text of an exception may quote data, and so may its chain. What leaves the home is the name of the file.
"""

from __future__ import annotations

import contextlib
import secrets
import traceback
from datetime import UTC, datetime
from pathlib import Path

from tabularium.mechanisms.errors import InternalError
from tabularium.tasks.runtime.home import Home, last_home, make_once

#: So many are kept, the newest.
KEPT = 100
_ENDING = ".txt"


class Unexpected(InternalError):
    """Something unforeseen that happened before this process opened any data.

    Attributes
    ----------
    traceback
        Where, for the local terminal.
    """

    traceback = ""


def formatted(error: BaseException) -> str:
    """Return the traceback with its causes: frames, lines of code and texts, and no local variables."""
    return "".join(traceback.format_exception(error))


def keep(error: BaseException, home: Home | None = None) -> Path | None:
    """Write a traceback to a file that only its owner can read; return the file, or None if it cannot be.

    Parameters
    ----------
    home
        Where the error happened; the home that this process used last when None.
    """
    home = home or last_home()
    if home is None or not home.path.is_dir():
        return None
    file = home.tracebacks / f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(4)}{_ENDING}"
    try:
        home.tracebacks.mkdir(mode=0o700, exist_ok=True)
        make_once(file, formatted(error).encode(errors="backslashreplace"))
    except OSError:
        return None
    with contextlib.suppress(OSError):
        for old in sorted(home.tracebacks.glob(f"[!.]*{_ENDING}"))[:-KEPT]:
            old.unlink(missing_ok=True)
    return file
