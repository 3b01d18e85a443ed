"""Boxes of cells: sums over them, and filling them, in tables of any number of dimensions.

A box is a pair of corners, ``low`` (inclusive) and ``high`` (exclusive), one place per dimension. Many boxes
are two arrays of shape (boxes, dimensions), int32; there is no object per box and none per cell. A table is
given flat, in row-major order, with its shape. Every pass goes along rows, the cells that lie side by side in
memory, and costs O(cells in the boxes).
"""

from __future__ import annotations

from math import log, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.arrays import Floats, Integers
from tabularium.mechanisms.kernels.compiled import compiled
from tabularium.mechanisms.measured import Measured

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

    ``axes``: Shape (boxes,): the dimension along which the slices of each box follow one another. ``starts``:
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


OUTLIER = 7.0  # a false alarm in e^7 = 1 100 boxes
SPREAD = 0.2  # a uniformly distributed share would have 0.29


@compiled
def grow_tree(
    cells: Floats,
    shape: Integers,
    variance: float,
    deviation: float,
    total: float,
    most: float,
    allowance: float,
    uneven: float,
    tolerance: float,
    contrast: bool,
) -> tuple[Corners, Corners]:
    """Return the corners of the parts, shape (parts, dimensions) each, first sides before second ones.

    Parameters
    ----------
    cells
        Noisy cells, flat.
    variance, deviation
        E z² and E |z| of the noise in a cell.
    total
        Estimated number of records in all cells; negative: noisy sums are used as the paper does.
    most
        ξ0: a box with more records is cut.
    allowance
        Standard deviations of a noisy sum to be added to ξ0, where noisy sums are used.
    uneven
        ξ1: a box with a larger H is cut; negative: what is expected of a uniform box plus ``tolerance``
        standard deviations, or a cell that stands out.
    contrast
        Whether cuts look for contrast, or the median.
    """
    strides, place, lines = strides_of(shape), np.zeros(shape.size, np.int64), np.zeros(shape.max())
    halvings = _halvings(shape)
    deepest = 4 * halvings + 4
    # One box waits on the stack for every cut above the one in hand.
    lows = np.zeros((deepest + halvings + 2, shape.size), np.int64)
    highs, depths, counts = np.zeros_like(lows), np.zeros(lows.shape[0], np.int64), np.zeros(lows.shape[0])
    highs[0], counts[0] = shape, total
    low, high = np.empty_like(shape), np.empty_like(shape)
    waiting = 1
    found_low, found_high = np.empty((256, shape.size), np.int32), np.empty((256, shape.size), np.int32)
    result = 0
    while waiting:
        waiting -= 1
        count = counts[waiting]
        axis, size = _pop_box(lows, highs, waiting, low, high)
        width = high[axis] - low[axis]
        cutting, whole = False, 0.0
        if width > 1:
            whole = _slices(cells, strides, low, high, axis, lines, place)
            seen, limit = count, most
            if total < 0:
                seen, limit = whole, most + allowance * sqrt(size * variance)
            cutting = seen > limit
            if not cutting:
                mean = whole / size
                seen, farthest = _deviations(cells, strides, low, high, mean, place)
                cutting = _has_outlier(seen, farthest, size, uneven, tolerance, variance, deviation)
        if not cutting:
            if result == found_low.shape[0]:
                found_low, found_high = _double_capacity(found_low), _double_capacity(found_high)
            for other in range(shape.size):
                found_low[result, other], found_high[result, other] = low[other], high[other]
            result += 1
            continue
        cut = width // 2
        if depths[waiting] < deepest:
            if contrast:
                cut = _contrast(lines, width, whole, size / width * variance)
            else:
                cut = _median(lines, width, whole)
        left = _left_count(lines, cut, width, whole, count, size * variance)
        depth = depths[waiting] + 1
        for side in range(2):  # the left side last: it is taken first
            for other in range(shape.size):
                lows[waiting, other], highs[waiting, other] = low[other], high[other]
            corners = lows if side == 0 else highs
            corners[waiting, axis] = low[axis] + cut
            depths[waiting] = depth
            counts[waiting] = count - left if side == 0 else left
            waiting += 1
    return found_low[:result], found_high[:result]


@compiled
def _halvings(shape: Integers) -> int:
    """Return how often a table can be halved until single cells are left."""
    halvings = 0
    for axis in range(shape.size):
        side = shape[axis]
        while side > 1:
            side = (side + 1) // 2
            halvings += 1
    return halvings


