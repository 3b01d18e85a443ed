"""The database behind the ledger: how it is opened, and how its errors are translated.

The URL chooses the engine, :mod:`tabularium.ledger.storage.sqlite` or
:mod:`tabularium.ledger.storage.postgres`. Everything above this file is the same for both.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import URL, Connection, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from tabularium.ledger.refusals import LedgerError, LockTimeout, NoLedger, StorageFailed
from tabularium.ledger.storage import schema
from tabularium.ledger.storage.backend import Backend
from tabularium.ledger.storage.postgres import PostgreSQL
from tabularium.ledger.storage.sqlite import SQLite

WAIT_SECONDS = 60
NOT_A_LEDGER = "the database belongs to something else"
_FORMS = "write it like sqlite:///ledger.db or postgresql+psycopg://user@host/books"


class Database:
    """An open database of entries.

    Attributes
    ----------
    backend
        The engine, and what is particular to it.
    fault
        Why no entry may be written, if the schema is not what it should be.
    """

    def __init__(self, url: str | URL, wait: float = WAIT_SECONDS, *, make: bool = True) -> None:
        try:
            self.backend = _backend(url, wait)
        except OSError:
            raise self._unopened("ledger") from None
        self._finalizer = weakref.finalize(self, self.backend.engine.dispose)
        self.fault: str | None = None
        self._prepare(make)
        _open.add(self)

    @property
    def name(self) -> str:
        """What to call it in messages."""
        return self.backend.name

    def close(self) -> None:
        """Close every idle connection."""
        self.backend.engine.dispose()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Hold one consistent view of the entries."""
        with self.translated_errors(), self.backend.readers.begin() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Hold the one right to append; commits at the end, or rolls everything back."""
        if not self.backend.unchanged():
            raise StorageFailed(
                "was moved, exchanged or linked to while it was open",
                where=self.name,
                hint="open the ledger again",
            )
        with self.translated_errors(), self.backend.writers.begin() as connection:
            self.backend.lock(connection)
            yield connection

    @contextmanager
    def translated_errors(self) -> Iterator[None]:
        """Raise the driver's errors as ours, without their text."""
        try:
            yield
        except DBAPIError as error:
            busy, what, hint = self.backend.failure(error)
            kind = LockTimeout if busy else StorageFailed
            failure: LedgerError = kind(f"the ledger's database {what}", where=self.name, hint=hint)
        else:
            return
        raise failure from None

    def _prepare(self, make: bool) -> None:
        """Make the tables of a new ledger, or refuse to; see that those that are there are known here."""
        try:
            with self.translated_errors():
                if not make and not self.backend.made():
                    raise NoLedger(
                        "no ledger is there yet",
                        where=self.name,
                        hint="name another home or TABULARIUM_LEDGER; if it is to begin here, "
                        "an officer opens an account: tabularium ledger open",
                    )
                self.backend.make()
            with self.read() as connection:
                revision = schema.revision(connection)
                self.fault = self.backend.guard_fault(connection) if revision == schema.REVISION else None
        except OSError:
            self.close()
            raise self._unopened(self.name) from None
        except LedgerError:
            self.close()
            raise
        if not revision:
            self.fault = NOT_A_LEDGER
        elif revision != schema.REVISION:
            self.close()
            raise StorageFailed(
                "the ledger's tables are of another release",
                where=self.name,
                hint="install that release of Tabularium",
            )

    @staticmethod
    def _unopened(name: str) -> StorageFailed:
        return StorageFailed(
            "cannot be opened", where=name, hint="check the path, and the owner and mode of the folder"
        )


_open: weakref.WeakSet[Database] = weakref.WeakSet()


def _before_fork() -> None:
    # A child must not inherit an open connection, idle or not: SQLite's locks belong to a process, and on a
    # server two would speak over one socket.
    for database in list(_open):
        database.close()


os.register_at_fork(before=_before_fork)


def _backend(url: str | URL, wait: float) -> Backend:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise StorageFailed("is not a database URL", where="ledger", hint=_FORMS) from None
    kind = parsed.get_backend_name()
    if kind == "sqlite":
        named = os.environ.get("TABULARIUM_WITNESS")
        return SQLite(_path(parsed), wait, _witnesses() if named else None)
    if kind == "postgresql" and parsed.drivername in ("postgresql", "postgresql+psycopg"):
        if not parsed.database:
            raise StorageFailed("names no database", where="ledger", hint=_FORMS)
        return PostgreSQL(parsed, wait, _witnesses())
    raise StorageFailed(f"databases of the kind {kind} are not supported", where="ledger", hint=_FORMS)


def _path(url: URL) -> Path:
    if not url.database or url.database == ":memory:" or url.query:
        raise StorageFailed("must be a plain file", where="ledger", hint="write it like sqlite:///ledger.db")
    return Path(url.database).expanduser().resolve()


def _witnesses() -> Path:
    """Return the folder in which this machine remembers the heads of ledgers on servers."""
    named = os.environ.get("TABULARIUM_WITNESS")
    if named:
        return Path(named).expanduser().absolute()
    home = os.environ.get("TABULARIUM_HOME")
    return (Path(home).expanduser() if home else Path.home() / ".tabularium").absolute() / "witness"
