"""A chart of a table: some of its published cells with their margins, as points with error bars.

No cell is added to another: whatever the picture does not tell apart is held at one value, which it names. So
every point is a number of the file, and its line the margin of that number, as far as a true one can lie.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tabularium.tasks.report.released_cells import Level, ReleasedCells
from tabularium.tasks.report.wording import whole

MOST_ROWS = 30
MOST_SERIES = 6
WIDTH, LABELS, ROW = 640, 190, 22
"""Of the picture, of the labels next to it, and of a point's own line."""
_FOOT, _RIGHT, _TICKS, _LETTERS = 24, 24, 5, 26
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Point:
    """A published number and its position.

    Attributes
    ----------
    low, high
        Ends of its line; None where no margin is known.
    doubtful
        Whether the release flags it as unreliable.
    """

    series: int
    number: float
    margin: float
    x: float
    y: float
    low: float | None
    high: float | None
    doubtful: bool


@dataclass(frozen=True)
class Row:
    """The points of one value of the dimension that runs down the chart."""

    label: str
    top: float
    y: float
    points: list[Point | None]

    @property
    def short(self) -> str:
        """Its label, shortened to the room."""
        return self.label if len(self.label) <= _LETTERS else self.label[: _LETTERS - 1] + "…"


@dataclass(frozen=True)
class Chart:
    """A picture.

    Attributes
    ----------
    held
        The values at which the other dimensions are held, as a sentence; empty where there are none.
    series
        What the colours and shapes stand for; one empty text where there is one.
    more
        How many rows were left out.
    cut
        Whether a line is longer than the picture.
    """

    title: str
    by: str
    held: str
    series: list[str]
    rows: list[Row]
    ticks: list[tuple[float, float]]
    height: float
    more: int
    cut: bool

    @property
    def notes(self) -> str:
        """The meaning of its marks."""
        points = [point for row in self.rows for point in row.points]
        sentences = [
            "Points are published numbers, lines their margins of error as far as a true number can lie"
        ]
        if self.cut:
            sentences.append("a line that ends at the edge is longer than the picture")
        if any(point is not None and point.low is None for point in points):
            sentences.append("a point with a ring has no known margin")
        if any(point is not None and point.doubtful for point in points):
            sentences.append("a pale one is flagged as unreliable")
        if any(point is None for point in points):
            sentences.append("what is left blank in the table has no point")
        return f"{'; '.join(sentences)}."

    @property
    def alternative(self) -> str:
        """Its description, for those who do not see it."""
        known = [(row, point) for row in self.rows for point in row.points if point is not None]
        if not known:
            return f"Picture of {self.title}: every number was left blank."
        first, last = (end(known, key=lambda pair: pair[1].number) for end in (min, max))
        ends = [f"{whole(point.number)} ({self._named(row, point)})" for row, point in (first, last)]
        return (
            f"Picture of {self.title}, from {ends[0]} to {ends[1]}; its numbers stand in the table below it."
        )

    def _named(self, row: Row, point: Point) -> str:
        return ", ".join(filter(None, (row.label, self.series[point.series])))


@dataclass(frozen=True)
class _Dimension:
    """A dimension with several values: its axis, its title, and its values."""

    axis: int
    title: str
    labels: Sequence[str]


def chart_of(
    cells: ReleasedCells,
    titles: dict[str, str],
    title: str,
    numbers: ReleasedCells | None = None,
    *,
    least: float | None = 0.0,
) -> Chart | None:
    """Return the chart of a table, or of one of its measures; None where there is only one value.

    Parameters
    ----------
    cells
        The counts, by which it is decided what is shown.
    titles
        Of the dimensions, by their names.
    numbers
        The measure; None for the counts.
    least
        Below which no number can truly be, so that its line ends there; None where nothing is known.
    """
    level = _level(cells)
    span = np.arange(level.nodes.start, level.nodes.stop)
    published = span[cells.present[span]]
    nodes = published[:MOST_ROWS]
    shape = (len(nodes), *(domain.size for domain in cells.layout.others))
    counts = cells.at(nodes)[0].reshape(shape)
    dimensions = [_Dimension(at + 1, titles[d.name], d.labels) for at, d in enumerate(cells.layout.others)]
    along = cells.layout.along
    if along is not None:
        labels = [along.node_labels[node] for node in nodes]
        dimensions.insert(0, _Dimension(0, f"{titles[along.name]} ({level.name})", labels))
    down, across = _axes_of(dimensions)
    if down is None:
        return None
    fixed = {
        dimension.axis: _most_people(counts, dimension.axis)
        for dimension in dimensions
        if dimension not in (down, across)
    }
    held = "; ".join(
        f"{dimension.title}: {dimension.labels[fixed[dimension.axis]]}"
        for dimension in dimensions
        if dimension.axis in fixed
    )
    of = numbers or cells
    shown = [array.reshape(shape) for array in (*of.at(nodes), of.flagged(nodes).astype(float))]
    values, margins, flags = (_laid(array, down, across, fixed) for array in shown)
    more = (len(published) if down.axis == 0 else len(down.labels)) - len(values)
    series = [""] if across is None else list(across.labels)
    return _drawn(
        (title, down.title, held),
        series,
        list(down.labels),
        (values, margins, flags > 0),
        more,
        least=least,
        from_zero=numbers is None,
    )


