"""Books: what the rules may ask of the entries so far, and the same kept in memory as the chain is read.

Who appends asks a database, a few steps of an index at a time
(:class:`tabularium.ledger.storage.indexed.IndexedBooks`); who reads the chain from its first entry on keeps
:class:`MemoryBooks`, which grow with the number of charges (a name each, and a few values while one is open)
and of decisions, not with the number of entries. Amounts are whole numbers of the account's quantum.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import gcd
from typing import Any, Protocol

from tabularium.ledger import events
from tabularium.ledger.amounts import parse_amount
from tabularium.ledger.composition import Parts
from tabularium.ledger.records import (
    FINAL,
    GENESIS,
    NOTHING,
    Body,
    Key,
    Quanta,
    ReleaseKey,
    Terms,
    officer_keys_of,
    release_keys_of,
    state_after,
)


class AccountState:
    """An account: its terms, and what is reserved and spent in all, by period or product, and in parallel."""

    def __init__(self, terms: Terms, total: Quanta = NOTHING, *, retired: bool = False) -> None:
        self.total, self.retired = total, retired
        self.per_unit = terms.quantum.denominator
        self.scopes: dict[tuple[str, str], Quanta] = {}
        self.groups: dict[str, Parts] = {}
        self.set_terms(terms)

    def set_terms(self, terms: Terms) -> None:
        """Put terms in force."""
        self.terms = terms
        self.caps = {scope: int(cap * self.per_unit) for scope, cap in terms.caps.items()}

    def quanta(self, amount: str) -> int | None:
        """Return an amount as a number of quanta; ``None`` if it is no multiple of one."""
        return _quanta(amount, self.per_unit)


@dataclass(frozen=True, slots=True)
class ChargeState:
    """A charge after its last step; ``content`` is what never changes about it."""

    state: str
    account: str
    fence: int = 0
    measurement: str | None = None
    content: tuple[object, ...] = ()
    product: str = ""
    reviewed_with: ReviewedSpec | None = None


@dataclass(slots=True)
class ReviewedSpec:
    """The charges of one spec that are to be reviewed: their ids, and the states that any was in."""

    states: set[str] = field(default_factory=set)
    releases: set[str] = field(default_factory=set)

    @property
    def open(self) -> bool:
        """Whether it was drawn, and nothing of it is published."""
        return "measured" in self.states and "published" not in self.states


@dataclass(frozen=True, slots=True)
class Measurement:
    """What was measured for a release: whose it is, the attempt that drew it, and its digest.

    ``made_from`` is the earlier release that has the measurements, where this one has none of its own.
    """

    account: str
    product: str
    period: str
    fence: int
    digest: str | None
    state: str = "published"
    made_from: str | None = None


@dataclass(frozen=True, slots=True)
class RunningSums:
    """What is reserved and spent in each scope after an entry, which the entry repeats."""

    sums: Mapping[str, Quanta]
    per_unit: int = 1

    def texts(self) -> dict[str, str]:
        """Return the fields of the entry."""
        return {
            f"{scope}_{kind}": text
            for scope, sums in self.sums.items()
            for kind, text in zip(("reserved", "spent"), self.stated(sums), strict=True)
        }

    def stated(self, sums: Quanta) -> tuple[str, str]:
        """Return what is reserved and spent as an entry has it."""
        return _text(sums[0], self.per_unit), _text(sums[1], self.per_unit)


@lru_cache(maxsize=4096)
def _quanta(amount: str, per_unit: int) -> int | None:
    count = parse_amount(amount) * per_unit
    return count.numerator if count.denominator == 1 else None


@lru_cache(maxsize=4096)
def _text(count: int, per_unit: int) -> str:
    common = gcd(count, per_unit)
    return f"{count // common}/{per_unit // common}"


class Books(Protocol):
    """What a rule may ask of the entries before the one that it judges."""

    @property
    def first(self) -> str:
        """The first entry's hash, which names the ledger; zeros while there is none."""

    @property
    def unconfirmed(self) -> bool:
        """Whether it was put back, and nobody has confirmed that its head is the newest."""

    @property
    def keys(self) -> Mapping[str, Key]:
        """The officers' keys, revoked ones too."""

    @property
    def release_keys(self) -> Mapping[str, ReleaseKey]:
        """The keys for releases, revoked ones too."""

    @property
    def populations(self) -> set[str]:
        """The populations that an account is, or was, about."""

    @property
    def disjoint(self) -> set[tuple[str, str]]:
        """The pairs of populations that an officer declared disjoint."""

    def account(self, name: str) -> AccountState | None:
        """Return an account."""

    def usage(self, account: AccountState, scope: str, name: str) -> Quanta:
        """Return what is reserved and spent in one period or product."""

    def group(self, account: AccountState, name: str) -> Parts | None:
        """Return what the parts of a group of parallel charges have used."""

    def charge(self, release: str) -> ChargeState | None:
        """Return a charge."""

    def measurement(self, release: str) -> Measurement | None:
        """Return what was measured for a release; where none was published it may be ``None``."""

    def was_charged(self, account: str) -> bool:
        """Whether an account was ever charged."""

    def was_decided(self, account: str) -> bool:
        """Whether a spec was ever approved for an account."""

    def decisions(self, account: str, subject: str, *kinds: str) -> Sequence[Body]:
        """Return the entries of some kinds that are found by a subject, in order."""

    def reviewed(self, account: str, product: str, period: str) -> Mapping[str, ReviewedSpec]:
        """Return the specs of a product and period whose charges are to be reviewed."""

    def turn(self, kind: str, fields: Mapping[str, Any]) -> int:
        """Return how many decisions on the same thing came before one of ``kind`` that says ``fields``."""


