"""Reading entries: each question is one or two rows found by an index, however long the chain is.

Every entry that is read is compared with its own hash first, so that no balance or state is ever taken from
a row that was altered. The statements are built once, when this file is imported: building one costs more
than running it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    Text,
    bindparam,
    cast,
    func,
    literal,
    select,
    tuple_,
)

from tabularium.ledger.events import COLUMNS, KINDS, OF_SPECS, columns, hash_matches, subject
from tabularium.ledger.records import (
    EMPTY,
    GENESIS,
    Account,
    Approval,
    Charge,
    Draft,
    Entry,
    Head,
    Key,
    ReleaseKey,
    Separation,
    Terms,
    Usage,
    Withdrawal,
    approval_of,
    draft_of,
    officer_keys_of,
    release_keys_of,
)
from tabularium.ledger.refusals import ChainBroken
from tabularium.ledger.storage.schema import DECIDES, STATES_TERMS, entries

PAGE = 1000
_c = entries.c


def _hashed_body(columns: Any) -> ColumnElement[str]:
    joined: ColumnElement[str] = cast(columns.hash, Text) + columns.body
    return joined


HASHED_BODY = _hashed_body(_c)


_AS_CALLED: Mapping[str, Any] = {}


def last(
    *names: str,
    named: Mapping[str, Any] = _AS_CALLED,
    among: Sequence[Any] = (),
    order: Sequence[str] = (),
    until: Mapping[str, Any] = _AS_CALLED,
) -> Select[Any]:
    """Return the query for the last entry with the given columns ``names``: one step of their index.

    It takes the last entry that does not come after what is asked, in the order of that index, and then looks
    whether it is what was asked. With plain equalities the order by ``seq`` would be the primary key's too,
    and a planner might walk that one backwards: quick for what was just charged, and through the whole ledger
    for what never was.

    Parameters
    ----------
    named
        What is asked, where it is not the parameter of the column's name.
    among
        The only entries in the index.
    order
        The columns of the index between ``names`` and ``seq``.
    until
        The greatest values of the columns of the index after ``names``, to find an earlier entry.
    """
    wanted = {name: named.get(name, bindparam(name, type_=_c[name].type)) for name in names}
    columns = [_c[name] for name in wanted]
    latest = (
        select(*columns, HASHED_BODY.label("hashed_body"))
        .where(
            tuple_(*columns, *(_c[name] for name in until)) <= tuple_(*wanted.values(), *until.values()),
            *among,
        )
        .order_by(*(_c[name].desc() for name in (*wanted, *order, "seq")))
        .limit(1)
        .correlate_except(entries)
        .subquery()
    )
    return select(latest.c.hashed_body).where(*(latest.c[name] == value for name, value in wanted.items()))


def column(selected: Select[tuple[str]], label: str) -> Any:
    """Return what a query finds as one column of another."""
    return selected.scalar_subquery().label(label)


_ACCOUNT: ColumnElement[bool] = _c.account == bindparam("account")
#: "terms" comes after "account" in the alphabet, and so in the index.
_TERMS = last("account", among=[STATES_TERMS], order=["kind"])
_CHARGE = last("release_id")
_IN_ACCOUNT = last("account")
_IN_PERIOD = last("account", "period")
_IN_PRODUCT = last("account", "product")

_HASH = select(_c.hash).where(_c.seq == bindparam("seq"))
_BEFORE: Mapping[str, Any] = {"seq": bindparam("before", type_=_c.seq.type)}
LASTS_BEFORE = select(
    column(last("release_id", until=_BEFORE), "charge"),
    column(
        last("account", among=[STATES_TERMS], order=["kind"], until={"kind": literal("terms"), **_BEFORE}),
        "terms",
    ),
    column(last("account", until=_BEFORE), "account"),
    column(last("account", "period", until=_BEFORE), "period"),
    column(last("account", "product", until=_BEFORE), "product"),
)
_OPENED = select(HASHED_BODY).where(STATES_TERMS, _c.kind == "account", _ACCOUNT)
_ACCOUNTS = (
    select(_c.account)
    .where(STATES_TERMS, _c.kind == "account")
    .group_by(_c.account)
    .order_by(func.min(_c.seq))
)
_DECIDED = select(_c.seq).where(_ACCOUNT, _c.kind.in_(OF_SPECS)).limit(1)
_CHARGED = select(_c.seq).where(_ACCOUNT, _c.kind == "reserved").limit(1)
_PAGE = (
    select(
        *(_c.seq, _c.prev, _c.hash, _c.body),
        *(_c[name] for name in COLUMNS),
    )
    .where(_c.seq > bindparam("after"))
    .order_by(_c.seq)
    .limit(bindparam("limit"))
)
ABOUT = last("account", "subject", among=[DECIDES])
_FIRST = select(_c.hash).where(_c.seq == 1)


def _last_of_each(
    name: str, *fixed: str, among: Sequence[Any] = (), until: Mapping[str, Any] = _AS_CALLED
) -> Select[Any]:
    """Return each ``name`` and the last entry of it, where the columns ``fixed`` are as asked.

    It goes from one name to the next through the index, however many entries each has.
    """
    there = [*(_c[at] == bindparam(at) for at in fixed), *among]
    names = select(func.min(_c[name]).label("name")).where(*there).cte("names", recursive=True)
    after = select(func.min(_c[name])).where(*there, _c[name] > names.c.name).correlate(names)
    names = names.union_all(select(after.scalar_subquery()).where(names.c.name.is_not(None)))
    hashed_body = last(*fixed, name, named={name: names.c.name}, among=among, until=until).scalar_subquery()
    return select(names.c.name, hashed_body.label("hashed_body")).where(names.c.name.is_not(None))


_PARTS_BEFORE = _last_of_each("part", "account", "subject", among=[_c.part.is_not(None)], until=_BEFORE)
_SCOPES = {scope: _last_of_each(scope, "account") for scope in ("period", "product")}
INSERT = entries.insert()


def head(connection: Connection) -> Head:
    """Return the last entry's number and hash."""
    return chain_head(connection).head


