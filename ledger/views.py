"""Reads of the ledger: how things stand, how they came to, and how they stood when a charge was reserved.

Each entry is compared with its own hash, as in :mod:`tabularium.ledger.storage.queries`. Where only
some entries are read, the statement has the order of the index that finds an account's last entry, a limit,
and no range that a planner without statistics could take for a short one; where all are read, it is one
statement, read piece by piece.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, bindparam, func, select

from tabularium.ledger import names
from tabularium.ledger.events import canonical_text
from tabularium.ledger.records import (
    Account,
    Approved,
    Charge,
    Entry,
    Head,
    Reservation,
    Terms,
    Usage,
)
from tabularium.ledger.refusals import Conflict, StaleFence, unknown_account, unknown_release
from tabularium.ledger.rules import attempts_allowed, key_option
from tabularium.ledger.storage import queries
from tabularium.ledger.storage.indexed import IndexedBooks, require_continued
from tabularium.ledger.storage.queries import HASHED_BODY, PAGE, checked_body, withdrawal
from tabularium.ledger.storage.schema import STATES_TERMS, entries
from tabularium.ledger.transactions import Part

_PIECE = 500  # charges that are read at once
_PIECES = {"yield_per": PAGE}  # how many rows are fetched, and held, at once
_c = entries.c
_ACCOUNT: ColumnElement[bool] = _c.account == bindparam("account")
#: A range and an order that one index answers: see
#: :func:`tabularium.ledger.storage.queries.last`.
_RANGE = (_c.account >= bindparam("account"), _c.account <= bindparam("account"))
_NEWEST_FIRST = (_c.account.desc(), _c.seq.desc())
_ENTRIES = select(_c.seq, HASHED_BODY.label("hashed_body"))
_NEWEST = _ENTRIES.order_by(_c.seq.desc()).limit(bindparam("limit"))
_BACK = _ENTRIES.where(*_RANGE).order_by(*_NEWEST_FIRST).limit(bindparam("limit"))
_AT_OR_BEFORE = _ENTRIES.where(
    _c.seq == select(func.max(_c.seq)).where(_ACCOUNT, _c.seq <= bindparam("place")).scalar_subquery()
)
_ALL = _ENTRIES.where(*_RANGE).order_by(_c.account, _c.seq)
_BUDGETED = select(HASHED_BODY).where(_ACCOUNT, _c.kind.in_(("reserved", "voided")))
_BEGUN = select(func.count()).select_from(entries).where(_ACCOUNT, _c.kind.in_(("reserved", "remade")))
_RESERVED_FOR = select(HASHED_BODY).where(
    _ACCOUNT, _c.kind == "reserved", _c.body.like(bindparam("named"), escape="\\")
)
_PUBLISHED = (
    select(HASHED_BODY)
    .where(
        *(_ACCOUNT, _c.product == bindparam("product"), _c.kind == "published"),
        _c.period < bindparam("before"),
    )
    .order_by(_c.period.desc(), _c.seq.desc())
)
_PUBLISHED_IN = (
    select(HASHED_BODY)
    .where(
        *(_ACCOUNT, _c.product == bindparam("product"), _c.period == bindparam("period")),
        _c.kind == "published",
    )
    .order_by(_c.seq)
)
_CHARGED = select(_c.seq).where(
    *(_ACCOUNT, _c.product == bindparam("product"), _c.period == bindparam("period")), _c.kind == "reserved"
)
_LASTS = select(func.max(_c.seq)).where(_ACCOUNT, _c.release_id.is_not(None)).group_by(_c.release_id)
_AT = select(HASHED_BODY).where(_c.seq.in_(bindparam("places", expanding=True))).order_by(_c.seq)
#: The entry that opens an account, and every change of its terms.
_STATED = _ENTRIES.where(STATES_TERMS, *_RANGE).order_by(_c.account, _c.kind, _c.seq)
_BEFORE = (_c.account == bindparam("account"), _c.seq < bindparam("before"))
_BEGINNING = select(HASHED_BODY).where(
    _c.release_id == bindparam("release_id"), _c.kind.in_(("reserved", "remade"))
)
_LAST_BEFORE = select(HASHED_BODY).where(*_BEFORE).order_by(_c.account.desc(), _c.seq.desc()).limit(1)
_TERMS_BEFORE = select(HASHED_BODY).where(STATES_TERMS, *_BEFORE).order_by(_c.seq.desc()).limit(1)
_NUMBER = select(func.count()).select_from(entries).where(*_BEFORE, _c.kind == bindparam("kind"))
_PUBLISHED_BEFORE = select(HASHED_BODY).where(*_BEFORE, _c.kind == "published")


class Views(Part):
    """Reads of a ledger; each is one consistent view, and mostly a few rows found by an index."""

    def balance(self, account: str) -> Fraction:
        """Return what is left: the cap less what is reserved and what is spent."""
        return self.account(account).left

    def account(self, name: str) -> Account:
        """Return an account's terms and sums, or raise ``UnknownAccount``.

        Raises ``ChainBroken`` if its last entry, or one of the ledger's last, does not follow from those
        before it.
        """
        with self._reading() as connection:
            self._transactions.require_continued(connection)
            return get_account(connection, name)

    def accounts(self) -> list[Account]:
        """Return every account, in order of opening; refuses as :meth:`account` does."""
        with self._reading() as connection:
            self._transactions.require_continued(connection)
            return [get_account(connection, name) for name in queries.account_names(connection)]

    def sums(self, account: str, *, period: str | None = None, product: str | None = None) -> Usage:
        """Return what is reserved and spent in an account, or in one of its periods or products."""
        return self._read(queries.sums, account, period=period, product=product)

    def periods(self, account: str) -> dict[str, Usage]:
        """Return what is reserved and spent in every period of an account that was charged."""
        return self._read(queries.scopes, names.check_label(account, field="account"), "period")

    def products(self, account: str) -> dict[str, Usage]:
        """Return what is reserved and spent in every product of an account that was charged."""
        return self._read(queries.scopes, names.check_label(account, field="account"), "product")

    def charge(self, release_id: str) -> Charge | None:
        """Return a release's charge, or ``None`` if it was never reserved."""
        return self._read(queries.charge, names.release_id(release_id))

    def attempts_used_up(self, charge: Charge) -> bool:
        """Whether drawing began as often as it may: an officer must allow more attempts."""
        with self._reading() as connection:
            allowed = attempts_allowed(books_of(connection), charge.account, charge.release_id)
        return charge.state == "drawing" and charge.fence >= allowed

    def key_option(self, account: str | None = None) -> str:
        """Return `` --key FILE`` where what favours the spending of an account needs an officer's key.

        ``account``: ``None`` for opening one.
        """
        with self._reading() as connection:
            terms = None if account is None else get_account(connection, account).terms
            return key_option(books_of(connection), terms)

    def head(self) -> Head:
        """Return the last entry's number and hash."""
        return self._read(queries.head)

    def chain(self) -> str:
        """Return the hash of the first entry, which names this ledger; zeros while it is empty."""
        return self._read(queries.first_hash)

    def holds(self, head: Head) -> bool:
        """Whether the chain holds the entry that ``head`` names."""
        return self._read(queries.holds, head)

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
        """Go through an account's entries, oldest first; a connection is held until it is done."""
        with (
            self._reading() as connection,
            connection.execute(_ALL, _named(account), execution_options=_PIECES) as rows,
        ):
            yield from (_entry(row) for row in rows)

    def last_entries(self, number: int, account: str | None = None) -> list[Entry]:
        """Return the last entries, of an account or of the whole ledger, oldest first.

        They are read from the newest back, however many there are.
        """
        with self._reading() as connection:
            if account is None:
                return _entries(connection, _NEWEST, limit=number)[::-1]
            return _entries(connection, _BACK, **_named(account), limit=number)[::-1]

    def course(self, account: str, most: int) -> list[Entry]:
        """Return how an account went: all its entries, or some ``most`` evenly spread over the chain.

        Every change of its terms is among them.
        """
        asked = _named(account)
        with self._reading() as connection:
            latest = _entries(connection, _BACK, **asked, limit=most + 1)
            if len(latest) <= most:
                return latest[::-1]
            entries = [*_entries(connection, _STATED, **asked), latest[0]]
            first, last = entries[0], entries[-1]
            for step in range(1, most):
                seq = first.seq + step * (last.seq - first.seq) // most
                entries += _entries(connection, _AT_OR_BEFORE, **asked, place=seq)
        return sorted({entry.seq: entry for entry in entries}.values(), key=lambda entry: entry.seq)

    def terms_before(self, account: str, entry: int) -> Terms | None:
        """Return an account's terms as they were before the entry of that number."""
        with self._reading() as connection:
            stated = _entries(connection, _STATED, **_named(account))
        before = [earlier for earlier in stated if earlier.seq < entry] or stated[:1]
        return Terms.of(before[-1].body) if before else None

    def last_charges(self, account: str, number: int) -> list[Charge]:
        """Return those ``number`` of an account's charges that moved last, the last one at the end.

        It reads the account's entries from the newest back, however many there are.
        """
        limit = 4 * number + _PIECE
        result: dict[str, dict[str, Any]] = {}
        with self._reading() as connection:
            while True:
                latest = _entries(connection, _BACK, **_named(account), limit=limit)
                for body in (entry.body for entry in latest):
                    if "release_id" in body:
                        result.setdefault(body["release_id"], body)
                if len(result) >= number or len(latest) < limit:
                    break
                limit *= 4  # charges that moved often, or many entries that are about no charge
        return [Charge.of(body) for body in list(result.values())[:number]][::-1]

    def all_charges(self, account: str) -> Iterator[Charge]:
        """Go through an account's charges, the one that moved last at the end.

        It holds few of them in memory; a connection is held until it is done.
        """
        with self._reading() as connection:
            places = sorted(connection.execute(_LASTS, _named(account)).scalars())
            for start in range(0, len(places), _PIECE):
                yield from _charges(connection, _AT, places=places[start : start + _PIECE])

    def charges(self, account: str) -> list[Charge]:
        """Return an account's charges, the one that moved last at the end."""
        return [*self.all_charges(account)]

    def charge_count(self, account: str) -> int:
        """Return how many charges an account ever had, those of nothing and voided ones too."""
        with self._reading() as connection:
            return int(connection.execute(_BEGUN, _named(account)).scalar_one())

    def published_before(self, account: str, product: str, period: str) -> list[Charge]:
        """Return a product's published charges for periods before ``period``, the last period first.

        Periods are compared as text, byte by byte. What was withdrawn is left out, its tallies too.
        """
        asked = {**_named(account), "product": product, "before": period}
        with self._reading() as connection:
            charges = [*_charges(connection, _PUBLISHED, **asked)]
            gone = {
                charge.publication_digest
                for charge in charges
                if withdrawal(connection, charge.account, charge.release_id)
            }
        return [charge for charge in charges if charge.publication_digest not in gone]

    def published_in(self, account: str, product: str, period: str) -> list[Charge]:
        """Return a product's published charges for a period, in order of publication."""
        asked = {**_named(account), "product": product, "period": period}
        with self._reading() as connection:
            return [*_charges(connection, _PUBLISHED_IN, **asked)]

    def is_charged(self, account: str, product: str, period: str) -> bool:
        """Whether a product ever had a charge for a period, whatever became of it."""
        asked = _named(account) | {"product": product, "period": period}
        with self._reading() as connection:
            return connection.execute(_CHARGED.limit(1), asked).first() is not None

    def is_paid(self, account: str, spec_digest: str) -> bool:
        """Whether a spec was charged, and not all of that given back: its release costs nothing more."""
        return self._read(is_paid, account, spec_digest)

    def budgeted(self, account: str) -> Iterator[Charge]:
        """Go through the steps that take or give back budget of an account.

        Every charge comes once as it was ``reserved``, and a second time if it was ``voided``. That is all
        a sum needs, and a quarter of the entries. They come in any order, and a connection is held until it
        is done.
        """
        with self._reading() as connection:
            yield from _charges(connection, _BUDGETED, **_named(account))

    def reservation(self, release_id: str) -> Reservation | None:
        """Return how a charge was reserved, or ``None`` if it never was.

        The entry that says so never changes: who has the ledger finds the same figures for ever.
        """
        with self._reading() as connection:
            text = connection.execute(_BEGINNING, {"release_id": names.release_id(release_id)}).scalar()
            return None if text is None else _reservation(connection, checked_body(text))


