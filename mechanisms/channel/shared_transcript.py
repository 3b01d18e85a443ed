"""What the channels of one release share: the transcript, and the names of its parallel scopes."""

from __future__ import annotations

import threading
from dataclasses import replace

from tabularium.mechanisms.accounting.transcript import Event
from tabularium.mechanisms.errors import MechanismError


class SharedTranscript:
    """An append-only list of events, safe to write from several threads."""

    def __init__(self, label: str) -> None:
        self._label = label
        self.events: list[Event] = []
        self._scopes = 0
        self._dropped: list[int] = []
        self._folding = False
        self._lock = threading.Lock()

    def write(self, event: Event) -> None:
        """Append one event."""
        with self._lock:
            self.events.append(event)

    def place(self) -> tuple[int, int]:
        """Return where the next event will stand, and how often events have been dropped: for ``since``."""
        with self._lock:
            return len(self.events), len(self._dropped)

    def since(self, place: tuple[int, int]) -> list[Event]:
        """Return the events from a place on; where some before it have been dropped, a few more."""
        with self._lock:
            return self.events[min(place[0], *self._dropped[place[1] :], len(self.events)) :]

    def drop(self, start: int, prefix: str) -> None:
        """Forget the events from a place on, all of one branch, because another branch stands for them.

        An event of something else would be kept, and all with it.
        """
        with self._lock:
            if all(event.purpose.startswith(prefix) for event in self.events[start:]):
                del self.events[start:]
                self._dropped.append(start)

    def begin_folding(self, path: str) -> None:
        """Note that a folded scope is open: there is one at a time, as it counts on the order of events.

        Raises
        ------
        MechanismError
            Another one is open.
        """
        with self._lock:
            if self._folding:
                raise MechanismError(
                    "a folded scope is open already", where=path, hint="open it after that one has ended"
                )
            self._folding = True

    def end_folding(self) -> None:
        """Note that it has ended."""
        with self._lock:
            self._folding = False

    def stand_for(self, places: slice, alike: int) -> None:
        """Note of some events how many branches drew them in the same way."""
        with self._lock:
            self.events[places] = [replace(event, alike=event.alike * alike) for event in self.events[places]]

    def open_scope(self) -> str:
        """Return the name of a new parallel scope.

        The label of the noise's source is part of it: the transcripts of several releases can be joined, and
        scopes of two releases are never taken for one.
        """
        with self._lock:
            self._scopes += 1
            return f"{self._label}.{self._scopes - 1}"
