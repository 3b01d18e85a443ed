"""Reading entries: each question is one or two rows found by an index, however long the chain is.

Every entry that is read is held against its own hash first, so that no balance or state is ever taken from
a row that was altered. The statements are built once, when this file is imported: building one costs more
than running it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, bindparam, func, or_, select

from ledger import chain
from ledger.errors import ChainBroken
from ledger.records import EMPTY, Account, Charge, Entry, Head, Sums, Terms
from ledger.schema import IS_ACCOUNT, entries

PAGE = 1000
_c = entries.c
_SEALED = _c.hash + _c.body  # 64 characters of hash, then what it is the hash of


def _last(*conditions: Any) -> Select[tuple[str]]:
    return select(_SEALED).where(*conditions).order_by(_c.seq.desc()).limit(1)


def _column(found: Select[tuple[str]], label: str) -> Any:
    return found.scalar_subquery().label(label)


_ACCOUNT: ColumnElement[bool] = _c.account == bindparam("account")
_TERMS = _last(IS_ACCOUNT, _ACCOUNT)
_CHARGE = _last(_c.release_id == bindparam("release_id"))
_IN_ACCOUNT = _last(_ACCOUNT)
_IN_PERIOD = _last(_ACCOUNT, _c.period == bindparam("period"))
_IN_PRODUCT = _last(_ACCOUNT, _c.product == bindparam("product"))

_HEAD = select(_c.seq, _c.hash, _SEALED.label("sealed")).order_by(_c.seq.desc()).limit(1)
_HASH = select(_c.hash).where(_c.seq == bindparam("seq"))
_STANDING = select(
    _column(_CHARGE, "charge"),
    _column(_TERMS, "terms"),
    _column(_IN_ACCOUNT, "account"),
    _column(_IN_PERIOD, "period"),
    _column(_IN_PRODUCT, "product"),
)
_ACCOUNTS = select(_c.account).where(IS_ACCOUNT).group_by(_c.account).order_by(func.min(_c.seq))
_LAST_OF_EACH = (
    select(func.max(_c.seq))
    .where(_ACCOUNT, _c.release_id.is_not(None))
    .group_by(_c.release_id)
    .scalar_subquery()
)
_CHARGES = select(_SEALED).where(_c.seq.in_(_LAST_OF_EACH)).order_by(_c.seq)
_ELSEWHERE = select(_c.release_id).where(
    _c.input_digest == bindparam("input_digest"),
    or_(_c.account < bindparam("account"), _c.account > bindparam("account")),
)
_PAGE = select(entries).where(_c.seq > bindparam("after")).order_by(_c.seq).limit(PAGE)
_INSERT = entries.insert()


@dataclass(frozen=True)
class Standing:
    """All that a step of a charge depends on, read at once."""

    charge: Charge | None
    terms: Terms | None
    sums: dict[str, Sums]  # scope (account, period, product) -> what is reserved and spent in it


def head(connection: Connection) -> tuple[Head, str]:
    """Return the last entry's number and hash, and its time (empty for an empty ledger)."""
    row = connection.execute(_HEAD).first()
    return (Head(row.seq, row.hash), _opened(row.sealed)["at"]) if row else (EMPTY, "")


def holds(connection: Connection, named: Head) -> bool:
    """Whether the chain holds this very entry."""
    if named.seq == 0:
        return named == EMPTY
    return connection.execute(_HASH, {"seq": named.seq}).scalar() == named.hash


def standing(connection: Connection, release_id: str, account: str, period: str, product: str) -> Standing:
    """Return how a charge and all that its caps are held against stand."""
    asked = {"release_id": release_id, "account": account, "period": period, "product": product}
    row = connection.execute(_STANDING, asked).one()
    known, terms = _body(row.charge), _body(row.terms)
    return Standing(
        None if known is None else Charge.of(known),
        None if terms is None else Terms.of(terms),
        {scope: Sums.of(_body(getattr(row, scope)), scope) for scope in ("account", "period", "product")},
    )


def sums(connection: Connection, account: str, *, period: str | None, product: str | None) -> Sums:
    """Return what is reserved and spent in an account, or in one of its periods or products."""
    if period is not None:
        found = connection.execute(_IN_PERIOD, {"account": account, "period": period})
        return Sums.of(_body(found.scalar()), "period")
    if product is not None:
        found = connection.execute(_IN_PRODUCT, {"account": account, "product": product})
        return Sums.of(_body(found.scalar()), "product")
    return Sums.of(_body(connection.execute(_IN_ACCOUNT, {"account": account}).scalar()), "account")


def account(connection: Connection, name: str) -> Account | None:
    """Return an account as it stands."""
    terms = _body(connection.execute(_TERMS, {"account": name}).scalar())
    if terms is None:
        return None
    stands = sums(connection, name, period=None, product=None)
    return Account(Terms.of(terms), stands.reserved, stands.spent, terms["at"])


def account_names(connection: Connection) -> list[str]:
    """Return the names of all accounts, in the order in which they were opened."""
    return list(connection.execute(_ACCOUNTS).scalars())


def charge(connection: Connection, release_id: str) -> Charge | None:
    """Return a charge as of its last entry."""
    found = _body(connection.execute(_CHARGE, {"release_id": release_id}).scalar())
    return None if found is None else Charge.of(found)


def charges(connection: Connection, name: str) -> list[Charge]:
    """Return an account's charges as of their last entries, in the order of those."""
    found = connection.execute(_CHARGES, {"account": name})
    return [Charge.of(_opened(sealed)) for sealed in found.scalars()]


def charged_elsewhere(connection: Connection, input_digest: str, name: str) -> bool:
    """Whether another account holds a charge, not voided, for the same input."""
    found = connection.execute(_ELSEWHERE, {"input_digest": input_digest, "account": name}).scalars().all()
    others = (charge(connection, release_id) for release_id in found)
    return any(other is not None and other.state != "voided" for other in others)


def page(connection: Connection, after: int) -> list[tuple[Entry, Mapping[str, Any]]]:
    """Return the next :data:`PAGE` entries after number ``after``, with the columns beside them."""
    rows = connection.execute(_PAGE, {"after": after}).mappings()
    return [(Entry(row["seq"], row["prev"], row["hash"], row["body"]), dict(row)) for row in rows]


def all_rows(connection: Connection) -> Iterator[tuple[Entry, Mapping[str, Any]]]:
    """Go through every entry in order."""
    after = 0
    while rows := page(connection, after):
        yield from rows
        after = rows[-1][0].seq


def insert(connection: Connection, entry: Entry, body: Mapping[str, Any]) -> None:
    """Append an entry; its columns repeat its body."""
    row = {
        "seq": entry.seq,
        "kind": body["kind"],
        "account": body["account"],
        "release_id": body.get("release_id"),
        "product": body.get("product"),
        "period": body.get("period"),
        "input_digest": body["input_digest"] if body["kind"] == "reserved" else None,
        "body": entry.text,
        "prev": entry.prev,
        "hash": entry.hash,
    }
    connection.execute(_INSERT, row)


def _body(sealed: str | None) -> dict[str, Any] | None:
    return None if sealed is None else _opened(sealed)


def _opened(sealed: str) -> dict[str, Any]:
    if not chain.is_whole(sealed[64:], sealed[:64]):
        raise ChainBroken(
            "an entry has been altered: its hash is not that of its content",
            where="ledger",
            mend="verify the ledger, which names the entry, and restore the last good backup",
        )
    body: dict[str, Any] = json.loads(sealed[64:])
    return body