def books_of(connection: Connection) -> IndexedBooks:
    """Return the books as every entry so far makes them."""
    return IndexedBooks(connection, queries.head(connection).seq + 1)


def get_account(connection: Connection, name: str) -> Account:
    """Return an account as it stands, or raise ``UnknownAccount``."""
    account = queries.account(connection, names.check_label(name, field="account"))
    if account is None:
        raise unknown_account(name)
    require_continued(connection, queries.last_of_account(connection, name))
    return account


def known_charge(connection: Connection, release_id: str) -> Charge:
    """Return a charge, or raise ``UnknownRelease``."""
    charge = queries.charge(connection, names.release_id(release_id))
    if charge is None:
        raise unknown_release(release_id)
    return charge


def current_charge(connection: Connection, release_id: str, fence: int) -> Charge:
    """Return the charge if ``fence`` is its current one."""
    charge = known_charge(connection, release_id)
    if names.fence(fence) < charge.fence:
        raise stale_fence(charge)
    if fence > charge.fence:
        raise Conflict("this fence was never given", where=f"release {release_id}", hint="call drawing()")
    return charge


def stale_fence(charge: Charge) -> StaleFence:
    """Return the refusal of a fence that is not the charge's last."""
    return StaleFence(
        "another attempt has taken over; nothing was written",
        where=f"release {charge.release_id}",
        hint="leave it to that attempt, or run again",
    )


