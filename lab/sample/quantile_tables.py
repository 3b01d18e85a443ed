"""Drawing from many small distributions at once.

A distribution over few values becomes one row of a table of its quantiles; a draw is then sixteen random
bits and one look-up, whatever the distribution. Probabilities are kept to within one part in the length
of the row, which is far finer than anything the samples claim.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Choice:
    """Rows of distributions over the values 0..n-1.

    Parameters
    ----------
    weights
        (rows, n) or (n,) non-negative weights, n at most 256; each row is scaled to one.
    bits
        A row keeps 2^bits quantiles, at most 16.

    Examples
    --------
    >>> Choice([[0, 1], [1, 0]]).values.max(axis=1).tolist()
    [1, 0]
    """

    def __init__(self, weights: ArrayLike, *, bits: int = 16) -> None:
        table = np.atleast_2d(np.asarray(weights, np.float64))
        cumulated = np.cumsum(table, axis=1)
        cumulated /= cumulated[:, -1:]
        grid = (np.arange(1 << bits) + 0.5) / (1 << bits)
        self.bits = bits
        self.values = np.stack([np.searchsorted(row, grid) for row in cumulated]).astype(np.uint8)

    def draw(self, rng: np.random.Generator, row: NDArray[np.integer]) -> Bytes:
        """Draw one value for each entry of ``row`` (any shape), from the distribution it names."""
        index = rng.integers(0, 1 << self.bits, size=row.shape, dtype=np.uint16).astype(np.int64)
        index += row.astype(np.int64) << self.bits
        drawn: Bytes = self.values.ravel()[index]
        return drawn


def between(ages: Floats, start: float, end: float, *, rise: float = 2.0, fall: float = 4.0) -> Floats:
    """Return a smooth window over ``ages``: near one between ``start`` and ``end``, near zero outside."""
    up = 1 / (1 + np.exp(-(ages - start) / rise))
    down = 1 / (1 + np.exp((ages - end) / fall))
    window: Floats = up * down
    return window
