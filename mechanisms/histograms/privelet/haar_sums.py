"""The Haar wavelet transform in whole numbers, for any number of cells, and what noise in it does to sums.

Neighbours are added up in pairs, the sums again, until one number is left: the total. Of each pair the
difference is kept; a last one without a partner goes up as it is. Total and differences are as many numbers
as there are cells, and give the cells back: left = (sum + difference)/2, right = (sum - difference)/2. With
a power of two of cells the difference above m cells is m times the Haar coefficient of Xiao, Wang and
Gehrke, which is the weight that they give it, and the total is n times their base coefficient.

One cell is in the total and in at most ⌈log2 n⌉ differences, in each with a factor ±1.

The answer to a linear query Σ w·x is linear in the coefficients. Upwards from the leaves, where the factor
of a cell is w: with factors a, b of the two halves of a pair, the difference has (a - b)/2 and the sum (a +
b)/2. For a range of cells the two halves differ only where the range cuts, in at most two pairs of each
level: O(log n) for a query, all queries together. NumPy only.

In several dimensions the transform is applied along one axis after the other; factors of a box are products.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def depth(cells: int) -> int:
    """Return ⌈log2 cells⌉: in how many differences a cell lies at most."""
    return (cells - 1).bit_length()


def sums_and_differences(table: Integers, axis: int) -> Integers:
    """Return the coefficients along an axis: the total first, then the differences, coarse to fine."""
    found = np.moveaxis(table, axis, -1).copy()
    for size in _sizes(found.shape[-1])[::-1]:
        left, right = _pair_up(found, size)
        found[..., : size // 2] = left + right
        found[..., size - size // 2 : size] = left - right
    return np.moveaxis(found, -1, axis)


def factors(weights: Floats, axis: int) -> Floats:
    """Return the factors that a linear query gives the coefficients along an axis."""
    found = np.moveaxis(weights, axis, -1).copy()
    for size in _sizes(found.shape[-1])[::-1]:
        left, right = _pair_up(found, size)
        found[..., : size // 2] = (left + right) / 2
        found[..., size - size // 2 : size] = (left - right) / 2
    return np.moveaxis(found, -1, axis)


def cells_from(coefficients: Floats, axis: int) -> Floats:
    """Return what ``sums_and_differences`` was made from, up to rounding in the last place."""
    found = np.moveaxis(coefficients, axis, -1).copy()
    for size in _sizes(found.shape[-1]):
        pairs, kept = size // 2, size - size // 2
        sums, differences = found[..., :kept].copy(), found[..., kept:size].copy()
        found[..., 0 : 2 * pairs : 2] = (sums[..., :pairs] + differences) / 2
        found[..., 1 : 2 * pairs : 2] = (sums[..., :pairs] - differences) / 2
        if size % 2:
            found[..., size - 1] = sums[..., pairs]
    return np.moveaxis(found, -1, axis)


def cell_energies(cells: int) -> Floats:
    """Return the sum of squared factors of each cell as a query, shape (cells,)."""
    energies = np.ones(1)
    for size in _sizes(cells):
        pairs = size // 2
        finer = np.empty(size)
        finer[0 : 2 * pairs : 2] = finer[1 : 2 * pairs : 2] = (energies[:pairs] + 1) / 4
        finer[2 * pairs :] = energies[pairs:]
        energies = finer
    return energies


def range_energies(cells: int, starts: Integers, stops: Integers) -> Floats:
    """Return the sum of squared factors of each range of cells, start to stop - 1, shape (queries,)."""
    left, right, size = starts, stops - 1, cells
    of_left = of_right = np.ones(starts.shape)
    energy = np.zeros(starts.shape)
    while size > 1:
        apart = left // 2 != right // 2
        alone = (right == size - 1) & (right % 2 == 0)  # goes up as it is
        # The other half of each pair: inside the range, outside, or the range's other end.
        beside_left = np.where(
            left % 2 == 1, 0.0, np.where(apart, 1.0, np.where(left == right, 0.0, of_right))
        )
        beside_right = np.where(right % 2 == 0, 0.0, 1.0)
        beside_right = np.where(alone, of_right, beside_right)
        beside_left = np.where(alone & ~apart, of_left, beside_left)
        energy += ((of_left - beside_left) / 2) ** 2
        energy += np.where(apart, ((of_right - beside_right) / 2) ** 2, 0.0)
        of_left = (of_left + beside_left) / 2
        of_right = np.where(apart, (of_right + beside_right) / 2, of_left)
        left, right, size = left // 2, right // 2, size - size // 2
    return np.asarray(energy + of_left**2, dtype=np.float64)


def _pair_up(table: NDArray[Any], size: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return both partners of the first ``size`` numbers of each row, and move up a last one without any."""
    pairs = size // 2
    left, right = table[..., 0 : 2 * pairs : 2].copy(), table[..., 1 : 2 * pairs : 2].copy()
    if size % 2:
        table[..., pairs] = table[..., size - 1]
    return left, right


def _sizes(cells: int) -> list[int]:
    """Return how many sums there are on each level that has pairs, the coarsest first."""
    sizes = [cells]
    while sizes[-1] > 1:
        sizes.append(sizes[-1] - sizes[-1] // 2)
    return sizes[-2::-1]
