"""A process that has seen nothing: a fork of this one, in which one side of an audit is run.

What one run lays by (in a cache, a class, a module) stays in its process. So two runs in two forks of the
same process can know nothing of each other, and of the data only what they are sent.
"""

from __future__ import annotations

import gc
import io
import logging
import os
import pickle
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import lru_cache
from importlib import import_module
from typing import Any, BinaryIO, TypeVar

from tabularium.mechanisms.errors import InternalError
from tabularium.mechanisms.kernels.compiled import KERNELS

Answer = TypeVar("Answer")
Loaded = tuple[list[str], list[tuple[str, list[Any]]]]


_OPEN: set[CleanProcess] = set()


class CleanProcess:
    """A fork of this process that calls functions on request, one after the other, until it is closed.

    Functions and arguments are pickled, but for those in ``inherited``, which the fork has already: a
    mechanism whose class cannot be imported by its name can be audited too.
    """

    def __init__(self, *inherited: Any) -> None:
        listen, ask = os.pipe()
        hear, tell = os.pipe()
        self._pipes = ask, hear
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        self._process = os.fork()
        if self._process == 0:
            gc.freeze()  # or each collection would go through, and so copy, all that the parent has
            # The pipes of the others too: they end when nobody can ask them any more.
            for pipe in (*self._pipes, *(pipe for other in _OPEN for pipe in other._pipes)):
                os.close(pipe)
            _serve(os.fdopen(listen, "rb"), os.fdopen(tell, "wb"), inherited)
        os.close(listen)
        os.close(tell)
        self._to, self._from = os.fdopen(ask, "wb"), os.fdopen(hear, "rb")
        _OPEN.add(self)

    def begin(self, function: Callable[..., Answer], *arguments: Any) -> Callable[[], Answer]:
        """Have ``function(*inherited, *arguments)`` called there; return what waits for its answer."""
        pickle.dump((function, arguments), self._to, pickle.HIGHEST_PROTOCOL)
        self._to.flush()
        return self._answer

    def call(self, function: Callable[..., Answer], *arguments: Any) -> Answer:
        """Return ``function(*inherited, *arguments)``, computed there."""
        return self.begin(function, *arguments)()

    def _answer(self) -> Any:
        try:
            worked, given = pickle.load(self._from)  # noqa: S301 - from our own fork
        except EOFError:
            raise InternalError("the audited process died", where="replay") from None
        if not worked:
            raise InternalError(f"the audited process failed: {given}", where="replay")
        return given

    def close(self) -> None:
        """End it."""
        _OPEN.discard(self)
        self._to.close()
        self._from.close()
        os.waitpid(self._process, 0)

    def __enter__(self) -> CleanProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _serve(requests: BinaryIO, replies: BinaryIO, inherited: tuple[Any, ...]) -> None:
    """Answer until there is nothing more to answer; never return."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that asks ends it
    try:
        while True:
            try:
                function, arguments = pickle.load(requests)  # noqa: S301 - from the process that forked us
            except EOFError:
                break
            try:
                text = pickle.dumps((True, function(*inherited, *arguments)), pickle.HIGHEST_PROTOCOL)
            except Exception as error:
                text = pickle.dumps((False, f"{type(error).__name__}: {error}"))
            replies.write(text)
            replies.flush()
    finally:
        os._exit(0)


# --- what takes time to load, and knows nothing of the data ------------------------------------------


def loaded() -> Loaded:
    """Return what this process has imported and compiled: names of modules, kernels and their signatures."""
    result = [(name, kernel.signatures) for name, kernel in KERNELS.items() if kernel.signatures]
    return list(sys.modules), result


def load(found: Loaded) -> None:
    """Import and compile here what a fork had to, so that the next one need not. No function is called."""
    modules, signatures = found
    for name in modules:
        if name not in sys.modules and name.startswith(("tabularium.mechanisms.", "numba", "scipy")):
            import_module(name)
    for name, wanted in signatures:
        for signature in wanted:
            if name in KERNELS and signature not in KERNELS[name].signatures:
                KERNELS[name].dispatcher.compile(signature)


# Of when, by whom and from where a record was logged: no part of what it says.
_CIRCUMSTANCES = {
    *("created", "msecs", "relativeCreated", "thread", "threadName", "process", "processName", "taskName"),
    *("pathname", "filename", "module", "stack_info"),
}
_COMPILER = "numba.core."  # says much while it compiles, which the first run does for all that follow


@contextmanager
def capture_output(output: list[str]) -> Iterator[None]:
    """Add all that is written inside to ``output``; nothing of it gets out.

    Every level of every logger is heard, whether it is switched on or not: a number that is logged at level
    debug is a leak on the day somebody wants to know more.
    """
    with _logging(output), _descriptors(output), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        written = io.StringIO()
        with redirect_stdout(written), redirect_stderr(written):
            yield
        if written.getvalue():
            output.append(f"written: {written.getvalue()}")
    output += [f"warning: {item.category} {item.message} {item.filename} {item.lineno}" for item in caught]


@contextmanager
def _logging(output: list[str]) -> Iterator[None]:
    kind: Any = logging.Logger
    usual = kind.handle, kind.isEnabledFor, kind.callHandlers

    def keep(_logger: logging.Logger, record: logging.LogRecord) -> None:
        try:
            text = record.getMessage()
        except Exception:  # the numbers of placeholders and values differ
            text = ""
        shown = {key: repr(value) for key, value in vars(record).items() if key not in _CIRCUMSTANCES}
        output.append(f"log: {text} {shown}")

    def enabled(logger: logging.Logger, _level: int) -> bool:
        return not f"{logger.name}.".startswith(_COMPILER)

    kind.handle, kind.isEnabledFor, kind.callHandlers = keep, enabled, keep
    try:
        yield
    finally:
        kind.handle, kind.isEnabledFor, kind.callHandlers = usual


@contextmanager
def _descriptors(output: list[str]) -> Iterator[None]:
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
            output.append(f"written past Python's streams: {os.pread(file, length, 0)!r}")
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
