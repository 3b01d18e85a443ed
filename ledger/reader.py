"""What the ledger says: reads that need no right to append."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from sqlalchemy import Connection

from tabularium.ledger import names
from tabularium.ledger.chain.continuity import require_continued
from tabularium.ledger.charges.charge_rules import attempts_used_up
from tabularium.ledger.officers.countersigning import key_option
from tabularium.ledger.records import Account, Approval, Charge, Entry, Head, Key, Sums
from tabularium.ledger.refusals import retired_account, unknown_account
from tabularium.ledger.storage import decision_queries, entry_queries, key_queries
from tabularium.ledger.transactions import Transactions


def known_account(connection: Connection, name: str) -> Account:
    """Return an account as it stands, or raise ``UnknownAccount``."""
    found = entry_queries.account(connection, names.line(name, field="account"))
    if found is None:
        raise unknown_account(name)
    require_continued(connection, entry_queries.last_of_account(connection, name))
    return found


def usable_account(connection: Connection, name: str) -> Account:
    """Return an account about which entries may follow, or raise ``UnknownAccount`` or ``Conflict``."""
    found = known_account(connection, name)
    if found.retired:
        raise retired_account(found.name, key_option(connection))
    return found


class Reader:
    """Reads of a ledger; each is one consistent view and a few rows found by an index."""

    def __init__(self, transactions: Transactions) -> None:
        self._reading = transactions.reading
        self._require_continued = transactions.require_continued

    def balance(self, account: str) -> Fraction:
        """Return what is left: the cap less what is reserved and what is spent."""
        return self.account(account).left

    def account(self, name: str) -> Account:
        """Return an account's terms and sums, or raise ``UnknownAccount``.

        Raises
        ------
        ChainBroken
            If its last entry, or one of the ledger's last, does not follow from those before it.
        """
        with self._reading() as connection:
            self._require_continued(connection)
            return known_account(connection, name)

    def accounts(self) -> list[Account]:
        """Return every account, in the order in which they were opened; refuses as :meth:`account` does."""
        with self._reading() as connection:
            self._require_continued(connection)
            return [known_account(connection, name) for name in entry_queries.account_names(connection)]

    def sums(self, account: str, *, period: str | None = None, product: str | None = None) -> Sums:
        """Return what is reserved and spent in an account, or in one of its periods or products."""
        with self._reading() as connection:
            return entry_queries.sums(connection, account, period=period, product=product)

    def periods(self, account: str) -> dict[str, Sums]:
        """Return what is reserved and spent in every period of an account that was charged."""
        with self._reading() as connection:
            return entry_queries.scopes(connection, names.line(account, field="account"), "period")

    def products(self, account: str) -> dict[str, Sums]:
        """Return what is reserved and spent in every product of an account that was charged."""
        with self._reading() as connection:
            return entry_queries.scopes(connection, names.line(account, field="account"), "product")

    def charge(self, release_id: str) -> Charge | None:
        """Return a release's charge, or ``None`` if it was never reserved."""
        with self._reading() as connection:
            return entry_queries.charge(connection, names.release_id(release_id))

    def attempts_used_up(self, charge: Charge) -> bool:
        """Whether drawing began as often as it may: an officer must allow more attempts."""
        with self._reading() as connection:
            return charge.state == "drawing" and attempts_used_up(connection, charge)

    def key_option(self, account: str | None = None) -> str:
        """Return `` --key FILE`` where what favours the spending of an account needs an officer's key.

        Parameters
        ----------
        account
            None for opening one.
        """
        with self._reading() as connection:
            terms = None if account is None else known_account(connection, account).terms
            return key_option(connection, terms)

    def keys(self) -> dict[str, Key]:
        """Return every officer's key that was ever enrolled, by its name."""
        with self._reading() as connection:
            return key_queries.keys(connection)

    def approval(self, account: str, spec_digest: str) -> Approval | None:
        """Return the last word on a spec in an account, with all whose approvals stand together with it.

        They must be as many as the account's ``terms.approvals_for(product)``.
        """
        with self._reading() as connection:
            return decision_queries.approval(connection, account, spec_digest)

    def approvals(self) -> list[Approval]:
        """Return every approval, and every taking back of one, in order."""
        with self._reading() as connection:
            return decision_queries.approvals(connection)

    def head(self) -> Head:
        """Return the last entry's number and hash."""
        with self._reading() as connection:
            return entry_queries.head(connection)[0]

    def chain(self) -> str:
        """Return the hash of the first entry, which names this ledger; zeros while it is empty."""
        with self._reading() as connection:
            return entry_queries.first_hash(connection)

    def holds(self, head: Head) -> bool:
        """Whether the chain holds the entry that ``head`` names."""
        with self._reading() as connection:
            return entry_queries.holds(connection, head)

    def entries(self, after: int = 0) -> Iterator[Entry]:
        """Go through the entries after number ``after``; no connection is held meanwhile."""
        while True:
            with self._reading() as connection:
                rows = entry_queries.entries_after(connection, after)
            yield from (Entry(row.seq, row.prev, row.hash, row.body) for row in rows)
            if not rows:
                return
            after = rows[-1].seq