class MemoryBooks:
    """Books of a chain that is read from its first entry on."""

    def __init__(self) -> None:
        self.first = GENESIS
        self.unconfirmed = False
        self.accounts: dict[str, AccountState] = {}
        self.charges: dict[str, ChargeState] = {}
        self.keys: dict[str, Key] = {}
        self.release_keys: dict[str, ReleaseKey] = {}
        self._key_entries: list[Body] = []
        self.populations: set[str] = set()
        self.disjoint: set[tuple[str, str]] = set()
        self._decisions: defaultdict[tuple[str, str | None], list[Body]] = defaultdict(list)
        self._measurements: dict[str, Measurement] = {}  # of those that were published
        self._reviews: defaultdict[tuple[str, ...], dict[str, ReviewedSpec]] = defaultdict(dict)
        self._turns: Counter[tuple[object, ...]] = Counter()

    def account(self, name: str) -> AccountState | None:
        """Return an account."""
        return self.accounts.get(name)

    def usage(self, account: AccountState, scope: str, name: str) -> Quanta:
        """Return what is reserved and spent in one period or product."""
        return account.scopes.get((scope, name), NOTHING)

    def group(self, account: AccountState, name: str) -> Parts | None:
        """Return what the parts of a group have used."""
        return account.groups.get(name)

    def charge(self, release: str) -> ChargeState | None:
        """Return a charge."""
        return self.charges.get(release)

    def measurement(self, release: str) -> Measurement | None:
        """Return what was measured for a release that was published."""
        return self._measurements.get(release)

    def was_charged(self, account: str) -> bool:
        """Whether an account was ever charged."""
        return bool(self.accounts[account].scopes)

    def was_decided(self, account: str) -> bool:
        """Whether a spec was ever approved for an account."""
        return any(name == account for name, _spec in self.last_decisions())

    def last_decisions(self) -> dict[tuple[str, str], str]:
        """Return the last decision on every spec in every account."""
        decisions = (
            body for bodies in self._decisions.values() for body in bodies if body["kind"] in events.OF_SPECS
        )
        return {(body["account"], body["spec_digest"]): body["kind"] for body in decisions}

    def decisions(self, account: str, subject: str, *kinds: str) -> Sequence[Body]:
        """Return the decisions on a subject of these kinds, in order."""
        return [body for body in self._decisions.get((account, subject), ()) if body["kind"] in kinds]

    def reviewed(self, account: str, product: str, period: str) -> Mapping[str, ReviewedSpec]:
        """Return the specs that are to be reviewed."""
        return self._reviews.get((account, product, period), {})

    def turn(self, kind: str, fields: Mapping[str, Any]) -> int:
        """Return how many decisions on the same thing came before."""
        return self._turns[events.KINDS[kind].about(fields)]

    def add(self, event: events.Event, after: RunningSums) -> None:
        """Add an entry that the rules allow, with what it makes of the sums."""
        match event:
            case events.ChargeStep():
                self._add_step(event, after)
            case events.Retirement():
                self.accounts[event.account].retired = True
            case events.NewTerms() if not self.accounts[event.account].retired:
                self.accounts[event.account].set_terms(event.terms)
            case events.Opening():
                self.accounts[event.account] = AccountState(event.terms)
                self.populations.add(event.population)
            case events.Enrolment() | events.ReleaseKeyEnrolled() | events.Revocation():
                self._key_entries.append(event.fields())
                self.keys = officer_keys_of(self._key_entries)
                self.release_keys = release_keys_of(self._key_entries)
            case events.LedgerRestored() | events.Confirmed():
                self.unconfirmed = event.kind == "restored"
            case events.PopulationsDisjoint():
                pair = (event.population, event.other)
                (self.disjoint.add if event.kind == "disjoint" else self.disjoint.discard)(pair)
            case _:
                fields = event.fields()
                self._decisions[fields["account"], events.subject_of(fields)].append(fields)
        if event.TURNS:
            self._turns[event.about(event.fields())] += 1

    def _add_step(self, event: events.ChargeStep, after: RunningSums) -> None:
        account, sums, state = self.accounts[event.account], after.sums, state_after(event.kind)
        account.total = sums["account"]
        for scope, name in (("period", event.period), ("product", event.product)):
            account.scopes[scope, name] = sums[scope]
        if event.in_parallel is not None:
            parallel = event.in_parallel
            _bound, parts = account.groups.setdefault(parallel.group, (parallel.contributions, {}))
            parts[parallel.part] = sums["part"]
        known = self.charges.get(event.release_id)
        review = known.reviewed_with if known is not None else self._review_of(event)
        if review is not None:
            review.states.add(state)
        if event.kind in FINAL:
            self.charges[event.release_id] = _ended(state, event.account)
        else:
            self.charges[event.release_id] = ChargeState(
                *(state, event.account, event.fence, event.measurement_digest, event.content()),
                product=event.product,
                reviewed_with=review,
            )
        if event.kind == "published" and event.remade is None:
            self._measurements[event.release_id] = Measurement(
                event.account, event.product, event.period, event.fence, event.measurement_digest
            )

    def _review_of(self, event: events.ChargeStep) -> ReviewedSpec | None:
        if not event.review:
            return None
        specs = self._reviews[event.account, event.product, event.period]
        spec = specs.setdefault(event.spec_digest, ReviewedSpec())
        spec.releases.add(event.release_id)
        return spec


@lru_cache(maxsize=1024)
def _ended(state: str, account: str) -> ChargeState:
    """Return a charge that takes no step any more; of a million there is one value each."""
    return ChargeState(state, account)
