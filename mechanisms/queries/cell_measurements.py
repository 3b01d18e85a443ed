"""Published measurements as what queries, margins and reports are made from.

A mechanism says what it measured (``linear_measurements``). Where that is every cell with independent noise,
on each level of a hierarchy, it is a :class:`.NoisyTable`; anything else is a :class:`.LinearTable`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from tabularium.mechanisms.arrays import Bools, Indices
from tabularium.mechanisms.linear_measurements.linear_measurement import NoisyCells
from tabularium.mechanisms.measured import Measured
from tabularium.mechanisms.queries.answer_sources import Measurement, NoisySource, NoisyTable
from tabularium.mechanisms.queries.linear_tables import LinearTable, MeasuredLevel
from tabularium.mechanisms.queries.selection import Axes
from tabularium.mechanisms.registry import restore


def table_of(
    axes: Axes, levels: Sequence[MeasuredLevel], impossible: Bools | None, shape: tuple[int, ...]
) -> NoisySource:
    """Return measurements of all levels as what queries are answered from.

    Parameters
    ----------
    impossible
        (nodes, *axes) which cells are exactly zero; None where none is known to be.
    shape
        Of what was measured at a node.
    """
    found = []
    for level in levels:
        if not isinstance(level.measured, NoisyCells):
            return LinearTable(axes, tuple(levels), impossible)
        found.append(_as_counts(level.measured, level.nodes, shape, level.possible))
    return NoisyTable(axes, tuple(found), impossible)


def cells_of(table: LinearTable) -> NoisyTable | None:
    """Return the noisy counts of all cells among the measurements of every level, None if a level has none.

    Of single levels they say less than all measurements together. But over several levels they are averaged
    sum by sum, which may be better.
    """
    found = []
    for level in table.levels:
        cells = next(filter(None, (stage.single_cells() for stage in level.measured.stages())), None)
        if cells is None:
            return None
        found.append(_as_counts(cells, level.nodes, table.axes.shape, level.possible))
    return NoisyTable(table.axes, tuple(found), table.impossible)


def noisy_cells(
    measured: Measured, nodes: Indices, shape: tuple[int, ...], possible: Bools | None = None
) -> Measurement | None:
    """Return the noisy counts in a measurement that margins can be made from, or None.

    Parameters
    ----------
    measured
        What a mechanism drew.
    nodes
        (m,) the nodes that were measured.
    shape
        Of the other axes.
    possible
        (m, *shape) which cells were measured; the others are exactly 0. None where all were.
    """
    found = restore(measured).noisy_cells(measured)
    if found is None:
        return None
    cells = len(nodes) * prod(shape) if possible is None else int(possible.sum())
    return _as_counts(found, nodes, shape, possible) if found.cells == cells else None


def array_of_cells(measured: Measured, cells: int) -> str | None:
    """Return the name of the array that holds a noisy count of each of so many cells, None if none does.

    The numbers in the arrays are not looked at.
    """
    found = restore(measured).noisy_cells(measured)
    return found.array if found is not None and found.cells == cells else None


def _as_counts(
    found: NoisyCells, nodes: Indices, shape: tuple[int, ...], possible: Bools | None
) -> Measurement:
    values, (noise,) = found.values, found.noise
    if possible is not None:
        whole = np.zeros(possible.shape, values.dtype)
        whole[possible] = values.ravel()
        values = whole
    scale = noise.scale if noise.family == "laplace" else None
    return Measurement(nodes, values.reshape(len(nodes), *shape), noise.variance, scale)
