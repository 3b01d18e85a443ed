"""What the entries so far imply: accounts and their sums, charges, keys and decisions.

Amounts are whole numbers of the account's quantum. Memory grows with the number of charges (a name each, and
a few values while one is open), not with the number of entries.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import lru_cache
from math import gcd
from typing import NoReturn

from tabularium.ledger import amounts
from tabularium.ledger.events import Enrolment, Event
from tabularium.ledger.records import ATTEMPTS, GENESIS, Body, Key, ReleaseKey, Terms
from tabularium.ledger.refusals import ChainBroken


@dataclass(slots=True)
class Sum:
    """What is reserved and spent in one scope, in quanta."""

    reserved: int = 0
    spent: int = 0

    def add(self, reserved: int, spent: int) -> None:
        """Add to both."""
        self.reserved += reserved
        self.spent += spent


@dataclass(slots=True)
class Review:
    """What became of the charges of one spec: the steps of those to be reviewed, and its drafts."""

    steps: set[str] = field(default_factory=set)
    drafts: set[str] = field(default_factory=set)  # release ids
    accepted: set[str] = field(default_factory=set)  # digests

    @property
    def open(self) -> bool:
        """Whether it was drawn, and nothing of it is published."""
        return "measured" in self.steps and "published" not in self.steps


@dataclass(frozen=True, slots=True)
class OpenCharge:
    """A charge that can still take a step; ``content`` (the account, …) is what never changes about it."""

    state: str
    fence: int
    measurement: str | None
    amount: int
    content: tuple[object, ...]
    product: str = ""
    allowed: int = ATTEMPTS
    reviewed: tuple[Body, ...] = ()  # what laid it out as a draft, and what accepted that
    review: Review = field(default_factory=Review)


@dataclass(frozen=True, slots=True)
class Measurement:
    """What was measured and published: whose it is, the attempt that drew it, and its digest."""

    account: str
    product: str
    period: str
    fence: int
    digest: str | None


class AccountState:
    """An account: its terms, its sums, and what its groups of parallel charges cost part by part."""

    def __init__(self, terms: Terms) -> None:
        self.per_unit = terms.quantum.denominator
        self.total = Sum()
        self.periods: defaultdict[str, Sum] = defaultdict(Sum)
        self.products: defaultdict[str, Sum] = defaultdict(Sum)
        #: group -> in how many parts a unit can be, and every part's own (reserved, spent)
        self.groups: dict[str, tuple[int, dict[str, tuple[int, int]]]] = {}
        self.retired = False
        self.set_terms(terms)

    def set_terms(self, terms: Terms) -> None:
        """Put terms in force."""
        self.terms = terms
        self.caps = {scope: int(cap * self.per_unit) for scope, cap in terms.caps.items()}

    def exceeded_cap(self, sums: dict[str, Sum]) -> str | None:
        """Return the scope whose cap is passed by what is reserved and spent in it, if there is one."""
        for scope, found in sums.items():
            if scope in self.caps and found.reserved + found.spent > self.caps[scope]:
                return scope
        return None

    def quanta(self, seq: int, amount: str) -> int:
        """Return an amount as a number of quanta."""
        count = amounts.from_text(amount) * self.per_unit
        if count.denominator != 1:
            fail(seq, "has an amount that is no multiple of its account's quantum")
        return count.numerator

    def matches(self, found: Sum, reserved: str, spent: str) -> bool:
        """Whether two texts in an entry are those of a sum."""
        return _text(found.reserved, self.per_unit) == reserved and _text(found.spent, self.per_unit) == spent


@dataclass
class Books:
    """The whole ledger as the entries so far imply it."""

    first: str = GENESIS  # the first entry's hash, which names the ledger
    accounts: dict[str, AccountState] = field(default_factory=dict)
    populations: set[str] = field(default_factory=set)  # that an account is, or was, about
    charges: dict[str, OpenCharge | None] = field(default_factory=dict)  # None: in a final state
    #: release -> the account that paid for it; those that are published and not withdrawn
    published: dict[str, str] = field(default_factory=dict)
    measurements: dict[str, Measurement] = field(default_factory=dict)  # of all that were ever published
    keys: dict[str, Key] = field(default_factory=dict)
    release_keys: dict[str, ReleaseKey] = field(default_factory=dict)
    unconfirmed: bool = False  # whether it was put back, and nobody has said that its head is the newest
    #: what decisions are about -> how many there were: see ``Event.about``
    turns: Counter[tuple[object, ...]] = field(default_factory=Counter)
    #: account and spec -> what its decisions say
    decisions: dict[tuple[str, str], list[Body]] = field(default_factory=dict)
    #: account, product and period -> spec -> what is to be reviewed of it
    reviews: defaultdict[tuple[str, str, str], dict[str, Review]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    disjoint: set[tuple[str, str]] = field(default_factory=set)  # populations of which nobody is in both

    def open(self, terms: Terms) -> None:
        """Open an account, again if it was retired."""
        self.accounts[terms.name] = AccountState(terms)
        self.populations.add(terms.population)

    def account(self, seq: int, name: str) -> AccountState:
        """Return an account that was opened and not retired."""
        found = self.accounts.get(name)
        if found is None:
            fail(seq, "names an account that was never opened")
        if found.retired:
            fail(seq, "names an account that was retired, which nothing may follow")
        return found

    def any_active_key(self) -> bool:
        """Whether any officer has a key."""
        return any(key.active for key in self.keys.values())

    def signature_required(self, account: AccountState) -> bool:
        """Whether what favours the spending of an account needs an officer's signature."""
        return account.terms.asks_officers or self.any_active_key()

    def signing_key(self, event: Event, by: str) -> str | None:
        """Return the public key of the officer who signs an entry, if it is enrolled.

        The first key, and one that is enrolled while none is active, signs for itself.
        """
        if isinstance(event, Enrolment) and event.key == by and not self.any_active_key():
            return event.public_key
        known = self.keys.get(by)
        return None if known is None or not known.active else known.public_key


@lru_cache(maxsize=4096)
def _text(count: int, per_unit: int) -> str:
    common = gcd(count, per_unit)
    return f"{count // common}/{per_unit // common}"


def fail(seq: int, what: str) -> NoReturn:
    """Name the first bad entry."""
    raise ChainBroken(
        f"entry {seq} {what}", where="ledger", hint="stop releases and restore the last good backup"
    ) from None
