"""How a ledger is read and appended to: one consistent view, or the one right to append and the witness."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta

from sqlalchemy import Connection

from tabularium.ledger.chain.continuity import require_recent
from tabularium.ledger.chain.restored import CONFIRM, UNCONFIRMED, unconfirmed
from tabularium.ledger.chain.verify import Verified, in_time, verify_rows
from tabularium.ledger.chain.witness import WitnessDamaged
from tabularium.ledger.events import latest
from tabularium.ledger.records import GENESIS, Charge, Head
from tabularium.ledger.refusals import RESTORE, ChainBroken, ReadOnly
from tabularium.ledger.storage import entry_queries
from tabularium.ledger.storage.append import Append
from tabularium.ledger.storage.chain_head import read_head
from tabularium.ledger.storage.database import NOT_A_LEDGER, Database

GUARD = "find out who did it, then put its guard back (see docs/how-to/mend-a-ledger.md)"
_ASKED = ("release_id", "account", "period", "product")


class Transactions:
    """The transactions of one open ledger, which all its parts share.

    Attributes
    ----------
    read_only
        Why no entry is accepted, or ``None`` if entries are.
    clock
        The time now; with a time zone.
    tolerance
        How far the clock may be behind the last entry before charges are refused.
    """

    def __init__(self, database: Database, clock: Callable[[], datetime], tolerance: timedelta) -> None:
        self.database = database
        self.clock = clock
        self.tolerance = tolerance
        self.read_only = database.fault
        self.witness = database.backend.witnessed()
        self.reading = database.read
        self._first_hash: str | None = None  # which names the chain
        self._continued = 0  # the number of the last entry that was seen to follow from those before it

    @contextmanager
    def appending(self, charge: Charge | None = None, *, confirming: bool = False) -> Iterator[Append]:
        """Take the right to append; afterwards, and only if something was appended, tell the witness.

        Parameters
        ----------
        charge
            What it depends on is read at once with the head, since all others wait.
        confirming
            Whether to append to a ledger that was put back, and waits for just this entry.
        """
        if not (confirming and self.read_only == UNCONFIRMED):
            self.require_writable()
        self.witness.prepare(self._first_hash or GENESIS)
        asked = None
        if charge is not None:
            asked = {name: getattr(charge, name) for name in _ASKED}
            if not self._continued:  # what is appended from here on is looked at where it counts
                with self.reading() as connection:
                    self.require_continued(connection)
        with self.database.write() as connection:
            append = Append(connection, self.clock(), read_head(connection, asked), self.tolerance)
            # A backup may be put in place while this process runs: look at the witness every time.
            unwitnessed = self._unwitnessed(connection, self._first(connection), append.start.shows)
            waits = append.start.kind == "restored" and not confirming
            self.read_only = unwitnessed or (UNCONFIRMED if waits else None)
            self.require_writable()
            yield append
            if append.entry is None:
                return
            first = append.head.hash if append.head.seq == 1 else self._first(connection)
            self.database.backend.append(connection, *append.entry)
        self._first_hash = first
        self.witness.advance(append.head, first)

    def require_continued(self, connection: Connection) -> None:
        """Refuse to go on where the last entries, as far as they were not looked at, do not fit."""
        self._continued = require_recent(connection, self._continued)

    def unconfirmed(self) -> str | None:
        """Return why no entry is accepted after it was put back from a backup, or ``None``."""
        with suppress(ChainBroken), self.reading() as connection:  # who reads or appends will be told
            return None if unconfirmed(connection) is None else UNCONFIRMED
        return None

    def lacking(self, known_heads: Iterable[Head | tuple[int, str]]) -> str | None:
        """Return which head the ledger lacks, the witness's or one of ``known_heads``, or ``None``."""
        heads = {head if isinstance(head, Head) else Head(*head) for head in known_heads}
        with self.reading() as connection:
            first = self._first(connection)
        with self.reading() as connection:  # its view begins with the first query, after the witness
            reason = self._unwitnessed(connection, first)
            missing = next(
                (head for head in sorted(heads) if not entry_queries.holds(connection, head)), None
            )
        if missing is not None:
            return (
                f"it lacks entry {missing.seq} as a measurement file, certificate or head file names it,"
                " so it is an old copy"
            )
        return reason

    def verify(self, known_heads: Iterable[Head | tuple[int, str]] = ()) -> Verified:
        """Verify the chain, and hold it against the witness: see :meth:`tabularium.ledger.Ledger.verify`."""
        name, fault = self.database.name, self.database.fault
        if fault == NOT_A_LEDGER:
            raise ChainBroken(fault, where=name, hint=RESTORE)
        with self.reading() as connection:
            found = verify_rows(connection, latest(self.clock()))
        if fault is not None:
            raise ChainBroken(
                f"its {found.entries} entries are in order, but {fault}", where=name, hint=GUARD
            )
        lacking = self.lacking(known_heads)
        if lacking is not None:
            raise ChainBroken(lacking, where=name, hint=RESTORE)
        return in_time(found, name)

    def require_writable(self) -> None:
        """Raise ``ReadOnly`` if no entry is accepted."""
        if self.read_only is not None:
            mends = {self.database.fault: GUARD, UNCONFIRMED: CONFIRM}
            hint = mends.get(self.read_only, RESTORE)
            raise ReadOnly(f"the ledger is read-only: {self.read_only}", where=self.database.name, hint=hint)

    def _first(self, connection: Connection) -> str:
        """Return the hash of the first entry, which never changes once there is one."""
        if self._first_hash is None:
            first = entry_queries.first_hash(connection)
            self._first_hash = None if first == GENESIS else first
            return first
        return self._first_hash

    def _unwitnessed(
        self, connection: Connection, first: str, shows: Callable[[Head], bool] = lambda _head: False
    ) -> str | None:
        """Return what is wrong between ledger and witness; ``shows`` is a quick look that may suffice."""
        try:
            heads = self.witness.heads(first)
        except WitnessDamaged as error:
            return (
                f"its witness file {error.where} is damaged (verify the ledger with the newest certificate,"
                " then remove that file)"
            )
        for head in heads:
            if not shows(head) and not entry_queries.holds(connection, head):
                return (
                    f"it lacks entry {head.seq} as the witness file names it, so it is an old copy or"
                    " another ledger"
                )
        return None


class Part:
    """Methods of the ledger about one subject, which share its transactions."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions
        self._reading, self._appending = transactions.reading, transactions.appending
