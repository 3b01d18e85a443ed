"""Hilbert's curve through the cells of a table: neighbours on the curve are neighbours in the table.

The curve passes through a cube whose side is a power of two; cells outside the table are left out. Nothing
here depends on counts.

An index on the curve is written in base 2 with d·p digits for a cube of side 2^p in d dimensions. All cells
that agree in their first d·q digits lie in one of the cubes of side 2^(p - q), so the aligned pieces of the
curve are cubes, or, cut at other digits, halves and quarters of cubes.

Source: Skilling 2004, "Programming the Hilbert curve".
"""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

_DIGITS = 52  # of an index that a double holds exactly


def row_order(cells: int) -> tuple[Integers, Integers]:
    """Return the cells of a row in their order, and in how many digits each differs from the one before.

    The same form as ``hilbert_order``.
    """
    index = np.arange(cells)
    return index, _length(index[1:] ^ index[:-1])


def hilbert_order(shape: tuple[int, ...]) -> tuple[Integers, Integers]:
    """Return the cells of a table in the order of the curve.

    Parameters
    ----------
    shape
        Sides of the table; those of one cell play no part.

    Returns
    -------
    order
        Shape (n,): flat positions, row-major.
    digits
        Shape (n - 1,): how many of the last binary digits of its index it takes to tell a cell from the one
        before it: two cells that differ in the last three digits and no others lie in one aligned piece of
        the curve of 2^3 places.
    """
    sides = tuple(side for side in shape if side > 1)
    if len(sides) < 2:
        return row_order(prod(shape))
    depth = max(side - 1 for side in sides).bit_length()
    axes = [axis.reshape(-1) for axis in np.indices(sides, dtype=np.int64)]
    _untwist(axes, depth)
    words = _words(axes, depth)
    order = np.lexsort([word for word, _ in reversed(words)])
    digits = np.zeros(order.size - 1, dtype=np.int64)
    below = 0
    for word, width in reversed(words):
        sorted_word = word[order]
        apart = _length(sorted_word[1:] ^ sorted_word[:-1])
        digits = np.where(apart > 0, apart + below, digits)
        below += width
    return order, digits


def _untwist(axes: list[Integers], depth: int) -> None:
    """Turn coordinates into the digits of the index, one array per axis, in place."""
    for level in range(depth - 1, 0, -1):
        lower = (1 << level) - 1
        for a in range(len(axes)):
            inside = (axes[a] >> level & 1) != 0
            swap = np.where(inside, 0, (axes[0] ^ axes[a]) & lower)
            axes[0] ^= np.where(inside, lower, swap)
            axes[a] ^= swap
    for a in range(1, len(axes)):
        axes[a] ^= axes[a - 1]
    flip = np.zeros_like(axes[0])
    for level in range(depth - 1, 0, -1):
        flip ^= np.where((axes[-1] >> level & 1) != 0, (1 << level) - 1, 0)
    for a in range(len(axes)):
        axes[a] ^= flip


def _words(axes: list[Integers], depth: int) -> list[tuple[Integers, int]]:
    """Return the index in words of some digits each, first digits first, with their numbers of digits."""
    levels = max(1, _DIGITS // len(axes))
    words = []
    for top in range(depth, 0, -levels):
        word, width = np.zeros_like(axes[0]), 0
        for level in range(top - 1, max(top - levels, 0) - 1, -1):
            for axis in axes:
                word = word << 1 | axis >> level & 1
                width += 1
        words.append((word, width))
    return words


def _length(numbers: Integers) -> Integers:
    """Return the number of binary digits of each; below 2^53."""
    return np.frexp(numbers.astype(np.float64))[1].astype(np.int64)
