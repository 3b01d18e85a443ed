"""The books of an agency: accounts with caps, and one charge per release.

Every decision and its entry are one transaction that first takes the one right to append, so that no two
processes can spend the same budget, and every step of a charge is a comparison with the state and fence that
stand in the books at that moment. What an officer decides is in :mod:`ledger.officers.decisions`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

from sqlalchemy import URL, Connection

from ledger import amounts, names
from ledger.chain import entries as chain
from ledger.chain.verify import Audit, Verified, in_time
from ledger.chain.verify_state import without_collector
from ledger.composition import Partition
from ledger.officers.decisions import Officers
from ledger.records import Account, Charge, Head, Terms
from ledger.refusals import AccountClosed, BadValue, ChainBroken, Conflict, NotApproved, StorageFailed
from ledger.storage import account_history as ends
from ledger.storage import entry_queries as queries
from ledger.storage.append import (
    Page,
    allowed,
    approved,
    content,
    open_at,
    same,
    stale,
    unknown_account,
    within_caps,
)
from ledger.storage.database import FOREIGN, WAIT_SECONDS, Database
from ledger.unit_check import fit
from ledger.writer import GUARD, RESTORE

CLOCK_TOLERANCE = timedelta(minutes=10)


class Ledger(Officers):
    """The ledger behind a database URL; open it with :meth:`connect`.

    Every method is one transaction, safe among threads and processes, and may simply be called again
    after any failure: what was committed is found, not repeated.

    Attributes
    ----------
    read_only
        Why no entry is accepted, or ``None`` if entries are.
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
    ) -> Ledger:
        """Open a ledger; one that does not exist yet is made (an SQLite file with mode 0600).

        Parameters
        ----------
        url
            ``sqlite:///books.db`` (relative to the current folder), ``sqlite:////path/to/books.db``, or
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
            Seconds to wait for other writers before ``Busy`` is raised.

        Raises
        ------
        StorageFailed
            If the database cannot be opened, or its tables are of another release.
        """
        tolerance = _tolerance() if clock_tolerance is None else clock_tolerance
        ledger = cls(Database(url, wait), clock, tolerance)
        if ledger.read_only is None:
            ledger.read_only = ledger._lacking(known_heads)
        return ledger

    def close(self) -> None:
        """Close the idle connections; the ledger may be used again afterwards."""
        self._database.close()
        self._witness.keep()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, exception: type[BaseException] | None, *_more: object) -> None:
        try:
            self.close()
        except StorageFailed:  # of the witness; what went wrong before it says more
            if exception is None:
                raise

    def reserve(
        self,
        account: str,
        *,
        release_id: str,
        amount: Fraction,
        product: str,
        period: str,
        spec_digest: str,
        input_digest: str | None = None,
        partition: Partition | None = None,
        unit: str | None = None,
        relation: str | None = None,
        definition: str | None = None,
    ) -> Charge:
        """Set ``amount`` aside for a release, or return the charge that the same call made before.

        Parameters
        ----------
        partition
            Which part of the data the release reads, if it composes in parallel with others: see
            :mod:`ledger.composition`.
        unit, relation, definition
            What the amount is about, to be compared with the account's; ``None``: the account's.

        Raises
        ------
        UnknownAccount
            If the account was never opened.
        BadAmount
            If the amount is not an exact positive multiple of the account's quantum.
        Unfit
            If the amount is about another unit, relation or definition than the account's.
        AccountClosed
            If the account is not open today.
        NotApproved
            If the account needs approvals and no officer has approved the spec.
        BudgetExhausted
            If a cap would be passed.
        Conflict
            If the release id stands for something else, or the input was charged in another account.
        """
        charge = Charge(
            release_id=names.release_id(release_id),
            account=names.line(account, field="account"),
            product=names.line(product, field="product"),
            period=names.line(period, field="period"),
            amount=amounts.positive(amount, field="amount"),
            spec_digest=names.line(spec_digest, field="spec_digest", longest=names.LONGEST_TEXT),
            input_digest=_optional_digest(input_digest),
            **_UNBORN,
        )
        partition = None if partition is None else partition.checked()
        with self._appending(charge) as page:
            stands = page.asked or page.standing(charge)
            if stands.terms is None:
                raise unknown_account(charge.account)
            terms = stands.terms
            fit(terms, charge.amount, unit, relation, definition)
            amounts.multiple(charge.amount, terms.quantum, field="amount")
            charge = _in_group(charge, partition, terms)
            if stands.charge is not None:
                same("release", charge.release_id, content(charge), content(stands.charge))
                return stands.charge
            open_at(terms, page.time(self._tolerance))
            approved(page.connection, terms, charge.spec_digest, charge.amount)
            self._one_account_per_input(page, charge)
            self._one_bound_per_group(page.connection, charge)
            within_caps(terms, charge, stands.sums, page.after(charge, "reserved", stands))
            return page.step(charge, "reserved", stands, tolerance=self._tolerance)

    def enquire(
        self,
        account: str,
        *,
        amount: Fraction,
        spec_digest: str,
        unit: str | None = None,
        relation: str | None = None,
        definition: str | None = None,
    ) -> Account:
        """Refuse now what :meth:`reserve` would refuse later, before any data is read; nothing is written.

        The dates, the approval, the unit, relation and definition, and the quantum are looked
        at, not the caps. Only ``reserve`` decides. A spec that was charged before passes the dates and the
        approval:
        its run may only be finishing, or finding, what is paid for.

        Raises
        ------
        UnknownAccount, BadAmount, Unfit, AccountClosed, NotApproved
            As :meth:`reserve` would.
        """
        asked = amounts.positive(amount, field="amount")
        digest = names.line(spec_digest, field="spec_digest", longest=names.LONGEST_TEXT)
        with self._database.read() as connection:
            found = self._account(connection, account)
            terms = found.terms
            fit(terms, asked, unit, relation, definition)
            amounts.multiple(asked, terms.quantum, field="amount")
            page = Page(connection, self._clock())
            try:
                open_at(terms, page.time(self._tolerance))
                approved(connection, terms, digest, asked)
            except (AccountClosed, NotApproved):
                before = [charge.release_id for charge in ends.reserved_for(connection, found.name, digest)]
                if not queries.any_counts(connection, before):
                    raise
        return found

    def drawing(self, release_id: str, *, expected: int | None = None) -> int:
        """Record, before the first random bit, that noise is about to be drawn; return the new fence.

        The caller must hold the release (:func:`ledger.measurement.release_lock.hold`): a charge that is
        already in ``drawing`` gets the next fence, which shuts out whoever had the one before.

        Parameters
        ----------
        expected
            The fence that the caller saw (0 while reserved): if it has moved on, nothing is written.
        """
        with self._appending() as page:
            charge = self._charge(page.connection, release_id)
            if expected is not None and charge.fence != expected:
                raise stale(charge)
            allowed(charge, "drawing")
            after = replace(charge, fence=charge.fence + 1)
            return page.step(after, "drawing", tolerance=self._tolerance).fence

    def measured(self, release_id: str, fence: int, *, digest: str) -> Charge:
        """Record the digest of the durable measurement file; from here on nothing is drawn again."""
        digest = names.line(digest, field="digest", longest=names.LONGEST_TEXT)
        with self._appending() as page:
            charge = self._current(page.connection, release_id, fence)
            if charge.state in ("measured", "published") and charge.measurement_digest == digest:
                return charge
            allowed(charge, "measured")
            return page.step(replace(charge, measurement_digest=digest), "measured")

    def published(self, release_id: str, fence: int, *, digest: str) -> Charge:
        """Record the digest of what was published."""
        digest = names.line(digest, field="digest", longest=names.LONGEST_TEXT)
        with self._appending() as page:
            charge = self._current(page.connection, release_id, fence)
            if charge.state == "published" and charge.publication_digest == digest:
                return charge
            allowed(charge, "published")
            return page.step(replace(charge, publication_digest=digest), "published")

    def verify(self, known_heads: Iterable[Head | tuple[int, str]] = ()) -> Verified:
        """Work out every entry again from those before it; return what was found in order.

        Raises
        ------
        ChainBroken
            Naming the first bad entry, or the head (the witness's, or one of ``known_heads``) that the
            ledger lacks.
        """
        fault = self._database.fault
        if fault == FOREIGN:
            raise ChainBroken(fault, where=self.name, mend=RESTORE)
        with self._database.read() as connection:
            found = audited(connection, chain.latest(self._clock()))
        if fault is not None:
            what = f"its {found.entries} entries are in order, but {fault}"
            raise ChainBroken(what, where=self.name, mend=GUARD)
        lacking = self._lacking(known_heads)
        if lacking is not None:
            raise ChainBroken(lacking, where=self.name, mend=RESTORE)
        return in_time(found, self.name)

    @staticmethod
    def _one_account_per_input(page: Page, charge: Charge) -> None:
        if queries.any_counts(page.connection, page.elsewhere):
            raise Conflict(
                "the same input was charged in another account, whose cap would then not hold",
                where=f"release {charge.release_id}",
                mend="charge it in that account",
            )

    @staticmethod
    def _one_bound_per_group(connection: Connection, charge: Charge) -> None:
        """One assignment has one bound on how many parts a unit is in."""
        if charge.group is None:
            return
        bound = queries.group_bound(connection, charge.account, charge.group)
        if bound is not None and bound != charge.contributions:
            raise Conflict(
                f"its assignment is in the books with {bound} contributions",
                where=f"release {charge.release_id}",
                mend="give the same bound, or the digest of another assignment",
            )


