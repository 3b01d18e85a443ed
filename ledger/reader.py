"""What the ledger says: reads that need no right to append."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from sqlalchemy import Connection

from ledger import names
from ledger.records import Account, Approval, Charge, Entry, Head, Key, Sums, Terms
from ledger.refusals import unknown_account
from ledger.storage import account_history
from ledger.storage import entry_queries as queries
from ledger.transactions import Transactions

_PIECE = 500  # charges that are read at once


def known_account(connection: Connection, name: str) -> Account:
    """Return an account as it stands, or raise ``UnknownAccount``."""
    found = queries.account(connection, names.line(name, field="account"))
    if found is None:
        raise unknown_account(name)
    return found


class Reader:
    """Reads of a ledger; each is one consistent view and one or two rows found by an index."""

    def __init__(self, transactions: Transactions) -> None:
        self._reading = transactions.reading

    def balance(self, account: str) -> Fraction:
        """Return what is left: the cap less what is reserved and what is spent."""
        return self.account(account).left

    def account(self, name: str) -> Account:
        """Return an account's terms and sums, or raise ``UnknownAccount``."""
        with self._reading() as connection:
            return known_account(connection, name)

    def accounts(self) -> list[Account]:
        """Return every account, in the order in which they were opened."""
        with self._reading() as connection:
            found = (queries.account(connection, name) for name in queries.account_names(connection))
            return [account for account in found if account is not None]

    def sums(self, account: str, *, period: str | None = None, product: str | None = None) -> Sums:
        """Return what is reserved and spent in an account, or in one of its periods or products."""
        with self._reading() as connection:
            return queries.sums(connection, account, period=period, product=product)

    def periods(self, account: str) -> dict[str, Sums]:
        """Return what is reserved and spent in every period of an account that was charged."""
        with self._reading() as connection:
            return queries.scopes(connection, names.line(account, field="account"), "period")

    def products(self, account: str) -> dict[str, Sums]:
        """Return what is reserved and spent in every product of an account that was charged."""
        with self._reading() as connection:
            return queries.scopes(connection, names.line(account, field="account"), "product")

    def charge(self, release_id: str) -> Charge | None:
        """Return a release's charge, or ``None`` if it was never reserved."""
        with self._reading() as connection:
            return queries.charge(connection, names.release_id(release_id))

    def charges(self, account: str) -> list[Charge]:
        """Return an account's charges, the one that moved last at the end."""
        with self._reading() as connection:
            return queries.charges(connection, names.line(account, field="account"))

    def last_charges(self, account: str, number: int) -> list[Charge]:
        """Return those ``number`` of an account's charges that moved last, the last one at the end.

        It reads the account's entries from the newest back, however many there are.
        """
        name, limit = names.line(account, field="account"), 4 * number + _PIECE
        found: dict[str, dict[str, Any]] = {}
        with self._reading() as connection:
            while True:
                entries = account_history.back(connection, name, limit)
                bodies = (entry.body for entry in entries)
                for body in (body for body in bodies if "release_id" in body):
                    found.setdefault(body["release_id"], body)
                if len(found) >= number or len(entries) < limit:
                    break
                limit *= 4  # charges that moved often, or many entries that are about no charge
        return [Charge.of(body) for body in list(found.values())[:number]][::-1]

    def each_charge(self, account: str) -> Iterator[Charge]:
        """Go through an account's charges as of one moment, the one that moved last at the end.

        Unlike :meth:`charges` it holds few of them in memory; a connection is held until it is done.
        """
        with self._reading() as connection:
            places = account_history.charge_places(connection, names.line(account, field="account"))
            for start in range(0, len(places), _PIECE):
                yield from account_history.charges_at(connection, places[start : start + _PIECE])

    def published_before(self, account: str, product: str, period: str) -> list[Charge]:
        """Return a product's published charges for periods before ``period``, the last period first.

        Periods are compared as text, byte by byte.
        """
        with self._reading() as connection:
            return account_history.published(connection, account, product, period)

    def charge_count(self, account: str) -> int:
        """Return how many charges an account ever had, voided ones too."""
        with self._reading() as connection:
            return account_history.charge_count(connection, names.line(account, field="account"))

    def budgeted(self, account: str) -> Iterator[Charge]:
        """Go through the steps that take or give back budget of an account, as of one moment.

        Every charge comes once as it was ``reserved``, and a second time if it was ``voided``. That is all
        a sum needs, and a quarter of the entries. They come in any order, and a connection is held until it
        is done.
        """
        with self._reading() as connection:
            yield from account_history.budgeted(connection, names.line(account, field="account"))

    def keys(self) -> dict[str, Key]:
        """Return every officer's key that was ever enrolled, by its name."""
        with self._reading() as connection:
            return queries.keys(connection)

    def approval(self, account: str, spec_digest: str) -> Approval | None:
        """Return the last approval of a spec in an account, or its withdrawal."""
        with self._reading() as connection:
            return queries.approval(connection, account, spec_digest)

    def approvals(self) -> list[Approval]:
        """Return every approval and withdrawal, in order."""
        with self._reading() as connection:
            return queries.approvals(connection)

    def head(self) -> Head:
        """Return the last entry's number and hash."""
        with self._reading() as connection:
            return queries.head(connection)[0]

    def holds(self, head: Head) -> bool:
        """Whether the chain holds the entry that ``head`` names."""
        with self._reading() as connection:
            return queries.holds(connection, head)

    def entries(self, after: int = 0) -> Iterator[Entry]:
        """Go through the entries after number ``after``; no connection is held meanwhile."""
        while True:
            with self._reading() as connection:
                rows = queries.entries_after(connection, after)
            yield from (Entry(row.seq, row.prev, row.hash, row.body) for row in rows)
            if not rows:
                return
            after = rows[-1].seq

    def account_entries(self, account: str) -> Iterator[Entry]:
        """Go through an account's entries as of one moment, oldest first.

        Unlike with :meth:`entries` a connection is held until it is done.
        """
        with self._reading() as connection:
            yield from account_history.every(connection, names.line(account, field="account"))

    def last_entries(self, number: int, account: str | None = None) -> list[Entry]:
        """Return the last entries, of an account or of the whole ledger, oldest first.

        They are read from the newest back, however many there are.
        """
        with self._reading() as connection:
            if account is None:
                return account_history.newest(connection, number)[::-1]
            return account_history.back(connection, names.line(account, field="account"), number)[::-1]

    def course(self, account: str, most: int) -> list[Entry]:
        """Return how an account went: all its entries, or some ``most`` evenly spread over the chain.

        Every change of its terms is among them.
        """
        name = names.line(account, field="account")
        with self._reading() as connection:
            latest = account_history.back(connection, name, most + 1)
            if len(latest) <= most:
                return latest[::-1]
            first, last = account_history.first(connection, name), latest[0]
            found = {
                entry.seq: entry for entry in (first, *account_history.terms_entries(connection, name), last)
            }
            for step in range(1, most):
                place = first.seq + step * (last.seq - first.seq) // most
                entry = account_history.at_or_before(connection, name, place)
                found[entry.seq] = entry
        return [found[seq] for seq in sorted(found)]

    def terms_before(self, account: str, entry: int) -> Terms | None:
        """Return an account's terms as they were before the entry of that number."""
        with self._reading() as connection:
            return account_history.terms_before(connection, names.line(account, field="account"), entry)
