"""The distributions themselves, computed another way than the samplers do: decimal, a hundred digits."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal, localcontext
from fractions import Fraction

DIGITS = 120


def exp_minus(rate: Fraction) -> Decimal:
    with localcontext() as context:
        context.prec = DIGITS
        return (-(Decimal(rate.numerator) / Decimal(rate.denominator))).exp()


def floor_bits(value: Decimal, bits: int) -> int:
    with localcontext() as context:
        context.prec = DIGITS
        return int(value * (1 << bits))


def laplace_probability(value: int, scale: Fraction) -> Decimal:
    """P(Z = z) = (1-p)/(1+p)·p^|z|."""
    with localcontext() as context:
        context.prec = DIGITS
        p = exp_minus(1 / scale)
        return (1 - p) / (1 + p) * p ** abs(value)


def running(probabilities: Iterator[Decimal]) -> Iterator[Decimal]:
    total = Decimal(0)
    with localcontext() as context:
        context.prec = DIGITS
        for probability in probabilities:
            total += probability
            yield total
