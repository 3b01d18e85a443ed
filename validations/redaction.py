"""Where exceptions of libraries end.

A database engine or a file reader quotes the line it stumbled over: its message is microdata. Everything
that may raise such a message runs inside :func:`sealed`, which raises one of ours instead. It is raised
after the handler has been left, so that Python does not attach the original as context.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import TypeVar

from mechanisms.errors import InternalError, TabulariumError

T = TypeVar("T")

_FULL = {errno.ENOSPC, errno.EDQUOT}
_MEMORY = {"OutOfMemoryException", "MemoryError", "ArrowMemoryError"}


def sealed(work: Callable[[], T], otherwise: TabulariumError) -> T:
    """Return ``work()``; whatever foreign it raises becomes ``otherwise``.

    An error of ours passes through without its context. Lack of room is told apart from bad input.

    Parameters
    ----------
    work
        Called without arguments.
    otherwise
        What to raise instead of a foreign exception.
    """
    try:
        return work()
    except TabulariumError as error:
        failure = error
    except Exception as error:
        failure = _shortage(error) or otherwise
    failure.__cause__ = failure.__context__ = None
    raise failure.with_traceback(None)


def _shortage(error: Exception) -> TabulariumError | None:
    """Tell a full disk or memory from bad input.

    DuckDB raises its own exceptions without an error number; its text is looked at here and goes nowhere.
    """
    texts = [os.strerror(number) for number in _FULL]
    if getattr(error, "errno", None) in _FULL or any(text in str(error) for text in texts):
        return InternalError("the disk is full", where="secure workspace", mend="free space and run again")
    if any(kind.__name__ in _MEMORY for kind in type(error).__mro__):
        return InternalError(
            "the engine has not enough memory, or not enough room in the workspace to do without",
            where="secure workspace",
            mend="free disk space there, or raise TABULARIUM_ENGINE_MEMORY",
        )
    return None
