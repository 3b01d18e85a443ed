"""Transactions of a ledger: one consistent view to read, or the one right to append, with the witness."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import Any, Concatenate, ParamSpec, TypeVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import Connection

from tabularium.ledger import rules
from tabularium.ledger.events import (
    IN_TIME,
    NotAnEntry,
    columns,
    event_of,
    latest,
    make_body,
    make_entry,
    next_time,
)
from tabularium.ledger.keys import key_id, public_hex, statement
from tabularium.ledger.records import GENESIS, TRANSITIONS, Charge, Entry, Head
from tabularium.ledger.refusals import RESTORE, BadValue, ChainBroken, ReadOnly, RuleBroken
from tabularium.ledger.storage import queries
from tabularium.ledger.storage.database import NOT_A_LEDGER, Database
from tabularium.ledger.storage.indexed import IndexedBooks, require_recent
from tabularium.ledger.storage.queries import ChainHead
from tabularium.ledger.verify import Verified, in_time, verify_rows
from tabularium.ledger.witness import WitnessDamaged

P = ParamSpec("P")
T = TypeVar("T")

GUARD = "find out who did it, then put its guard back (see docs/how-to/repair-a-ledger.md)"
#: Why a restored ledger accepts no entry, and the hint.
UNCONFIRMED = "it was put back from a backup, and nobody has confirmed that its head is the newest"
CONFIRM = (
    "hold it against the newest certificate, then say its head, as an officer with --key: "
    "tabularium ledger confirm HASH"
)


class Append:
    """One entry to be appended, inside a transaction that holds the right to do so.

    Attributes
    ----------
    start
        What was read when the right was taken.
    head
        The last entry: the one in ``start``, and from :meth:`append` on the new one.
    entry
        The entry to be appended and its columns, or ``None`` so far.
    """

    def __init__(self, connection: Connection, now: datetime, start: ChainHead, tolerance: timedelta) -> None:
        self.connection = connection
        self.start, self.head = start, start.head
        self.books = IndexedBooks(connection, start.head.seq + 1, unconfirmed=start.kind == "restored")
        self.entry: tuple[Entry, tuple[str | None, ...]] | None = None
        self._now, self._tolerance = now, tolerance

    def append(
        self,
        kind: str,
        fields: Mapping[str, Any],
        by: Ed25519PrivateKey | None = None,
        *,
        in_time: bool | None = None,
    ) -> dict[str, Any]:
        """Give the entry its content, if the rules allow it; return its body.

        It is written when the transaction ends.

        Parameters
        ----------
        fields
            What it says, its running sums apart.
        in_time
            Whether the clock may not be behind; ``None``: as its kind needs it.

        Raises ``LedgerError``: whatever the rules refuse it for.
        """
        in_time = kind in IN_TIME if in_time is None else in_time
        at = next_time(self._now, self.start.at, self._tolerance if in_time else None)
        content = {**fields, **({} if by is None else self._signed(kind, fields, by))}
        if TRANSITIONS.get(kind) == (None,):
            content["reserved_at"] = at
        self.books.expect(content)
        try:
            event = event_of(make_body(self.head, kind, at, content))
        except NotAnEntry as error:
            raise BadValue(str(error), where=f"entry {kind}", hint="give it as it is documented") from None
        after = rules.apply(self.books, event)
        body, entry = make_entry(self.head, kind, at, {**content, **after.texts()})
        self.entry, self.head = (entry, columns(body)), Head(entry.seq, entry.hash)
        return body

    def step(
        self,
        charge: Charge,
        step: str,
        by: Ed25519PrivateKey | None = None,
        *,
        decided: Mapping[str, Any] | None = None,
    ) -> Charge:
        """Append that ``charge`` took ``step``; its other fields are as they shall be afterwards.

        ``decided``: what an officer decided about it.
        """
        return Charge.of(self.append(step, {**charge.fields(), **(decided or {})}, by))

    def _signed(self, kind: str, fields: Mapping[str, Any], by: Ed25519PrivateKey) -> dict[str, Any]:
        """Return the fields that say who signed an entry."""
        signer, turn = key_id(public_hex(by)), self.books.turn(kind, fields)
        words = {**fields, "by": signer, "turn": turn}
        return {**words, "signature": by.sign(statement(self.books.first, kind, words)).hex()}


class Transactions:
    """The transactions of one open ledger, which all its parts share.

    Attributes
    ----------
    read_only
        Why no entry is accepted, or ``None`` if entries are.
    clock
        The time now; with a time zone.
    tolerance
        How far the clock may be behind the last entry before charges are refused.
    """

    def __init__(self, database: Database, clock: Callable[[], datetime], tolerance: timedelta) -> None:
        self.database = database
        self.clock = clock
        self.tolerance = tolerance
        self.read_only = database.fault
        self.witness = database.backend.open_witness()
        self._first_hash: str | None = None  # which names the chain
        self._continued = 0  # the number of the last entry that was seen to follow from those before it

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Hold one consistent view of the entries; a rule's refusal comes with its hint."""
        with _refusing(), self.database.read() as connection:
            yield connection

    @contextmanager
    def appending(self, *, charging: bool = False, confirming: bool = False) -> Iterator[Append]:
        """Take the right to append; afterwards, and only if something was appended, tell the witness.

        ``charging``: whether a charge begins: then the last entries must follow from those before them. What
        is appended from here on is looked at where it counts. ``confirming``: whether to append to a ledger
        that was put back, and waits for just this entry.
        """
        if not (confirming and self.read_only == UNCONFIRMED):
            self.require_writable()
        self.witness.prepare(self._first_hash or GENESIS)
        if charging and not self._continued:
            with self.reading() as connection:
                self.require_continued(connection)
        with _refusing(), self.database.write() as connection:
            append = Append(connection, self.clock(), queries.chain_head(connection), self.tolerance)
            # A backup may be put in place while this process runs: look at the witness every time.
            unwitnessed = self._witness_mismatch(
                connection, self._first(connection), append.start.contains_recent
            )
            waits = append.start.kind == "restored" and not confirming
            self.read_only = unwitnessed or (UNCONFIRMED if waits else None)
            self.require_writable()
            yield append
            if append.entry is None:
                return
            first = append.head.hash if append.head.seq == 1 else self._first(connection)
            self.database.backend.append(connection, *append.entry)
        self._first_hash = first
        self.witness.advance(append.head, first)

    def require_continued(self, connection: Connection) -> None:
        """Refuse to go on where the last entries, as far as they were not looked at, do not fit."""
        self._continued = require_recent(connection, self._continued)

    def unconfirmed(self) -> str | None:
        """Return why no entry is accepted after it was put back from a backup, or ``None``."""
        with suppress(ChainBroken), self.reading() as connection:  # readers and writers will get the error
            return None if queries.unconfirmed(connection) is None else UNCONFIRMED
        return None

    def lacking(self, known_heads: Iterable[Head | tuple[int, str]]) -> str | None:
        """Return which head the ledger lacks, the witness's or one of ``known_heads``, or ``None``."""
        heads = {head if isinstance(head, Head) else Head(*head) for head in known_heads}
        with self.reading() as connection:
            first = self._first(connection)
        with self.reading() as connection:  # its view begins with the first query, after the witness
            reason = self._witness_mismatch(connection, first)
            missing = next((head for head in sorted(heads) if not queries.holds(connection, head)), None)
        if missing is not None:
            return (
                f"it lacks entry {missing.seq} as a measurement file, certificate or head file names it,"
                " so it is an old copy"
            )
        return reason

    def verify(self, known_heads: Iterable[Head | tuple[int, str]] = ()) -> Verified:
        """Verify the chain, and hold it against the witness: see :meth:`tabularium.ledger.Ledger.verify`."""
        name, fault = self.database.name, self.database.fault
        if fault == NOT_A_LEDGER:
            raise ChainBroken(fault, where=name, hint=RESTORE)
        with self.reading() as connection:
            state = verify_rows(connection, latest(self.clock()))
        if fault is not None:
            raise ChainBroken(
                f"its {state.entries} entries are in order, but {fault}", where=name, hint=GUARD
            )
        lacking = self.lacking(known_heads)
        if lacking is not None:
            raise ChainBroken(lacking, where=name, hint=RESTORE)
        return in_time(state, name)

    def require_writable(self) -> None:
        """Raise ``ReadOnly`` if no entry is accepted."""
        if self.read_only is not None:
            hints = {self.database.fault: GUARD, UNCONFIRMED: CONFIRM}
            hint = hints.get(self.read_only, RESTORE)
            raise ReadOnly(f"the ledger is read-only: {self.read_only}", where=self.database.name, hint=hint)

    def _first(self, connection: Connection) -> str:
        """Return the hash of the first entry, which never changes once there is one."""
        if self._first_hash is None:
            first = queries.first_hash(connection)
            self._first_hash = None if first == GENESIS else first
            return first
        return self._first_hash

    def _witness_mismatch(
        self, connection: Connection, first: str, is_recent: Callable[[Head], bool] = lambda _head: False
    ) -> str | None:
        """Return what is wrong between ledger and witness; ``is_recent`` is a quick look that may suffice."""
        try:
            heads = self.witness.heads(first)
        except WitnessDamaged as error:
            return (
                f"its witness file {error.where} is damaged (verify the ledger with the newest certificate,"
                " then remove that file)"
            )
        for head in heads:
            if not is_recent(head) and not queries.holds(connection, head):
                return (
                    f"it lacks entry {head.seq} as the witness file names it, so it is an old copy or"
                    " another ledger"
                )
        return None


@contextmanager
def _refusing() -> Iterator[None]:
    try:
        yield
    except RuleBroken as broken:
        raise broken.refusal from None


class Part:
    """Methods of the ledger about one subject, which share its transactions."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions
        self._reading, self._appending = transactions.reading, transactions.appending

    def _read(
        self, question: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Ask one question of one consistent view."""
        with self._reading() as connection:
            return question(connection, *args, **kwargs)
