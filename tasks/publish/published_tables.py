"""Published tables: one row per node and cell, with codes, labels, a value and its margin of error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tabularium.mechanisms.inference import Estimate
from tabularium.tasks.margins.margins import settled
from tabularium.tasks.margins.measure_margins import by_group, measure_numbers
from tabularium.tasks.postprocess.table_layout import Layout, Nodes, denominator_at
from tabularium.tasks.publish.frames import ROWS, Frame, Labels, in_digits
from tabularium.validations.release_spec.load import Loaded
from tabularium.validations.release_spec.measures.measure import Measure
from tabularium.validations.release_spec.publication import Limits, Quality
from tabularium.validations.release_spec.tables import Histogram, Table, array_of

MeasureNumbers = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]
"""Of one measure: numbers, half-widths, and the range they may have, (nodes, cells), in its unit."""
Measures = Callable[[Nodes], Mapping[str, MeasureNumbers]]
"""``nodes -> name -> numbers`` of every measure of a table at these nodes."""
Columns = Callable[[int, int], dict[str, Any]]
"""``(first, last) -> name -> column`` of some rows."""


@dataclass(frozen=True, eq=False)
class PublishedTable:
    """A table or a histogram, as every format gets it.

    Attributes
    ----------
    entry
        What the spec says of it.
    layout
        Its nodes and other dimensions; of a histogram without meaning.
    frame
        Its rows: columns as in :func:`published_table` or :func:`histogram_table`.
    method
        How its margins are known (:mod:`tabularium.tasks.margins.error_model`); ``none`` for a histogram.
    """

    entry: Table | Histogram
    layout: Layout
    frame: Frame
    method: str


def published_table(
    layout: Layout,
    estimate: Estimate,
    half: NDArray[np.float64],
    *,
    whole: bool,
    quality: Quality | None = None,
    measures: Measures | None = None,
    invariants: bool = False,
) -> Frame:
    """Return the published table, whose rows are made part by part.

    Columns: ``level`` (tables along a hierarchy), for each dimension its code and, where they differ, its
    label, then ``count`` and ``margin``: how often the true count lies within count ± margin, and over which
    cells, is a matter of how the margin is known (:mod:`tabularium.tasks.margins.error_model`). Margins of
    whole counts are rounded up; where nothing is known of the error, the margin is null. With quality rules
    the column ``quality`` stands before ``count``, and both numbers of a suppressed cell are null; so do the
    numbers of a measure and, behind them, ``NAME_quality``.

    Nodes that were not measured and follow from nothing (consistency switched off) are left out.

    Parameters
    ----------
    estimate
        Its finished estimate: arrays that may be mapped from disk, and read a part at a time.
    half
        (nodes, cells) margins, infinite where unknown (:mod:`tabularium.tasks.margins.margins`); may be
        mapped, too.
    whole
        Counts have been made whole.
    quality
        The rules by which cells are flagged and suppressed; None for all numbers without flags.
    measures
        What is published of the measures of the table, in columns ``NAME`` and ``NAME_margin`` behind the
        count; null in suppressed cells, and where there is nothing to take a mean, median or rate of.
    invariants
        Whether there are any: numbers without variance are theirs, and known exactly.
    """
    known = known_nodes(estimate)
    labels, cells = Labels(layout, known), layout.cells

    def make(first: int, last: int) -> pa.Table:
        start, stop = first // cells, -(-last // cells)
        nodes = slice(start, stop) if len(known) == layout.nodes else known[start:stop]
        rows = slice(first - start * cells, last - start * cells)
        more: Mapping[str, MeasureNumbers] = {}
        if measures is not None:
            more = measures(nodes) if last > first else dict.fromkeys(layout.table.measures, _NOTHING)
        impossible = np.zeros(rows.stop - rows.start, bool)
        if layout.impossible is not None:
            impossible = layout.impossible[nodes].reshape(-1)[rows]
        exact = impossible
        if invariants:
            exact = impossible | settled(estimate, nodes).reshape(-1)[rows]
        numbers = _numbers(
            estimate.values[nodes].reshape(-1)[rows],
            half[nodes].reshape(-1)[rows],
            whole=whole,
            quality=quality,
            about=layout.table.measures,
            measures={
                name: tuple(values.reshape(-1)[rows] for values in three) for name, three in more.items()
            },
            exact=(exact, impossible),
        )
        return pa.table({**labels.of(first, last), **numbers})

    return Frame(len(known) * cells, make)


_NOTHING = np.zeros(0), np.zeros(0), np.zeros(0)


def frame_of(
    loaded: Loaded,
    layouts: Mapping[str, Layout],
    table: Table,
    estimates: Mapping[str, Estimate],
    half: Mapping[str, NDArray[np.float64]],
) -> Frame:
    """Return the frame of a table of a spec, from the arguments of :func:`measures_of`."""
    return published_table(
        layouts[table.name],
        estimates[table.name],
        half[table.name],
        whole=loaded.spec.postprocessing.rounding,
        quality=loaded.spec.publication.quality,
        measures=measures_of(loaded, layouts, table, estimates, half),
        invariants=bool(loaded.known) and loaded.spec.postprocessing.consistency,
    )


def measures_of(
    loaded: Loaded,
    layouts: Mapping[str, Layout],
    table: Table,
    estimates: Mapping[str, Estimate],
    half: Mapping[str, NDArray[np.float64]],
) -> Measures | None:
    """Return a function that makes the numbers of a table's measures at nodes; None if it has no measures.

    ``layouts``, ``estimates``, ``half``: of each array: how it lies in memory, its finished numbers and their
    margins, as in :func:`tabularium.tasks.margins.measure_margins.measure_numbers`.
    """
    arrays = {name: array_of(table.measures, table.name, name) for name in table.measures}
    over = {name: denominator_at(loaded, layouts[array], estimates) for name, array in arrays.items()}

    def of(nodes: Nodes) -> dict[str, MeasureNumbers]:
        shown = measure_numbers(
            layouts,
            table,
            {array: estimates[array].values[nodes] for array in arrays.values()},
            {array: half[array][nodes] for array in arrays.values()},
            whole=loaded.spec.postprocessing.rounding,
            denominators={name: at(nodes).values for name, at in over.items() if at is not None},
        )
        return {
            name: (
                *both,
                np.broadcast_to(by_group(layouts[arrays[name]], table.measures[name].spans), both[0].shape),
            )
            for name, both in shown.items()
        }

    return of if arrays else None


def known_nodes(estimate: Estimate) -> NDArray[np.intp]:
    """Return the nodes whose numbers are all known, however uncertain."""
    finite = np.isfinite(estimate.variances.max(axis=1))  # the largest is infinite where any of them is
    return np.flatnonzero(np.broadcast_to(finite, len(estimate.values)))


def _numbers(
    values: NDArray[np.float64],
    margin: NDArray[np.float64],
    *,
    whole: bool,
    quality: Quality | None,
    about: Mapping[str, Measure],
    measures: Mapping[str, tuple[NDArray[np.float64], ...]],
    exact: tuple[NDArray[np.bool_], NDArray[np.bool_]],
) -> dict[str, pa.Array]:
    """Return the columns of numbers of rows, and of their flags.

    ``exact``: which counts are known, and which cells nobody can be in.
    """
    if whole:
        # A shade less before rounding up: an error in the last bits is not a person.
        margin = np.ceil(margin - 1e-9)
    else:
        values, margin = in_digits(values), in_digits(margin)
    kind = np.int64 if whole else np.float64
    nothing, blank = np.isinf(margin), np.zeros(len(values), bool)
    columns = {}
    if quality is not None:
        flag = flags(values, margin, quality, exact[0])
        blank = flag == SUPPRESSED
        nothing = nothing | blank
        columns["quality"] = _flags(flag)
    columns["count"] = pa.array(_unsigned(values).astype(kind), mask=blank if blank.any() else None)
    if nothing.any():
        columns["margin"] = pa.array(np.where(nothing, 0, _unsigned(margin)).astype(kind), mask=nothing)
    else:
        columns["margin"] = pa.array(_unsigned(margin).astype(kind))
    for name, (*both, most) in measures.items():
        numbers, reach = map(in_digits, both)
        gone = blank
        if quality is not None:
            flag = measure_flags(about[name], numbers, reach, most, quality, blank=blank, exact=exact[1])
            gone = flag == SUPPRESSED
        for column, cells in ((name, numbers), (f"{name}_margin", reach)):
            left_out = gone | ~np.isfinite(cells)
            columns[column] = pa.array(np.where(left_out, 0.0, _unsigned(cells)), mask=left_out)
        if quality is not None:
            columns[f"{name}_quality"] = _flags(flag)
    return columns


def _flags(flags: NDArray[np.int8]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(flags), pa.array(FLAGS))


def _unsigned(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return numbers with unsigned zeros: rounding makes -0 of numbers a little below zero."""
    positive: NDArray[np.float64] = numbers + 0.0
    return positive


