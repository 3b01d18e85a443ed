"""The books of an agency: accounts with caps, and one charge per release.

Only this file decides what may be appended. Every decision and its entry are one transaction that first
takes the one right to append, so that no two processes can spend the same budget, and every step of a
charge is a comparison with the state and fence that stand in the books at that moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

from sqlalchemy import URL, Connection

from ledger import amounts, names, queries
from ledger.audit import Verified, walk
from ledger.database import WAIT_SECONDS, Database
from ledger.errors import BadAmount, ChainBroken, Conflict, ReadOnly, UnknownRelease
from ledger.page import Page, allowed, content, same, stale, unknown_account, within_caps
from ledger.reading import Reader
from ledger.records import DEFINITIONS, RELATIONS, Account, Charge, Head, Sums, Terms
from ledger.witness import Witness, WitnessDamaged

CLOCK_TOLERANCE = timedelta(minutes=10)
_RESTORE = "restore the newest backup, or open the ledger that wrote it"


class Ledger(Reader):
    """The ledger behind a database URL; open it with :meth:`connect`.

    Every method is one transaction, safe among threads and processes, and may simply be called again
    after any failure: what was committed is found, not repeated.

    Attributes
    ----------
    read_only
        Why no entry is accepted, or ``None`` if entries are.
    """

    def __init__(self, database: Database, clock: Callable[[], datetime], tolerance: timedelta) -> None:
        super().__init__(database)
        self._clock = clock
        self._tolerance = tolerance
        self._witness = Witness(database.witness, database.locks / "witness.lock", database.wait)
        self.read_only = database.fault

    @classmethod
    def connect(
        cls,
        url: str | URL,
        *,
        known_heads: Iterable[Head | tuple[int, str]] = (),
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        clock_tolerance: timedelta = CLOCK_TOLERANCE,
        wait: float = WAIT_SECONDS,
    ) -> Ledger:
        """Open a ledger; a file that does not exist yet is made, mode 0600.

        Parameters
        ----------
        url
            ``sqlite:///books.db`` (relative to the current folder) or ``sqlite:////path/to/books.db``.
        known_heads
            Heads that stand outside the database, in measurement files and certificates. If the ledger
            lacks one of them, or the one in its witness file, it opens read-only.
        clock
            The time now; with a time zone.
        clock_tolerance
            How far the clock may be behind the last entry before charges are refused.
        wait
            Seconds to wait for other writers before ``Busy`` is raised.

        Raises
        ------
        StorageFailed
            If the database cannot be opened.
        """
        ledger = cls(Database(url, wait), clock, clock_tolerance)
        if ledger.read_only is None:
            ledger.read_only = ledger._lacking(known_heads)
        return ledger

    def close(self) -> None:
        """Close the idle connections; the ledger may be used again afterwards."""
        self._database.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    # What is written

    def open_account(
        self,
        name: str,
        *,
        unit: str,
        relation: str,
        definition: str,
        cap: Fraction,
        quantum: Fraction = amounts.DEFAULT_QUANTUM,
        cap_per_period: Fraction | None = None,
        cap_per_product: Fraction | None = None,
        delta: Fraction | None = None,
    ) -> Account:
        """Open an account, or return it if it is open on the very same terms.

        Parameters
        ----------
        name
            The dataset.
        unit
            The privacy unit: whose protection the amounts are about, such as ``"person"``.
        relation
            ``"add-remove"`` or ``"replace"``: what makes two datasets neighbours.
        definition
            ``"pure"`` (amounts are ε) or ``"zcdp"`` (amounts are ρ).
        cap, cap_per_period, cap_per_product
            The most that may ever be charged: in all, for one period, for one product.
        quantum
            ``1/q``, ``q <= 10**12``; every amount must be a multiple of it.
        delta
            For ``"zcdp"`` alone, where it is needed: the δ at which (ε, δ) is reported.

        Raises
        ------
        Conflict
            If the account is open on other terms.
        """
        step = amounts.quantum(quantum)
        terms = Terms(
            name=names.line(name, field="account"),
            unit=names.line(unit, field="unit"),
            relation=names.one_of(relation, RELATIONS, field="relation"),
            definition=names.one_of(definition, DEFINITIONS, field="definition"),
            cap=amounts.multiple(cap, step, field="cap"),
            quantum=step,
            cap_per_period=_cap(cap_per_period, step, "cap_per_period"),
            cap_per_product=_cap(cap_per_product, step, "cap_per_product"),
            delta=_delta(delta, definition),
        )
        with self._appending() as page:
            known = queries.account(page.connection, terms.name)
            if known is None:
                page.append("account", {**terms.fields(), **Sums().texts("account")}, self._tolerance)
            else:
                same("account", terms.name, terms.fields(), known.terms.fields())
        return self.account(terms.name)

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
    ) -> Charge:
        """Set ``amount`` aside for a release, or return the charge that the same call made before.

        Raises
        ------
        UnknownAccount
            If the account was never opened.
        BadAmount
            If the amount is not an exact positive multiple of the account's quantum.
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
        with self._appending() as page:
            stands = page.standing(charge)
            if stands.terms is None:
                raise unknown_account(charge.account)
            amounts.multiple(charge.amount, stands.terms.quantum, field="amount")
            if stands.charge is not None:
                same("release", charge.release_id, content(charge), content(stands.charge))
                return stands.charge
            self._one_account_per_input(page.connection, charge)
            within_caps(stands.sums, stands.terms, charge)
            return page.step(charge, "reserved", stands.sums, tolerance=self._tolerance)

    def drawing(self, release_id: str, *, expected: int | None = None) -> int:
        """Record, before the first random bit, that noise is about to be drawn; return the new fence.

        The caller must hold the release (:func:`ledger.holding.hold`): a charge that is already in
        ``drawing`` gets the next fence, which shuts out whoever had the one before.

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

    def void(self, release_id: str, reason: str) -> Charge:
        """Give back a reservation for which no drawing ever began."""
        return self._end(release_id, "voided", reason, None)

    def abandon(self, release_id: str, reason: str, *, fence: int | None = None) -> Charge:
        """Give up a release whose drawing began; its budget stays spent.

        Parameters
        ----------
        fence
            The caller's own fence, if it may not abandon what another attempt has taken over.
        """
        return self._end(release_id, "abandoned", reason, fence)

    def verify(self, known_heads: Iterable[Head | tuple[int, str]] = ()) -> Verified:
        """Work out every entry again from those before it; return what was found in order.

        Raises
        ------
        ChainBroken
            Naming the first bad entry, or the head (the witness's, or one of ``known_heads``) that the
            ledger lacks.
        """
        if self._database.fault is not None:
            raise ChainBroken(self._database.fault, where=self.name, mend="restore the last good backup")
        with self._database.read() as connection:
            found = walk(queries.all_rows(connection))
        lacking = self._lacking(known_heads)
        if lacking is not None:
            raise ChainBroken(lacking, where=self.name, mend=_RESTORE)
        return found

    # How it is done

    @contextmanager
    def _appending(self) -> Iterator[Page]:
        """Take the right to append; afterwards, and only if something was appended, tell the witness."""
        if self.read_only is not None:
            raise ReadOnly(f"the ledger is read-only: {self.read_only}", where=self.name, mend=_RESTORE)
        with self._database.write() as connection:
            page = Page(connection, self._clock())
            self._as_witnessed(page)
            yield page
        if page.appended:
            self._witness.advance(page.head)

    def _as_witnessed(self, page: Page) -> None:
        """A backup may be put in place while this process runs: look at the witness every time."""
        self.read_only = self._unwitnessed(page.connection, page.head)
        if self.read_only is not None:
            raise ReadOnly(f"the ledger is read-only: {self.read_only}", where=self.name, mend=_RESTORE)

    def _unwitnessed(self, connection: Connection, head: Head | None = None) -> str | None:
        try:
            named = self._witness.read()
        except WitnessDamaged as error:
            return error.what
        if named is None or named == head or queries.holds(connection, named):
            return None
        return (
            f"it lacks entry {named.seq} as the witness file names it, so it is an old copy or another ledger"
        )

    def _lacking(self, known_heads: Iterable[Head | tuple[int, str]]) -> str | None:
        heads = {head if isinstance(head, Head) else Head(*head) for head in known_heads}
        with self._database.read() as connection:  # its view begins with the first query, after the witness
            reason = self._unwitnessed(connection)
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

    def _end(self, release_id: str, state: str, reason: str, fence: int | None) -> Charge:
        reason = names.line(reason, field="reason", longest=names.LONGEST_TEXT)
        with self._appending() as page:
            if fence is None:
                charge = self._charge(page.connection, release_id)
            else:
                charge = self._current(page.connection, release_id, fence)
            if charge.state == state:
                return charge
            allowed(charge, state)
            return page.step(replace(charge, reason=reason), state)

    @staticmethod
    def _one_account_per_input(connection: Connection, charge: Charge) -> None:
        named = charge.input_digest
        if named is not None and queries.charged_elsewhere(connection, named, charge.account):
            raise Conflict(
                "the same input was charged in another account, whose cap would then not hold",
                where=f"release {charge.release_id}",
                mend="charge it in that account",
            )


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


def _cap(value: Fraction | None, quantum: Fraction, field: str) -> Fraction | None:
    return None if value is None else amounts.multiple(value, quantum, field=field)


def _delta(value: Fraction | None, definition: str) -> Fraction | None:
    if (definition == "zcdp") != (value is not None):
        raise BadAmount(
            "is needed for zcdp, and for zcdp alone", where="delta", mend="give it with definition zcdp"
        )
    if value is None:
        return None
    delta = amounts.positive(value, field="delta")
    if delta >= 1:
        raise BadAmount("is not below one", where="delta", mend="give a small Fraction")
    return delta


def _optional_digest(value: str | None) -> str | None:
    return None if value is None else names.line(value, field="input_digest", longest=names.LONGEST_TEXT)
