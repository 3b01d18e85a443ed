"""PostgreSQL: a ledger that several machines share.

The one right to append is the lock on a row, taken before anything is read; a release is held by an advisory
lock of a session of its own, which the server frees when that session ends and not before. What guards the
entries, the one function that appends among it, is created from
:mod:`tabularium.ledger.storage.postgres_guard`.

No session has the ledger's schema in its search path: names of tables are written out with it, and functions
and operators are the server's own. Where others may create objects in that schema, an operator of theirs
that fits more closely than the server's would otherwise run with the rights of whoever reads the ledger.
"""

from __future__ import annotations

import os
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, event, func, select, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from tabularium.ledger import durable_files
from tabularium.ledger.records import Entry
from tabularium.ledger.refusals import StorageFailed
from tabularium.ledger.storage import postgres_guard, schema
from tabularium.ledger.storage.backend import Backend, Held
from tabularium.ledger.witness import Witness

CONNECT_SECONDS = 10

_LOCK = select(schema.locks.c.name).where(schema.locks.c.name == schema.HEAD_LOCK).with_for_update()
#: every type exact, so that no other function of that name can fit more closely
_APPEND = "SELECT {schema}.ledger_append(CAST(%(body)s AS text), CAST(%(hash)s AS text))"
#: ``pg_temp`` last, or it would come first by itself
_PATH = "pg_catalog, pg_temp"


class HeldSession(Held):
    """A release held by an advisory lock of its own session."""

    def __init__(self, connection: Connection, key: int) -> None:
        self._connection, self._key = connection, key

    def stands(self) -> bool:
        """Whether the session lives and still has its lock."""
        high, low = (self._key >> 32) & 0xFFFFFFFF, self._key & 0xFFFFFFFF
        statement = text(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid = pg_backend_pid()"
            " AND classid::bigint = :high AND objid::bigint = :low AND objsubid = 1"
        )
        try:
            return self._connection.execute(statement, {"high": high, "low": low}).scalar() == 1
        except SQLAlchemyError:
            return False

    def free(self) -> None:
        """End the session, and its lock with it."""
        # Where the server is gone there is nothing to unlock: the session ended, and the lock with it. What
        # SQLAlchemy says of a connection that it knows to be lost is not the driver's error.
        with suppress(SQLAlchemyError):
            self._connection.execute(select(func.pg_advisory_unlock(self._key)))
        with suppress(SQLAlchemyError):
            self._connection.close()

    def drop(self) -> None:
        """Detach the child's copy of the socket, through which it could speak in its parent's name."""
        driver: Any = self._connection.connection.driver_connection
        nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        os.dup2(nowhere, driver.fileno(), inheritable=False)
        os.close(nowhere)
        _detached.append(self._connection)


_detached: list[Connection] = []  # never closed: they belong to a parent process


