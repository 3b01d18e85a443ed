"""Exact segmentation of a table into runs of neighbouring cells, around their means or their medians.

``segment`` minimises the squared (mean) or absolute (median) error within runs plus a price for each run;
``segment_into`` minimises the error with a given number of runs. The kernels take integers; a table of other
numbers, or of too large ones, is first put on a lattice (``on_lattice``) that is fine enough not to matter.
"""

from __future__ import annotations

from math import frexp, ldexp, sqrt
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.histograms.noise_first.mean_segments import mean_layer, traced
from tabularium.mechanisms.histograms.noise_first.median_segments import median_layer

Centre = Literal["mean", "median"]
Integers = NDArray[np.int64]

_UNREACHED = 1 << 61
_SUM = 1 << 60
_LEVEL = 1 << 58
_FINENESS = 1 << 20


def segment(table: NDArray[Any], centre: Centre, price: float, *, unit: float) -> Integers:
    """Return where the runs of the best segmentation begin: its error plus ``price`` per run is least.

    Parameters
    ----------
    table
        Shape (n,): int64 or float64, finite, at most 2^61 in absolute value.
    centre
        ``"mean"``: the error is a sum of squares; ``"median"``: of absolute values.
    price
        In squared units of the table (mean) or in its units (median), not negative.
    unit
        A difference that matters, say the noise scale: a table of other numbers than integers is rounded to
        2^-20 of it, and so is the price of a median.

    Returns
    -------
    ndarray
        Shape (runs,): the first cell of each run, ascending from 0. Of equally good segmentations, one whose
        last runs are the longest.
    """
    if centre == "mean":
        levels, step = on_lattice(table, unit / _FINENESS, _SUM // table.size)
        scaled = price / step**2
        starts, _ = mean_layer(levels, scaled, np.zeros(0), 0, 4096 * sqrt(scaled))
    else:
        levels, step = on_lattice(table, min(unit, price or unit) / _FINENESS, _LEVEL, finer=True, also=price)
        whole = round(price / step)
        distinct, ranks = np.unique(levels, return_inverse=True)
        starts, _ = median_layer(distinct, ranks, whole, np.zeros(0, dtype=np.int64), 0)
    return traced(starts)


def segment_into(table: NDArray[Any], centre: Centre, runs: int, *, unit: float) -> Integers:
    """Return where the runs of the best segmentation into exactly ``runs`` runs begin.

    Parameters
    ----------
    table, centre, unit
        As in ``segment``.
    runs
        From 1 to n. It takes 4·n·runs bytes.
    """
    if runs == table.size:
        return np.arange(runs)
    levels, _ = on_lattice(table, unit / _FINENESS, _SUM // table.size)
    layers: list[NDArray[np.int32]] = []
    if centre == "mean":
        reals = np.full(table.size + 1, np.inf)
        reals[0] = 0.0
        for first in range(runs):
            starts, reals = mean_layer(levels, 0.0, reals, first, np.inf)
            layers.append(starts)
    else:
        distinct, ranks = np.unique(levels, return_inverse=True)
        wholes = np.full(table.size + 1, _UNREACHED)
        wholes[0] = 0
        for first in range(runs):
            starts, wholes = median_layer(distinct, ranks, 0, wholes, first)
            layers.append(starts)
    return _traced(layers)


def on_lattice(
    table: NDArray[Any], finest: float, largest: int, *, finer: bool = False, also: float = 0.0
) -> tuple[Integers, float]:
    """Return a table in whole steps around the middle of its range, and the step, a power of two.

    Parameters
    ----------
    table
        Shape (n,): int64 or float64.
    finest
        The step for a table of floats, rounded down to a power of two. Integers stay as they are, or with
        ``finer`` become multiples of such a step.
    largest
        The step is doubled until no level, nor ``also``, is larger in absolute value.
    """
    whole = table.dtype.kind == "i"
    step = ldexp(1.0, frexp(max(finest, 1e-300))[1] - 1)
    if whole:
        step = min(1.0, step) if finer else 1.0
    low, high = table.min(), table.max()
    middle = low + (high - low) // 2
    span = max(float(high - low) / 2 + 1, also)
    while span / step > largest:
        step *= 2
    offset = table - middle
    if not whole:
        return np.rint(offset / step).astype(np.int64), step
    if step <= 1:
        return offset << int(1 / step).bit_length() - 1, step
    return (offset + int(step) // 2) >> int(step).bit_length() - 1, step


def _traced(layers: list[NDArray[np.int32]]) -> Integers:
    """Return the first cells of the runs: one in each layer, the last one first."""
    found, end = [], layers[0].size - 1
    for starts in reversed(layers):
        end = int(starts[end])
        found.append(end)
    return np.array(found[::-1], dtype=np.int64)
