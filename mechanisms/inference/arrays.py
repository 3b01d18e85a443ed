"""Names for the arrays that inference and queries pass around; docstrings give their shapes."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Indices = NDArray[np.intp]
"""Positions in another array: node numbers, group numbers."""
Index = slice | Indices
"""Row index: a slice where the rows lie side by side, otherwise their numbers."""

Element = TypeVar("Element", bound=np.generic)
Number = TypeVar("Number", np.float64, np.int64)
