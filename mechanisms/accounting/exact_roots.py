"""Roots and short numbers that are never below what they stand for: sensitivities are rounded up only."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, isqrt


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
