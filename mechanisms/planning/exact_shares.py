"""Exact fractions with few digits in the place of losses that were found in floating point."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

DENOMINATORS = (10, 20, 50, 100, 200, 500, 1000, 10_000, 100_000, 1_000_000)
"""Of shares, the rough ones first."""
WASTE = 0.003
"""Part of the budget that short fractions may cost."""
_DIGITS = 3


def rounded_shares(parts: Mapping[str, float], denominator: int) -> dict[str, Fraction]:
    """Return shares that add to exactly one, multiples of 1/denominator and each above zero.

    What the fractions rounded down leave goes to those that lost most (Hamilton's method).

    Parameters
    ----------
    parts
        Name -> a part, above zero; they need not add to one.

    Examples
    --------
    >>> {name: str(share) for name, share in rounded_shares({"a": 2.0, "b": 1.0}, 10).items()}
    {'a': '7/10', 'b': '3/10'}
    """
    whole = sum(parts.values())
    wanted = {name: denominator * part / whole for name, part in parts.items()}
    found = {name: max(1, math.floor(number)) for name, number in wanted.items()}
    order = sorted(wanted, key=lambda name: wanted[name] - found[name], reverse=True)
    left = denominator - sum(found.values())
    for name in order[: max(left, 0)]:
        found[name] += 1
    while left < 0:  # shares that were raised to 1
        largest = max(found, key=lambda name: found[name])
        found[largest] -= 1
        left += 1
    return {name: Fraction(number, denominator) for name, number in found.items()}


def short_above(amount: float) -> Fraction:
    """Return a decimal number of few digits that is not below ``amount``, by half a per cent at most.

    Examples
    --------
    >>> str(short_above(0.12344)), str(short_above(2.0)), str(short_above(0.995))
    ('31/250', '2', '199/200')
    """
    for digits in range(1, _DIGITS + 1):
        step = Fraction(10) ** (math.floor(math.log10(amount)) - digits + 1)
        found = math.ceil(Fraction(amount) / step) * step
        if found <= Fraction(amount) * Fraction(201, 200):
            break
    return found