def histogram_table(runs: NDArray[np.int64], largest: int | None = None) -> Frame:
    """Return a published histogram: one row per ``size``, with the ``number`` of items of that size.

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
    return Frame.of(pa.table({"size": pa.array(runs[:, 0]), "number": pa.array(runs[:, 1])}))


def measurement_table(layout: Layout, level: str, array: NDArray[Any]) -> Frame:
    """Return one array of a measurement before any post-processing.

    One number per cell that somebody can be in has the codes and labels of its cells with it; any other
    array the positions of its numbers, ``index`` or ``index_0``, ``index_1``, ..., but a number by itself.
    The numbers themselves are ``measured``.
    """
    flat = array.reshape(-1)
    if array.shape == layout.measured_shape(level):
        columns = _of_cells(Labels(layout, layout.cuts[level]), layout.possible(level))
    else:
        columns = partial(_of_positions, array.shape)

    def make(first: int, last: int) -> pa.Table:
        return pa.table({**columns(first, last), "measured": pa.array(flat[first:last])})

    return Frame(array.size, make)


def _of_cells(labels: Labels, possible: NDArray[np.bool_] | None) -> Columns:
    """Return a function that makes the labels of some possible cells."""
    if possible is None:
        return labels.of
    there = possible.reshape(-1)
    strips = [slice(first, min(first + ROWS, len(there))) for first in range(0, max(len(there), 1), ROWS)]
    before = np.cumsum([0, *(int(there[strip].sum()) for strip in strips)])

    def of(first: int, last: int) -> dict[str, Any]:
        # In pieces that end where a part of all cells does: where a page of Parquet ends depends on it.
        pieces = [
            {
                name: some.filter(pa.array(there[strip])).slice(max(first - done, 0), last - max(first, done))
                for name, some in labels.of(strip.start, strip.stop).items()
            }
            for strip, done, after in zip(strips, before, before[1:], strict=False)
            if done < last and first < after
        ]
        if not pieces:
            return labels.of(0, 0)
        return {name: pa.chunked_array([piece[name] for piece in pieces]) for name in labels.names}

    return of


def _of_positions(shape: tuple[int, ...], first: int, last: int) -> dict[str, Any]:
    """Return the positions of numbers of an array, a column per axis."""
    some = shape and last > first  # a number by itself has no position
    places = np.unravel_index(np.arange(first, last), shape) if some else ((),) * len(shape)
    several = len(shape) > 1
    return {
        f"index_{axis}" if several else "index": pa.array(np.asarray(at, np.int64))
        for axis, at in enumerate(places)
    }


# --- flags of numbers, and numbers that are left blank: made only of what is published, at no cost
#
# A rule sees a published number and its margin of error and nothing else, least of all a true one; each
# kind of number has limits of its own. What is left blank is too uncertain to be of use; it hides nobody,
# for the noise has done that already.

RELIABLE, UNRELIABLE, SUPPRESSED, UNKNOWN, ZERO, EXACT = range(6)
FLAGS = ("reliable", "unreliable", "suppressed", "unknown", "zero", "exact")

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def flags(counts: Floats, margins: Floats, rules: Quality, exact: Bools | None = None) -> NDArray[np.int8]:
    """Return the flag of each count, a position in ``FLAGS``.

    One that is known without having been measured is ``exact``. One that was measured and is published as 0
    is ``zero``, and no percentage of it can be taken: it is left blank by ``at_least``, or by a limit that is
    a number. One without a margin is ``unknown`` where there is a rule about margins.

    Parameters
    ----------
    margins
        Of the same shape; infinite where nothing is known of the error.
    exact
        Which are known: by invariants, or because nobody can be there.
    """
    limits = Limits(rules.unreliable, rules.suppress)
    judged = _judged(counts, margins, np.maximum(counts, 0), limits, zero=counts == 0)
    if rules.at_least is not None:
        judged[counts < rules.at_least] = SUPPRESSED
    if exact is not None:
        judged[exact] = EXACT
    return judged


def measure_flags(
    measure: Measure,
    numbers: Floats,
    margins: Floats,
    reach: Floats,
    rules: Quality,
    *,
    blank: Bools,
    exact: Bools,
) -> NDArray[np.int8]:
    """Return the flag of each number of a measure, a position in ``FLAGS``.

    Parameters
    ----------
    numbers, margins
        As they are published; no number where there is none to show.
    reach
        Of all that it may be: of a rate what it is per, else ``to`` less ``from``; broadcasts to the numbers.
    blank
        Where the count next to it is left blank, and so is this.
    exact
        Where nobody can be.
    """
    kind, limits = rules.limits_of(measure)
    size = np.abs(numbers) if kind == "value" else np.broadcast_to(reach, numbers.shape)
    zero = (numbers == 0) & (measure.linear and not measure.signed)
    judged = _judged(numbers, margins, size, limits, zero=zero)
    judged[np.isnan(numbers) | blank] = SUPPRESSED
    judged[exact] = EXACT
    return judged


def _judged(
    numbers: Floats, margins: Floats, size: Floats, limits: Limits, *, zero: Bools
) -> NDArray[np.int8]:
    """Return flags by the limits of margins, whose percentages are parts of ``size``."""
    flagged = np.full(numbers.shape, RELIABLE, np.int8)
    if limits.unreliable is not None:
        flagged[_beyond(margins, size, limits.unreliable)] = UNRELIABLE
    flagged[zero] = ZERO
    if limits.suppress is not None:
        # Any margin is larger than a part of nothing: that says nothing of a zero.
        judged = ~zero if isinstance(limits.suppress, Fraction) else np.ones(numbers.shape, bool)
        flagged[_beyond(margins, size, limits.suppress) & judged] = SUPPRESSED
    if (limits.unreliable, limits.suppress) != (None, None):
        flagged[np.isinf(margins)] = UNKNOWN
    return flagged


def _beyond(margins: Floats, size: Floats, limit: int | Fraction) -> Bools:
    """Whether each margin is known and above a limit."""
    known = np.where(np.isfinite(margins), margins, 0)
    if isinstance(limit, int):
        return known > limit
    # Multiplied out, so that whole numbers are compared exactly.
    with np.errstate(invalid="ignore"):
        return known * limit.denominator > size * limit.numerator
