"""How the books are written: one transaction that holds the right to append, then the witness."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from sqlalchemy import Connection

from ledger import names
from ledger.chain.witness import WitnessDamaged
from ledger.reader import Reader
from ledger.records import GENESIS, Charge, Head
from ledger.refusals import Conflict, ReadOnly, UnknownRelease
from ledger.storage import entry_queries as queries
from ledger.storage.append import Page, stale
from ledger.storage.database import Database

RESTORE = "restore the newest backup, or open the ledger that wrote it"
GUARD = "find out who did it, then put its guard back (see docs/operations.md)"
_ASKED = ("release_id", "account", "period", "product", "input_digest")


class Writer(Reader):
    """A ledger that can be appended to.

    Attributes
    ----------
    read_only
        Why no entry is accepted, or ``None`` if entries are.
    """

    def __init__(self, database: Database, clock: Callable[[], datetime], tolerance: timedelta) -> None:
        super().__init__(database)
        self._clock = clock
        self._tolerance = tolerance
        self._witness = self._backend.witnessed()
        self._named: str | None = None  # the hash of the first entry
        self.read_only = database.fault

    @contextmanager
    def _appending(self, charge: Charge | None = None) -> Iterator[Page]:
        """Take the right to append; afterwards, and only if something was appended, tell the witness."""
        if self.read_only is not None:
            mend = GUARD if self.read_only == self._database.fault else RESTORE
            raise ReadOnly(f"the ledger is read-only: {self.read_only}", where=self.name, mend=mend)
        self._witness.prepare(self._named or GENESIS)
        asked = None if charge is None else {name: getattr(charge, name) for name in _ASKED}
        with self._database.turn(asked) as (connection, turn):
            page = Page(connection, self._clock(), turn)
            self._as_witnessed(page)
            yield page
            if page.entry is None:
                return
            first = page.head.hash if page.head.seq == 1 else self._first(connection)
            self._backend.finish(connection, *page.entry)
        self._named = first
        self._witness.advance(page.head, first)

    def _first(self, connection: Connection) -> str:
        """Return the hash of the first entry, which never changes once there is one."""
        if self._named is None:
            first = queries.first_hash(connection)
            self._named = None if first == GENESIS else first
            return first
        return self._named

    def _as_witnessed(self, page: Page) -> None:
        """A backup may be put in place while this process runs: look at the witness every time."""
        self.read_only = self._unwitnessed(page.connection, self._first(page.connection), page.shows)
        if self.read_only is not None:
            raise ReadOnly(f"the ledger is read-only: {self.read_only}", where=self.name, mend=RESTORE)

    def _unwitnessed(
        self, connection: Connection, first: str, shows: Callable[[Head], bool] = lambda _head: False
    ) -> str | None:
        try:
            heads = self._witness.heads(first)
        except WitnessDamaged as error:
            return (
                f"its witness file {error.where} is damaged (verify the ledger with the newest certificate,"
                " then remove that file)"
            )
        for named in heads:
            if not shows(named) and not queries.holds(connection, named):
                return (
                    f"it lacks entry {named.seq} as the witness file names it, so it is an old copy or"
                    " another ledger"
                )
        return None

    def _lacking(self, known_heads: Iterable[Head | tuple[int, str]]) -> str | None:
        heads = {head if isinstance(head, Head) else Head(*head) for head in known_heads}
        with self._database.read() as connection:
            first = self._first(connection)
        with self._database.read() as connection:  # its view begins with the first query, after the witness
            reason = self._unwitnessed(connection, first)
            lacking = (head for head in sorted(heads) if not queries.holds(connection, head))
            missing = next(lacking, None)
        if missing is not None:
            return f"it lacks entry {missing.seq} as a measurement file or certificate names it"
        return reason

    def _charge(self, connection: Connection, release_id: str) -> Charge:
        charge = queries.charge(connection, names.release_id(release_id))
        if charge is None:
            raise UnknownRelease("was never reserved", where=f"release {release_id}", mend="reserve it first")
        return charge

    def _current(self, connection: Connection, release_id: str, fence: int) -> Charge:
        """Return the charge if ``fence`` is its current one."""
        charge = self._charge(connection, release_id)
        if names.fence(fence) < charge.fence:
            raise stale(charge)
        if fence > charge.fence:
            raise Conflict("this fence was never given", where=f"release {release_id}", mend="call drawing()")
        return charge