def holds(connection: Connection, named: Head) -> bool:
    """Whether the chain holds this very entry."""
    if named.seq == 0:
        return named == EMPTY
    return connection.execute(_HASH, {"seq": named.seq}).scalar() == named.hash


def lasts_before(connection: Connection, seq: int, named: Mapping[str, str]) -> dict[str, str | None]:
    """Return the entries before number ``seq`` that one follows, each after its hash.

    They are those of its charge, the terms of its account, and of its account, period and product, which
    ``named`` has (or empty texts).
    """
    return dict(connection.execute(LASTS_BEFORE, {**named, "before": seq - 1}).one()._mapping)


def parts_before(connection: Connection, seq: int, account: str, group: str) -> dict[str, str]:
    """Return the last entry before number ``seq`` of every part of a group, each after its hash."""
    rows = connection.execute(_PARTS_BEFORE, {"account": account, "subject": group, "before": seq - 1})
    return {row.name: row.hashed_body for row in rows if row.hashed_body is not None}


def sums(connection: Connection, account: str, *, period: str | None, product: str | None) -> Usage:
    """Return what is reserved and spent in an account, or in one of its periods or products."""
    if period is not None:
        rows = connection.execute(_IN_PERIOD, {"account": account, "period": period})
        return Usage.of(_body(rows.scalar()), "period")
    if product is not None:
        rows = connection.execute(_IN_PRODUCT, {"account": account, "product": product})
        return Usage.of(_body(rows.scalar()), "product")
    return Usage.of(_body(connection.execute(_IN_ACCOUNT, {"account": account}).scalar()), "account")


