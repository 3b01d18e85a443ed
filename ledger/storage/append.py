"""The end of the chain, where an entry is appended."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection

from tabularium.ledger.chain.continuity import require_continued
from tabularium.ledger.events import columns, next_time, seal
from tabularium.ledger.records import STEPS, Charge, Entry, Head
from tabularium.ledger.storage import entry_queries
from tabularium.ledger.storage.chain_head import ChainHead


class Append:
    """One entry to be appended, inside a transaction that holds the right to do so.

    Attributes
    ----------
    start
        What was read when the right was taken.
    head
        The last entry: the one in ``start``, and from :meth:`append` on the new one.
    entry
        The entry to be appended and its columns, or ``None`` so far.
    """

    def __init__(self, connection: Connection, now: datetime, start: ChainHead) -> None:
        self.connection = connection
        self.start, self.head = start, start.head
        self.entry: tuple[Entry, tuple[str | None, ...]] | None = None
        self._now = now
        self._continued: frozenset[str] = frozenset()

    def time(self, tolerance: timedelta | None = None) -> str:
        """Return the time that the entry will have."""
        return next_time(self._now, self.start.at, tolerance)

    def append(self, kind: str, fields: dict[str, Any], tolerance: timedelta | None = None) -> dict[str, Any]:
        """Give the entry its content; it is written when the transaction ends. Return its body."""
        at = self.time(tolerance)
        if STEPS.get(kind) == (None,):
            fields["reserved_at"] = at
        body, entry = seal(self.head, kind, at, fields)
        self.entry, self.head = (entry, columns(body)), Head(entry.seq, entry.hash)
        return body

    def standing(self, charge: Charge) -> entry_queries.Standing:
        """Return how a charge and all that its caps are compared with stand, once that is seen to hold."""
        stands = self.start.standing or entry_queries.standing(
            self.connection, charge.release_id, charge.account, charge.period, charge.product
        )
        require_continued(self.connection, stands.lasts - self._continued)
        self._continued = stands.lasts
        return stands
