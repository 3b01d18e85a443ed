"""The ledger of an agency: accounts with caps, and one charge per release."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import URL

from tabularium.ledger import amounts, names, rules
from tabularium.ledger.charges import Charges
from tabularium.ledger.officers import Officers
from tabularium.ledger.records import Account, Head, Terms
from tabularium.ledger.refusals import BadValue, StorageFailed, require_same
from tabularium.ledger.storage import queries
from tabularium.ledger.storage.backend import Held
from tabularium.ledger.storage.database import WAIT_SECONDS, Database
from tabularium.ledger.terms import raised, validate_terms
from tabularium.ledger.transactions import Part, Transactions
from tabularium.ledger.verify import Verified
from tabularium.ledger.views import Views, get_account

# Accounts: how one opens with its caps, how its terms change, and how it ends.


_KEEP: Any = object()  # "leave it as it is", where None means "none"


class Accounts(Part):
    """Accounts, opened and changed by disclosure officers.

    ``by`` is the enrolled key that signs. Refusals, with their errors and hints, stand
    with their rules in :mod:`tabularium.ledger.rules` (``NotApproved`` if a signature is needed and there is
    none, or ``by`` is not an enrolled key), and of terms in :mod:`tabularium.ledger.terms`.
    """

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
        opens_on: str | None = None,
        closes_on: str | None = None,
        needs_approval: bool = False,
        population: str | None = None,
        approve_exact: bool = False,
        approvals: int = 1,
        approvals_by_product: Mapping[str, int] | None = None,
        by: Ed25519PrivateKey | None = None,
    ) -> Account:
        """Open an account, or return it if it is open on the very same terms.

        While an officer's key is enrolled the opening is signed. One that was retired opens again, on these
        terms, if no spec was ever approved for it; its entry is a change of all its terms.

        Parameters
        ----------
        unit
            The privacy unit: the entity that the amounts protect, such as ``"person"``. A name that ends in
            ``-period`` is a unit in one period.
        relation
            ``"add-remove"`` or ``"replace"``: what makes two datasets neighbours.
        definition
            ``"pure"`` (amounts are ε) or ``"zcdp"`` (amounts are ρ).
        cap, cap_per_period, cap_per_product
            The most that may ever be charged: in all, for one period, for one product.
        quantum
            ``1/q``, ``q <= 10**12``; every amount must be a multiple of it.
        delta
            For ``"zcdp"`` only, where it is needed: the δ at which (ε, δ) is reported.
        opens_on, closes_on
            The first day on which charges are taken, and the first on which no longer (``YYYY-MM-DD``, UTC).
        needs_approval
            Whether an officer must approve the spec of every charge: see :meth:`approve`.
        population
            All those whose data the account is about; by default a population of the account's own name.
        approve_exact
            Whether an officer must approve the specs that state exact facts (rules that stop a run, limits,
            invariants, public look-ups).
        approvals
            How many different officers must approve a spec, or accept a draft. From 2 on every spec must be
            approved.
        approvals_by_product
            The same for the products that ask for more than the account.
        """
        terms = validate_terms(
            Terms(
                name=names.check_label(name, field="account"),
                unit=names.check_label(unit, field="unit"),
                population=names.check_label(name if population is None else population, field="population"),
                relation=relation,
                definition=definition,
                cap=cap,
                quantum=quantum,
                cap_per_period=cap_per_period,
                cap_per_product=cap_per_product,
                delta=delta,
                opens_on=opens_on,
                closes_on=closes_on,
                needs_approval=needs_approval,
                approve_exact=approve_exact,
                approvals=approvals,
                approvals_by_product=tuple((approvals_by_product or {}).items()),
            )
        )
        with self._appending() as append:
            known = queries.account(append.connection, terms.name)
            if known is None:
                append.append("account", terms.fields(), by)
            elif known.retired:
                append.append("terms", {**terms.fields(), "reason": "opened again"}, by, in_time=True)
            else:
                require_same("account", terms.name, terms.fields(), known.terms.fields())
        return self._account(terms.name)

    def change_account(
        self,
        name: str,
        *,
        reason: str,
        cap: Fraction = _KEEP,
        cap_per_period: Fraction | None = _KEEP,
        cap_per_product: Fraction | None = _KEEP,
        opens_on: str | None = _KEEP,
        closes_on: str | None = _KEEP,
        needs_approval: bool = _KEEP,
        approve_exact: bool = _KEEP,
        approvals: int = _KEEP,
        approvals_by_product: Mapping[str, int] = _KEEP,
        by: Ed25519PrivateKey | None = None,
    ) -> Account:
        """Change an account's caps, dates or need of approval; what is not given stays as it is.

        The change is an entry like any other; what was charged before stays charged, and a charge that is
        reserved already goes on. While an officer's key is enrolled, and while the account needs approvals,
        what loosens any of its terms is signed. How many officers must sign is never lowered.

        ``approvals_by_product``: of some products; those of others stay, as far as they ask for more than the
        account.
        """
        reason = names.check_text(reason, field="reason")
        asked: dict[str, Any] = {
            "cap": cap,
            "cap_per_period": cap_per_period,
            "cap_per_product": cap_per_product,
            "opens_on": opens_on,
            "closes_on": closes_on,
            "needs_approval": needs_approval,
            "approve_exact": approve_exact,
        }
        with self._appending() as append:
            before = rules.require_account(append.books, names.check_label(name, field="account")).terms
            after = validate_terms(
                replace(before, **{term: new for term, new in asked.items() if new is not _KEEP})
            )
            after = raised(
                after,
                before.approvals if approvals is _KEEP else approvals,
                {} if approvals_by_product is _KEEP else approvals_by_product,
            )
            if after != before:
                in_time = bool(before.relaxed_terms(after))
                append.append("terms", {**after.fields(), "reason": reason}, by, in_time=in_time)
        return self._account(before.name)

    def close_account(self, name: str, *, reason: str) -> Account:
        """Take no more charges from today (UTC) on."""
        today = self._transactions.clock().astimezone(UTC).date().isoformat()
        known = self._account(name)
        if known.terms.closes_on is not None and known.terms.closes_on <= today:
            return known  # a later day would open it for the days between
        return self.change_account(name, reason=reason, closes_on=today)

    def retire_account(self, name: str, *, reason: str, by: Ed25519PrivateKey | None = None) -> Account:
        """Retire an account that was never charged, as one that was opened by mistake.

        Nothing may follow but :meth:`open_account` on terms that are right.

        While an officer's key is enrolled, and while the account needs approvals, it is signed.
        """
        reason = names.check_text(reason, field="reason")
        with self._appending() as append:
            known = get_account(append.connection, name)
            if not known.retired:
                append.append("retired", {"account": known.name, "reason": reason}, by)
        return self._account(known.name)

    def _account(self, name: str) -> Account:
        with self._reading() as connection:
            return get_account(connection, name)


CLOCK_TOLERANCE = timedelta(minutes=10)


class Ledger(Views, Accounts, Charges, Officers):
    """The ledger behind a database URL; open it with :meth:`connect`.

    What it says is in :class:`tabularium.ledger.views.Views`, what is written in
    :class:`tabularium.ledger.ledger.Accounts`, :class:`tabularium.ledger.charges.Charges` and
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
        """Raise ``ReadOnly``, with the reason and a hint, if no entry is accepted."""
        self._transactions.require_writable()

    @property
    def witnessed_elsewhere(self) -> bool:
        """Whether the head is remembered elsewhere than next to the database."""
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
