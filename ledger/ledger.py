"""The ledger of an agency: accounts with caps, and one charge per release."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import URL

from tabularium.ledger import names
from tabularium.ledger.accounts import Accounts
from tabularium.ledger.charges import Charges
from tabularium.ledger.officers import Officers
from tabularium.ledger.records import Head
from tabularium.ledger.refusals import BadValue, StorageFailed
from tabularium.ledger.storage.backend import Held
from tabularium.ledger.storage.database import WAIT_SECONDS, Database
from tabularium.ledger.transactions import Transactions
from tabularium.ledger.verify import Verified
from tabularium.ledger.views import Views

CLOCK_TOLERANCE = timedelta(minutes=10)


class Ledger(Views, Accounts, Charges, Officers):
    """The ledger behind a database URL; open it with :meth:`connect`.

    What it says is in :class:`tabularium.ledger.views.Views`, what is written in
    :class:`tabularium.ledger.accounts.Accounts`, :class:`tabularium.ledger.charges.Charges` and
    :class:`tabularium.ledger.officers.Officers`. Every method is one transaction, safe among threads and
    processes, and may simply be called again after any failure: what was committed is found, not repeated.
    """

    @classmethod
    def connect(
        cls,
        url: str | URL,
        *,
        known_heads: Iterable[Head | tuple[int, str]] = (),
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        clock_tolerance: timedelta | None = None,
        wait: float = WAIT_SECONDS,
        make: bool = True,
    ) -> Ledger:
        """Open a ledger; one that does not exist yet is made (an SQLite file with mode 0600).

        Parameters
        ----------
        url
            ``sqlite:///ledger.db`` (relative to the current folder), ``sqlite:////path/to/ledger.db``, or
            ``postgresql+psycopg://user@host/books``.
        known_heads
            Heads that stand outside the database, in measurement files and certificates. If the ledger
            lacks one of them, or the one in its witness file, it opens read-only.
        clock
            The time now; with a time zone.
        clock_tolerance
            How far the clock may be behind the last entry before charges are refused; ``None``: as many
            minutes as ``TABULARIUM_CLOCK_TOLERANCE`` says, else ten.
        wait
            Seconds to wait for other writers before ``LockTimeout`` is raised.
        make
            Whether one that does not exist is made; who only looks makes none.

        Raises ``StorageFailed`` if the database cannot be opened, is not there and not to be made, or its
        tables are of another release.
        """
        tolerance = _tolerance() if clock_tolerance is None else clock_tolerance
        transactions = Transactions(Database(url, wait, make=make), clock, tolerance)
        ledger = cls(transactions)
        ledger.expect(known_heads)
        return ledger

    def expect(self, known_heads: Iterable[Head | tuple[int, str]]) -> None:
        """Be read-only from here on if one of these heads, which stand outside the database, is lacking."""
        if self._transactions.read_only is None:
            transactions = self._transactions
            transactions.read_only = transactions.lacking(known_heads) or transactions.unconfirmed()

    @property
    def unconfirmed(self) -> str | None:
        """Why no entry is accepted yet after it was put back from a backup, or ``None``."""
        return self._transactions.unconfirmed()

    def verify(self, known_heads: Iterable[Head | tuple[int, str]] = ()) -> Verified:
        """Work out every entry again from those before it; return what was found in order.

        Raises ``ChainBroken``, naming the first bad entry, or the head (the witness's, or one of
        ``known_heads``) that the ledger lacks.
        """
        return self._transactions.verify(known_heads)

    @property
    def name(self) -> str:
        """What the ledger is called in messages."""
        return self._transactions.database.backend.name

    @property
    def identity(self) -> str:
        """What tells this ledger from every other that a process may have open."""
        return self._transactions.database.backend.identity

    @property
    def locks(self) -> Path:
        """Folder of the locks of the operating system."""
        return self._transactions.database.backend.locks

    @property
    def read_only(self) -> str | None:
        """Why no entry is accepted, or ``None`` if entries are."""
        return self._transactions.read_only

    def require_writable(self) -> None:
        """Raise ``ReadOnly``, with why and what mends it, if no entry is accepted."""
        self._transactions.require_writable()

    @property
    def witnessed_elsewhere(self) -> bool:
        """Whether the head is remembered in another place than beside the database."""
        return self._transactions.witness.elsewhere

    def take(self, release_id: str, wait: float) -> Held | None:
        """Take hold of a release; call :func:`tabularium.ledger.measurement.release_lock.hold` instead."""
        with self._transactions.database.translated_errors():
            return self._transactions.database.backend.hold(names.release_id(release_id), wait)

    def close(self) -> None:
        """Close the idle connections; the ledger may be used again afterwards."""
        self._transactions.database.close()
        self._transactions.witness.keep()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, exception: type[BaseException] | None, *_more: object) -> None:
        try:
            self.close()
        except StorageFailed:  # of the witness; what went wrong before it says more
            if exception is None:
                raise


def _tolerance() -> timedelta:
    """Return how far the clock may be behind, as the environment says."""
    named = os.environ.get("TABULARIUM_CLOCK_TOLERANCE")
    if not named:
        return CLOCK_TOLERANCE
    if not (named.isascii() and named.isdecimal() and len(named) <= 7):
        raise BadValue(
            "is not a whole number of minutes", where="TABULARIUM_CLOCK_TOLERANCE", hint="write it like 30"
        )
    return timedelta(minutes=int(named))
