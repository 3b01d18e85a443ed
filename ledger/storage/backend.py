"""What the two database engines have in common, as the books see them.

Everything is SQLAlchemy Core in :mod:`ledger.storage.entry_queries`; an engine adds only what differs: how a
writer takes the one right to append, what guards the tables, how a release is held, and what its errors mean.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from ledger.chain.witness import Witness
from ledger.records import Entry
from ledger.storage import chain_head as turns
from ledger.storage import entry_queries as queries
from ledger.storage import schema


class Held(ABC):
    """A release that this process holds, until it lets go or dies."""

    @abstractmethod
    def stands(self) -> bool:
        """Whether nobody else can have taken it meanwhile."""

    @abstractmethod
    def free(self) -> None:
        """Let go."""

    @abstractmethod
    def drop(self) -> None:
        """Forget it in a forked child, which shares its parent's descriptors."""


class Backend(ABC):
    """One database engine.

    Attributes
    ----------
    name
        What to call the database in messages; never a URL, which may hold a password.
    identity
        Tells this ledger from every other that this process may have open.
    engine
        The SQLAlchemy engine.
    locks
        Folder for locks of the operating system.
    witness
        Where the head is remembered outside the database; see :mod:`ledger.chain.witness`.
    wait
        Seconds to wait for other writers.
    """

    name: str
    identity: str
    engine: Engine
    locks: Path
    witness: Path
    wait: float

    @abstractmethod
    def make(self) -> None:
        """Make the tables of a new ledger, whoever else tries the same at this moment."""

    @abstractmethod
    def guard(self, connection: Connection) -> None:
        """Create what protects the tables."""

    @abstractmethod
    def unguarded(self, connection: Connection) -> str | None:
        """Return what is wrong with that protection, or ``None``."""

    @abstractmethod
    def lock(self, connection: Connection) -> None:
        """Take the one right to append, for the rest of the transaction."""

    def take_turn(self, connection: Connection, asked: Mapping[str, str | None] | None) -> turns.Turn:
        """Take the one right to append, and read what the charge that is ``asked`` about depends on."""
        self.lock(connection)
        return turns.turn(connection, asked)

    @abstractmethod
    def hold(self, release_id: str, wait: float) -> Held | None:
        """Hold a release, or return ``None`` if another live process does."""

    @abstractmethod
    def failure(self, error: DBAPIError) -> tuple[bool, str, str]:
        """Return whether it was only busy, what is wrong, and the mend."""

    def witnessed(self) -> Witness:
        """Return the witness beside, or far from, the database."""
        return Witness(self.witness, self.locks / "witness.lock", self.wait)

    def finish(self, connection: Connection, entry: Entry, columns: tuple[str | None, ...]) -> None:
        """Append the one entry of a turn, whose columns are ``columns``; it may be committed at once."""
        queries.insert(connection, [(entry, columns)])

    @contextmanager
    def queue(self) -> Iterator[None]:
        """Wait for this process's turn to begin a writing transaction, where the engine has no queue."""
        yield

    def unchanged(self) -> bool:
        """Whether what the URL names is still what was opened."""
        return True

    def create(self, connection: Connection) -> None:
        """Create all of a new ledger, inside the caller's transaction."""
        schema.create(connection)
        self.guard(connection)

    def reading(self) -> Engine:
        """Return the engine whose transactions see one state of the books."""
        return self.engine

    def writing(self) -> Engine:
        """Return the engine whose transactions append."""
        return self.engine

    def turning(self) -> Engine:
        """Return the engine whose transactions append one entry, in a turn."""
        return self.writing()