class PostgreSQL(Backend):
    """The ledger in the database that ``url`` names; the witness and its lock are files in ``folder``."""

    def __init__(self, url: URL, wait: float, folder: Path) -> None:
        self.name = str(url.database or "postgresql")
        place = url.set(username=None, password=None).render_as_string()
        self.identity = f"postgresql {place}"
        stem = f"{self.name}-{sha256(place.encode()).hexdigest()[:12]}"
        self.locks = folder / "locks"
        self.witness = folder / f"{stem}.witness"
        self.wait = wait
        self.engine = _engine(url, wait)
        self.writers = self.engine
        self.readers = self.engine.execution_options(
            isolation_level="REPEATABLE READ", postgresql_readonly=True
        )
        self._sessions = create_engine(
            self.engine.url,
            poolclass=NullPool,
            isolation_level="AUTOCOMMIT",
            hide_parameters=True,
            connect_args=_ARGUMENTS,
            use_native_hstore=False,
        )
        _confine(self._sessions)
        durable_files.make_folder(self.locks)

    @property
    def place(self) -> Path:
        """Return a name without the host: owner and runners may write that in different ways."""
        return self.locks.with_name(self.name)

    def made(self) -> bool:
        """Tell whether there are tables in the schema, the ledger's or others."""
        with self.engine.begin() as connection:
            return schema.revision(connection) is not None

    def make(self) -> None:
        """Make the tables; of two who try at once, one waits for the other."""
        with self.engine.begin() as connection:
            if schema.revision(connection) is not None:
                return
            if connection.exec_driver_sql("SHOW server_encoding").scalar() != "UTF8":
                raise StorageFailed(
                    "cannot hold a ledger: the database's encoding is not UTF8",
                    where=self.name,
                    hint="make the database with ENCODING 'UTF8'; to move a ledger there: export, then"
                    " restore into a UTF8 database",
                )
            connection.execute(select(func.pg_advisory_xact_lock(_key("make", ""))))
            if schema.revision(connection) is None:
                self.create(connection)

    def guard(self, connection: Connection) -> None:
        """Create the functions and triggers, where nobody else's operators could become part of them."""
        place = _schema(connection)
        reason = postgres_guard.exposed(connection, place)
        if reason is not None:
            raise StorageFailed(
                f"cannot hold a ledger: {reason}",
                where=self.name,
                hint=f"as a superuser: REVOKE CREATE ON SCHEMA {place} FROM PUBLIC "
                "(see docs/how-to/move-to-postgresql.md)",
            )
        for statement in postgres_guard.statements(place):
            connection.exec_driver_sql(statement.replace("%", "%%"))  # a schema's name may hold one

    def guard_fault(self, connection: Connection) -> str | None:
        """Compare tables, triggers, functions and grants with what they were created from."""
        return postgres_guard.fault(connection, _schema(connection))

    def lock(self, connection: Connection) -> None:
        """Lock the head's row, before anything is read: later statements see all that came before."""
        connection.execute(_LOCK)

    def append(self, connection: Connection, entry: Entry, columns: tuple[str | None, ...]) -> None:
        """Append through the one function that may, which works out the columns."""
        del columns
        place = postgres_guard.quoted(_schema(connection)).replace("%", "%%")
        values = {"body": entry.text, "hash": entry.hash}
        connection.exec_driver_sql(_APPEND.replace("{schema}", place), values)

    def open_witness(self) -> Witness:
        """Return the witness of whatever ledger the URL leads to; other URLs may lead to the same."""
        return Witness(self.witness, self.witness.parent, self.wait)

    def hold(self, release_id: str, wait: float) -> Held | None:
        """Take the release's advisory lock in a session of its own."""
        connection = self._sessions.connect()
        key = _key("release", release_id)
        try:
            if wait > 0:
                connection.exec_driver_sql(f"SET lock_timeout = {max(1, int(wait * 1000))}")
                try:
                    connection.execute(select(func.pg_advisory_lock(key)))
                    taken = True
                except DBAPIError as error:
                    if not cause(error)[0]:
                        raise
                    taken = False
            else:
                taken = bool(connection.execute(select(func.pg_try_advisory_lock(key))).scalar())
        except BaseException:
            connection.close()
            raise
        if taken:
            return HeldSession(connection, key)
        connection.close()
        return None

    def failure(self, error: DBAPIError) -> tuple[bool, str, str]:
        """Tell by the SQLSTATE; without one, the connection was never made or was lost."""
        return cause(error)


_ARGUMENTS: dict[str, Any] = {
    "connect_timeout": CONNECT_SECONDS,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "application_name": "tabularium",
    "client_encoding": "utf8",  # whatever PGCLIENTENCODING or the role says: names are of every script
}


def _engine(url: URL, wait: float) -> Engine:
    try:
        engine = create_engine(
            url.set(drivername="postgresql+psycopg"),
            connect_args=_ARGUMENTS,
            pool_size=4,
            pool_pre_ping=True,
            max_overflow=-1,
            hide_parameters=True,
            isolation_level="READ COMMITTED",
            use_native_hstore=False,  # looking for its type would be a query before the path is set
        )
    except ModuleNotFoundError:
        raise StorageFailed(
            "a ledger on PostgreSQL needs the driver psycopg",
            where="ledger",
            hint="pip install 'tabularium-dp[postgres]'",
        ) from None

    _confine(engine)

    @event.listens_for(engine, "checkout")
    def checkout(connection: Any, _record: Any, _proxy: Any) -> None:
        if connection.read_only is False:  # as it comes back from reading: it would ask to write in its BEGIN
            connection.read_only = None

    @event.listens_for(engine, "connect")
    def connect(connection: Any, _record: Any) -> None:
        before, connection.autocommit = connection.autocommit, True
        # Whoever is suspended with the right to append in hand must not keep it for ever. No BEGIN asks to
        # write: a standby would refuse it with a state that stands for many faults.
        connection.execute(
            "SET synchronous_commit = on; SET quote_all_identifiers = off;"
            " SET default_transaction_read_only = off;"
            f" SET lock_timeout = {max(1, int(wait * 1000))};"
            f" SET idle_in_transaction_session_timeout = {max(1000, int(wait * 1000))}"
        )
        connection.autocommit = before

    return engine


