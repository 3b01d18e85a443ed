"""Names for the arrays that inference and queries pass around; docstrings give their shapes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]
Indices = NDArray[np.intp]
"""Positions in another array: node numbers, group numbers."""
Index = slice | Indices
"""Row index: a slice where the rows lie side by side, otherwise their numbers."""

Element = TypeVar("Element", bound=np.generic)
Number = TypeVar("Number", np.float64, np.int64)

STRIP = 1 << 18
"""Numbers of a strip: a few whole rows of a table, that take 2 MiB of float64."""


def strips(rows: int, cells: int, numbers: int = STRIP) -> Iterator[slice]:
    """Cut rows of so many cells into pieces of about so many numbers, at least one row each.

    Whatever goes over a table strip by strip needs memory for a strip, and none for the table.
    """
    step = max(1, numbers // max(1, cells))
    return (slice(first, min(first + step, rows)) for first in range(0, rows, step))


# Public bounds of whole numbers: what 64 bits, or a double, hold after sums and noise.


LARGEST_COUNT = 1 << 40
"""Of a cell; larger ones are cut off, which brings no two tables further apart."""
LARGEST_SUM = 1 << 60
"""Of counts, costs or deviations that are added up; noise has the rest of 63 bits."""
LARGEST_VALUE = 1 << 61
"""Of what the channel adds noise to, or compares: noise added to a value beyond could overflow."""
LARGEST_POINT = float(1 << 52)
"""Of a lattice, in steps: beyond, a float no longer holds every point exactly."""
LARGEST_WHOLE = float(1 << 53)
"""Up to here every whole number is a double."""
