"""Verifying the whole chain: every entry is worked out again from the entries before it.

Each entry is taken in the order of the chain and must

1. have the next number and the hash of its own text, and name the hash of the entry before it;
2. be canonical JSON with exactly the fields of its kind (:mod:`tabularium.ledger.events`);
3. be no older than the entry before it, and be what its row's columns repeat of it;
4. follow from the state that the entries before it imply (:mod:`tabularium.ledger.rules`).

No running sum, state or column is trusted. The first entry that breaks a rule is named with the rule.

The whole chain takes longer with every entry. Before anything is charged, or shown, the last entries and
those that it rests on are therefore held against what they must follow from (:func:`require_continued`); each
is a few steps of an index, however long the chain is. Whoever appended past the program a sum that is too
low, or a step that cannot be, finds that nobody goes on from it. What lies deeper the whole verification
finds, each night.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from tabularium.ledger import events
from tabularium.ledger.books import (
    AccountState,
    Books,
    Measurement,
    OpenCharge,
    Sum,
    fail,
)
from tabularium.ledger.events import FORMAT, hash_matches
from tabularium.ledger.records import EMPTY, Head, Sums, Terms, state_after
from tabularium.ledger.refusals import ChainBroken
from tabularium.ledger.rules import add_up, apply, content, leaves_the_sums, may_begin, may_follow
from tabularium.ledger.storage import queries
from tabularium.ledger.storage.queries import RECENT

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
        The latest time that the reader's clock allows; the first entry after it is told of in the result.
    """

    def __init__(self, latest: str = ANY_TIME) -> None:
        self.state = Books()
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

        Parameters
        ----------
        number, prev, named, text
            The entry's number, the hash of the one before, its own hash, and its text; of whatever type.
        columns
            What stands in the columns :data:`tabularium.ledger.events.COLUMNS` beside it, if there
            are any.

        Raises
        ------
        ChainBroken
            Naming the entry and the rule that it breaks.
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
        apply(self.state, entry)
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
            approvals=sum(last["kind"] == "approval" for *_, last in state.decisions.values()),
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


def verify_rows(connection: Connection, latest: str = ANY_TIME) -> Verified:
    """Verify every row that ``connection`` sees, columns included."""
    verification, after = Verification(latest), 0
    with without_collector():
        while rows := queries.rows(connection, after, _STRIDE):
            for number, prev, named, text, *columns in rows:
                verification.take(number, prev, named, text, tuple(columns))
            after = rows[-1][0]
    return verification.result()


def in_time(found: Verified, where: str) -> Verified:
    """Return what was found in order, unless the clock that dated it, or the reader's, is wrong."""
    if found.ahead is None:
        return found
    raise ChainBroken(
        f"its {found.entries} entries are in order, but entry {found.ahead} is dated after this clock's day",
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


def require_recent(connection: Connection, after: int = 0) -> int:
    """Hold the last entries, those after number ``after``, against what they follow from.

    Return the last one's number. No more of them are looked at than are read with the head.
    """
    head = queries.head(connection)
    for row in queries.entries_after(connection, max(after, head.seq - RECENT)):
        require_continued(connection, [row.hash + row.body])
    return head.seq


def require_continued(connection: Connection, hashed_bodies: Iterable[str]) -> None:
    """Hold entries against what they follow from.

    Raises
    ------
    ChainBroken
        Naming the entry and the rule that it breaks.
    """
    for text in hashed_bodies:
        entry = _record(queries.checked_body(text)["seq"], text)
        if hasattr(entry, "account"):
            _require_continued(connection, entry)


def _require_continued(connection: Connection, entry: Any) -> None:
    before = queries.lasts_before(connection, entry.seq, entry.fields())
    account = _account(entry, before)
    if not isinstance(entry, events.ChargeStep):
        leaves_the_sums(account, entry)
        return
    for scope, name, sums in (
        ("period", entry.period, account.periods),
        ("product", entry.product, account.products),
    ):
        sums[name] = _sum(account, before[scope], scope)
    if entry.in_parallel is not None:
        for part, text in queries.parts_before(
            connection, entry.seq, entry.account, entry.in_parallel.group
        ).items():
            known = _sum(account, text, "part")
            bound = int(queries.checked_body(text)["contributions"])
            account.groups.setdefault(entry.in_parallel.group, (bound, {}))[1][part] = (
                *(known.reserved, known.spent),
            )
    charge = None if before["charge"] is None else _charge(account, entry.seq, before["charge"])
    may_follow(entry, charge, _source(connection, entry))
    _amount, sums_after = add_up(account, entry, charge)
    if charge is None:
        may_begin(account, entry, sums_after)


def _record(seq: int, hashed_body: str) -> events.Event:
    try:
        return events.parse(hashed_body[64:])
    except events.NotAnEntry as error:
        fail(seq, str(error))


def _account(entry: Any, before: Mapping[str, str | None]) -> AccountState:
    """Return the account as its last entry before says that it stands."""
    if entry.kind == "account":
        if before["account"] is not None:
            fail(entry.seq, "opens an account that is open")
        return AccountState(entry.terms)
    if before["terms"] is None or before["account"] is None:
        fail(entry.seq, "names an account that was never opened")
    if queries.checked_body(before["account"])["kind"] == "retired":
        if entry.kind == "terms":  # it opens again, never having been charged
            return AccountState(entry.terms)
        fail(entry.seq, "names an account that was retired, which nothing may follow")
    account = AccountState(Terms.of(queries.checked_body(before["terms"])))
    account.total = _sum(account, before["account"], "account")
    return account


def _sum(account: AccountState, last: str | None, scope: str) -> Sum:
    if last is None:
        return Sum()
    body = queries.checked_body(last)
    texts = Sums.of(body, scope).texts(scope).values()
    return Sum(*(account.quanta(body["seq"], text) for text in texts))


def _charge(account: AccountState, seq: int, text: str) -> OpenCharge:
    """Return the charge as its last step before left it."""
    step = _record(queries.checked_body(text)["seq"], text)
    if not isinstance(step, events.ChargeStep):
        fail(seq, "takes a step of what is no charge")
    amount = account.quanta(step.seq, step.amount)
    return OpenCharge(state_after(step.kind), step.fence, step.measurement_digest, amount, content(step))


def _source(connection: Connection, entry: events.ChargeStep) -> Measurement | None:
    """Return what a release is made from, if it was published."""
    if entry.remade is None:
        return None
    found = queries.charge(connection, entry.remade.measurements_of)
    if found is None or found.state != "published" or found.measurements_of is not None:
        return None
    return Measurement(found.account, found.product, found.period, found.fence, found.measurement_digest)
