"""Exceptions of libraries, redacted: their messages may quote microdata.

A database engine or a file reader quotes the line it stumbled over. Whatever may raise such a message runs
inside :func:`redacted`, which raises an error of ours instead. It is raised after the handler has been left,
so that Python does not attach the original to it as context.
"""

from __future__ import annotations

import errno
import os
import shutil
import sysconfig
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

from tabularium.mechanisms.errors import InternalError, TabulariumError

P = ParamSpec("P")
T = TypeVar("T")

_FULL = {errno.ENOSPC, errno.EDQUOT}
_MEMORY = {"OutOfMemoryException", "MemoryError", "ArrowMemoryError"}
_ROOT = Path(__file__).parents[1]
_LIBRARIES = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
# Exceptions of the language that what is read may cause, too.
_OF_INPUT = (OSError, MemoryError, EOFError, UnicodeError)
# What Ibis raises of an expression that is wrong, whatever the data are.
_OF_EXPRESSIONS = {"IntegrityError", "IbisTypeError", "SignatureValidationError", "TranslationError"}

_opened = threading.Event()


def note_data_opened() -> None:
    """Remember for the rest of this process that something confidential was opened in it."""
    _opened.set()


def data_were_opened() -> bool:
    """Return whether this process has opened a source, a look-up, a workspace, counts or a secret."""
    return _opened.is_set()


def is_ours(file: str) -> bool:
    """Return whether a file of code is one of this program."""
    return _ROOT in Path(file).parents


def redacted(work: Callable[[], T], otherwise: TabulariumError | Callable[[], TabulariumError]) -> T:
    """Return ``work()``; whatever a library raises in it becomes ``otherwise``.

    An error of ours passes through without its context. A full disk or memory has an error of its own, and a
    mistake of this program passes as it is: it says nothing of what was read.

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
        if _is_mistake(error):
            raise
        failure = _shortage(error) or (otherwise if isinstance(otherwise, TabulariumError) else otherwise())
    failure.__cause__ = failure.__context__ = None
    raise failure.with_traceback(None)


def bare_errors(function: Callable[P, T]) -> Callable[P, T]:
    """Let the errors of ours that a function raises carry nothing of what they were made from."""

    @wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except TabulariumError as error:
            failure = error
        failure.__cause__ = failure.__context__ = None
        raise failure.with_traceback(None)

    return guarded


@contextmanager
def os_errors_as(
    kind: type[TabulariumError], what: str, *, where: str | Path, hint: str, named: bool = False
) -> Iterator[None]:
    """Turn an error of the operating system into one line.

    Parameters
    ----------
    what
        The line, with ``{reason}`` where the system's reason belongs.
    named
        Whether the file that the system names is where it happened, and ``where`` only if it names none.
    """
    try:
        yield
    except OSError as error:
        path = (getattr(error, "filename", None) if named else None) or where
        raise kind(what.replace("{reason}", reason_of(error)), where=str(path), hint=hint) from None


def reason_of(error: OSError) -> str:
    """Return the system's words for an error."""
    if isinstance(error, shutil.Error):  # of the first file that could not be copied
        return str(error.args[0][0][2])
    return os.strerror(error.errno) if error.errno else error.strerror or type(error).__name__


def _is_mistake(error: Exception) -> bool:
    """Tell whether code of this program is at fault, and not what it read."""
    kind = type(error)
    if kind.__module__.startswith("ibis."):
        return kind.__name__ in _OF_EXPRESSIONS
    if kind.__module__ != "builtins" or isinstance(error, _OF_INPUT):
        return False
    raised_in = traceback.extract_tb(error.__traceback__)[-1].filename
    return is_ours(raised_in) or not any(Path(raised_in).is_relative_to(folder) for folder in _LIBRARIES)


def _shortage(error: Exception) -> TabulariumError | None:
    """Return the error for a full disk or memory; None for anything else.

    DuckDB raises its own exceptions without an error number: its text is looked at here and goes nowhere.
    """
    texts = [os.strerror(number) for number in _FULL]
    if getattr(error, "errno", None) in _FULL or any(text in str(error) for text in texts):
        return InternalError("the disk is full", where="secure workspace", hint="free space and run again")
    if any(kind.__name__ in _MEMORY for kind in type(error).__mro__):
        return InternalError(
            "the engine has not enough memory, or not enough room in the workspace to do without",
            where="secure workspace",
            hint="free disk space there, or raise TABULARIUM_ENGINE_MEMORY",
        )
    return None
