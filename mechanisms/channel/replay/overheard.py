"""What a run says on the side: warnings, logging, and what it writes to standard output and error."""

from __future__ import annotations

import io
import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import lru_cache
from typing import Any

# Of when, by whom and from where a record was logged: no part of what it says.
_CIRCUMSTANCES = {
    *("created", "msecs", "relativeCreated", "thread", "threadName", "process", "processName", "taskName"),
    *("pathname", "filename", "module", "stack_info"),
}
_COMPILER = "numba.core."  # says much while it compiles, which the first run does for all that follow


@contextmanager
def listening(said: list[str]) -> Iterator[None]:
    """Add all that is said inside to ``said``; nothing of it gets out.

    Every level of every logger is heard, whether it is switched on or not: a number that is logged at level
    debug is a leak on the day somebody wants to know more.
    """
    with _logging(said), _descriptors(said), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        written = io.StringIO()
        with redirect_stdout(written), redirect_stderr(written):
            yield
        if written.getvalue():
            said.append(f"written: {written.getvalue()}")
    said += [f"warning: {each.category} {each.message} {each.filename} {each.lineno}" for each in caught]


@contextmanager
def _logging(said: list[str]) -> Iterator[None]:
    kind: Any = logging.Logger
    usual = kind.handle, kind.isEnabledFor, kind.callHandlers

    def keep(_logger: logging.Logger, record: logging.LogRecord) -> None:
        try:
            text = record.getMessage()
        except Exception:  # the numbers of placeholders and values differ
            text = ""
        shown = {key: repr(value) for key, value in vars(record).items() if key not in _CIRCUMSTANCES}
        said.append(f"log: {text} {shown}")

    def enabled(logger: logging.Logger, _level: int) -> bool:
        return not f"{logger.name}.".startswith(_COMPILER)

    kind.handle, kind.isEnabledFor, kind.callHandlers = keep, enabled, keep
    try:
        yield
    finally:
        kind.handle, kind.isEnabledFor, kind.callHandlers = usual


@contextmanager
def _descriptors(said: list[str]) -> Iterator[None]:
    """Catch what goes round Python's own streams: ``sys.__stdout__``, compiled code, other programs."""
    file = _file(os.getpid())
    _flush()
    kept = [(number, os.dup(number)) for number in (1, 2)]
    try:
        for number in (1, 2):
            os.dup2(file, number)
        yield
    finally:
        _flush()
        for number, copy in kept:
            os.dup2(copy, number)
            os.close(copy)
        if length := os.lseek(file, 0, os.SEEK_CUR):
            said.append(f"written past Python's streams: {os.pread(file, length, 0)!r}")
            os.ftruncate(file, os.lseek(file, 0, os.SEEK_SET))


@lru_cache(maxsize=1)
def _file(_process: int) -> int:
    """Return the descriptor of a file without a name; a fork has its own, since the place in it is shared."""
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _flush() -> None:
    for stream in (sys.__stdout__, sys.__stderr__):
        if stream is not None and not stream.closed:
            stream.flush()
