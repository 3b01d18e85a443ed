"""Interface of the two database engines.

Everything is SQLAlchemy Core in :mod:`tabularium.ledger.storage.queries`; an engine adds only what
differs: how a writer takes the one right to append, what guards the tables, how a release is held, and what
its errors mean.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from tabularium.ledger.records import Entry
from tabularium.ledger.storage import schema
from tabularium.ledger.witness import Witness


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
    readers, writers
        The same engine for transactions that see one state of the ledger, and that write.
    locks
        Folder for locks of the operating system.
    witness
        Where the head is remembered outside the database; see :mod:`tabularium.ledger.witness`.
    wait
        Seconds to wait for other writers.
    """

    name: str
    identity: str
    engine: Engine
    readers: Engine
    writers: Engine
    locks: Path
    witness: Path
    wait: float

    @abstractmethod
    def made(self) -> bool:
        """Tell whether anything is there already that :meth:`make` would find, a ledger or not."""

    @abstractmethod
    def make(self) -> None:
        """Make the tables of a new ledger, also while another process tries the same."""

    @abstractmethod
    def guard(self, connection: Connection) -> None:
        """Create what protects the tables."""

    @abstractmethod
    def guard_fault(self, connection: Connection) -> str | None:
        """Return what is wrong with that protection, or ``None``."""

    @abstractmethod
    def lock(self, connection: Connection) -> None:
        """Take the one right to append, before anything is read, for the rest of the transaction."""

    @abstractmethod
    def append(self, connection: Connection, entry: Entry, columns: tuple[str | None, ...]) -> None:
        """Append the one entry of a transaction, whose columns are ``columns``."""

    @abstractmethod
    def hold(self, release_id: str, wait: float) -> Held | None:
        """Hold a release, or return ``None`` if another live process does."""

    @abstractmethod
    def failure(self, error: DBAPIError) -> tuple[bool, str, str]:
        """Return whether it was only busy, what is wrong, and the hint."""

    @abstractmethod
    def open_witness(self) -> Witness:
        """Return the witness next to the database, or elsewhere."""

    @property
    def place(self) -> Path:
        """What files of this machine about the ledger are named after, whatever URL it is opened by."""
        return self.witness.with_suffix("")

    def unchanged(self) -> bool:
        """Whether what the URL names is still what was opened."""
        return True

    def create(self, connection: Connection) -> None:
        """Create all of a new ledger, inside the caller's transaction."""
        schema.create(connection)
        self.guard(connection)
