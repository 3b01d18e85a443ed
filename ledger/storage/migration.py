"""Bringing a ledger's tables up to date, never its rows.

The chain is walked before and after, in the same transaction as the change and under the one right to
append: a ledger that does not verify is not touched, and one that is touched has the same head afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import URL, ColumnElement, Connection, inspect, literal_column, select

from ledger.chain.verify import Verification, Verified
from ledger.chain.witness import Witness
from ledger.refusals import ChainBroken, ReadOnly, StorageFailed
from ledger.storage import schema
from ledger.storage.database import WAIT_SECONDS, Database

SCRIPTS = Path(__file__).parent / "migrations"
_STRIDE = 5000


@dataclass(frozen=True)
class Migrated:
    """From which revision to which, what the chain holds, and what is still wrong with its guard."""

    before: str | None
    after: str
    verified: Verified
    fault: str | None  # why the ledger takes no entry all the same


def migrate(url: str | URL, *, wait: float = WAIT_SECONDS, to: str = schema.REVISION) -> Migrated:
    """Bring the tables of a ledger to revision ``to``; make them if there are none.

    Raises
    ------
    ChainBroken
        If the chain does not verify, or lacks the witness's head; nothing is changed then.
    StorageFailed
        If the database belongs to something else or to a newer release.
    """
    database = Database(url, wait, ready=False)
    backend = database.backend
    try:
        with database.told():
            backend.make()
        before = database.revision()
        if not before or before > to:
            raise StorageFailed(
                "is not a ledger, or is one of a newer release",
                where=database.name,
                mend="check the URL, or install that release of Tabularium",
            )
        with database.write() as connection:
            before = schema.revision(connection) or before  # another process may have been first
            found = _walked(connection)
            _witnessed(connection, backend.witnessed(), database)
            if before != to:
                with backend.migrating(connection):
                    _run(connection, before, to)
            if to == schema.REVISION:
                backend.guard(connection)
            if _walked(connection) != found:
                raise ChainBroken("the chain changed during the migration", where=database.name)
            fault = backend.unguarded(connection) if to == schema.REVISION else None
        return Migrated(before, to, found, fault)
    finally:
        database.close()


def _run(connection: Connection, before: str, to: str) -> None:
    """Run Alembic's scripts on this connection, inside its transaction."""
    from alembic import command
    from alembic.config import Config

    if not (SCRIPTS / "env.py").exists():
        raise StorageFailed("are not installed", where="migrations", mend="install Tabularium anew")
    config = Config()
    config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    config.attributes["connection"] = connection
    if before and not inspect(connection).has_table(
        schema.version.name, schema.place(connection)
    ):  # made before revisions were kept
        command.stamp(config, before)
    command.upgrade(config, to)


def _walked(connection: Connection) -> Verified:
    """Walk the chain with the columns that there are, whatever the revision."""
    columns = inspect(connection).get_columns(schema.entries.name, schema.place(connection))
    there = {column["name"] for column in columns}
    table = schema.entries.c
    missing: ColumnElement[Any] = literal_column("NULL")
    wanted = [table[name] if name in there else missing.label(name) for name in schema.REPEATED]
    verification, after = Verification(), 0
    page = select(table.seq, table.prev, table.hash, table.body, *wanted).order_by(table.seq).limit(_STRIDE)
    while rows := connection.execute(page.where(table.seq > after)).all():
        for row in rows:
            values = tuple(row)
            verification.take(values[0], values[1], values[2], values[3], values[4:])
        after = rows[-1].seq
    return verification.result()


def _witnessed(connection: Connection, witness: Witness, database: Database) -> None:
    from ledger.storage import entry_queries as queries

    lacking = (h for h in witness.heads(queries.first_hash(connection)) if not queries.holds(connection, h))
    head = next(lacking, None)
    if head is not None:
        raise ReadOnly(
            f"it lacks entry {head.seq} as the witness file names it",
            where=database.name,
            mend="restore the newest backup, then migrate that",
        )
