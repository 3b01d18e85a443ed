"""Boundaries that widen in proportion: fine near zero, ever coarser above."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.kernels.compiled import compiled


@compiled
def widening(end: float, growth: float) -> NDArray[np.int64]:
    """Return s_0 = 0 < s_1 < … with s_{i+1} = s_i + max(1, ⌊growth·s_i⌋), up to the first s_m >= ``end``.

    Parameters
    ----------
    end
        At least 1; every s_i is below 2^53, so that no product is off by one step.
    growth
        Not negative.
    """
    size, last = 1, 0
    while last < end:
        last += max(1, int(growth * last))
        size += 1
    boundaries = np.zeros(size, dtype=np.int64)
    for place in range(1, size):
        before = boundaries[place - 1]
        boundaries[place] = before + max(1, int(growth * before))
    return boundaries
