"""A process that has seen nothing: a fork of this one, in which one side of an audit is run.

What one run lays by (in a cache, a class, a module) stays in its process. So two runs in two forks of the
same process can know nothing of each other, and of the data only what they are told.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, BinaryIO, TypeVar

from tabularium.mechanisms.errors import InternalError
from tabularium.mechanisms.kernels.compiled import KERNELS

Answer = TypeVar("Answer")
Loaded = tuple[list[str], list[tuple[str, list[Any]]]]


_OPEN: set[CleanProcess] = set()


class CleanProcess:
    """A fork of this process that calls the functions it is told to, one after the other, until it is closed.

    Functions and arguments are pickled, but for those in ``inherited``, which the fork has already: a
    mechanism whose class cannot be imported by its name can be audited too.
    """

    def __init__(self, *inherited: Any) -> None:
        asked, ask = os.pipe()
        hear, told = os.pipe()
        self._pipes = ask, hear
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        self._process = os.fork()
        if self._process == 0:
            gc.freeze()  # or each collection would go through, and so copy, all that the parent has
            # The pipes of the others too: they end when nobody can ask them any more.
            for pipe in (*self._pipes, *(pipe for other in _OPEN for pipe in other._pipes)):
                os.close(pipe)
            _serve(os.fdopen(asked, "rb"), os.fdopen(told, "wb"), inherited)
        os.close(asked)
        os.close(told)
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


def _serve(asked: BinaryIO, told: BinaryIO, inherited: tuple[Any, ...]) -> None:
    """Answer until there is nothing more to answer; never return."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever asks ends it
    try:
        while True:
            try:
                function, arguments = pickle.load(asked)  # noqa: S301 - from the process that forked us
            except EOFError:
                break
            try:
                text = pickle.dumps((True, function(*inherited, *arguments)), pickle.HIGHEST_PROTOCOL)
            except Exception as error:
                text = pickle.dumps((False, f"{type(error).__name__}: {error}"))
            told.write(text)
            told.flush()
    finally:
        os._exit(0)


# --- what takes time to load, and knows nothing of the data ------------------------------------------


def loaded() -> Loaded:
    """Return what this process has imported and compiled: names of modules, kernels and their signatures."""
    found = [(name, kernel.signatures) for name, kernel in KERNELS.items() if kernel.signatures]
    return list(sys.modules), found


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
