"""Integer bounds on exponentials, proven and as tight as asked.

Every threshold a sampler compares random bits with is a function of ``exp(-r)`` for a rational ``r``. It
is never a floating-point number: it is enclosed between two integers over a power of two, each operation
rounding outwards, and the precision is raised until the digits wanted are certain. They become certain
in the end because exp of a non-zero rational is transcendental (Lindemann 1882), hence no non-constant
rational function of it ends in all zeros or all ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

GUARD = 64  # extra bits of the first attempt; one attempt in 2^50 or so needs more


@dataclass(frozen=True, slots=True)
class Enclosure:
    """A real number x with ``low <= x * 2**bits <= high``, x >= 0."""

    low: int
    high: int
    bits: int

    @classmethod
    def one(cls, bits: int) -> Enclosure:
        """Return 1, exactly."""
        return cls(1 << bits, 1 << bits, bits)

    def __mul__(self, other: Enclosure) -> Enclosure:
        low = (self.low * other.low) >> self.bits
        return Enclosure(low, -((-self.high * other.high) >> self.bits), self.bits)

    def __add__(self, other: Enclosure) -> Enclosure:
        return Enclosure(self.low + other.low, self.high + other.high, self.bits)

    def __truediv__(self, other: Enclosure) -> Enclosure:
        low = (self.low << self.bits) // other.high
        return Enclosure(low, -((-self.high << self.bits) // other.low), self.bits)

    def complement(self) -> Enclosure:
        """Return 1 - x, for x in [0, 1]."""
        one = 1 << self.bits
        return Enclosure(max(one - self.high, 0), one - self.low, self.bits)

    def floor(self, bits: int) -> int | None:
        """Return ``floor(x * 2**bits)``, or None when this enclosure cannot tell."""
        low, high = self.low >> (self.bits - bits), self.high >> (self.bits - bits)
        return low if low == high else None


def exp_minus(rate: Fraction, bits: int) -> Enclosure:
    """Enclose ``exp(-rate)``, rate >= 0, within a few units of ``2**-bits``.

    The rate is halved until it is at most 2^-8, exp of that is summed by its Taylor series with every
    term rounded down (and the remainder, less than the last term, added above), inverted, and squared
    back. Squaring doubles the relative width, so the work is done with as many more bits as halvings.
    """
    if rate == 0:
        return Enclosure.one(bits)
    if rate > bits + 1:  # exp(-rate) < 2**-bits
        return Enclosure(0, 1, bits)
    halvings = max(0, 8 + ceil(rate).bit_length())
    precision = bits + halvings + 16
    small = Fraction(rate, 1 << halvings)
    below = (small.numerator << precision) // small.denominator
    value = Enclosure.one(precision) / Enclosure(
        _taylor(below, precision)[0], _taylor(below + 1, precision)[1], precision
    )
    for _ in range(halvings):
        value = value * value
    shift = precision - bits
    return Enclosure(value.low >> shift, -(-value.high >> shift), bits)


def _taylor(point: int, bits: int) -> tuple[int, int]:
    """Bound ``exp(point / 2**bits) * 2**bits`` from both sides, for a point at most 2^-7."""
    term = total = 1 << bits
    order = 0
    while term:
        order += 1
        term = (term * point) // (order << bits)
        total += term
    # Each of the terms lost less than 1 of itself plus what its predecessors lost, and the remainder is
    # below one unit: the ratio of terms is below 1/100.
    return total, total + 2 * order + 2


def floors(cumulative: Callable[[int], Iterable[Enclosure]], bits: int) -> list[int]:
    """Return ``floor(F * 2**bits)`` for every F that ``cumulative(precision)`` encloses.

    Each F must lie strictly between 0 and 1 and be irrational. F may be so close to 1 that telling it
    from 1 would take millions of bits; as it is below 1, its floor is then known all the same.
    """
    guard = GUARD
    top = (1 << bits) - 1
    while True:
        result: list[int] = []
        for value in cumulative(bits + guard):
            digits = min(value.high >> guard, top)
            if value.low >> guard != digits:
                break
            result.append(digits)
        else:
            return result
        guard *= 2
