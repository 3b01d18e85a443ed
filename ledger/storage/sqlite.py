"""SQLite: a ledger in one file, for one machine.

Write-ahead log, synchronous=FULL, one writer at a time through ``BEGIN IMMEDIATE`` (the driver's own
transactions begin too late and lose updates).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError

from tabularium.ledger import durable_files, names
from tabularium.ledger.records import GENESIS, Entry
from tabularium.ledger.refusals import LockTimeout
from tabularium.ledger.storage import queries, schema
from tabularium.ledger.storage.backend import Backend, Held
from tabularium.ledger.witness import Witness

_WRITES = "ledger_writes"

#: what an error code means to a person: (what, hint)
_CAUSES = {
    "SQLITE_BUSY": ("is kept locked by another process", "wait for it, then run again"),
    "SQLITE_FULL": ("has no space left on its disk; nothing was written", "free some space, then run again"),
    "SQLITE_READONLY": (
        "may not be written by this user",
        "correct owner and mode of the file and its folder",
    ),
    "SQLITE_PERM": ("may not be opened by this user", "correct owner and mode of the file and its folder"),
    "SQLITE_CANTOPEN": ("cannot be opened", "check the path, and the owner and mode of the folder"),
    "SQLITE_NOTADB": ("is not a database", "check the path, or restore the last good backup"),
    "SQLITE_CORRUPT": ("is damaged", "restore the last good backup"),
    "SQLITE_IOERR": ("cannot be read or written", "check the disk"),
    "SQLITE_CONSTRAINT": ("refused an entry that does not continue the chain", "verify the ledger"),
}

_REFUSE = "CREATE TRIGGER {name} BEFORE {event} BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"

#: name -> statement; SQLite keeps the statement's text, so that a changed trigger shows.
TRIGGERS = {
    "entries_no_update": _REFUSE.format(name="entries_no_update", event="UPDATE ON entries"),
    "entries_no_delete": _REFUSE.format(name="entries_no_delete", event="DELETE ON entries"),
    "locks_no_update": _REFUSE.format(name="locks_no_update", event="UPDATE ON locks"),
    "locks_no_delete": _REFUSE.format(name="locks_no_delete", event="DELETE ON locks"),
    # This also refuses INSERT OR REPLACE, for which SQLite fires no DELETE trigger.
    "entries_in_chain": (
        "CREATE TRIGGER entries_in_chain BEFORE INSERT ON entries"
        " WHEN NEW.seq IS NOT (SELECT coalesce(max(seq), 0) + 1 FROM entries)"
        f" OR NEW.prev IS NOT coalesce((SELECT hash FROM entries WHERE seq = NEW.seq - 1), '{GENESIS}')"
        " BEGIN SELECT RAISE(ABORT, 'the entry does not continue the chain'); END"
    ),
}


class HeldFile(Held):
    """A release held by a lock file: the system's lock goes with the process that holds it."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path, self._descriptor = path, descriptor

    def stands(self) -> bool:
        """Whether the lock file is still in place; a careless operator may have removed it."""
        return durable_files.same_inode(self._descriptor, self._path)

    def free(self) -> None:
        """Let go."""
        durable_files.unlock(self._descriptor)

    def drop(self) -> None:
        """Close the child's copy, which would keep the lock alive after the parent's death."""
        os.close(self._descriptor)


