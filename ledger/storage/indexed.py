"""Books that read from the database only what is asked, each by a few steps of an index.

A charge therefore costs the same however long the chain is. The entries that it rests on (the last ones of
the charge, and of its account, period, product and group) are held first against those before: anyone who
appended past the program a sum that is too low, or a step that cannot be, finds that nobody goes on from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

from sqlalchemy import Connection

from tabularium.ledger import events
from tabularium.ledger.books import AccountState, ChargeState, Measurement, ReviewedSpec
from tabularium.ledger.composition import Parts
from tabularium.ledger.records import NOTHING, Body, Key, Quanta, ReleaseKey, Terms, Usage, state_after
from tabularium.ledger.refusals import RuleBroken, chain_broken
from tabularium.ledger.rules import follow
from tabularium.ledger.storage import queries
from tabularium.ledger.storage.queries import RECENT, checked_body


class IndexedBooks:
    """Books as the entries before number ``seq`` make them.

    Parameters
    ----------
    unconfirmed
        Whether the last entry says that the ledger was put back.
    hold
        Whether the last entries that are read are held against those before them.
    """

    def __init__(
        self, connection: Connection, seq: int, *, unconfirmed: bool = False, hold: bool = True
    ) -> None:
        self.unconfirmed = unconfirmed
        self._connection, self._seq, self._hold = connection, seq, hold
        self._known: dict[tuple[str, ...], str | None] = {}
        self._held: set[str] = set()

    @cached_property
    def first(self) -> str:
        """The first entry's hash."""
        return queries.first_hash(self._connection)

    @cached_property
    def keys(self) -> Mapping[str, Key]:
        """The officers' keys."""
        return queries.keys(self._connection)

    @cached_property
    def release_keys(self) -> Mapping[str, ReleaseKey]:
        """The keys for releases."""
        return queries.release_keys(self._connection)

    @cached_property
    def populations(self) -> set[str]:
        """The populations that an account is, or was, about."""
        return queries.populations(self._connection)

    @cached_property
    def disjoint(self) -> set[tuple[str, str]]:
        """The pairs of populations that stand as disjoint."""
        declared = queries.separations(self._connection)
        return {pair for pair, last in declared.items() if last.disjoint}

    def expect(self, fields: Mapping[str, Any]) -> None:
        """Read at once what an entry with these ``fields`` follows."""
        named = {name: str(fields.get(name) or "") for name in ("account", "release_id", "period", "product")}
        keys = {
            "charge": ("charge", named["release_id"]),
            "terms": ("terms", named["account"]),
            "account": ("account", named["account"]),
            "period": ("period", named["account"], named["period"]),
            "product": ("product", named["account"], named["product"]),
        }
        if not self._known.keys() >= set(keys.values()):
            bodies = queries.lasts_before(self._connection, self._seq, named)
            self._known |= {key: bodies[name] for name, key in keys.items()}

    def account(self, name: str) -> AccountState | None:
        """Return an account as its last entry says that it stands."""
        terms, last = self._last("terms", account=name), self._last("account", account=name)
        if terms is None or last is None:
            return None
        account = AccountState(Terms.of(_body(terms)), retired=_body(last)["kind"] == "retired")
        account.total = _quanta(account, last, "account")
        return account

    def usage(self, account: AccountState, scope: str, name: str) -> Quanta:
        """Return what is reserved and spent in one period or product."""
        last = self._last(scope, account=account.terms.name, **{scope: name})
        return NOTHING if last is None else _quanta(account, last, scope)

    def group(self, account: AccountState, name: str) -> Parts | None:
        """Return what the parts of a group have used."""
        parts = queries.parts_before(self._connection, self._seq, account.terms.name, name)
        if not parts:
            return None
        bound = int(_body(next(iter(parts.values())))["contributions"])
        return bound, {part: _quanta(account, text, "part") for part, text in parts.items()}

    def charge(self, release: str) -> ChargeState | None:
        """Return a charge as its last step left it."""
        text = self._last("charge", release_id=release)
        if text is None:
            return None
        step = _event(text)
        if not isinstance(step, events.ChargeStep):
            raise chain_broken(f"entry {step.seq} takes a step of what is no charge")
        state = state_after(step.kind)
        return ChargeState(
            *(state, step.account, step.fence, step.measurement_digest, step.content()), product=step.product
        )

    def measurement(self, release: str) -> Measurement | None:
        """Return what was measured for a release, in whatever state."""
        charge = queries.charge(self._connection, release)
        if charge is None:
            return None
        return Measurement(
            *(charge.account, charge.product, charge.period, charge.fence, charge.measurement_digest),
            *(charge.state, charge.measurements_of),
        )

    def was_charged(self, account: str) -> bool:
        """Whether an account was ever charged."""
        return queries.any_charge(self._connection, account)

    def was_decided(self, account: str) -> bool:
        """Whether a spec was ever approved for an account."""
        return queries.any_decision(self._connection, account)

    def decisions(self, account: str, subject: str, *kinds: str) -> Sequence[Body]:
        """Return the decisions on a subject of these kinds, in order."""
        return queries.decisions(self._connection, account, subject, *kinds)

    def reviewed(self, account: str, product: str, period: str) -> Mapping[str, ReviewedSpec]:
        """Return the specs that are to be reviewed."""
        result: dict[str, ReviewedSpec] = {}
        for step in queries.reviewed_steps(self._connection, account, product, period):
            spec = result.setdefault(step.spec_digest, ReviewedSpec())
            spec.states.add(step.state)
            spec.releases.add(step.release_id)
        return result

    def turn(self, kind: str, fields: Mapping[str, Any]) -> int:
        """Return how many decisions on the same thing came before."""
        return queries.turn(self._connection, kind, fields)

    def _last(self, what: str, **named: str) -> str | None:
        key = (what, *named.values())
        if key not in self._known:
            self.expect(named)
        text = self._known[key]
        if text is not None and what != "terms":
            if what != "charge":
                Usage.of(_body(text), what)  # a missing one is reported as such
            self._follow([text])
        return text

    def _follow(self, hashed_bodies: Iterable[str]) -> None:
        if self._hold:
            new = [text for text in hashed_bodies if text not in self._held]
            self._held.update(new)
            require_continued(self._connection, new)


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

    Raises ``ChainBroken``, naming the entry and the rule that it breaks.
    """
    for text in hashed_bodies:
        entry = _event(text)
        if not hasattr(entry, "account"):
            continue
        books = IndexedBooks(connection, entry.seq, hold=False)
        books.expect(entry.fields())
        try:
            follow(books, entry)
        except RuleBroken as broken:
            raise chain_broken(f"entry {entry.seq} {broken.rule}") from None


@lru_cache(maxsize=64)
def _body(hashed_body: str) -> Mapping[str, Any]:
    return checked_body(hashed_body)


@lru_cache(maxsize=64)
def _event(hashed_body: str) -> events.Event:
    body = _body(hashed_body)
    try:
        return events.parse(hashed_body[64:])
    except events.NotAnEntry as error:
        raise chain_broken(f"entry {body['seq']} {error}") from None


def _quanta(account: AccountState, hashed_body: str, scope: str) -> Quanta:
    body = _body(hashed_body)
    Usage.of(body, scope)  # refuses what is missing or malformed
    reserved, spent = (account.quanta(body[f"{scope}_{kind}"]) for kind in ("reserved", "spent"))
    if reserved is None or spent is None:
        raise chain_broken(f"entry {body['seq']} has an amount that is no multiple of its account's quantum")
    return reserved, spent
