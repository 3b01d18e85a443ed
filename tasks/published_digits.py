"""Digits of numbers that are not whole: as many as every processor gives alike.

Sums, logarithms and matrix products end in other bits on other processors, some 1e-15 of them away. What is
published of them is rounded, by operations that give the same bits everywhere. Only a number that lies so
near the middle between two rounded ones may still come out as either: a few in ten thousand of those that
differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
T = TypeVar("T")

DIGITS = 12
"""Significant digits at most; there may be one less. Sums of rounded numbers agree better than to 1e-9."""
_DECIMALS = 22  # of which the power of ten is a float exactly
_POWERS = np.array([float(10**digits) for digits in range(_DECIMALS + 1)])
_DIGITS_OF_A_BIT = 0.30103


def in_digits(numbers: Floats) -> Floats:
    """Return numbers in so many digits; whole ones as they are, and those of which that takes 23 decimals."""
    _, exponents = np.frexp(numbers)
    before = np.floor(exponents * _DIGITS_OF_A_BIT).astype(np.int64)  # digits before the point, or one less
    decimals = DIGITS - 1 - before
    power = _POWERS[np.clip(decimals, 0, _DECIMALS)]
    return np.where(decimals > _DECIMALS, numbers, np.rint(numbers * power) / power)


def all_in_digits(value: T) -> T:
    """Return what JSON holds with its floats in so many digits."""
    told: Any = value
    if isinstance(told, float):
        told = float(in_digits(np.array([told]))[0])
    elif isinstance(told, Mapping):
        told = {key: all_in_digits(each) for key, each in told.items()}
    elif isinstance(told, list | tuple):
        told = [all_in_digits(each) for each in told]
    return told  # type: ignore[no-any-return]
