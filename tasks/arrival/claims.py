"""Claims: the state of every drop, which only one watcher can claim.

Object stores cannot rename, so who has a drop is decided by unique constraints of a database: ``lies`` (one
row for what lies in an inbox under a name) and ``slot`` (one drop for each product and period, for ever
once it is published). A row holds names and times, and no digest of data; that of an address is not needed.

::

    arrived ──▶ started ──▶ published ──▶ (put away) ──▶ deleted
       │           ├──▶ failed      stays in the inbox until somebody runs it, or takes it away (gone)
       │           └──▶ refused     put into quarantine
       └ quarantined                put into quarantine; nothing was started

Where it lies is ``place``, below the inbox; ``lies`` is empty once it was put away. An id is random: it is
all that events, parameters and logs hear.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from sqlalchemy import (
    URL,
    Column,
    Connection,
    Engine,
    Float,
    MetaData,
    Table,
    Text,
    create_engine,
    event,
    inspect,
    make_url,
    or_,
    select,
)
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, OperationalError, ProgrammingError
from sqlalchemy.pool import NullPool

from tabularium.ledger.durable_files import make_folder
from tabularium.ledger.refusals import StorageFailed
from tabularium.mechanisms.errors import InputError
from tabularium.tasks.runtime.home import Home
from tabularium.validations.redaction import bare_errors

State = Literal["arrived", "started", "failed", "refused", "published", "quarantined", "gone", "deleted"]
Refusal = Literal["data", "manifest", "period published", "period taken"]
#: A run of such a drop may begin by itself.
LIVE: tuple[State, ...] = ("arrived", "started", "failed")
_VARIABLE = "TABULARIUM_ARRIVALS"
_WAIT_SECONDS = 60
_MOST_ENGINES = 8

#: Columns that tables made before they were needed do not have.
_LATER = (Column("refusal", Text), Column("run", Text))
_TABLE = Table(
    "arrivals",
    MetaData(),
    Column("id", Text, primary_key=True),
    Column("product", Text, nullable=False, index=True),
    Column("period", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("why", Text, nullable=False),
    Column("place", Text, nullable=False),
    Column("target", Text),
    Column("lies", Text, unique=True),
    Column("slot", Text, unique=True),
    Column("release_id", Text),
    Column("found_at", Float, nullable=False),
    Column("announced_at", Float),
    Column("ended_at", Float),
    *_LATER,
)


@dataclass(frozen=True)
class Drop:
    """One drop, as recorded in the claims.

    Attributes
    ----------
    id
        Random; 32 hexadecimal digits.
    period
        Empty where the manifest did not tell.
    why
        One line, of a drop that was refused or quarantined.
    place
        Below the inbox: ``NAME``, ``done/NAME`` or ``quarantine/NAME``.
    target
        Where it is being put away to.
    lies, slot
        What it has to itself; None once it was put away, or has not got the period.
    release_id
        The release that the first run of it was for.
    found_at, announced_at, ended_at
        Seconds since 1970.
    refusal
        Of what kind a refusal was; None of other drops, and of those refused before kinds were kept.
    run
        Name of the run that refused its data.
    """

    id: str
    product: str
    period: str
    state: State
    why: str
    place: str
    target: str | None
    lies: str | None
    slot: str | None
    release_id: str | None
    found_at: float
    announced_at: float | None
    ended_at: float | None
    refusal: Refusal | None = None
    run: str | None = None


def new_id() -> str:
    """Return the id of a new drop."""
    return secrets.token_hex(16)


class Claims:
    """The claims of an installation; each method is one transaction."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @classmethod
    @contextmanager
    def at(cls, home: Home) -> Iterator[Claims]:
        """Open the claims of a home, which are created if missing.

        Raises
        ------
        InputError
            If TABULARIUM_ARRIVALS is no address of a database.
        StorageFailed
            If the database does not answer, or may not be written.
        """
        claims = cls(_engine(home))
        claims._make()
        yield claims

    @classmethod
    def known(cls, home: Home) -> list[Drop]:
        """Return every drop that a home knows, the oldest first; no database is created.

        Raises
        ------
        InputError, StorageFailed
            As :meth:`at`.
        """
        elsewhere = os.environ.get(_VARIABLE) or make_url(home.ledger_url).get_backend_name() != "sqlite"
        if not elsewhere and not (home.ledger_folder / "arrivals.db").exists():
            return []
        claims = cls(_engine(home))
        if claims._columns() is None:
            return []
        claims._make()  # an older table becomes one of today
        return claims._select()

    def take(self, drop: Drop) -> bool:
        """Claim a drop; return whether the claim succeeded, which no other drop with its slot can."""
        try:
            with self._connected() as connection:
                connection.execute(_TABLE.insert().values(**vars(drop)))
        except IntegrityError:
            return False
        return True

    def withdraw(self, drop: Drop) -> None:
        """Withdraw a claim taken just now, unless it was announced meanwhile."""
        untold = [_TABLE.c.state.in_(("arrived", "quarantined")), _TABLE.c.announced_at.is_(None)]
        with self._connected() as connection:
            connection.execute(_TABLE.delete().where(_TABLE.c.id == drop.id, *untold))

    def find(self, drop: str) -> Drop | None:
        """Return the drop of that id."""
        return next(iter(self._select(_TABLE.c.id == drop)), None)

    def of_product(self, product: str, *states: State) -> list[Drop]:
        """Return the drops of a product that are in one of these states, or in any, the oldest first."""
        chosen = [_TABLE.c.state.in_(states)] if states else []
        return self._select(_TABLE.c.product == product, *chosen)

    def lying(self, product: str) -> list[Drop]:
        """Return the drops of a product that lie in its inbox."""
        return self._select(_TABLE.c.product == product, _TABLE.c.lies.is_not(None))

    def put_away_before(self, product: str, when: float) -> list[Drop]:
        """Return the drops of a product that were put away, and ended before that time."""
        put_away = [_TABLE.c.lies.is_(None), _TABLE.c.state.in_(("published", "refused", "quarantined"))]
        return self._select(_TABLE.c.product == product, *put_away, _TABLE.c.ended_at < when)

    def to_announce(self, product: str) -> list[Drop]:
        """Return the drops that arrived, and those in quarantine, that were not announced yet."""
        arrived, other = _TABLE.c.state == "arrived", _TABLE.c.state.in_(("quarantined", "refused"))
        untold = or_(arrived, other & _TABLE.c.announced_at.is_(None))
        return self._select(_TABLE.c.product == product, untold)

    def recent(self, product: str, since: float) -> list[Drop]:
        """Return the drops of a product that lie in its inbox, or ended since that time."""
        lying = or_(_TABLE.c.lies.is_not(None), _TABLE.c.ended_at >= since)
        return self._select(_TABLE.c.product == product, lying)

    def change(self, drop: Drop, **values: Any) -> bool:
        """Change a drop if it is unchanged since it was read; return whether it was."""
        same = [_TABLE.c.id == drop.id, _TABLE.c.state == drop.state, _TABLE.c.place == drop.place]
        same.append(_TABLE.c.target.is_not_distinct_from(drop.target))
        same.append(_TABLE.c.announced_at.is_not_distinct_from(drop.announced_at))
        same.append(_TABLE.c.release_id.is_not_distinct_from(drop.release_id))
        with self._connected() as connection:
            return connection.execute(_TABLE.update().where(*same).values(**values)).rowcount == 1

    def _select(self, *conditions: Any) -> list[Drop]:
        asked = select(_TABLE).where(*conditions).order_by(_TABLE.c.found_at, _TABLE.c.id)
        with self._connected() as connection:
            return [Drop(**row._mapping) for row in connection.execute(asked)]

    def _columns(self) -> set[str] | None:
        """Return the columns of the table; None where it is not made."""
        with self._connected() as connection:
            inspector = inspect(connection)
            if not inspector.has_table(_TABLE.name):
                return None
            return {column["name"] for column in inspector.get_columns(_TABLE.name)}

    def _make(self) -> None:
        there = self._columns()
        try:
            if there is None:
                _TABLE.metadata.create_all(self._engine, checkfirst=False)
                return
            for column in _LATER:
                if column.name not in there:
                    with self._engine.begin() as connection:
                        connection.exec_driver_sql(f"ALTER TABLE {_TABLE.name} ADD COLUMN {column.name} TEXT")
        except (IntegrityError, OperationalError, ProgrammingError):  # another process, or no right to
            if not (self._columns() or set()) >= set(_TABLE.columns.keys()):
                raise _failed("may not make the table arrivals") from None

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        try:
            with self._engine.begin() as connection:
                yield connection
        except IntegrityError:
            raise
        except DBAPIError:
            raise _failed("does not answer, or may not be written") from None


