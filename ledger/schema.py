"""The ledger's tables: one append-only table of entries, and rows that exist only to be locked.

Everything that matters stands in ``body``, which the hash covers; the other columns repeat parts of it
for the indexes, and ``verify`` compares them. The triggers refuse every UPDATE and DELETE, and every
INSERT that does not continue the chain (which also shuts the door of ``INSERT OR REPLACE``).
"""

from __future__ import annotations

from sqlalchemy import Column, Connection, Index, Integer, MetaData, String, Table, Text, text

from ledger.records import GENESIS

HEAD_LOCK = "head"
IS_ACCOUNT = text("kind = 'account'")  # a literal, so that the partial index serves the query

metadata = MetaData()

entries = Table(
    "entries",
    metadata,
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("kind", String(16), nullable=False),
    Column("account", String(128), nullable=False),
    Column("release_id", String(128)),
    Column("product", String(128)),
    Column("period", String(128)),
    Column("input_digest", String(512)),  # on the entries that reserve only
    Column("body", Text, nullable=False),
    Column("prev", String(64), nullable=False),
    Column("hash", String(64), nullable=False),
)
Index("entries_terms", entries.c.account, entries.c.seq, sqlite_where=IS_ACCOUNT, postgresql_where=IS_ACCOUNT)
Index("entries_account", entries.c.account, entries.c.seq)
Index("entries_period", entries.c.account, entries.c.period, entries.c.seq)
Index("entries_product", entries.c.account, entries.c.product, entries.c.seq)
Index("entries_release", entries.c.release_id, entries.c.seq)
Index(
    "entries_input",
    entries.c.input_digest,
    entries.c.account,
    sqlite_where=entries.c.input_digest.is_not(None),
    postgresql_where=entries.c.input_digest.is_not(None),
)

locks = Table("locks", metadata, Column("name", String(16), primary_key=True))

_REFUSE = "CREATE TRIGGER {name} BEFORE {event} BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"

#: name -> statement; SQLite keeps the statement's text, so that a changed trigger shows.
SQLITE_TRIGGERS = {
    "entries_no_update": _REFUSE.format(name="entries_no_update", event="UPDATE ON entries"),
    "entries_no_delete": _REFUSE.format(name="entries_no_delete", event="DELETE ON entries"),
    "locks_no_update": _REFUSE.format(name="locks_no_update", event="UPDATE ON locks"),
    "locks_no_delete": _REFUSE.format(name="locks_no_delete", event="DELETE ON locks"),
    "entries_in_chain": (
        "CREATE TRIGGER entries_in_chain BEFORE INSERT ON entries"
        " WHEN NEW.seq IS NOT (SELECT coalesce(max(seq), 0) + 1 FROM entries)"
        f" OR NEW.prev IS NOT coalesce((SELECT hash FROM entries WHERE seq = NEW.seq - 1), '{GENESIS}')"
        " BEGIN SELECT RAISE(ABORT, 'the entry does not continue the chain'); END"
    ),
}


def create(connection: Connection) -> None:
    """Create the tables, the triggers and the rows to lock, inside the caller's transaction."""
    metadata.create_all(connection, checkfirst=False)
    connection.execute(locks.insert(), {"name": HEAD_LOCK})
    for statement in SQLITE_TRIGGERS.values():
        connection.exec_driver_sql(statement)


def fault(connection: Connection) -> str | None:
    """Return what is wrong with the schema, or ``None``; an empty database counts as a fault too."""
    rows = connection.exec_driver_sql("SELECT type, name, sql FROM sqlite_master").all()
    tables = {row.name for row in rows if row.type == "table"}
    if not tables >= set(metadata.tables):
        return "empty" if not rows else "the database belongs to something else"
    triggers = {row.name: row.sql for row in rows if row.type == "trigger"}
    if triggers != SQLITE_TRIGGERS:
        return "the triggers that protect the entries are missing or changed"
    return None