class SQLite(Backend):
    """The ledger in the file at ``path``; its witness is kept in the folder ``witnesses`` as well."""

    def __init__(self, path: Path, wait: float, witnesses: Path | None = None) -> None:
        self.name = path.name
        self.identity = f"sqlite {path}"
        self.locks = path.with_name(path.name + ".locks")
        self.witness = path.with_name(path.name + ".witness")
        self.wait = wait
        self.path = path
        self._witnesses = witnesses
        self.engine = _engine(path, wait, _only_read(path))
        self.readers = self.engine
        self.writers = self.engine.execution_options(**{_WRITES: True})
        self._opened: tuple[int, int, int] | None = None

    def make(self) -> None:
        """Make the file, mode 0600, and its tables."""
        durable_files.make_folder(self.locks)
        if not self.made():
            with durable_files.turn(self.locks / "open.lock", self.wait) as mine:
                if not mine:
                    raise LockTimeout(
                        "another process is making it", where=self.name, hint="wait, then run again"
                    )
                if not self.path.exists():
                    durable_files.create(self.path, b"")
                    durable_files.sync_folder(self.path.parent)
                with self.writers.begin() as connection:
                    if schema.revision(connection) is None:
                        self.create(connection)
        self._opened = _identity(self.path)

    def made(self) -> bool:
        """Tell whether there are tables; the process that made the file may have died before it made them."""
        if not (self.path.exists() and self.path.stat().st_size):
            return False
        with self.engine.begin() as connection:
            return schema.revision(connection) is not None

    def guard(self, connection: Connection) -> None:
        """Create the triggers, or put them back in place."""
        for name, trigger in TRIGGERS.items():
            connection.exec_driver_sql(f"DROP TRIGGER IF EXISTS {name}")
            connection.exec_driver_sql(trigger)

    def guard_fault(self, connection: Connection) -> str | None:
        """Compare the triggers with the text they were created from, and count the file's values."""
        if self.path.stat().st_nlink > 1:
            # Its log, its locks and its witness are named after the file: under two values it is two ledgers.
            return "its file has more than one name (hard links); remove the others"
        rows = connection.exec_driver_sql("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").all()
        if {row.name: row.sql for row in rows} != TRIGGERS:
            return "the triggers that protect the entries are missing or changed"
        return None

    def lock(self, connection: Connection) -> None:
        """Nothing is left to do: the transaction began with ``BEGIN IMMEDIATE``."""

    def append(self, connection: Connection, entry: Entry, columns: tuple[str | None, ...]) -> None:
        """Insert it."""
        queries.insert(connection, [(entry, columns)])

    def hold(self, release_id: str, wait: float) -> Held | None:
        """Lock the release's file in the folder of locks."""
        path = self.locks / f"release-{names.release_id(release_id)}.lock"
        descriptor = durable_files.locked_file(path, wait)
        return None if descriptor is None else HeldFile(path, descriptor)

    def failure(self, error: DBAPIError) -> tuple[bool, str, str]:
        """Tell by SQLite's own error name."""
        code = str(getattr(error.orig, "sqlite_errorname", ""))
        known = next((cause for name, cause in _CAUSES.items() if code.startswith(name)), None)
        what, hint = known or ("refused a statement", "check the disk and verify the ledger")
        return code.startswith("SQLITE_BUSY"), what, hint

    def open_witness(self) -> Witness:
        """Return the witness next to the file."""
        return Witness(self.witness, self._witnesses, self.wait)

    def unchanged(self) -> bool:
        """Whether the file is the one that was opened, not exchanged and not linked to."""
        try:
            return self._opened is None or _identity(self.path) == self._opened
        except OSError:
            return False


def _only_read(path: Path) -> dict[str, str]:
    """Return how to open a ledger in a folder that this user may only read: SQLite makes files next to it.

    Without a log next to it nobody has it open who could write; with one SQLite reads that too.
    """
    if not path.exists() or os.access(path.parent, os.W_OK):
        return {}
    log = path.with_name(path.name + "-wal")
    return {"mode": "ro", "uri": "true"} if log.exists() else {"immutable": "1", "uri": "true"}


def _engine(path: Path, wait: float, only_read: dict[str, str]) -> Engine:
    database = f"file:{quote(str(path))}" if only_read else str(path)
    engine = create_engine(
        URL.create("sqlite", database=database, query=only_read),
        connect_args={"timeout": wait, "isolation_level": None},
        pool_size=4,
        max_overflow=-1,
        hide_parameters=True,
    )

    @event.listens_for(engine, "connect")
    def connect(connection: Any, _record: Any) -> None:
        if not only_read:
            connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA trusted_schema = OFF")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get(_WRITES, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _identity(path: Path) -> tuple[int, int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino, status.st_nlink