def drop_found(product: str, name: str, **values: Any) -> Drop:
    """Return a new drop of an inbox, with a new id unless ``values`` has one."""
    given: dict[str, Any] = {
        "id": new_id(),
        "period": "",
        "why": "",
        "place": name,
        "target": None,
        "lies": f"{product}/{name}",
        "slot": None,
        "release_id": None,
        "found_at": time.time(),
        "announced_at": None,
        "ended_at": None,
    }
    return Drop(product=product, **{**given, **values})


def slot_of(product: str, period: str) -> str:
    """Return the slot of a product's period, which only one drop has."""
    return f"{product}/{period}"


@bare_errors
def _engine(home: Home) -> Engine:
    try:
        url = make_url(os.environ.get(_VARIABLE) or home.ledger_url)
    except ArgumentError:
        url = None
    if url is None or url.get_backend_name() not in {"sqlite", "postgresql"}:
        raise InputError(
            "is not the address of a SQLite or PostgreSQL database",
            where=_VARIABLE,
            hint="write it like postgresql+psycopg://user@host/books",
        )
    if url.get_backend_name() == "postgresql":
        return _on_postgresql(url)
    try:
        if not os.environ.get(_VARIABLE):
            make_folder(home.ledger_folder)
            url = url.set(database=str(home.ledger_folder / "arrivals.db"))
        os.close(os.open(str(url.database), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError:
        raise _failed("cannot be opened") from None
    return _in_a_file(url)


# Kept, for a watcher asks several times a second: an engine remembers how its statements are written.
@lru_cache(maxsize=_MOST_ENGINES)
def _on_postgresql(url: URL) -> Engine:
    return create_engine(
        url.set(drivername="postgresql+psycopg"),
        hide_parameters=True,
        pool_pre_ping=True,
        pool_size=2,
        connect_args={"connect_timeout": 10},
    )


@lru_cache(maxsize=_MOST_ENGINES)
def _in_a_file(url: URL) -> Engine:
    """Return an engine without a pool: a kept connection would go to the old file after a replacement."""
    engine = create_engine(
        url, hide_parameters=True, poolclass=NullPool, connect_args={"timeout": _WAIT_SECONDS}
    )
    event.listen(engine, "connect", _write_ahead)
    return engine


def _write_ahead(connection: Any, _: object) -> None:
    """Use a write-ahead log: a commit waits for the disk once, with a rollback journal three times."""
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")


def _failed(what: str) -> StorageFailed:
    return StorageFailed(
        f"the database of arrivals {what}",
        where=_VARIABLE,
        hint="check that it is up, and the rights of this user; or name another: sqlite:///PATH",
    )