def _level(cells: ReleasedCells) -> Level:
    """Return the level to show: the total by other dimensions, else the finest that fits."""
    if cells.layout.others:
        return cells.levels[0]
    several = [level for level in cells.levels if level.nodes.stop - level.nodes.start > 1]
    fits = [level for level in several if level.nodes.stop - level.nodes.start <= MOST_ROWS]
    return fits[-1] if fits else (several or cells.levels)[0]


def _axes_of(dimensions: list[_Dimension]) -> tuple[_Dimension | None, _Dimension | None]:
    """Return the dimension that runs down the chart, with most values, and the coloured one, with few."""
    wide = [dimension for dimension in dimensions if len(dimension.labels) > 1]
    if not wide:
        return None, None
    fits = [dimension for dimension in wide if len(dimension.labels) <= MOST_ROWS] or wide
    down = max(fits, key=lambda dimension: len(dimension.labels))
    few = [dimension for dimension in wide if dimension is not down and len(dimension.labels) <= MOST_SERIES]
    return down, min(few, key=lambda dimension: len(dimension.labels), default=None)


def _most_people(counts: Floats, axis: int) -> int:
    others = tuple(another for another in range(counts.ndim) if another != axis)
    return int(np.nansum(counts, axis=others).argmax())


def _laid(array: Floats, down: _Dimension, across: _Dimension | None, fixed: dict[int, int]) -> Floats:
    """Return (rows, series) numbers."""
    index = tuple(fixed.get(axis, slice(None)) for axis in range(array.ndim))
    laid = array[index]
    left = [axis for axis in range(array.ndim) if axis not in fixed]
    wanted = [down.axis] if across is None else [down.axis, across.axis]
    # What is neither shown nor held has one value.
    laid = laid.transpose(
        *(left.index(axis) for axis in wanted), *(at for at, axis in enumerate(left) if axis not in wanted)
    )
    return laid.reshape(laid.shape[0], -1)[:MOST_ROWS]


def _drawn(
    words: tuple[str, str, str],
    series: list[str],
    labels: list[str],
    numbers: tuple[Floats, Floats, NDArray[np.bool_]],
    more: int,
    *,
    least: float | None,
    from_zero: bool,
) -> Chart:
    values, margins, flags = numbers
    known = np.isfinite(margins)
    low = np.where(known, values - margins, values)
    high = np.where(known, values + margins, values)
    if least is not None:
        low = np.minimum(np.maximum(low, least), values)
    some = ~np.isnan(values)
    first, last = _ends(values[some], low[some], high[some], from_zero=from_zero)
    ticks = round_ticks(first, last)
    first, last = min(first, ticks[0]), max(last, ticks[-1])
    cut = bool(((low < first) | (high > last))[some & known].any())
    low, high = np.clip(low, first, last), np.clip(high, first, last)

    def across(number: float) -> float:
        room = WIDTH - LABELS - _RIGHT
        return round(LABELS + room * (number - first) / (last - first), 2)

    tall = ROW * max(1.0, 0.55 * len(series))
    rows = []
    for at, label in enumerate(labels[: len(values)]):
        top = tall * at
        points: list[Point | None] = []
        for number in range(len(series)):
            if not some[at, number]:
                points.append(None)
                continue
            value, margin = float(values[at, number]), float(margins[at, number])
            left, right = None, None
            if known[at, number]:
                left, right = across(float(low[at, number])), across(float(high[at, number]))
            y = round(top + tall * (number + 1) / (len(series) + 1), 2)
            points.append(
                Point(number, value, margin, across(value), y, left, right, bool(flags[at, number]))
            )
        rows.append(Row(label, round(top, 2), round(top + tall / 2, 2), points))
    return Chart(
        *words,
        series,
        rows,
        [(tick, across(tick)) for tick in ticks],
        round(tall * len(rows) + _FOOT, 2),
        more,
        cut,
    )


def _ends(values: Floats, low: Floats, high: Floats, *, from_zero: bool) -> tuple[float, float]:
    """Return the ends of the axis: at ticks, but not so far that the points coincide."""
    if not len(values):
        return 0.0, 1.0
    first, last = float(values.min()), float(values.max())
    first = min(first, 0.0) if from_zero else first
    room = max(last - first, abs(last), abs(first))
    return max(min(float(low.min()), first), first - room), min(float(high.max()), last + room)


def round_ticks(low: float, high: float) -> list[float]:
    """Return round numbers from just below to just above."""
    if not high > low:
        high = low + max(1.0, 1e-6 * abs(low))
    rough = (high - low) / _TICKS
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * size for factor in (1.0, 2.0, 2.5, 5.0, 10.0) if factor * size >= rough)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [round(number * step, 12) for number in range(first, last + 1)]
