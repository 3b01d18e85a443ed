"""The ledger's tables: one append-only table of entries, and rows that exist only to be locked.

Everything that matters stands in ``body``, which the hash covers; the other columns repeat parts of it
for the indexes, and ``verify`` compares them. What guards the table (triggers, and on a server the one
function that appends) belongs to the database engine: :mod:`tabularium.ledger.storage.sqlite`,
:mod:`tabularium.ledger.storage.postgres`.
"""

from __future__ import annotations

import threading
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    inspect,
    select,
    text,
)

#: The Alembic revision that this code reads and writes.
REVISION = "0001"

HEAD_LOCK = "head"
#: The kinds that say on what terms an account is; literals, so that the partial index serves the queries.
STATES_TERMS = text("(kind = 'account' OR kind = 'terms')")
#: What is about a key or an approved spec, and not about a part of a partition.
DECIDES = text("subject IS NOT NULL AND part IS NULL")

metadata = MetaData()


def _name(length: int) -> String:
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
    Column("body", Text, nullable=False),
    Column("prev", _name(64), nullable=False),
    Column("hash", _name(64), nullable=False),
    Column("subject", _name(512)),  # what the entry is about: see :mod:`tabularium.ledger.events`
    Column("part", _name(128)),
)


def _index(name: str, *columns: Column[Any], where: Any = None) -> None:
    Index(f"entries_{name}", *columns, sqlite_where=where, postgresql_where=where)


# Each ends with ``seq``, to find the last entry of something: see ``last`` in ``queries``.
_c = entries.c
_index("account", _c.account, _c.seq)
_index("period", _c.account, _c.period, _c.seq)
_index("product", _c.account, _c.product, _c.seq)
_index("release", _c.release_id, _c.seq)
_index("terms", _c.account, _c.kind, _c.seq, where=STATES_TERMS)
_index("subject", _c.account, _c.subject, _c.seq, where=DECIDES)
_index("part", _c.account, _c.subject, _c.part, _c.seq, where=text("part IS NOT NULL"))

locks = Table("locks", metadata, Column("name", String(16), primary_key=True))
#: Alembic's own table, under its own name.
version = Table(
    "alembic_version",
    metadata,
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)

# Alembic keeps what it is migrating in its modules: one ledger at a time in a process.
_migrating = threading.Lock()


def create(connection: Connection) -> None:
    """Create the tables and the row to lock, inside the caller's transaction: run the shipped migration."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "tabularium.ledger.storage:migrations")
    config.attributes["connection"] = connection
    with _migrating:
        command.upgrade(config, "head")


def revision(connection: Connection) -> str | None:
    """Return the schema's revision; ``None`` where there are no tables, empty for somebody else's."""
    translated: dict[str | None, str] = connection.get_execution_options().get("schema_translate_map", {})
    tables = set(inspect(connection).get_table_names(translated.get(None)))
    if not tables:
        return None
    if not tables >= metadata.tables.keys():
        return ""
    return connection.execute(select(version.c.version_num)).scalar() or ""