def _confine(engine: Engine) -> None:
    """Take the schema out of every session's search path, and write it before every table's name."""

    @event.listens_for(engine, "connect")
    def connect(connection: Any, record: Any) -> None:
        before, connection.autocommit = connection.autocommit, True
        found = connection.execute("SELECT pg_catalog.current_schema()").fetchone()
        record.info["schema"] = found[0] or "public"
        connection.execute(f"SET search_path = {_PATH}")
        connection.autocommit = before

    @event.listens_for(engine, "engine_connect")
    def engine_connect(connection: Connection) -> None:
        connection.execution_options(schema_translate_map={None: connection.info["schema"]})


def _schema(connection: Connection) -> str:
    return str(connection.info["schema"])


def _key(kind: str, name: str) -> int:
    return int.from_bytes(sha256(f"tabularium {kind} {name}".encode()).digest()[:8], "big", signed=True)


_LOST = ("was cut off from this process", "run again: what was committed is found, and not repeated")
_LOCKED = ("is kept locked by another process", "wait for it, then run again")

#: what an SQLSTATE, or the class it begins with, means: (what, hint)
_CAUSES = {
    "55P03": _LOCKED,
    "40P01": _LOCKED,
    "53100": ("has no space left on its disk; nothing was written", "free some space, then run again"),
    "53200": ("has no memory left; nothing was written", "free some memory, then run again"),
    "53300": ("takes no more connections", "raise max_connections, or run fewer processes at once"),
    "42501": (
        "does not allow this to this user",
        "log in with the role for it: reader, writer or officer (see: tabularium ledger roles); migrate and "
        "restore are for the owner of the tables",
    ),
    "25006": ("is a copy that takes no entries", "use the URL of the primary server"),
    "28": ("does not let this user in", "check the user and password of the URL"),
    "3D000": ("does not exist", "create it, then run: tabularium ledger migrate"),
    "TB001": ("refused an entry that does not continue the chain", "verify the ledger"),
    "TB002": (
        "lets only a disclosure officer write this kind of entry",
        "log in with the officer's role (see: tabularium ledger roles)",
    ),
    "TB004": ("refused an entry dated ahead of the server's clock", "set the clock of this machine"),
    "TB005": (
        "refused an entry that does not follow from those before it",
        "verify the ledger, and append with Tabularium alone",
    ),
    "TB006": ("refused an entry dated behind the server's clock", "set the clock of this machine"),
    "22": ("refused a value that it cannot read", "verify the ledger"),
    "23": ("refused an entry that does not continue the chain", "verify the ledger"),
    "58": ("cannot be read or written", "check the server's disk"),
    "XX": ("is damaged", "stop the server and restore the last good backup"),
    "08": _LOST,
    "57P": _LOST,
    "25P03": _LOST,  # the server ended a session that sat on the right to append
    "57014": ("took too long and was stopped", "wait, then run again"),
}
_BUSY = ("55P03", "40P01")
#: The driver does not hand on the SQLSTATE with which a server turns a connection away.
_UNREACHED = (
    "cannot be reached",
    "check the server, the URL, the user and the password, and that this user may connect (GRANT CONNECT)",
)


def cause(error: DBAPIError) -> tuple[bool, str, str]:
    """Return whether somebody else is only in the way, what is wrong with the database, and the hint."""
    state = str(getattr(error.orig, "sqlstate", None) or "")
    if not state:
        return False, *(_LOST if error.connection_invalidated else _UNREACHED)
    for known in (state, state[:3], state[:2]):
        if known in _CAUSES:
            return state in _BUSY, *_CAUSES[known]
    return False, "refused a statement", "look at the server's log and verify the ledger"
