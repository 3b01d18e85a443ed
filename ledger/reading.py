"""What the books say: reads that need no right to append."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

from ledger import names, queries
from ledger.backend import Held
from ledger.database import Database
from ledger.page import unknown_account
from ledger.records import Account, Approval, Charge, Entry, Head, Key, Sums


class Reader:
    """Reads of a ledger; each is one consistent view and one or two rows found by an index."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._backend = database.backend

    @property
    def name(self) -> str:
        """What the ledger is called in messages."""
        return self._database.name

    @property
    def identity(self) -> str:
        """What tells this ledger from every other that a process may have open."""
        return self._backend.identity

    @property
    def locks(self) -> Path:
        """Folder of the locks of the operating system."""
        return self._backend.locks

    def take(self, release_id: str, wait: float) -> Held | None:
        """Take hold of a release; :func:`ledger.holding.hold` is the way to call it."""
        with self._database.told():
            return self._backend.hold(names.release_id(release_id), wait)

    def balance(self, account: str) -> Fraction:
        """Return what is left: the cap less what is reserved and what is spent."""
        return self.account(account).left

    def account(self, name: str) -> Account:
        """Return an account's terms and sums, or raise ``UnknownAccount``."""
        with self._database.read() as connection:
            found = queries.account(connection, names.line(name, field="account"))
        if found is None:
            raise unknown_account(name)
        return found

    def accounts(self) -> list[Account]:
        """Return every account, in the order in which they were opened."""
        with self._database.read() as connection:
            found = (queries.account(connection, name) for name in queries.account_names(connection))
            return [account for account in found if account is not None]

    def sums(self, account: str, *, period: str | None = None, product: str | None = None) -> Sums:
        """Return what is reserved and spent in an account, or in one of its periods or products."""
        with self._database.read() as connection:
            return queries.sums(connection, account, period=period, product=product)

    def periods(self, account: str) -> dict[str, Sums]:
        """Return what is reserved and spent in every period of an account that was charged."""
        with self._database.read() as connection:
            return queries.scopes(connection, names.line(account, field="account"), "period")

    def products(self, account: str) -> dict[str, Sums]:
        """Return what is reserved and spent in every product of an account that was charged."""
        with self._database.read() as connection:
            return queries.scopes(connection, names.line(account, field="account"), "product")

    def charge(self, release_id: str) -> Charge | None:
        """Return a release's charge, or ``None`` if it was never reserved."""
        with self._database.read() as connection:
            return queries.charge(connection, names.release_id(release_id))

    def charges(self, account: str) -> list[Charge]:
        """Return an account's charges, the one that moved last at the end."""
        with self._database.read() as connection:
            return queries.charges(connection, names.line(account, field="account"))

    def keys(self) -> dict[str, Key]:
        """Return every officer's key that was ever enrolled, by its name."""
        with self._database.read() as connection:
            return queries.keys(connection)

    def approval(self, account: str, spec_digest: str) -> Approval | None:
        """Return the last approval of a spec in an account, or its withdrawal."""
        with self._database.read() as connection:
            return queries.approval(connection, account, spec_digest)

    def approvals(self) -> list[Approval]:
        """Return every approval and withdrawal, in order."""
        with self._database.read() as connection:
            return queries.approvals(connection)

    def head(self) -> Head:
        """Return the last entry's number and hash."""
        with self._database.read() as connection:
            return queries.head(connection)[0]

    def holds(self, head: Head) -> bool:
        """Whether the chain holds the entry that ``head`` names."""
        with self._database.read() as connection:
            return queries.holds(connection, head)

    def entries(self, after: int = 0) -> Iterator[Entry]:
        """Go through the entries after number ``after``; no connection is held between pages."""
        while True:
            with self._database.read() as connection:
                rows = queries.page(connection, after)
            yield from (Entry(row.seq, row.prev, row.hash, row.body) for row in rows)
            if not rows:
                return
            after = rows[-1].seq
