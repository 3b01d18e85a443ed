"""How accurate each table is: margins of error by level and size, and what post-processing changed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from tabularium.mechanisms.arrays import strips
from tabularium.mechanisms.inference.margins_of_error.simulated_releases import SIZES
from tabularium.mechanisms.measured import Measured
from tabularium.mechanisms.queries.sources import array_of_cells
from tabularium.tasks.postprocess.table_layout import Layout
from tabularium.tasks.public_folder import named, open_parquet
from tabularium.tasks.publish.frames import ROWS
from tabularium.tasks.publish.measurement_files import FOLDER, indexed
from tabularium.tasks.publish.read_release import Released
from tabularium.tasks.publish.release_folder import readable
from tabularium.tasks.report.cells_chart import MOST_SERIES, round_ticks
from tabularium.tasks.report.released_cells import Columns, Floats, ReleasedCells, ask
from tabularium.tasks.report.wording import short, size_words
from tabularium.validations.certificate import Measure, Table

_BY_SIZE = """
    select level, size, count(*),
        quantile_disc(margin, [0.5, 0.95]),
        quantile_disc(margin / number, [0.5, 0.95]) filter (number > 0 and margin is not null),
        count(*) filter (margin > number / 2) / nullif(count(margin), 0),
        {flagged}
    from cells group by level, size order by level, size"""
_BY_LEVEL = """
    select level, count(*), count(number), quantile_disc(margin, [0.5, 0.95]), {flagged}
    from cells group by level order by level"""
_FLAGGED = {False: "null", True: "count(*) filter (flagged) / count(*)"}


@dataclass(frozen=True)
class AccuracyLine:
    """The margins of the cells of one level and size.

    Attributes
    ----------
    level
        Its name; empty where a table has no hierarchy.
    size
        First and last published count; None where the count was left blank.
    median, p95
        Margins that half and 95 % of the cells do not exceed; None where none is given.
    relative, relative_p95
        The same of margin by count, of cells above zero.
    wide
        Share of cells whose margin is more than half the count; None where no margin is given.
    flagged
        Share of cells that the quality rules flag; None where there are no rules.
    held
        Share of intervals of such cells that held the assumed truth in simulated releases, where simulated.
    """

    level: str
    size: tuple[int, int | None] | None
    cells: int
    median: float | None
    p95: float | None
    relative: float | None
    relative_p95: float | None
    wide: float | None
    flagged: float | None
    held: float | None


def accuracy(cells: ReleasedCells, about: Table) -> list[AccuracyLine]:
    """Return the margins of a table, by level from the root down and by size from zero up."""
    held = {(error.level or "", error.counts): float(error.held) for error in about.margins.errors or ()}
    lines = []
    for position, number, count, margins, relative, wide, flagged in cells.ask(
        _BY_SIZE.format(flagged=_FLAGGED[cells.flags])
    ):
        level, size = cells.levels[position].name, None if number < 0 else SIZES[number]
        shown = None if size is None else wide
        simulated = None if size is None else held.get((level, size))
        both = (*_both(margins), *_both(relative))
        lines.append(AccuracyLine(level, size, count, *both, shown, flagged, simulated))
    return lines


@dataclass(frozen=True)
class MeasureLine:
    """The margins of a measure in the cells of one level.

    Attributes
    ----------
    level
        Its name; empty where a table has no hierarchy.
    shown, blank
        How many of its numbers are shown, and how many are not.
    median, p95
        Margins that half and 95 % of those shown do not exceed; None where none is given.
    flagged
        Share of all that the quality rules flag; None where there are no rules.
    without
        Which part of those shown is expected to be of cells without any record, at most; None where that is
        no question.
    """

    level: str
    shown: int
    blank: int
    median: float | None
    p95: float | None
    flagged: float | None
    without: float | None


def measure_accuracy(cells: ReleasedCells, about: Measure) -> list[MeasureLine]:
    """Return the margins of a measure, by level from the root down."""
    without = {measure.level or "": measure.without_records_at_most for measure in about.margins.shown or ()}
    lines = []
    for position, number, shown, margins, flagged in cells.ask(
        _BY_LEVEL.format(flagged=_FLAGGED[cells.flags])
    ):
        level = cells.levels[position].name
        expected = without.get(level) if shown else None
        lines.append(MeasureLine(level, shown, number - shown, *_both(margins), flagged, expected))
    return lines


def _both(pair: list[float] | None) -> tuple[float | None, float | None]:
    return (pair[0], pair[1]) if pair else (None, None)


# --- plots of margins by size and level, one mark for each line of the table next to them
#
# Levels differ by colour (Okabe and Ito's, which colour-blind readers can distinguish), marker and
# place.

WIDTH, HEIGHT = 460, 290
_LEFT, _RIGHT, _TOP, _FOOT = 56, 8, 12, 48
_TICKS = 6
Pair = Callable[[AccuracyLine], tuple[float, float]]


@dataclass(frozen=True)
class Mark:
    """The median at (x, y), and the end of the line to the 95th percentile."""

    series: int
    x: float
    y: float
    top: float


@dataclass(frozen=True)
class Plot:
    """A plot, and its description.

    Attributes
    ----------
    levels
        What colours and markers stand for; one empty text where there is one.
    sizes, ticks
        Words and place of the classes of counts, number and place of lines across.
    """

    levels: list[str]
    marks: list[Mark]
    sizes: list[tuple[str, float]]
    ticks: list[tuple[float, float]]
    alternative: str


def plots_of(title: str, lines: list[AccuracyLine]) -> list[Plot]:
    """Return the plots of one table: margins, and margins as parts of the count."""
    known = [line for line in lines if line.size is not None and line.median is not None]
    relative = [line for line in known if line.relative is not None]
    if len(known) < 2:
        return []
    plots = [_plot(known, "margin of error", lambda line: (line.median or 0, line.p95 or 0), title)]
    if relative:
        plots.append(_plot(relative, "margin in % of the count", _percent, title))
    return plots


def _percent(line: AccuracyLine) -> tuple[float, float]:
    return 100 * (line.relative or 0), 100 * (line.relative_p95 or 0)


def _plot(lines: list[AccuracyLine], what: str, pair: Pair, title: str) -> Plot:
    levels = list(dict.fromkeys(line.level for line in lines))[:MOST_SERIES]
    lines = [line for line in lines if line.level in levels]
    sizes = [size for size in SIZES if any(line.size == size for line in lines)]
    ticks, up = _scale([number for line in lines for number in pair(line)])
    step = (WIDTH - _LEFT - _RIGHT) / len(sizes)
    marks = []
    for line in lines:
        series = levels.index(line.level)
        offset = 0.13 * (series - (len(levels) - 1) / 2)
        x = _LEFT + step * (sizes.index(line.size or SIZES[0]) + 0.5 + offset)
        marks.append(Mark(series, round(x, 2), *(up(number) for number in pair(line))))
    places = [(size_words(size), round(_LEFT + step * (at + 0.5), 2)) for at, size in enumerate(sizes)]
    return Plot(
        levels,
        marks,
        places,
        [(tick, up(tick)) for tick in ticks],
        _in_words(lines, levels, what, pair, title),
    )


def _scale(numbers: list[float]) -> tuple[list[float], Callable[[float], float]]:
    """Return the ticks of an axis and its scale, logarithmic if the numbers vary much."""
    low, high = min(numbers), max(numbers)
    logarithmic = low > 0 and high > 20 * low
    if logarithmic:
        first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
        every = max(1, -(-(last - first) // _TICKS))
        ticks = [10.0**power for power in range(first, last + every, every)]
    else:
        ticks = round_ticks(0.0, max(high, 1e-9))
    scaled = math.log10 if logarithmic else float
    bottom, top = scaled(ticks[0]), scaled(ticks[-1])

    def up(number: float) -> float:
        return round(HEIGHT - _FOOT - (HEIGHT - _TOP - _FOOT) * (scaled(number) - bottom) / (top - bottom), 2)

    return ticks, up


def _in_words(lines: list[AccuracyLine], levels: list[str], what: str, pair: Pair, title: str) -> str:
    """Return the description of a plot, for those who do not see it."""
    words = []
    for level in levels:
        parts = "; ".join(
            f"counts of {size_words(line.size)}: {', up to '.join(map(short, pair(line)))}"
            for line in lines
            if line.level == level
        )
        words.append(f"{level}: {parts}" if level else parts)
    return f"Plot of the median and the 95th percentile of the {what} in {title}. {'. '.join(words)}."


# Published counts against the noisy measurements from which they were made.


@dataclass(frozen=True)
class MovedLine:
    """The changes to the noisy counts of one measured level.

    Attributes
    ----------
    level
        Its name; empty where a table has no hierarchy.
    cells
        How many were measured and are shown.
    moved
        How many are published as another number.
    median, most
        By how much a cell was moved at the median, and at most.
    below_zero
        How many were measured below zero.
    lift
        What these lack to zero, summed.
    before, after
        The sum of all of them, as measured and as published.
    blank, blank_below_zero
        How many cells more were measured and are left blank, and how many of these were below zero.
    """

    level: str
    cells: int
    moved: int
    median: float
    most: float
    below_zero: int
    lift: float
    before: float
    after: float
    blank: int
    blank_below_zero: int


def moved_in(released: Released, name: str, cells: ReleasedCells) -> list[MovedLine] | None:
    """Return the lines of a table; None where the measurements are not counts of cells.

    Raises
    ------
    PublicationError
        The release holds no measurements of the table.
    """
    lines = []
    for level in cells.layout.cuts:
        noisy = _noisy(released, name, level, cells.layout)
        if noisy is None:
            return None
        line = _line(level, noisy, cells)
        if line is not None:
            lines.append(line)
    return lines if len(lines) == len(cells.layout.cuts) else None


def _noisy(released: Released, name: str, level: str, layout: Layout) -> Columns | None:
    """Return the noisy counts of a level, one for each possible cell."""
    entry = indexed(released.folder, name, level)
    # Their number is all that is asked of them: no numbers are read for that.
    shapes = {
        array: np.broadcast_to(np.zeros((), about["dtype"]), about["shape"])
        for array, about in entry["arrays"].items()
    }
    possible = layout.measured_at(level)
    number = len(layout.cuts[level]) * layout.cells if possible is None else int(possible.sum())
    array = array_of_cells(Measured.from_document(entry["measured"], shapes), number)
    if array is None:
        return None
    file = f"{FOLDER}/{entry['arrays'][array]['file']}"
    with readable(released.folder), named(file):
        opened = open_parquet(released.folder / file, rows=number, columns=["measured"])
    return Columns(released.folder / file, opened, ["measured"])


_MOVED = """
    select count(published), count(*) filter (away > 1e-9), quantile_disc(away, 0.5), max(away),
        count(*) filter (drawn < 0 and published is not null),
        -sum(least(drawn, 0)) filter (published is not null),
        sum(drawn) filter (published is not null), sum(published),
        count(*) filter (published is null), count(*) filter (drawn < 0 and published is null)
    from (select drawn, published, abs(published - drawn) as away from cells)"""


def _line(level: str, noisy: Columns, cells: ReleasedCells) -> MovedLine | None:
    """Return the changes to the noisy counts of a level; None where all are left blank."""
    (line,) = ask(_MOVED, _pairs(level, noisy, cells))
    return MovedLine(level, *line) if line[0] else None


def _pairs(level: str, noisy: Columns, cells: ReleasedCells) -> Iterator[dict[str, Floats]]:
    """Yield the cells of a level, flat: as they were measured, and as they are published.

    Cells that nobody can be in were measured as nothing.
    """
    nodes, possible, done = cells.layout.cuts[level], cells.layout.measured_at(level), 0
    for rows in strips(len(nodes), cells.layout.cells, ROWS):
        some = nodes[rows]
        there = None if possible is None else possible[rows].reshape(-1)
        number = len(some) * cells.layout.cells if there is None else int(there.sum())
        (measured,) = noisy.read(done, done + number)
        done += number
        if there is not None:
            spread = np.zeros(len(there))
            spread[there] = measured
            measured = spread
        yield {"drawn": measured, "published": cells.at(some)[0].reshape(-1)}