def _tolerance() -> timedelta:
    """Return how far the clock may be behind, as the environment says."""
    named = os.environ.get("TABULARIUM_CLOCK_TOLERANCE")
    if not named:
        return CLOCK_TOLERANCE
    if not (named.isascii() and named.isdecimal() and len(named) <= 7):
        raise BadValue(
            "is not a whole number of minutes", where="TABULARIUM_CLOCK_TOLERANCE", mend="write it like 30"
        )
    return timedelta(minutes=int(named))


def audited(connection: Connection, latest: str = "~") -> Verified:
    """Walk the whole chain that ``connection`` sees; entries of a later time than ``latest`` are told of."""
    audit, after = Audit(latest=latest), 0
    with without_collector():
        while rows := queries.rows(connection, after, _STRIDE):
            for row in rows:
                audit.take(row[0], row[1], row[2], row[3], row[4:])
            after = rows[-1][0]
    return audit.result()


_STRIDE = 5000

#: the fields of a charge that the books have not seen yet
_UNBORN: dict[str, Any] = {
    "state": "",
    "fence": 0,
    "measurement_digest": None,
    "publication_digest": None,
    "reason": None,
    "reserved_at": "",
    "changed_at": "",
    "seq": 0,
}


def _in_group(charge: Charge, partition: Partition | None, terms: Terms) -> Charge:
    if partition is None:
        return charge
    return replace(
        charge,
        group=partition.group(charge.period, terms.unit),
        part=partition.part,
        contributions=partition.contributions,
    )


def _optional_digest(value: str | None) -> str | None:
    return None if value is None else names.line(value, field="input_digest", longest=names.LONGEST_TEXT)