def account(connection: Connection, name: str) -> Account | None:
    """Return an account as it stands."""
    terms = _body(connection.execute(_TERMS, {"account": name}).scalar())
    if terms is None:
        return None
    latest = _body(connection.execute(_IN_ACCOUNT, {"account": name}).scalar())
    stands = Usage.of(latest, "account")
    began = (
        terms
        if terms["kind"] == "account"
        else checked_body(connection.execute(_OPENED, {"account": name}).one()[0])
    )
    return Account(Terms.of(terms), stands.reserved, stands.spent, began["at"], _is_retired(latest))


def last_of_account(connection: Connection, name: str) -> list[str]:
    """Return the last entry of an account after its hash, if there is one."""
    return list(connection.execute(_IN_ACCOUNT, {"account": name}).scalars())


def _is_retired(last_of_account: Mapping[str, Any] | None) -> bool:
    return last_of_account is not None and last_of_account["kind"] == "retired"


def account_names(connection: Connection) -> list[str]:
    """Return the names of all accounts, in order of opening."""
    return list(connection.execute(_ACCOUNTS).scalars())


def charge(connection: Connection, release_id: str) -> Charge | None:
    """Return a charge as of its last entry."""
    body = _body(connection.execute(_CHARGE, {"release_id": release_id}).scalar())
    return None if body is None else Charge.of(body)


def any_charge(connection: Connection, account: str) -> bool:
    """Whether an account was ever charged, whatever became of it."""
    return connection.execute(_CHARGED, {"account": account}).first() is not None


def any_decision(connection: Connection, account: str) -> bool:
    """Whether a spec was ever approved for an account, also if that was taken back."""
    return connection.execute(_DECIDED, {"account": account}).first() is not None


def any_counts(connection: Connection, releases: Iterable[str]) -> bool:
    """Whether any of these releases has a charge that was not voided."""
    others = (charge(connection, release_id) for release_id in releases)
    return any(other is not None and other.state != "voided" for other in others)


def scopes(connection: Connection, account: str, scope: str) -> dict[str, Usage]:
    """Return what is reserved and spent in each period, or each product, of an account."""
    rows = connection.execute(_SCOPES[scope], {"account": account}).all()
    return {row.name: Usage.of(checked_body(row.hashed_body), scope) for row in rows}


def first_hash(connection: Connection) -> str:
    """Return the hash of the first entry, which names the ledger; zeros while it is empty."""
    return str(connection.execute(_FIRST).scalar() or GENESIS)


def entries_after(connection: Connection, after: int, limit: int = PAGE) -> Sequence[Row[Any]]:
    """Return the next entries after number ``after``: seq, prev, hash, body, and the other columns."""
    return connection.execute(_PAGE, {"after": after, "limit": limit}).all()


def rows(connection: Connection, after: int, limit: int) -> list[Any]:
    """Return the same as the driver's own tuples: for many rows that is a good part of the time."""
    page = connection.execute(_PAGE, {"after": after, "limit": limit})
    rows: list[Any] = list(page.cursor.fetchall())
    page.close()
    return rows


def insert(connection: Connection, rows: list[tuple[Entry, tuple[str | None, ...]]]) -> None:
    """Append entries, each with what its columns repeat of its body."""
    connection.execute(INSERT, [row(entry, columns) for entry, columns in rows])


def row(entry: Entry, columns: tuple[str | None, ...]) -> dict[str, Any]:
    """Return the values that :data:`INSERT` asks for."""
    repeated = dict(zip(COLUMNS, columns, strict=True))
    return {"seq": entry.seq, "body": entry.text, "prev": entry.prev, "hash": entry.hash, **repeated}


def _body(hashed_body: str | None) -> dict[str, Any] | None:
    return None if hashed_body is None else checked_body(hashed_body)


