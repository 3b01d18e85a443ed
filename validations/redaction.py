"""Exceptions of libraries, redacted: their messages may quote microdata.

A database engine or a file reader quotes the line it stumbled over. Whatever may raise such a message runs
inside :func:`redacted`, which raises an error of ours instead. It is raised after the handler has been left,
so that Python does not attach the original to it as context.
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


def redacted(work: Callable[[], T], otherwise: TabulariumError | Callable[[], TabulariumError]) -> T:
    """Return ``work()``; whatever a library raises in it becomes ``otherwise``.

    An error of ours passes through without its context. A full disk or memory has an error of its own.

    Parameters
    ----------
    work
        Called without arguments.
    otherwise
        What to raise instead of a library's exception, or how to find it out then.
    """
    try:
        return work()
    except TabulariumError as error:
        failure = error
    except Exception as error:
        failure = _shortage(error) or (otherwise if isinstance(otherwise, TabulariumError) else otherwise())
    failure.__cause__ = failure.__context__ = None
    raise failure.with_traceback(None)


def _shortage(error: Exception) -> TabulariumError | None:
    """Return the error for a full disk or memory; None for anything else.

    DuckDB raises its own exceptions without an error number: its text is looked at here and goes nowhere.
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
