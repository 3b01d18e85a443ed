"""What the channels of one release share: the transcript, and the numbers of its parallel scopes."""

from __future__ import annotations

import threading

from mechanisms.transcript import Event


class Book:
    """An append-only list of events, safe to write from several threads."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._scopes = 0
        self._lock = threading.Lock()

    def write(self, event: Event) -> None:
        """Append one event."""
        with self._lock:
            self.events.append(event)

    def open_scope(self) -> int:
        """Return the number of a new parallel scope."""
        with self._lock:
            self._scopes += 1
            return self._scopes - 1
