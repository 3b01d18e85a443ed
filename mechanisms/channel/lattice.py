"""Real values on a lattice."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tabularium.mechanisms.errors import MechanismError

LARGEST_POINT = float(1 << 52)  # beyond, a float no longer holds every lattice point exactly


def on_lattice(values: ArrayLike, width: Fraction, where: str) -> NDArray[np.int64]:
    """Return ``floor(values / width)`` as int64, clipped to ±2^52 steps.

    Clipping to a public bound cannot bring two neighbouring vectors further apart.

    Raises
    ------
    MechanismError
        A width that is not a power of two (dividing by it would round), or values that are not numbers.
    """
    check_width(width, where)
    array = np.asarray(values)
    if array.dtype not in (np.float64, np.float32):
        raise MechanismError(
            f"the lattice takes floats, not {array.dtype}", where=where, hint="use laplace for integers"
        )
    if np.isnan(array).any():
        raise MechanismError("a value to be measured is not a number", where=where)
    with np.errstate(over="ignore"):  # what overflows is clipped
        steps = np.floor(array.astype(np.float64) * float(1 / width))
    return np.clip(steps, -LARGEST_POINT, LARGEST_POINT).astype(np.int64)


def check_width(width: Fraction, where: str) -> None:
    """Refuse a lattice width that is not 2^k with -900 <= k <= 900."""
    top, bottom = width.numerator, width.denominator
    if top & (top - 1) or bottom & (bottom - 1) or max(top, bottom).bit_length() > 900:
        raise MechanismError("a lattice width must be a power of two", where=where, hint="use 2^k or 1/2^k")


def lattice_sensitivity(
    bound: Fraction, width: Fraction, error: Fraction, *, size: int, squared: bool
) -> Fraction:
    """Return the sensitivity, in steps, of ``size`` values rounded down to a lattice.

    Each coordinate moves by less than one step more than it did before rounding, and each of two
    computed values may be off by ``error``: Δ/g + z(1 + 2η/g) in L1, Δ/g + √z·(1 + 2η/g) in L2
    (``squared``; the triangle inequality), the root rounded up.
    """
    apart = 1 + 2 * error / width
    if not squared:
        return bound / width + size * apart
    return bound / width + Fraction(math.isqrt(size << 64) + 1, 1 << 32) * apart
