"""The database behind the books: how it is opened, locked, and how its errors are told.

SQLite: write-ahead log, synchronous=FULL, one writer at a time through ``BEGIN IMMEDIATE`` (the driver's
own transactions begin too late and lose updates). How a writer takes the one right to append is the
``begin`` listener's affair; on a server it is the lock on the row :data:`ledger.schema.HEAD_LOCK`.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from ledger import files, schema
from ledger.errors import Busy, LedgerError, StorageFailed

WAIT_SECONDS = 60
_WRITES = "ledger_writes"

#: what an SQLite error code means to a person: (what, mend)
_CAUSES = {
    "SQLITE_BUSY": ("is kept locked by another process", "wait for it, then run again"),
    "SQLITE_FULL": ("has no space left on its disk; nothing was written", "free some space, then run again"),
    "SQLITE_READONLY": (
        "may not be written by this user",
        "mend the owner and mode of the file and its folder",
    ),
    "SQLITE_PERM": ("may not be opened by this user", "mend the owner and mode of the file and its folder"),
    "SQLITE_CANTOPEN": ("cannot be opened", "check the path, and the owner and mode of the folder"),
    "SQLITE_NOTADB": ("is not a database", "check the path, or restore the last good backup"),
    "SQLITE_CORRUPT": ("is damaged", "restore the last good backup"),
    "SQLITE_IOERR": ("cannot be read or written", "check the disk"),
    "SQLITE_CONSTRAINT": ("refused an entry that does not continue the chain", "verify the ledger"),
}


class Database:
    """An open database of entries.

    Attributes
    ----------
    name
        What to call it in messages: the file's name, never a URL that may hold a password.
    locks
        Folder for the locks of the operating system.
    witness
        Where the head is remembered outside the database.
    wait
        Seconds to wait for other writers.
    fault
        Why no entry may be written, if the schema is not what it should be.
    """

    def __init__(self, url: str | URL, wait: float = WAIT_SECONDS) -> None:
        path = _sqlite_path(url)
        self.name = path.name
        self.locks = path.with_name(path.name + ".locks")
        self.witness = path.with_name(path.name + ".witness")
        self.wait = wait
        self._path = path
        self._engine = _sqlite_engine(path, wait)
        self._writer = self._engine.execution_options(**{_WRITES: True})
        self._finalizer = weakref.finalize(self, self._engine.dispose)
        try:
            files.make_folder(self.locks)
            self.fault = self._prepare()
            self._identity = _identity(path)
        except OSError:
            self.close()
            raise StorageFailed(
                "cannot be opened",
                where=self.name,
                mend="check the path, and the owner and mode of the folder",
            ) from None
        _open.add(self)

    def close(self) -> None:
        """Close every idle connection."""
        self._engine.dispose()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Hold one consistent view of the entries."""
        with self._told(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Hold the one right to append; commits at the end, or rolls everything back."""
        self._same_file()
        with self._told(), self._writer.begin() as connection:
            yield connection

    def _prepare(self) -> str | None:
        """Return the schema's fault; the tables of a new ledger are made first."""
        fault = self._fault() if self._path.exists() and self._path.stat().st_size else "empty"
        if fault != "empty":
            return fault
        with files.turn(self.locks / "open.lock", self.wait) as mine:
            if not mine:
                raise Busy("another process is making it", where=self.name, mend="wait, then run again")
            if not self._path.exists():
                files.create(self._path, b"")
                files.sync_folder(self._path.parent)
            if self._fault() == "empty":
                with self._told(), self._writer.begin() as connection:
                    schema.create(connection)
        return self._fault()

    def _fault(self) -> str | None:
        with self.read() as connection:
            return schema.fault(connection)

    def _same_file(self) -> None:
        """Refuse to write into a file that somebody has exchanged or removed under this process."""
        try:
            same = _identity(self._path) == self._identity
        except OSError:
            same = False
        if not same:
            raise StorageFailed(
                "was moved or exchanged while it was open", where=self.name, mend="open the ledger again"
            )

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Turn the driver's errors into ours, without their text."""
        try:
            yield
        except DBAPIError as error:
            failure = self._failure(error)
        else:
            return
        raise failure from None

    def _failure(self, error: DBAPIError) -> LedgerError:
        code = str(getattr(error.orig, "sqlite_errorname", ""))
        known = next((found for name, found in _CAUSES.items() if code.startswith(name)), None)
        what, mend = known or ("refused a statement", "check the disk and verify the ledger")
        kind = Busy if code.startswith("SQLITE_BUSY") else StorageFailed
        return kind(f"the ledger's database {what}", where=self.name, mend=mend)


_open: weakref.WeakSet[Database] = weakref.WeakSet()


def _before_fork() -> None:
    # SQLite's locks belong to a process: a child must not inherit an open connection, idle or not.
    for database in list(_open):
        database.close()


os.register_at_fork(before=_before_fork)


def _sqlite_path(url: str | URL) -> Path:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise StorageFailed(
            "is not a database URL", where="ledger", mend="write it like sqlite:///books.db"
        ) from None
    if parsed.get_backend_name() != "sqlite":
        raise StorageFailed(
            f"databases of the kind {parsed.get_backend_name()} are not supported",
            where="ledger",
            mend="use sqlite:///books.db",
        )
    if not parsed.database or parsed.database == ":memory:" or parsed.query:
        raise StorageFailed("must be a plain file", where="ledger", mend="write it like sqlite:///books.db")
    return Path(parsed.database).expanduser().resolve()


def _sqlite_engine(path: Path, wait: float) -> Engine:
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        connect_args={"timeout": wait, "isolation_level": None},
        pool_size=4,
        max_overflow=-1,
        hide_parameters=True,
    )

    @event.listens_for(engine, "connect")
    def connect(connection: Any, _record: Any) -> None:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA trusted_schema = OFF")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get(_WRITES, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _identity(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino
