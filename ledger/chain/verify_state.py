"""What the walk over the chain remembers: sums in whole quanta, accounts, keys."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import gcd

from ledger import amounts
from ledger.records import Terms


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


class Sum:
    """What is reserved and spent in one scope, in whole quanta, and the texts of both."""

    __slots__ = ("reserved", "reserved_text", "spent", "spent_text")

    def __init__(self, reserved: int = 0, spent: int = 0) -> None:
        self.reserved, self.spent = reserved, spent
        self.reserved_text: str | None = None  # not known yet; no text of an entry is equal to that
        self.spent_text: str | None = None

    def add(self, added: tuple[int, int]) -> None:
        """Add to both."""
        if added[0]:
            self.reserved += added[0]
            self.reserved_text = None
        if added[1]:
            self.spent += added[1]
            self.spent_text = None

    def reads(self, per_unit: int, reserved: str, spent: str) -> bool:
        """Whether the two texts of an entry are those of this sum; ``per_unit`` quanta are 1."""
        if self.reserved_text is None:
            self.reserved_text = _text(self.reserved, per_unit)
        if self.spent_text is None:
            self.spent_text = _text(self.spent, per_unit)
        return self.reserved_text == reserved and self.spent_text == spent


@dataclass(slots=True)
class KeyState:
    """An officer's key."""

    public_key: str
    active: bool


class AccountState:
    """An account: its terms, and its sums in whole quanta."""

    __slots__ = (
        *("cap", "cap_per_period", "cap_per_product", "groups", "per_unit", "periods", "products"),
        *("terms", "total", "turns"),
    )

    def __init__(self, terms: Terms) -> None:
        self.per_unit = amounts.quantum(terms.quantum).denominator
        self.total = Sum()
        self.turns = 0  # how often the terms were changed
        self.periods: dict[str, Sum] = {}
        self.products: dict[str, Sum] = {}
        #: group -> in how many parts a unit can be, and every part's own (reserved, spent)
        self.groups: dict[str, tuple[int, dict[str, tuple[int, int]]]] = {}
        self.change(terms)

    def change(self, terms: Terms) -> None:
        """Put other terms in force."""
        self.terms = terms
        self.cap = _whole(terms.cap, self.per_unit)
        self.cap_per_period = _limit(terms.cap_per_period, self.per_unit)
        self.cap_per_product = _limit(terms.cap_per_product, self.per_unit)

    def may_become(self, terms: Terms) -> bool:
        """Whether only what may change of an account's terms is changed."""
        return terms == replace(
            self.terms,
            cap=terms.cap,
            cap_per_period=terms.cap_per_period,
            cap_per_product=terms.cap_per_product,
            opens_on=terms.opens_on,
            closes_on=terms.closes_on,
            needs_approval=terms.needs_approval,
        )

    def passes(self, period: Sum, product: Sum) -> str | None:
        """Return which cap is passed, if one is."""
        if self.total.reserved + self.total.spent > self.cap:
            return "account"
        if self.cap_per_period is not None and period.reserved + period.spent > self.cap_per_period:
            return "period"
        if self.cap_per_product is not None and product.reserved + product.spent > self.cap_per_product:
            return "product"
        return None


@lru_cache(maxsize=1024)
def quanta(stored: str, per_unit: int) -> int:
    """Return an amount's text as a number of quanta above zero; it must be in lowest terms."""
    amount = amounts.from_text(stored)
    if amounts.text(amount) != stored:
        raise ValueError
    return _whole(amount, per_unit)


def _whole(amount: Fraction, per_unit: int) -> int:
    found = amount * per_unit
    if found.denominator != 1 or found <= 0:
        raise ValueError
    return found.numerator


def _limit(amount: Fraction | None, per_unit: int) -> int | None:
    return None if amount is None else _whole(amount, per_unit)


def _text(count: int, per_unit: int) -> str:
    """Return the one text of a number of quanta."""
    common = gcd(count, per_unit)
    return f"{count}/{per_unit}" if common == 1 else f"{count // common}/{per_unit // common}"
