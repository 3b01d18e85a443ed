"""Verifying the whole chain: every entry is worked out again from the entries before it.

Each entry is taken in the order of the chain and must

1. have the next number and the hash of its own text, and name the hash of the entry before it;
2. be canonical JSON with exactly the fields of its kind (:mod:`tabularium.ledger.events`);
3. be no older than the entry before it, and be what its row's columns repeat of it;
4. follow from the state that the entries before it imply (:mod:`tabularium.ledger.rules`).

No running sum, state or column is trusted. The first entry that breaks a rule is named with the rule.

The whole chain takes longer with every entry; what a charge rests on is looked at before each
(:mod:`tabularium.ledger.storage.indexed`). What lies deeper this finds, each night.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

from sqlalchemy import Connection

from tabularium.ledger import events
from tabularium.ledger.books import MemoryBooks
from tabularium.ledger.events import FORMAT, hash_matches
from tabularium.ledger.records import EMPTY, Head
from tabularium.ledger.refusals import ChainBroken, RuleBroken, chain_broken
from tabularium.ledger.rules import apply, require_sums
from tabularium.ledger.storage import queries

ANY_TIME = "~"  # sorts after every time
_STRIDE = 5000


@dataclass(frozen=True)
class Verified:
    """What a whole chain was found to hold, all in order."""

    entries: int
    head: Head
    accounts: int
    charges: int
    keys: int = 0
    release_keys: int = 0
    approvals: int = 0
    ahead: int | None = None  # the first entry that is dated later than the reader's clock allows


class Verification:
    """A chain, verified entry by entry.

    Parameters
    ----------
    latest
        The latest time that the reader's clock allows; the result names the first entry after it.
    """

    def __init__(self, latest: str = ANY_TIME) -> None:
        self.state = MemoryBooks()
        self.head = EMPTY
        self._latest, self._at = latest, ""
        self._ahead: int | None = None
        self._known: dict[int, set[str]] = {}  # number -> the hashes that it should have

    def expect(self, heads: Iterable[Head]) -> None:
        """Name heads that entries to come must have."""
        for head in heads:
            self._known.setdefault(head.seq, set()).add(head.hash)

    def take(
        self, number: Any, prev: Any, named: Any, text: Any, columns: tuple[Any, ...] | None = None
    ) -> None:
        """Check the next entry, as a row of a table or a line of a file has it.

        ``number``, ``prev``, ``named``, ``text``: the entry's number, the hash of the one before, its own
        hash, and its text; of whatever type. ``columns``: what stands in the columns
        :data:`tabularium.ledger.events.COLUMNS` next to it, if there are any.

        Raises ``ChainBroken``, naming the entry and the rule that it breaks.
        """
        seq = self.head.seq + 1
        if number != seq:
            later = isinstance(number, int) and number > seq
            fail(seq, "is missing" if later else "stands twice or out of order")
        if not hash_matches(text, named):
            fail(seq, "has been altered: its hash is not that of its content")
        try:
            entry = events.parse(text)
        except events.NotAnEntry as error:
            fail(seq, str(error))
        self._continues_the_chain(entry, prev)
        self._is_in_time(entry)
        if columns is not None and columns != events.columns(entry.fields()):
            fail(seq, "has a column that differs from its content")
        try:
            after = apply(self.state, entry)
            require_sums(entry, after)
        except RuleBroken as broken:
            fail(seq, broken.rule)
        self.state.add(entry, after)
        if seq in self._known and self._known[seq] != {named}:
            fail(seq, "is not the one that a certificate, a witness or a measurement file names")
        self.head, self._at = Head(seq, named), entry.at
        if seq == 1:
            self.state.first = named

    def lacking(self) -> int | None:
        """Return the number of the first expected head that lies beyond the last entry, if one does."""
        return min((seq for seq in self._known if seq > self.head.seq), default=None)

    def result(self) -> Verified:
        """Return what was found in order."""
        state = self.state
        return Verified(
            entries=self.head.seq,
            head=self.head,
            accounts=len(state.accounts),
            charges=len(state.charges),
            keys=sum(key.active for key in state.keys.values()),
            release_keys=sum(key.active for key in state.release_keys.values()),
            approvals=sum(kind == "approval" for kind in state.last_decisions().values()),
            ahead=self._ahead,
        )

    def _continues_the_chain(self, entry: events.Event, prev: object) -> None:
        if not entry.prev == prev == self.head.hash:
            fail(
                self.head.seq + 1,
                "does not continue the entry before it, which has been altered or exchanged",
            )
        if (entry.seq, entry.v) != (self.head.seq + 1, FORMAT):
            fail(self.head.seq + 1, "has another number or format inside")

    def _is_in_time(self, entry: events.Event) -> None:
        if entry.at < self._at:
            fail(entry.seq, "is older than the entry before it")
        if entry.at > self._latest and self._ahead is None:
            self._ahead = entry.seq


def fail(seq: int, what: str) -> NoReturn:
    """Name the first bad entry."""
    raise chain_broken(f"entry {seq} {what}") from None


def verify_rows(connection: Connection, latest: str = ANY_TIME) -> Verified:
    """Verify every row that ``connection`` sees, columns included."""
    verification, after = Verification(latest), 0
    with without_collector():
        while rows := queries.rows(connection, after, _STRIDE):
            for number, prev, named, text, *columns in rows:
                verification.take(number, prev, named, text, tuple(columns))
            after = rows[-1][0]
    return verification.result()


def in_time(verified: Verified, where: str) -> Verified:
    """Return what was found in order, unless the clock that dated it, or the reader's, is wrong."""
    if verified.ahead is None:
        return verified
    raise ChainBroken(
        f"its {verified.entries} entries are in order, but entry {verified.ahead} is dated after this "
        "clock's day",
        where=where,
        hint="look at this machine's clock first, then at who wrote that entry",
    )


@contextmanager
def without_collector() -> Iterator[None]:
    """Keep Python's collector of cycles from looking through a million objects that have none."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
