"""The ledger's tables: one append-only table of entries, and rows that exist only to be locked.

Everything that matters stands in ``body``, which the hash covers; the other columns repeat parts of it
for the indexes, and ``verify`` compares them. What guards the table (triggers, and on a server the one
function that appends) belongs to the database engine: :mod:`ledger.storage.sqlite`,
:mod:`ledger.storage.postgres`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    inspect,
    select,
    text,
)

#: The Alembic revision that this code reads and writes.
REVISION = "0005"
#: The revision of a ledger that was made before revisions were kept.
FIRST_REVISION = "0001"

HEAD_LOCK = "head"
#: Literals, so that the partial indexes serve the queries.
IS_ACCOUNT = text("kind = 'account'")
IS_TERMS = text("kind = 'terms'")
#: What "the last entry of …" is ordered by: an expression of its own for each index, so that no other index,
#: least of all the primary key, can offer that order to a planner. Walking such a one backwards is quick for
#: what was just charged, and reads the whole ledger for what never was.
PLACES = {
    name: f"(seq + {number})"
    for number, name in enumerate(
        ("account", "period", "product", "release", "opened", "terms", "subject"),
    )
}

metadata = MetaData()


def _name(length: int) -> String:
    """Return a text type that compares byte by byte, whatever the server's locale."""
    return String(length).with_variant(String(length, collation="C"), "postgresql")


entries = Table(
    "entries",
    metadata,
    Column("seq", Integer().with_variant(BigInteger, "postgresql"), primary_key=True, autoincrement=False),
    Column("kind", _name(16), nullable=False),
    Column("account", _name(128), nullable=False),  # empty on entries that concern no account
    Column("release_id", _name(128)),
    Column("product", _name(128)),
    Column("period", _name(128)),
    Column("input_digest", _name(512)),  # on the entries that reserve only
    Column("body", Text, nullable=False),
    Column("prev", _name(64), nullable=False),
    Column("hash", _name(64), nullable=False),
    Column("subject", _name(512)),  # a key, a spec that is approved, or a partition: see ``subject``
    Column("part", _name(128)),
)


def _index(name: str, *columns: Column[Any], where: Any = None) -> None:
    """Make the index that finds the last entry of something."""
    Index(f"entries_{name}", *columns, text(PLACES[name]), sqlite_where=where, postgresql_where=where)


_c = entries.c
_index("account", _c.account)
_index("period", _c.account, _c.period)
_index("product", _c.account, _c.product)
_index("release", _c.release_id)
_index("opened", _c.account, where=IS_ACCOUNT)
_index("terms", _c.account, where=IS_TERMS)
_index("subject", _c.account, _c.subject, _c.part, where=_c.subject.is_not(None))
Index(
    "entries_input",
    _c.input_digest,
    _c.account,
    sqlite_where=_c.input_digest.is_not(None),
    postgresql_where=_c.input_digest.is_not(None),
)

locks = Table("locks", metadata, Column("name", String(16), primary_key=True))
#: Alembic's own table, under its own name.
version = Table("alembic_version", metadata, Column("version_num", String(32), primary_key=True))

#: Columns beside the body in the order in which ``verify`` reads them.
REPEATED = ("kind", "account", "release_id", "product", "period", "input_digest", "subject", "part")


def repeated(body: Mapping[str, Any]) -> tuple[str | None, ...]:
    """Return what the columns :data:`REPEATED` must hold beside ``body``."""
    kind = body["kind"]
    return (
        kind,
        body.get("account", ""),
        body.get("release_id"),
        body.get("product"),
        body.get("period"),
        body["input_digest"] if kind == "reserved" else None,
        subject(body),
        body.get("part"),
    )


def subject(body: Mapping[str, Any]) -> str | None:
    """Return what an entry is about beside its account: a key, an approved spec, a partition, or nothing."""
    kind = body["kind"]
    if kind in ("key", "revocation"):
        return str(body["key"])
    if kind in ("approval", "withdrawal"):
        return str(body["spec_digest"])
    group = body.get("group")
    return None if group is None else str(group)


def create(connection: Connection) -> None:
    """Create the tables and the rows to lock, inside the caller's transaction."""
    metadata.create_all(connection, checkfirst=False)
    connection.execute(locks.insert(), {"name": HEAD_LOCK})
    connection.execute(version.insert(), {"version_num": REVISION})


def place(connection: Connection) -> str | None:
    """Return the schema whose name is written before every table's, or ``None``."""
    translated: dict[str | None, str] = connection.get_execution_options().get("schema_translate_map", {})
    return translated.get(None)


def revision(connection: Connection) -> str | None:
    """Return the schema's revision; ``None`` where there are no tables, empty for somebody else's."""
    tables = set(inspect(connection).get_table_names(place(connection)))
    if not tables:
        return None
    if not tables >= {entries.name, locks.name}:
        return ""
    if version.name not in tables:
        return FIRST_REVISION
    return connection.execute(select(version.c.version_num)).scalar() or ""