def checked_body(hashed_body: str) -> dict[str, Any]:
    """Return the body of an entry, whose text is compared with its hash first."""
    if not hash_matches(hashed_body[64:], hashed_body[:64]):
        raise ChainBroken(
            "an entry has been altered: its hash is not that of its content",
            where="ledger",
            hint="verify the ledger, which names the entry, and restore the last good backup",
        )
    body: dict[str, Any] = json.loads(hashed_body[64:])
    return body


_ON_KEYS: ColumnElement[bool] = _c.kind.in_(("key", "release_key", "revocation"))
_OF_KEYS = select(HASHED_BODY).where(_c.account == "", _ON_KEYS).order_by(_c.seq)


def keys(connection: Connection) -> dict[str, Key]:
    """Return every officer's key that was ever enrolled, by its name."""
    return officer_keys_of(_bodies(connection))


def release_keys(connection: Connection) -> dict[str, ReleaseKey]:
    """Return every key for releases that was ever enrolled, by its name."""
    return release_keys_of(_bodies(connection))


def _bodies(connection: Connection) -> list[dict[str, Any]]:
    return [checked_body(text) for text in connection.execute(_OF_KEYS).scalars()]


_WITHHELD = (
    select(HASHED_BODY).where(_c.account == bindparam("account"), _c.kind == "withheld").order_by(_c.seq)
)
REVIEWED = select(HASHED_BODY).where(
    DECIDES, _c.account == bindparam("account"), _c.subject == bindparam("subject")
)
_TERMS_STATED = select(HASHED_BODY).where(STATES_TERMS)
_SEPARATIONS = (
    select(HASHED_BODY).where(_c.account == "", _c.kind.in_(("disjoint", "overlapping"))).order_by(_c.seq)
)
_EVERY_DECISION = select(HASHED_BODY).where(_c.kind.in_(OF_SPECS)).order_by(_c.seq)


def approval(
    connection: Connection, account: str, spec_digest: str, before: int | None = None
) -> Approval | None:
    """Return the last word on a spec in an account: its approval, or that it was taken back.

    ``before``: as it was when the entry of that number was written; ``None``: now.
    """
    bodies = decisions(connection, account, spec_digest, *OF_SPECS)
    earlier = [body for body in bodies if before is None or body["seq"] < before]
    return approval_of(earlier, keys(connection) if earlier else {}, before)


def approvals(connection: Connection) -> list[Approval]:
    """Return every approval, and every taking back of one, in order."""
    so_far: defaultdict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    result, known = [], keys(connection)
    for body in map(checked_body, connection.execute(_EVERY_DECISION).scalars()):
        on_spec = so_far[body["account"], body["spec_digest"]]
        on_spec.append(body)
        result.append(approval_of(on_spec, known))
    return [approval for approval in result if approval is not None]


def reviewed_steps(connection: Connection, account: str, product: str, period: str) -> list[Charge]:
    """Return every step of a product's charges for a period that are to be reviewed, in any order."""
    asked = {"account": account, "subject": subject("reserved", product=product, period=period)}
    charges = [Charge.of(checked_body(text)) for text in connection.execute(REVIEWED, asked).scalars()]
    return [step for step in charges if (step.product, step.period) == (product, period)]


def draft(connection: Connection, charge: Charge) -> Draft | None:
    """Return the draft of a release, if one was laid out, with who has accepted it."""
    bodies = decisions(
        connection, charge.account, subject("drafted", release=charge.release_id), "drafted", "acceptance"
    )
    known = account(connection, charge.account) if bodies else None
    if known is None:
        return None
    return draft_of(bodies, keys(connection), known.terms.approvals_for(charge.product))


def turn(connection: Connection, kind: str, fields: Mapping[str, Any]) -> int:
    """Return how many decisions on the same thing came before one of ``kind`` that says ``fields``."""
    event = KINDS[kind]
    if not event.TURNS:
        return 0
    account, *_columns, about, _part = columns({**fields, "kind": kind})[1:]
    statement = select(HASHED_BODY).where(_c.account == account, _c.kind.in_(event.TURNS))
    if event.SUBJECTS and event.SAME:
        statement = statement.where(DECIDES, _c.subject == about)
    bodies = map(checked_body, connection.execute(statement).scalars())
    return sum(all(body[name] == fields[name] for name in event.SAME) for body in bodies)


