"""Whether an entry follows from the last entries before it: of its charge, account, period, product and part.

:mod:`tabularium.ledger.chain.verify` works out the whole chain, which takes longer with every entry. Before
anything is charged, or shown, the entries that it rests on are held against what they must follow from; each
is a few steps of an index, however long the chain is. So whoever appended past the program a sum that is too
low, or a step that cannot be, finds that nobody goes on from it. Of the chain only the last ``RECENT``
entries are looked at, and those that a charge rests on: what lies deeper the whole verification finds, each
night.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Connection

from tabularium.ledger import events as entries
from tabularium.ledger.chain.verify_charges import add_up, content, may_begin, may_follow
from tabularium.ledger.chain.verify_officers import leaves_the_sums
from tabularium.ledger.chain.verify_state import AccountState, Measurement, OpenCharge, Sum, broken
from tabularium.ledger.records import Sums, Terms, state_after
from tabularium.ledger.storage import entry_queries
from tabularium.ledger.storage.chain_head import RECENT


def require_recent(connection: Connection, after: int = 0) -> int:
    """Hold the last entries, those after number ``after``, against what they follow from.

    Return the last one's number. No more of them are looked at than are read with the head.
    """
    head, _at = entry_queries.head(connection)
    for row in entry_queries.entries_after(connection, max(after, head.seq - RECENT)):
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
        entry = _record(entry_queries.checked_body(text)["seq"], text)
        if hasattr(entry, "account"):
            _require_continued(connection, entry)


def _require_continued(connection: Connection, entry: Any) -> None:
    before = entry_queries.lasts_before(connection, entry.seq, entry.fields())
    account = _account(entry, before)
    if not isinstance(entry, entries.ChargeStep):
        leaves_the_sums(account, entry)
        return
    for scope, name, sums in (
        ("period", entry.period, account.periods),
        ("product", entry.product, account.products),
    ):
        sums[name] = _sum(account, before[scope], scope)
    if entry.in_parallel is not None:
        for part, text in entry_queries.parts_before(
            connection, entry.seq, entry.account, entry.in_parallel.group
        ).items():
            known = _sum(account, text, "part")
            bound = int(entry_queries.checked_body(text)["contributions"])
            account.groups.setdefault(entry.in_parallel.group, (bound, {}))[1][part] = (
                *(known.reserved, known.spent),
            )
    charge = None if before["charge"] is None else _charge(account, entry.seq, before["charge"])
    may_follow(entry, charge, _source(connection, entry))
    _amount, sums_after = add_up(account, entry, charge)
    if charge is None:
        may_begin(account, entry, sums_after)


def _record(seq: int, hashed_body: str) -> entries.Event:
    try:
        return entries.parse(hashed_body[64:])
    except entries.NotAnEntry as error:
        broken(seq, str(error))


def _account(entry: Any, before: Mapping[str, str | None]) -> AccountState:
    """Return the account as its last entry before says that it stands."""
    if entry.kind == "account":
        if before["account"] is not None:
            broken(entry.seq, "opens an account that is open")
        return AccountState(entry.terms)
    if before["terms"] is None or before["account"] is None:
        broken(entry.seq, "names an account that was never opened")
    if entry_queries.checked_body(before["account"])["kind"] == "retired":
        if entry.kind == "terms":  # it opens again, never having been charged
            return AccountState(entry.terms)
        broken(entry.seq, "names an account that was retired, which nothing may follow")
    account = AccountState(Terms.of(entry_queries.checked_body(before["terms"])))
    account.total = _sum(account, before["account"], "account")
    return account


def _sum(account: AccountState, last: str | None, scope: str) -> Sum:
    if last is None:
        return Sum()
    body = entry_queries.checked_body(last)
    texts = Sums.of(body, scope).texts(scope).values()
    return Sum(*(account.quanta(body["seq"], text) for text in texts))


def _charge(account: AccountState, seq: int, text: str) -> OpenCharge:
    """Return the charge as its last step before left it."""
    step = _record(entry_queries.checked_body(text)["seq"], text)
    if not isinstance(step, entries.ChargeStep):
        broken(seq, "takes a step of what is no charge")
    amount = account.quanta(step.seq, step.amount)
    return OpenCharge(state_after(step.kind), step.fence, step.measurement_digest, amount, content(step))


def _source(connection: Connection, entry: entries.ChargeStep) -> Measurement | None:
    """Return what a release is made from, if it was published."""
    if entry.remade is None:
        return None
    found = entry_queries.charge(connection, entry.remade.measurements_of)
    if found is None or found.state != "published" or found.measurements_of is not None:
        return None
    return Measurement(found.account, found.product, found.period, found.fence, found.measurement_digest)
