"""Privacy losses as exact values, and how to read them.

This is all of the floor that the ledger may import: plain values, no arrays, nothing drawn.

- ``PrivacyLoss``: pure ε or zCDP ρ, a fraction, added without rounding.
- Group privacy: a unit that contributes up to c records (``group_size``) is protected at ε by running the
  mechanism at ε/c, at ρ by running it at ρ/c² (``for_record``, ``for_unit``).
- ``reading``: ε in plain words.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from math import ceil, expm1, isqrt
from typing import Any, Literal

from tabularium.mechanisms.accounting.transcript import Definition, Event, ratio
from tabularium.mechanisms.errors import MechanismError

Relation = Literal["add-remove", "replace"]

RESTS_ON = (
    "This holds whatever else they know, now or later, unless they break AES-256, from which the noise is "
    "drawn under a key that is thrown away, or HMAC-SHA-256, which makes the release id under a secret key."
)
"""What the promise of a release rests on besides the exact distributions of its noise."""


@dataclass(frozen=True, slots=True)
class PrivacyLoss:
    """An exact amount of pure ε or of zCDP ρ.

    Examples
    --------
    >>> third = PrivacyLoss(Fraction(1, 3), "pure")
    >>> (third + third + third).amount
    Fraction(1, 1)
    """

    amount: Fraction
    definition: Definition = "pure"

    def __post_init__(self) -> None:
        if not isinstance(self.amount, Fraction) or self.amount < 0:
            raise MechanismError(
                "a privacy loss must be an exact fraction, not negative", where="privacy loss"
            )
        if self.definition not in {"pure", "zcdp"}:
            raise MechanismError(
                "no such definition of differential privacy", where="privacy loss", hint="use pure or zcdp"
            )

    def __add__(self, other: PrivacyLoss) -> PrivacyLoss:
        """Compose in sequence: ε's add, and ρ's add (Bun & Steinke 2016, Lemma 1.7)."""
        if self.definition != other.definition:
            raise MechanismError(
                "losses under different definitions do not add",
                where="privacy loss",
                hint="convert the pure one with as_zcdp",
            )
        return PrivacyLoss(self.amount + other.amount, self.definition)

    def as_zcdp(self) -> PrivacyLoss:
        """Return the ρ that this loss implies: ε²/2 (Bun & Steinke 2016, Proposition 1.4)."""
        return self if self.definition == "zcdp" else PrivacyLoss(self.amount**2 / 2, "zcdp")

    def for_record(self, group: int) -> PrivacyLoss:
        """Return what one record may cost so that a group of records costs this much: ε/c, ρ/c²."""
        return PrivacyLoss(self.amount / self._folds(group), self.definition)

    def for_unit(self, group: int) -> PrivacyLoss:
        """Return what a group of records costs when one record costs this much: cε, c²ρ."""
        return PrivacyLoss(self.amount * self._folds(group), self.definition)

    def _folds(self, group: int) -> int:
        if group < 1:
            raise MechanismError("a group holds at least one record", where="contributions")
        return group if self.definition == "pure" else group**2

    def as_dict(self) -> dict[str, Any]:
        """Return JSON-able values, the amount as ``"n/d"``."""
        return {"definition": self.definition, "amount": ratio(self.amount)}


def exact_amount(text: str | int | Fraction) -> Fraction:
    """Return a budget as a fraction, from ``"1/3"``, ``"0.1"``, a whole number or a fraction.

    Raises
    ------
    MechanismError
        A float (0.1 is not one tenth), or not a number.
    """
    if isinstance(text, bool) or not isinstance(text, str | int | Fraction):
        raise MechanismError(
            f"a budget must be exact, not {type(text).__name__}", where="budget", hint='write "1/3" or "0.1"'
        )
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise MechanismError(
            "a budget is not a number", where="budget", hint='write "1/3" or "0.1"'
        ) from None


def group_size(contributions: int, relation: Relation = "add-remove") -> int:
    """Return how many records two neighbouring data sets may differ by.

    A unit with up to c records: c when units are added or removed, 2c when one unit's records are replaced
    by another's (c removed, c added).
    """
    if contributions < 1:
        raise MechanismError("a unit contributes at least one record", where="contributions")
    return contributions if relation == "add-remove" else 2 * contributions


def epsilon_within(rho: Fraction) -> Fraction:
    """Return the largest ε, in steps of 2^-40 relative to √2ρ, with ε²/2 <= ρ.

    For a mechanism that must spend part of a ρ on a primitive that is pure (a choice, Laplace noise).
    """
    square = 2 * rho
    shift = 40 + max(0, square.denominator.bit_length() - square.numerator.bit_length()) // 2
    return Fraction(isqrt((square.numerator << 2 * shift) // square.denominator), 1 << shift)


def spent(events: Iterable[Event]) -> Fraction:
    """Return what a transcript cost: the sum of its losses, a parallel scope costing its dearest branch."""
    return _spent(list(events), 0)


def _spent(events: list[Event], depth: int) -> Fraction:
    outside, scopes = by_scope(events, depth)
    inside = (max(_spent(branch, depth + 1) for branch in branches) for branches in scopes)
    return sum((event.loss for event in outside), Fraction(0)) + sum(inside, Fraction(0))


def by_scope(events: Iterable[Event], depth: int) -> tuple[list[Event], list[list[list[Event]]]]:
    """Return the events outside any parallel scope of this depth, and those of each branch of each scope."""
    outside: list[Event] = []
    scopes: dict[str, dict[int, list[Event]]] = {}
    for event in events:
        if len(event.branches) <= depth:
            outside.append(event)
        else:
            scope, branch = event.branches[depth]
            scopes.setdefault(scope, {}).setdefault(branch, []).append(event)
    return outside, [list(branches.values()) for branches in scopes.values()]


def membership_bound(prior: float, epsilon: float) -> float:
    """Return how sure anyone may become that a unit is in the data, who was sure of it with ``prior``.

    Adding or removing a unit changes the probability of any release by a factor e^ε at most, so the odds
    of its presence change by that factor at most: P <= P0·e^ε / (1 - P0 + P0·e^ε).

    Source: Xiao, Xiong, Yuan 2010, Theorem 3.3 (with odds in place of probabilities, which is exact).
    """
    return _moved(prior, epsilon)


def value_bound(prior: float, epsilon: float) -> float:
    """Return how sure anyone may become of a *value* of a unit that is known to be in the data.

    Another value puts the unit into another cell: one unit removed, one added, e^{2ε} between the two:
    P <= P0·e^{2ε} / (1 - P0 + P0·e^{2ε}).
    """
    return _moved(prior, 2 * epsilon)


def _moved(prior: float, epsilon: float) -> float:
    if not 0 <= prior <= 1 or epsilon < 0:
        raise MechanismError("a prior lies between 0 and 1, and epsilon is not negative", where="reading")
    if epsilon > 700:  # e^ε overflows: no protection that differs from none
        return 1.0 if prior > 0 else 0.0
    growth = expm1(epsilon)
    return prior * (1 + growth) / (1 + prior * growth)


def reading(epsilon: Fraction | float, *, unit: str = "person", prior: float = 0.1) -> list[str]:
    """Return what a pure, unit-level ε promises, as sentences for a reader without mathematics.

    Parameters
    ----------
    epsilon
        The loss of the whole privacy unit, under add-remove.
    unit
        What the unit is called.
    prior
        How sure the attacker of the example was beforehand.
    """
    loss = float(epsilon)
    presence, value = membership_bound(prior, loss), value_bound(prior, loss)
    return [
        f"Anyone who thought, before this release, that a certain {unit} was in the data with probability "
        f"{_percent(prior)} can be at most {_percent(presence)} sure of it afterwards.",
        f"Anyone who knew that the {unit} was in the data and gave a certain value of theirs a probability "
        f"of {_percent(prior)} can be at most {_percent(value)} sure of that value afterwards.",
        RESTS_ON,
        f"It compares the release with and without this one {unit}, all others unchanged: who believes that "
        "several of them go together can learn more.",
    ]


def _percent(probability: float) -> str:
    """Return three digits, rounded up: the number follows "at most"."""
    exact = 100 * Decimal(repr(probability))
    digits = Context(prec=3, rounding=ROUND_CEILING).plus(exact)
    return "almost 100 %" if digits >= 100 else f"{float(digits):g} %"


def root_above(value: Fraction | int) -> Fraction:
    """Return √value rounded up, within 2^-40 of it."""
    number = Fraction(value)
    shift = 40 + max(0, number.denominator.bit_length() - number.numerator.bit_length())
    square = ceil(number * (1 << 2 * shift))
    return Fraction(isqrt(square - 1) + 1, 1 << shift)


def rounded_up(value: Fraction) -> Fraction:
    """Return a number of 40 bits that is at least ``value`` > 0."""
    excess = value.numerator.bit_length() - value.denominator.bit_length() - 40
    unit = Fraction(2) ** excess
    return ceil(value / unit) * unit