def reserved_for(connection: Connection, account: str, spec_digest: str) -> Iterator[Charge]:
    """Go through the charges of an account that were reserved for a spec, as they were then."""
    named = re.sub(r"([\\%_])", r"\\\1", f'"spec_digest":{canonical_text(spec_digest)}')
    charges = _charges(connection, _RESERVED_FOR, account=account, named=f"%{named}%")
    return (charge for charge in charges if charge.spec_digest == spec_digest)


def is_paid(connection: Connection, account: str, spec_digest: str) -> bool:
    """Whether a spec was charged, and not all of that given back."""
    before = reserved_for(connection, account, spec_digest)
    return queries.any_counts(connection, [charge.release_id for charge in before])


def _named(account: str) -> dict[str, str]:
    return {"account": names.check_label(account, field="account")}


def _charges(connection: Connection, statement: Select[Any], **asked: Any) -> Iterator[Charge]:
    with connection.execute(statement, asked, execution_options=_PIECES) as rows:
        for text in rows.scalars():
            yield Charge.of(checked_body(text))


def _entries(connection: Connection, statement: Select[Any], **asked: Any) -> list[Entry]:
    return [_entry(row) for row in connection.execute(statement, asked)]


def _entry(row: Row[Any]) -> Entry:
    return Entry(row.seq, checked_body(row.hashed_body)["prev"], row.hashed_body[:64], row.hashed_body[64:])


