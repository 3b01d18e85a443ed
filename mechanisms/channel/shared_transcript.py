"""What the channels of one release share: the transcript, and the names of its parallel scopes."""

from __future__ import annotations

import threading
from dataclasses import replace

from mechanisms.accounting.transcript import Event


class SharedTranscript:
    """An append-only list of events, safe to write from several threads."""

    def __init__(self, label: str) -> None:
        self._label = label
        self.events: list[Event] = []
        self._scopes = 0
        self._lock = threading.Lock()

    def write(self, event: Event) -> None:
        """Append one event."""
        with self._lock:
            self.events.append(event)

    def drop(self, start: int) -> None:
        """Forget the events from a place on: another branch stands for them."""
        with self._lock:
            del self.events[start:]

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
