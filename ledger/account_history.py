"""Reading an account from either end: its last entries and charges, however many came before.

Each entry is held against its own hash, as in :mod:`ledger.storage.entry_queries`. Where only some entries
are read, the statement has the order of the index that finds an account's last entry, a limit, and no range
that a planner without statistics could take for a short one; where all are read, it is one statement, read
piece by piece.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, bindparam, func, select, tuple_

from ledger.chain.entries import canonical_text
from ledger.records import Charge, Entry, Terms
from ledger.storage.entry_queries import HASHED_BODY, PAGE, checked_body
from ledger.storage.schema import STATES_TERMS, entries

_PIECES = {"yield_per": PAGE}  # how many rows are fetched, and held, at once
_c = entries.c
_ACCOUNT: ColumnElement[bool] = _c.account == bindparam("account")
#: A range and an order that are those of one index alone: see :func:`ledger.storage.entry_queries.last`.
_RANGE = (_c.account >= bindparam("account"), _c.account <= bindparam("account"))
_NEWEST_FIRST = (_c.account.desc(), _c.seq.desc())
_ENTRIES = select(_c.seq, HASHED_BODY.label("hashed_body"))
_NEWEST = _ENTRIES.order_by(_c.seq.desc()).limit(bindparam("limit"))
_BACK = _ENTRIES.where(*_RANGE).order_by(*_NEWEST_FIRST).limit(bindparam("limit"))
_UP_TO = tuple_(bindparam("account", type_=_c.account.type), bindparam("place", type_=_c.seq.type))
_AT_OR_BEFORE = (
    _ENTRIES.where(_RANGE[0], tuple_(_c.account, _c.seq) <= _UP_TO).order_by(*_NEWEST_FIRST).limit(1)
)
_ALL = _ENTRIES.where(*_RANGE).order_by(_c.account, _c.seq)
_BUDGETED = select(HASHED_BODY).where(_ACCOUNT, _c.kind.in_(("reserved", "voided")))
_RESERVED = select(func.count()).select_from(entries).where(_ACCOUNT, _c.kind == "reserved")
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
_LASTS = select(func.max(_c.seq)).where(_ACCOUNT, _c.release_id.is_not(None)).group_by(_c.release_id)
_AT = select(HASHED_BODY).where(_c.seq.in_(bindparam("places", expanding=True))).order_by(_c.seq)
_TERMS = _ENTRIES.where(STATES_TERMS, _c.kind == "terms", _ACCOUNT).order_by(_c.seq)
_OPENED = _ENTRIES.where(STATES_TERMS, _c.kind == "account", _ACCOUNT)


def newest(connection: Connection, limit: int) -> list[Entry]:
    """Return the last entries of the ledger, the newest first."""
    return [_entry(row) for row in connection.execute(_NEWEST, {"limit": limit})]


def back(connection: Connection, account: str, limit: int) -> list[Entry]:
    """Return the last entries of an account, the newest first."""
    return [_entry(row) for row in connection.execute(_BACK, {"account": account, "limit": limit})]


def at_or_before(connection: Connection, account: str, place: int) -> Entry:
    """Return the last entry of an account up to that number, of which there must be one."""
    return _entry(connection.execute(_AT_OR_BEFORE, {"account": account, "place": place}).one())


def every(connection: Connection, account: str) -> Iterator[Entry]:
    """Go through an account's entries, oldest first."""
    rows = connection.execute(_ALL, {"account": account}, execution_options=_PIECES)
    return (_entry(row) for row in rows)


def budgeted(connection: Connection, account: str) -> Iterator[Charge]:
    """Go through the steps that take or give back budget of an account, in any order."""
    steps = connection.execute(_BUDGETED, {"account": account}, execution_options=_PIECES)
    return (Charge.of(checked_body(text)) for text in steps.scalars())


def reserved_for(connection: Connection, account: str, spec_digest: str) -> Iterator[Charge]:
    """Go through the charges of an account that were reserved for a spec, as they were then."""
    named = re.sub(r"([\\%_])", r"\\\1", f'"spec_digest":{canonical_text(spec_digest)}')
    asked = {"account": account, "named": f"%{named}%"}
    rows = connection.execute(_RESERVED_FOR, asked, execution_options=_PIECES)
    found = (Charge.of(checked_body(text)) for text in rows.scalars())
    return (charge for charge in found if charge.spec_digest == spec_digest)


def published(connection: Connection, account: str, product: str, before: str) -> list[Charge]:
    """Return a product's charges that were published for periods before ``before``, the last period first."""
    asked = {"account": account, "product": product, "before": before}
    found = connection.execute(_PUBLISHED, asked)
    return [Charge.of(checked_body(text)) for text in found.scalars()]


def charge_count(connection: Connection, account: str) -> int:
    """Return how many charges an account ever had."""
    return int(connection.execute(_RESERVED, {"account": account}).scalar_one())


def charge_places(connection: Connection, account: str) -> list[int]:
    """Return the numbers of the last entries of an account's charges, in order."""
    return sorted(connection.execute(_LASTS, {"account": account}).scalars())


def charges_at(connection: Connection, places: Sequence[int]) -> list[Charge]:
    """Return the charges whose entries have these numbers, in order."""
    found = connection.execute(_AT, {"places": places})
    return [Charge.of(checked_body(text)) for text in found.scalars()]


def first(connection: Connection, account: str) -> Entry:
    """Return the first entry of an account, which opens it."""
    return _entry(connection.execute(_OPENED, {"account": account}).one())


def terms_before(connection: Connection, account: str, before: int) -> Terms | None:
    """Return an account's terms as they were before entry number ``before``."""
    asked = {"account": account}
    changes = [row for row in connection.execute(_TERMS, asked) if row.seq < before]
    last = changes[-1] if changes else connection.execute(_OPENED, asked).first()
    return None if last is None else Terms.of(checked_body(last.hashed_body))


def terms_entries(connection: Connection, account: str) -> list[Entry]:
    """Return every change of an account's terms, in order."""
    return [_entry(row) for row in connection.execute(_TERMS, {"account": account})]


def _entry(row: Row[Any]) -> Entry:
    """Return an entry that was held against its own hash."""
    return Entry(row.seq, checked_body(row.hashed_body)["prev"], row.hashed_body[:64], row.hashed_body[64:])
