"""Progress of a run: reporters that hear of it, and signals that stop it.

A stage tells the reporter of its context when it starts and ends. On the command line that is a line on
the terminal, and in a Prefect flow run an artifact. It shows the stage's name and time, and how many cells of
the public tables are done, never anything about the data.
"""

from __future__ import annotations

import os
import resource
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol


class Reporter(Protocol):
    """Hears the events of a run."""

    def started(self, stage: str) -> None:
        """Hear that a stage begins."""

    def finished(self, stage: str, seconds: float, peak_mib: float) -> None:
        """Hear that a stage ended well, after so many seconds, with the process's peak memory so far."""

    def failed(self, stage: str) -> None:
        """Hear that a stage raised."""

    def advanced(self, cells: int, of: int) -> None:
        """Hear how many cells of the tables the stage has done."""

    def fetched(self, percent: int) -> None:
        """Hear how much of the source was fetched, which shows its size."""

    def noted(self, text: str) -> None:
        """Hear a note for the operator: a rule of severity ``warn`` that failed, for instance."""


class NullReporter:
    """Hears everything and says nothing."""

    def started(self, stage: str) -> None:
        """Say nothing."""

    def finished(self, stage: str, seconds: float, peak_mib: float) -> None:
        """Say nothing."""

    def failed(self, stage: str) -> None:
        """Say nothing."""

    def advanced(self, cells: int, of: int) -> None:
        """Say nothing."""

    def fetched(self, percent: int) -> None:
        """Say nothing."""

    def noted(self, text: str) -> None:
        """Say nothing."""


_reporter: ContextVar[Reporter | None] = ContextVar("tabularium_reporter", default=None)


@contextmanager
def reporting_to(listener: Reporter) -> Iterator[None]:
    """Have stages inside the block report to ``listener``."""
    token = _reporter.set(listener)
    try:
        yield
    finally:
        _reporter.reset(token)


def reporter() -> Reporter:
    """Return the reporter of this context."""
    return _reporter.get() or NullReporter()


def advanced(cells: int, of: int) -> None:
    """Report how many cells of the tables are done: never rows of the input.

    Whatever becomes of telling it: while noise is drawn, what is raised ends the release.
    """
    with suppress(Exception):
        reporter().advanced(cells, of)


def note(text: str) -> None:
    """Report a note for the operator; it may follow from the data."""
    reporter().noted(text)


@dataclass
class Stopping:
    """Requests to stop this process.

    An interrupt that arrives inside a destructor or a callback of the interpreter is swallowed there; the
    next stage then finds it here.
    """

    exception: BaseException | None = None
    listening: bool = False
    _noted: int | None = None

    def listen(self) -> None:
        """Hear Ctrl-C, SIGTERM and a terminal that closes from now on; in the main thread only."""
        self.listening = True
        # Their default action would end the process without the clean-up that removes the workspace and stops
        # the server it started.
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:  # nohup asks to go on when the terminal closes
                signal.signal(number, lambda number, _: self.request_stop(SystemExit(128 + number)))
        signal.signal(signal.SIGINT, lambda *_: self.request_stop(KeyboardInterrupt()))

    def listen_again(self) -> None:
        """Hear SIGTERM where Prefect's engine listens, which answers it in a way that is not remembered here.

        A command takes the signal back. In a worker's process Prefect's own handler must stay, or a run that
        is cancelled counts as crashed: there the interpreter notes the signals, and ``requested`` looks.
        """
        if threading.current_thread() is not threading.main_thread():
            return
        if self.listening:
            self.listen()
        elif self._noted is None:
            self._noted, notes = os.pipe()
            os.set_blocking(self._noted, False)
            os.set_blocking(notes, False)
            signal.set_wakeup_fd(notes, warn_on_full_buffer=False)

    def requested(self) -> BaseException | None:
        """Return the exception that ends this process, if it was asked to stop."""
        if self.exception is None and self._noted is not None:
            with suppress(BlockingIOError):
                if signal.SIGTERM in os.read(self._noted, 4096):
                    self.exception = _raised_at(signal.SIGTERM)
        return self.exception

    def request_stop(self, exception: BaseException) -> None:
        """Ask the process to stop by raising ``exception``, now and before every later stage."""
        self.exception = exception
        raise exception

    def raise_if_requested(self) -> None:
        """Raise the requested exception, if there is one."""
        asked = self.requested()
        if asked is not None:
            raise asked


def _raised_at(number: int) -> BaseException:
    handler = signal.getsignal(number)
    try:
        if callable(handler):
            handler(number, None)
    except BaseException as raised:
        return raised
    return SystemExit(128 + number)


stopping = Stopping()


@contextmanager
def observed(stage: str) -> Iterator[None]:
    """Report the beginning and the end of the block."""
    stopping.raise_if_requested()
    listener = reporter()
    listener.started(stage)
    start = time.perf_counter()
    try:
        yield
    except BaseException:
        listener.failed(stage)
        raise
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    listener.finished(stage, time.perf_counter() - start, peak)
