"""The watcher: a process that looks at every inbox of a home whenever something changes there.

Each inbox has a thread of its own, so that a large drop in one, or a store that does not answer, keeps no
other waiting. One more has runs go on whose process died. Folders tell of their changes where the system
can; beside that, and of object stores, it looks again and again. It holds nothing in memory that it could
not find again, may be killed at any time, and several may run at once.
"""

from __future__ import annotations

import contextlib
import contextvars
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator

from tabularium.flows.operations import run_keeper
from tabularium.flows.operations.prefect_api import connected
from tabularium.mechanisms.errors import TabulariumError
from tabularium.tasks.arrival.claims import Claims, State
from tabularium.tasks.arrival.inboxes import Inbox, inboxes
from tabularium.tasks.runtime.home import Home
from tabularium.tasks.runtime.stage import sanitised

_FOLDER_POLL_SECONDS = 5.0
_LEAST_PAUSE_SECONDS = 0.3
_REGISTRY_SECONDS = 1.0
_CLOCKS_DIFFER_SECONDS = 600.0  # of machines whose runs write down how drops ended
_TOLD: tuple[State, ...] = ("arrived", "quarantined", "refused", "failed", "published")


class Watch:
    """One inbox that is watched in a thread of its own until it is stopped."""

    def __init__(self, home: Home, inbox: Inbox, busy: set[str]) -> None:
        self.inbox = inbox
        self._busy = busy  # the products that drops wait for, of all that are watched
        self._home, self._stop = home, threading.Event()
        context = contextvars.copy_context()  # where Prefect keeps which API it speaks with
        self._thread = threading.Thread(target=context.run, args=(self._watch,), daemon=True)
        self._said, self._since = "", time.time() - _CLOCKS_DIFFER_SECONDS
        self._drops: dict[str, State] | None = None

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after the look that is under way."""
        self._stop.set()

    def join(self, seconds: float) -> None:
        """Wait for the end."""
        self._thread.join(seconds)

    def _watch(self) -> None:
        for _ in self._occasions():
            more = True
            while more:
                more = self._look()
                if self._stop.wait(_LEAST_PAUSE_SECONDS):
                    return

    def _look(self) -> bool:
        """Look once, and announce what is to be announced, whatever became of the look."""
        from tabularium.flows.arrival import announce
        from tabularium.tasks.arrival.look import look

        more, said = False, ""
        steps: list[Callable[[Home, Inbox], object]] = [self._tell_of_drops, look]
        for step in (*steps, self._tell_of_drops, announce):
            try:
                more |= step(self._home, self.inbox) is True
            except Exception as error:  # the next look goes on; a text of a library's may quote data
                said = said or sanitised(error, f"inbox of {self.inbox.product}").line()
        if said != self._said:
            say(said or f"inbox of {self.inbox.product}: well again")
        self._said = said
        return more

    def _tell_of_drops(self, home: Home, inbox: Inbox) -> None:
        """Write a line of each drop that arrived or ended since the last time."""
        now = time.time()
        with Claims.at(home) as claims:
            drops = {drop.id: drop.state for drop in claims.recent(inbox.product, self._since)}
        for drop, state in drops.items():
            if self._drops is not None and state in _TOLD and self._drops.get(drop) != state:
                say(f"inbox of {inbox.product}: drop {drop} {state}")
        self._drops, self._since = drops, now - _CLOCKS_DIFFER_SECONDS

    def _occasions(self) -> Iterator[None]:
        """Yield when it is time to look: now, after changes, and again and again."""
        yield
        while not self._stop.is_set():
            waits = "arrived" in (self._drops or {}).values()  # one that began may wait for days
            (self._busy.add if waits else self._busy.discard)(self.inbox.product)
            soon = self.inbox.is_folder or waits  # it runs when the one before it has ended
            # Of many that wait for a place in the pool each is asked for more rarely: one a second in all.
            pause = max(_FOLDER_POLL_SECONDS, len(self._busy) * waits)
            pause = min(self.inbox.poll, pause) if soon else self.inbox.poll
            if self.inbox.is_folder:
                with contextlib.suppress(OSError, RuntimeError):  # gone, or no more watches are to be had
                    yield from self._changes(pause)
            if not self._stop.wait(pause):
                yield

    def _changes(self, pause: float) -> Iterator[None]:
        from watchfiles import watch

        for _ in watch(
            self.inbox.address,
            stop_event=self._stop,
            step=50,
            debounce=500,
            rust_timeout=int(pause * 1000),
            yield_on_timeout=True,
            raise_interrupt=False,
        ):
            yield


def say(line: str) -> None:
    """Tell whoever reads the log of this process."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def keep_watching(home: Home, stop: threading.Event) -> None:
    """Watch the inboxes of a home, also those that are added meanwhile, until ``stop`` is set."""
    watches: dict[str, Watch] = {}
    busy: set[str] = set()
    while True:
        wanted = {} if stop.is_set() else {inbox.product: inbox for inbox in _registered(home, watches)}
        ending = [watch for product, watch in watches.items() if wanted.get(product) != watch.inbox]
        for watch in ending:
            watch.stop()
            busy.discard(watch.inbox.product)
            del watches[watch.inbox.product]
        for product, inbox in wanted.items():
            if product not in watches:
                watches[product] = Watch(home, inbox, busy)
                watches[product].start()
        if stop.is_set():
            for watch in ending:
                watch.join(_FOLDER_POLL_SECONDS)
            return
        stop.wait(_REGISTRY_SECONDS)


def _registered(home: Home, watches: dict[str, Watch]) -> list[Inbox]:
    with contextlib.suppress(TabulariumError):  # the next look at the list may find it whole
        return inboxes(home)
    return [watch.inbox for watch in watches.values()]


def watch_until_stopped(home: Home) -> None:
    """Watch until SIGTERM or Ctrl-C.

    Raises
    ------
    TabulariumError
        No Prefect API answers, or the home cannot be used.
    """
    os.umask(0o077)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with connected(home):
        context = contextvars.copy_context()
        threading.Thread(
            target=context.run, args=(run_keeper.watch_stale_runs, home, stop, say), daemon=True
        ).start()
        keep_watching(home, stop)
