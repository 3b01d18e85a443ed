"""Checks of what a mechanism hands to a primitive."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tabularium.mechanisms.errors import MechanismError

Amount = Fraction | int | str
LARGEST_VALUE = 1 << 61  # noise added to a value beyond could overflow


def exact(amount: Amount, where: str, *, zero: bool = False) -> Fraction:
    """Return an amount as a fraction; a float is refused, since it is not the number that was meant."""
    if type(amount) is Fraction and amount > 0:
        return amount
    if isinstance(amount, bool) or not isinstance(amount, Fraction | int | str):
        raise MechanismError(
            f"an amount must be exact, not {type(amount).__name__}",
            where=where,
            hint="give a Fraction, a whole number, or text such as 1/3 or 0.1",
        )
    try:
        value = Fraction(amount)
    except (ValueError, ZeroDivisionError):
        raise MechanismError(
            "an amount is not a number", where=where, hint="write it as 1/3 or 0.1"
        ) from None
    if value < 0 or (value == 0 and not zero):
        raise MechanismError("an amount must be positive", where=where)
    return value


def check_integers(values: ArrayLike, where: str) -> NDArray[np.int64]:
    """Return integer ``values`` as int64, cut off at ±2^61, or refuse them.

    The bound is public, and cutting off there brings no two vectors further apart. To refuse a value once
    noise has been drawn would throw away what is paid for, and tell of the data that they are large.
    """
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise MechanismError(
            f"integer noise needs integer values, not {array.dtype}",
            where=where,
            hint="use the lattice for real values",
        )
    if array.size and (int(array.max()) > LARGEST_VALUE or int(array.min()) < -LARGEST_VALUE):
        array = np.clip(array, -LARGEST_VALUE if array.dtype.kind == "i" else 0, LARGEST_VALUE)
    return array.astype(np.int64, copy=False)
