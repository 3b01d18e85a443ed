"""Published tables: one row per node and cell, with codes, labels, a value and its margin of error."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mechanisms.inference import Estimate
from tasks.postprocess.table_layout import Layout
from validations.domains.domains import Domain


def published_table(
    layout: Layout, estimate: Estimate, half: NDArray[np.float64], *, whole: bool
) -> pa.Table:
    """Return the table that is published.

    Columns: ``level`` (tables along a hierarchy), for each dimension its code and, where they differ, its
    label, then ``count`` and ``margin``: how often the true count lies within count ± margin, and over which
    cells, is a matter of how the margin is known (:mod:`tasks.margins.error_model`). Margins of whole counts
    are rounded up; where nothing is known of the error, the margin is null.

    Nodes that were not measured and follow from nothing (consistency switched off) are left out.

    Parameters
    ----------
    layout
        The table.
    estimate
        Its finished estimate.
    half
        (nodes, cells) margins, infinite where nothing is known (:mod:`tasks.margins.margins`).
    whole
        Counts have been made whole.
    """
    known = np.flatnonzero(
        np.isfinite(np.broadcast_to(estimate.variances, estimate.values.shape)).all(axis=1)
    )
    values = estimate.values[known].reshape(-1)
    margin = half[known].reshape(-1)
    if whole:
        # A shade less before rounding up: an error in the last bits is not a person.
        margin = np.ceil(margin - 1e-9)
    kind = np.int64 if whole else np.float64
    nothing = np.isinf(margin)
    columns = dict(dimension_columns(layout, known))
    columns["count"] = pa.array(values.astype(kind))
    columns["margin"] = pa.array(np.where(nothing, 0, margin).astype(kind), mask=nothing)
    return pa.table(columns)


def histogram_table(runs: NDArray[np.int64], largest: int | None = None) -> pa.Table:
    """Return a histogram as it is published: one row per ``size``, and the ``number`` of items that have it.

    Parameters
    ----------
    runs
        Shape (k, 2): pairs (size, number), sizes descending.
    largest
        The largest size that can be, where that is public: items that noise made larger have this size, so
        that their number stays.
    """
    above = runs[:, 0] >= (largest or np.inf)
    if above.any():
        runs = np.concatenate([[[largest, runs[above, 1].sum()]], runs[~above]])
    return pa.table({"size": pa.array(runs[:, 0]), "number": pa.array(runs[:, 1])})


def measurement_table(layout: Layout, level: str, array: NDArray[Any]) -> pa.Table:
    """Return one array of a measurement before any post-processing.

    One number per cell has the codes and labels of its cells beside it; any other array the positions of
    its numbers, ``index`` or ``index_0``, ``index_1``, ... The numbers themselves are ``measured``.
    """
    if array.shape == layout.shape(level):
        columns = dict(dimension_columns(layout, layout.cuts[level]))
    else:
        places = np.indices(array.shape).reshape(array.ndim, -1)
        several = array.ndim > 1
        columns = {f"index_{axis}" if several else "index": pa.array(at) for axis, at in enumerate(places)}
    return pa.table({**columns, "measured": pa.array(array.reshape(-1))})


def dimension_columns(layout: Layout, nodes: NDArray[np.int64]) -> Iterator[tuple[str, pa.Array]]:
    """Yield the columns that say what each row is about, in the order of the spec's dimensions."""
    tail = layout.cells
    total = len(nodes) * tail
    if layout.along is not None:
        depth = layout.along.depth[nodes]
        yield "level", _spread(depth, layout.along.levels, tail, total)
    inner = tail
    for name in layout.table.dimensions:
        if layout.along is not None and name == layout.table.along:
            codes, labels = layout.along.node_codes, layout.along.node_labels
            index, each = nodes, tail
        else:
            domain: Domain = next(d for d in layout.others if d.name == name)
            codes, labels = domain.codes, domain.labels
            inner //= domain.size
            index, each = np.arange(domain.size), inner
        yield name, _spread(index, codes, each, total)
        if tuple(codes) != tuple(labels):
            yield f"{name}_label", _spread(index, labels, each, total)


def _spread(index: NDArray[np.int64], names: tuple[str, ...], each: int, total: int) -> pa.Array:
    """Repeat every index ``each`` times, tile to ``total`` rows, and give it its names."""
    block = np.repeat(index.astype(np.int32), each)
    codes = np.tile(block, math.ceil(total / len(block))) if len(block) else block
    return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(list(names), pa.string()))