def _reservation(connection: Connection, body: dict[str, Any]) -> Reservation:
    entry = body["seq"]
    asked = {"account": body["account"], "before": entry}
    number = {
        kind: int(connection.execute(_NUMBER, {**asked, "kind": kind}).scalar_one())
        for kind in ("reserved", "voided")
    }
    # The charges of one release, its tallies' too, name one certificate.
    before = [checked_body(text) for text in connection.execute(_PUBLISHED_BEFORE, asked).scalars()]
    published = {body["publication_digest"] for body in before if "measurements_of" not in body}
    terms = Terms.of(checked_body(connection.execute(_TERMS_BEFORE, asked).scalar_one()))
    return Reservation(
        entry=entry,
        at=body["at"],
        terms=terms,
        before=Usage.of(checked_body(connection.execute(_LAST_BEFORE, asked).scalar_one()), "account"),
        after=Usage.of(body, "account"),
        charges=number["reserved"] - number["voided"] + (body["kind"] == "reserved"),
        releases=len(published),
        approved=_approved(connection, body, terms.approvals_for(body["product"])),
    )


def _approved(connection: Connection, body: dict[str, Any], needed: int) -> Approved | None:
    """Return the approval that held: not withdrawn, and its key not revoked; with those of other officers."""
    approval = queries.approval(connection, body["account"], body["spec_digest"], body["seq"])
    if approval is None:
        return None
    signers = [
        Approved(signer.key, signer.entry, signer.at, approval.amount)
        for signer in approval.signed_by(needed)
    ]
    return replace(signers[-1], others=tuple(signers[:-1])) if signers else None