def decisions(connection: Connection, account: str, subject: str, *kinds: str) -> list[dict[str, Any]]:
    """Return the entries of some kinds that are found by a subject, in order."""
    asked = {"account": account, "subject": subject}
    bodies = [checked_body(text) for text in connection.execute(REVIEWED, asked).scalars()]
    return sorted((body for body in bodies if body["kind"] in kinds), key=lambda body: body["seq"])


def withheld(connection: Connection, account: str) -> list[tuple[Charge, str, bool]]:
    """Return the withheld charges of an account, in order.

    With each comes the criterion, and whether confidential figures were consulted.
    """
    texts = connection.execute(_WITHHELD, {"account": account}).scalars()
    bodies = [checked_body(text) for text in texts]
    return [(Charge.of(body), body["criterion"], body["consulted"]) for body in bodies]


def withdrawal(connection: Connection, account: str, release: str) -> Withdrawal | None:
    """Return the withdrawal of a release, if it was withdrawn."""
    asked = {"account": account, "subject": subject("withdrawn", release=release)}
    text = connection.execute(ABOUT, asked).scalar()
    if text is None:
        return None
    body = checked_body(text)
    return Withdrawal(body["release"], body["reason"], body["by"], body["seq"], body["at"])


def populations(connection: Connection) -> set[str]:
    """Return every population that an account is, or was, about."""
    return {checked_body(text)["population"] for text in connection.execute(_TERMS_STATED).scalars()}


def separations(connection: Connection) -> dict[tuple[str, str], Separation]:
    """Return the last word on each two populations."""
    result: dict[tuple[str, str], Separation] = {}
    known = keys(connection)
    for text in connection.execute(_SEPARATIONS).scalars():
        body = checked_body(text)
        disjoint = body["kind"] == "disjoint"
        holds = disjoint and body["by"] in known and known[body["by"]].active
        declared = {name: body[name] for name in ("population", "other", "turn", "at", "reason")}
        pair = (body["population"], body["other"])
        result[pair] = Separation(disjoint=disjoint, holds=holds, key=body["by"], **declared)
    return result


#: How many of the last hashes are read with the head: the witness is seldom further behind.
RECENT = 8
_RECENT = select(HASHED_BODY).order_by(_c.seq.desc()).limit(RECENT)


@dataclass(frozen=True)
class ChainHead:
    """The end of the chain, as who has just taken the right to append reads it.

    Attributes
    ----------
    at, kind, prev
        The last entry's time, kind, and the hash that it names; empty for an empty ledger.
    recent
        The hashes of the last entries, the newest first.
    """

    head: Head = EMPTY
    at: str = ""
    kind: str = ""
    prev: str = ""
    recent: tuple[str, ...] = ()

    def contains_recent(self, named: Head) -> bool:
        """Whether this entry is among the last ones; others may be in the chain all the same."""
        offset = self.head.seq - named.seq
        return 0 <= offset < len(self.recent) and self.recent[offset] == named.hash


def chain_head(connection: Connection) -> ChainHead:
    """Return the end of the chain."""
    texts = connection.execute(_RECENT).scalars().all()
    if not texts:
        return ChainHead()
    body, recent = checked_body(texts[0]), tuple(text[:64] for text in texts)
    return ChainHead(Head(body["seq"], recent[0]), body["at"], body["kind"], body["prev"], recent)


def unconfirmed(connection: Connection) -> Head | None:
    """Return the head that a ledger had when it was put back, while nobody has confirmed it."""
    last = chain_head(connection)
    return Head(last.head.seq - 1, last.prev) if last.kind == "restored" else None
