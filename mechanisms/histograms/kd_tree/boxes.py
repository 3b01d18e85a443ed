"""Boxes of cells: sums over them, and filling them, in tables of any number of dimensions.

A box is a pair of corners, ``low`` (inclusive) and ``high`` (exclusive), one place per dimension. Many boxes
are two arrays of shape (boxes, dimensions), int32; there is no object per box and none per cell. A table is
given flat, in row-major order, with its shape. Every pass goes along rows, the cells that lie side by side in
memory, and costs O(cells in the boxes).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.kernels.compiled import compiled
from tabularium.mechanisms.measured import Measured

Integers = NDArray[np.int64]
Corners = NDArray[np.int32]


@compiled
def strides_of(shape: Integers) -> Integers:
    """Return how far apart neighbours in each dimension lie in memory."""
    strides = np.ones(shape.size, np.int64)
    for axis in range(shape.size - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return strides


@compiled
def first_row(place: Integers, low: Any, strides: Integers) -> int:
    """Set ``place`` to the low corner and return where it lies in memory."""
    start = 0
    for axis in range(low.size):
        place[axis] = low[axis]
        start += place[axis] * strides[axis]
    return start


@compiled
def next_row(place: Integers, low: Any, high: Any, strides: Integers, start: int) -> int:
    """Move ``place`` to the next row of the box and return where that begins; -1 after the last."""
    axis = low.size - 2
    while axis >= 0:
        place[axis] += 1
        start += strides[axis]
        if place[axis] < high[axis]:
            return start
        start -= (high[axis] - low[axis]) * strides[axis]
        place[axis] = low[axis]
        axis -= 1
    return -1


@compiled
def box_sums(cells: NDArray[Any], shape: Integers, lows: Corners, highs: Corners) -> NDArray[Any]:
    """Return the sum of each box, shape (boxes,), in the type of ``cells``."""
    strides, place = strides_of(shape), np.zeros(shape.size, np.int64)
    sums = np.zeros(lows.shape[0], cells.dtype)
    last = shape.size - 1
    for box in range(lows.shape[0]):
        low, high = lows[box], highs[box]
        width = high[last] - low[last]
        start = first_row(place, low, strides)
        while start >= 0:
            for step in range(width):
                sums[box] += cells[start + step]
            start = next_row(place, low, high, strides, start)
    return sums


@compiled
def line_sums(
    cells: Integers, shape: Integers, lows: Corners, highs: Corners, axes: Integers, starts: Integers
) -> Integers:
    """Return the sums of each box's slices across its axis, box after box.

    Parameters
    ----------
    axes
        Shape (boxes,): the dimension along which the slices of each box follow one another.
    starts
        Shape (boxes + 1,): where the slices of each box begin in the result, and their number at the end.
    """
    strides, place = strides_of(shape), np.zeros(shape.size, np.int64)
    sums = np.zeros(starts[-1], np.int64)
    last = shape.size - 1
    for box in range(lows.shape[0]):
        low, high, axis = lows[box], highs[box], axes[box]
        width = high[last] - low[last]
        start = first_row(place, low, strides)
        while start >= 0:
            if axis == last:
                for step in range(width):
                    sums[starts[box] + step] += cells[start + step]
            else:
                line = starts[box] + place[axis] - low[axis]
                for step in range(width):
                    sums[line] += cells[start + step]
            start = next_row(place, low, high, strides, start)
    return sums


@compiled
def fill_boxes(
    values: NDArray[np.float64], shape: Integers, lows: Corners, highs: Corners, filled: NDArray[np.float64]
) -> None:
    """Write into the cells of each box its value; ``filled`` is flat and holds all cells."""
    strides, place = strides_of(shape), np.zeros(shape.size, np.int64)
    last = shape.size - 1
    for box in range(lows.shape[0]):
        low, high = lows[box], highs[box]
        width = high[last] - low[last]
        start = first_row(place, low, strides)
        while start >= 0:
            for step in range(width):
                filled[start + step] = values[box]
            start = next_row(place, low, high, strides, start)


def boxes_of_cells(measured: Measured) -> Integers:
    """Return (cells,) the number of the box that each cell is in; every cell is in one."""
    shape = np.array(measured.meta["shape"] or (1,), dtype=np.int64)
    lows, highs = measured.arrays["lows"], measured.arrays["highs"]
    numbers = np.empty(int(shape.prod()))
    fill_boxes(np.arange(lows.shape[0], dtype=np.float64), shape, lows, highs, numbers)
    return numbers.astype(np.int64)


def box_sizes(lows: Corners, highs: Corners) -> NDArray[np.float64]:
    """Return the number of cells of each box, shape (boxes,)."""
    sizes = np.ones(lows.shape[0])
    for axis in range(lows.shape[1]):
        sizes *= highs[:, axis] - lows[:, axis]
    return sizes