@compiled
def _pop_box(
    lows: Integers, highs: Integers, number: int, low: Integers, high: Integers
) -> tuple[int, float]:
    """Copy a box to ``low`` and ``high``; return its longest dimension, the first of equals, and its size."""
    axis, size = 0, 1.0
    for other in range(low.size):
        low[other], high[other] = lows[number, other], highs[number, other]
        side = high[other] - low[other]
        size *= side
        if side > high[axis] - low[axis]:
            axis = other
    return axis, size


@compiled
def _slices(
    cells: Floats,
    strides: Integers,
    low: Integers,
    high: Integers,
    axis: int,
    lines: Floats,
    place: Integers,
) -> float:
    """Write the sums of the slices across ``axis`` into ``lines``; return the sum of all."""
    last = low.size - 1
    width, side = high[last] - low[last], high[axis] - low[axis]
    lines[:side] = 0.0
    start = first_row(place, low, strides)
    while start >= 0:
        if axis == last:
            for step in range(width):
                lines[step] += cells[start + step]
        else:
            row = 0.0
            for step in range(width):
                row += cells[start + step]
            lines[place[axis] - low[axis]] += row
        start = next_row(place, low, high, strides, start)
    whole = 0.0
    for line in range(side):
        whole += lines[line]
    return whole


@compiled
def _deviations(
    cells: Floats, strides: Integers, low: Integers, high: Integers, mean: float, place: Integers
) -> tuple[float, float]:
    """Return H, the sum of the absolute deviations from ``mean``, and the largest of them."""
    last = low.size - 1
    width = high[last] - low[last]
    result, farthest = 0.0, 0.0
    start = first_row(place, low, strides)
    while start >= 0:
        for step in range(width):
            gap = abs(cells[start + step] - mean)
            result += gap
            farthest = max(farthest, gap)
        start = next_row(place, low, high, strides, start)
    return result, farthest


@compiled
def _has_outlier(
    found: float,
    farthest: float,
    size: float,
    uneven: float,
    tolerance: float,
    variance: float,
    deviation: float,
) -> bool:
    """Return whether H, or the largest deviation, is too large for ``size`` equal counts under the noise.

    A noise's distance from the mean of m is what it is from 0, less by √(1 - 1/m): exact for normal noise,
    5 % short for two cells of Laplace noise, and soon right.
    """
    if uneven >= 0:
        return found > uneven
    rest = max(variance - deviation * deviation, 0.0)
    expected = deviation * sqrt(size * (size - 1)) + tolerance * sqrt(size * rest)
    return found > expected or farthest > sqrt(variance / 2) * (log(size) + OUTLIER)


@compiled
def _contrast(lines: Floats, width: int, whole: float, variance: float) -> int:
    """Return the number of slices left of the cut with the greatest contrast, or of the middle one."""
    spread, mean = 0.0, whole / width
    for line in range(width):
        spread += (lines[line] - mean) * (lines[line] - mean)
    cut = width // 2
    if spread <= (width - 1) * variance:
        return cut
    run, best = 0.0, -1.0
    for line in range(width - 1):
        run += lines[line]
        share = (line + 1) / width
        excess = run - share * whole
        merit = excess * excess / (share * (1 - share))
        if merit > best:
            best = merit
            cut = line + 1
    return cut


@compiled
def _median(lines: Floats, width: int, whole: float) -> int:
    """Return the number of slices left of the cut that divides the sum most evenly; the first of equals."""
    run, best, cut = 0.0, np.inf, 1
    for line in range(width - 1):
        run += lines[line]
        uneven = abs(2 * run - whole)
        if uneven < best:
            best = uneven
            cut = line + 1
    return cut


@compiled
def _left_count(lines: Floats, cut: int, width: int, whole: float, count: float, noise: float) -> float:
    """Return the part of ``count`` that is expected left of the cut, given noise of variance ``noise``."""
    run = 0.0
    for line in range(cut):
        run += lines[line]
    share = cut / width
    even = share * (1 - share)
    prior = 4 * even * SPREAD * SPREAD * count * count
    excess = run - share * whole
    trust = 0.0
    if prior > 0:
        trust = prior / (prior + noise * even)
    if excess != 0.0:
        trust = max(trust, 1 - 4 * log(width) * noise * even / (excess * excess))
    left = share * count + trust * excess
    return float(min(max(left, 0.0), max(count, 0.0)))


@compiled
def _double_capacity(corners: Corners) -> Corners:
    longer = np.empty((2 * corners.shape[0], corners.shape[1]), np.int32)
    for row in range(corners.shape[0]):
        for axis in range(corners.shape[1]):
            longer[row, axis] = corners[row, axis]
    return longer
