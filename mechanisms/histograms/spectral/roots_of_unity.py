"""Roots of unity to 2^-100 and beyond, as pairs of floats, from whole-number arithmetic.

A *double word* is an unevaluated sum high + low of two floats with |low| at most half a unit in the last
place of high: 106 bits in all. The cosines and sines here are first computed as integers over 2^192, where
every operation errs by less than one unit, and then split into two floats, each rounded to nearest.

mpmath's interval arithmetic was tried instead. It saves 16 lines, takes 0.04 s to import, and leaves other
errors of 2^-190, which decide on which side of a lattice point a coordinate falls that is exactly zero; and
the proof would rest on the library's rounding instead of on forty lines.
"""

from __future__ import annotations

from functools import lru_cache
from math import isqrt

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
BITS = 192
"""Fixed-point bits. A table of 2^12 roots by repeated multiplication errs by less than 2^-170."""


def double_word(value: int, bits: int = BITS) -> tuple[float, float]:
    """Return value/2^bits as a double word; the error is at most 2^-106 of it."""
    high = float(value)  # rounded to nearest
    low = float(value - int(high))
    return high * 2.0**-bits, low * 2.0**-bits


def square_root(numerator: int, denominator: int) -> tuple[float, float]:
    """Return √(numerator/denominator) as a double word."""
    return double_word(isqrt((numerator << 2 * BITS) // denominator))


@lru_cache(maxsize=1)
def pi() -> int:
    """Return π·2^BITS, within two units: Machin's 16·atan(1/5) - 4·atan(1/239)."""
    guard = 32
    return (16 * _arctangent(5, BITS + guard) - 4 * _arctangent(239, BITS + guard)) >> guard


def _arctangent(inverse: int, bits: int) -> int:
    """Return atan(1/inverse)·2^bits by its Taylor series, within one unit a term."""
    power = (1 << bits) // inverse
    total, divisor, sign = 0, 1, 1
    while power:
        total += sign * (power // divisor)
        power //= inverse * inverse
        divisor, sign = divisor + 2, -sign
    return total


def root(numerator: int, denominator: int) -> tuple[int, int]:
    """Return (cos, sin)·2^BITS of the angle -2π·numerator/denominator, within 2^8 units.

    The angle is halved eight times, the series summed, and the result squared back.
    """
    halvings, guard = 8, 32
    angle = -2 * (pi() << guard) * (numerator % denominator) // denominator >> halvings
    one = 1 << (BITS + guard)
    cosine, sine, term, count = one, 0, one, 0
    while term not in {0, -1}:
        count += 1
        term = (term * angle >> (BITS + guard)) // count
        if count % 2:
            sine += term if count % 4 == 1 else -term
        else:
            cosine += term if count % 4 == 0 else -term
    for _ in range(halvings):
        cosine, sine = (
            (cosine * cosine - sine * sine) >> (BITS + guard),
            (2 * cosine * sine) >> (BITS + guard),
        )
    return cosine >> guard, sine >> guard


def table(denominator: int, step: int, count: int) -> Floats:
    """Return exp(-2πi·step·j/denominator) for j = 0 .. count-1.

    Returns
    -------
    Shape (4, count): cosines (high, low) and sines (high, low). One multiplication each, which adds less
    than 4 units of 2^-192 to the error of the root before it.
    """
    found = np.empty((4, count))
    cosine, sine = 1 << BITS, 0
    turn_cosine, turn_sine = root(step, denominator)
    for place in range(count):
        found[0, place], found[1, place] = double_word(cosine)
        found[2, place], found[3, place] = double_word(sine)
        cosine, sine = (
            (cosine * turn_cosine - sine * turn_sine) >> BITS,
            (cosine * turn_sine + sine * turn_cosine) >> BITS,
        )
    return found
