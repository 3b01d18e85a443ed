"""What the entries so far imply: accounts and their sums, charges, inputs, keys and decisions.

Amounts are whole numbers of the account's quantum. Memory grows with the number of charges (a name each, and
a few values while one is open), not with the number of entries.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from math import gcd
from typing import NoReturn

from ledger import amounts
from ledger.records import GENESIS, Terms
from ledger.refusals import ChainBroken


@dataclass(slots=True)
class Sum:
    """What is reserved and spent in one scope, in quanta."""

    reserved: int = 0
    spent: int = 0

    def add(self, reserved: int, spent: int) -> None:
        """Add to both."""
        self.reserved += reserved
        self.spent += spent

    def within(self, cap: int | None) -> bool:
        """Whether both together keep to a cap, if there is one."""
        return cap is None or self.reserved + self.spent <= cap


@dataclass(frozen=True, slots=True)
class OpenCharge:
    """A charge that can still take a step; ``content`` is what never changes about it."""

    state: str
    fence: int
    measurement: str | None
    amount: int
    content: tuple[object, ...]


@dataclass(slots=True)
class OfficerKey:
    """An officer's public key."""

    public_key: str
    active: bool


@dataclass(frozen=True, slots=True)
class Decision:
    """The last approval, or withdrawal, of one spec in one account; ``amount`` is the most it allows."""

    turn: int
    approved: bool
    by: str
    amount: int | None


class AccountState:
    """An account: its terms, its sums, and what its groups of parallel charges cost part by part."""

    def __init__(self, terms: Terms) -> None:
        self.per_unit = terms.quantum.denominator
        self.total = Sum()
        self.periods: defaultdict[str, Sum] = defaultdict(Sum)
        self.products: defaultdict[str, Sum] = defaultdict(Sum)
        #: group -> in how many parts a unit can be, and every part's own (reserved, spent)
        self.groups: dict[str, tuple[int, dict[str, tuple[int, int]]]] = {}
        self.changes = 0  # how often the terms were changed
        self.agree(terms)

    def agree(self, terms: Terms) -> None:
        """Put terms in force."""
        self.terms = terms
        self.cap = int(terms.cap * self.per_unit)
        self.cap_per_period = self._limit(terms.cap_per_period)
        self.cap_per_product = self._limit(terms.cap_per_product)

    def quanta(self, amount: str) -> int | None:
        """Return an amount as a number of quanta, or ``None`` if it is no multiple of the quantum."""
        count = amounts.from_text(amount) * self.per_unit
        return count.numerator if count.denominator == 1 else None

    def reads(self, found: Sum, reserved: str, spent: str) -> bool:
        """Whether two texts in an entry are those of a sum."""
        return _text(found.reserved, self.per_unit) == reserved and _text(found.spent, self.per_unit) == spent

    def _limit(self, cap: Fraction | None) -> int | None:
        return None if cap is None else int(cap * self.per_unit)


@dataclass
class LedgerState:
    """The whole ledger as the entries so far imply it."""

    first: str = GENESIS  # the first entry's hash, which names the ledger
    accounts: dict[str, AccountState] = field(default_factory=dict)
    charges: dict[str, OpenCharge | None] = field(default_factory=dict)  # None: in a final state
    #: digest of an input -> the account it was charged to, and how many charges for it were not voided
    inputs: dict[str, tuple[str, int]] = field(default_factory=dict)
    keys: dict[str, OfficerKey] = field(default_factory=dict)
    key_changes: int = 0
    decisions: dict[tuple[str, str], Decision] = field(default_factory=dict)  # by account and spec

    def account(self, seq: int, name: str) -> AccountState:
        """Return an account that is open."""
        found = self.accounts.get(name)
        if found is None:
            broken(seq, "names an account that was never opened")
        return found

    def active_key(self, name: str) -> str | None:
        """Return the public key under this name, if it is enrolled and was not revoked."""
        key = self.keys.get(name)
        return key.public_key if key is not None and key.active else None

    def any_active_key(self) -> bool:
        """Whether any officer has a key."""
        return any(key.active for key in self.keys.values())


@lru_cache(maxsize=4096)
def _text(count: int, per_unit: int) -> str:
    common = gcd(count, per_unit)
    return f"{count // common}/{per_unit // common}"


def broken(seq: int, what: str) -> NoReturn:
    """Name the first bad entry."""
    raise ChainBroken(
        f"entry {seq} {what}", where="ledger", mend="stop releases and restore the last good backup"
    ) from None
