"""Published tables: one row per node and cell, with codes, labels, a value and its margin of error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mechanisms.inference import Estimate
from tasks.postprocess.table_layout import Layout
from tasks.publish.quality import FLAGS, SUPPRESSED, flags
from validations.domains.domains import Domain
from validations.spec.parts.output_options import Quality
from validations.spec.parts.table_parts import Histogram, Table

ROWS = 1 << 20
"""Rows of a row group, and of all that is held at once."""

MeasureNumbers = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Of one measure: numbers and half-widths, (nodes, cells), in the unit of its column."""


@dataclass(frozen=True, eq=False)
class PublishedTable:
    """A table or a histogram, as it goes into every format.

    Attributes
    ----------
    entry
        What the spec says of it.
    layout
        Its nodes and other dimensions; of a histogram without meaning.
    frame
        Its rows: columns as in :func:`published_table` or :func:`histogram_table`.
    method
        How its margins are known (:mod:`tasks.margins.error_model`); ``none`` for a histogram.
    """

    entry: Table | Histogram
    layout: Layout
    frame: pa.Table
    method: str


def published_table(
    layout: Layout,
    estimate: Estimate,
    half: NDArray[np.float64],
    *,
    whole: bool,
    quality: Quality | None = None,
    measures: Mapping[str, MeasureNumbers] | None = None,
) -> pa.Table:
    """Return the table that is published.

    Columns: ``level`` (tables along a hierarchy), for each dimension its code and, where they differ, its
    label, then ``count`` and ``margin``: how often the true count lies within count ± margin, and over which
    cells, is a matter of how the margin is known (:mod:`tasks.margins.error_model`). Margins of whole counts
    are rounded up; where nothing is known of the error, the margin is null. With quality rules the column
    ``quality`` stands before ``count``, and both numbers of a suppressed cell are null.

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
    quality
        The rules by which cells are flagged and suppressed; None for all numbers without flags.
    measures
        Name -> what is published of each measure of the table, in columns ``NAME`` and ``NAME_margin`` behind
        the count; null in suppressed cells, and where there is nothing to take a mean, median or rate of.
    """
    finite = np.isfinite(estimate.variances).all(axis=1)
    known = np.flatnonzero(np.broadcast_to(finite, len(estimate.values)))
    shown = _flat(estimate.values, known), _flat(half, known)
    others = {name: tuple(_flat(each, known) for each in pair) for name, pair in (measures or {}).items()}
    parts = [
        _numbers(
            *(each[rows] for each in shown),
            whole=whole,
            quality=quality,
            measures={name: tuple(each[rows] for each in pair) for name, pair in others.items()},
        )
        for rows in _strips(len(shown[0]))
    ]
    columns: dict[str, Any] = dict(dimension_columns(layout, known))
    columns |= {name: pa.chunked_array([part[name] for part in parts]) for name in parts[0]}
    return pa.table(columns)


def _flat(numbers: NDArray[np.float64], known: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return the numbers of known nodes, row after row; without a copy where all are known."""
    return (numbers if len(known) == len(numbers) else numbers[known]).reshape(-1)


def _numbers(
    values: NDArray[np.float64],
    margin: NDArray[np.float64],
    *,
    whole: bool,
    quality: Quality | None,
    measures: Mapping[str, tuple[NDArray[np.float64], ...]],
) -> dict[str, pa.Array]:
    """Return the columns of numbers of some rows, and of their flags."""
    if whole:
        # A shade less before rounding up: an error in the last bits is not a person.
        margin = np.ceil(margin - 1e-9)
    kind = np.int64 if whole else np.float64
    nothing, blank = np.isinf(margin), None
    columns = {}
    if quality is not None:
        flag = flags(values, margin, quality)
        blank = flag == SUPPRESSED
        nothing = nothing | blank
        columns["quality"] = pa.DictionaryArray.from_arrays(pa.array(flag), pa.array(FLAGS))
    columns["count"] = pa.array(values.astype(kind), mask=blank)
    columns["margin"] = pa.array(np.where(nothing, 0, margin).astype(kind), mask=nothing)
    for name, (numbers, reach) in measures.items():
        for column, each in ((name, numbers), (f"{name}_margin", reach)):
            gone = ~np.isfinite(each) if blank is None else blank | ~np.isfinite(each)
            columns[column] = pa.array(np.where(gone, 0.0, each), mask=gone)
    return columns


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

    One number per cell that somebody can be in has the codes and labels of its cells beside it; any other
    array the positions of its numbers, ``index`` or ``index_0``, ``index_1``, ... The numbers themselves are
    ``measured``.
    """
    possible = layout.possible(level)
    if array.shape == layout.measured_shape(level):
        columns = dict(dimension_columns(layout, layout.cuts[level]))
        if possible is not None:
            columns = {name: each.filter(pa.array(possible.ravel())) for name, each in columns.items()}
    else:
        places = np.indices(array.shape).reshape(array.ndim, array.size)  # an array may be empty
        several = array.ndim > 1
        columns = {f"index_{axis}" if several else "index": pa.array(at) for axis, at in enumerate(places)}
    return pa.table({**columns, "measured": pa.array(array.reshape(-1))})


def dimension_columns(layout: Layout, nodes: NDArray[np.int64]) -> Iterator[tuple[str, pa.ChunkedArray]]:
    """Yield the columns that say what each row is about, in the order of the spec's dimensions."""
    tail = layout.cells
    total = len(nodes) * tail
    if layout.along is not None:
        depth = layout.along.depth[nodes]
        yield "level", _named(_spread(depth, tail, total), layout.along.levels)
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
        places = _spread(index, each, total)
        yield name, _named(places, codes)
        if tuple(codes) != tuple(labels):
            yield f"{name}_label", _named(places, labels)


def _spread(index: NDArray[np.int64], each: int, total: int) -> list[pa.Array]:
    """Repeat every index ``each`` times, and that again and again to ``total`` rows, in strips.

    What is repeated within a strip is one array in memory, of which all strips are views.
    """
    narrow, period = index.astype(np.int32), len(index) * each
    if period < total and period <= ROWS:
        some = np.tile(np.repeat(narrow, each), -(-min(ROWS + period, total) // period))
        pattern = pa.array(some)
        return [pattern.slice(rows.start % period, rows.stop - rows.start) for rows in _strips(total)]
    found = []
    for rows in _strips(total):
        at = narrow[np.arange(rows.start // each, -(-rows.stop // each)) % max(1, len(index))]
        skipped = rows.start % each if each else 0
        found.append(pa.array(np.repeat(at, each)[skipped : skipped + rows.stop - rows.start]))
    return found


def _named(places: list[pa.Array], names: tuple[str, ...]) -> pa.ChunkedArray:
    texts = pa.array(list(names), pa.string())
    return pa.chunked_array([pa.DictionaryArray.from_arrays(each, texts) for each in places])


def _strips(rows: int) -> Iterator[slice]:
    """Cut rows into row groups of Parquet, whose bytes do not depend on that."""
    return (slice(first, min(first + ROWS, rows)) for first in range(0, max(rows, 1), ROWS))
