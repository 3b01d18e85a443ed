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
