"""How accurate each table is: its margins of error by level and by size of the published count."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tabularium.mechanisms.inference.margins_of_error.simulated_releases import SIZES
from tabularium.tasks.report.released_cells import ReleasedCells
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
    held = {(each.level or "", each.counts): float(each.held) for each in about.margins.errors or ()}
    lines = []
    for place, number, count, margins, relative, wide, flagged in cells.ask(
        _BY_SIZE.format(flagged=_FLAGGED[cells.flags])
    ):
        level, size = cells.levels[place].name, None if number < 0 else SIZES[number]
        lines.append(
            AccuracyLine(
                *(level, size, count, *_both(margins), *_both(relative)),
                *(None if size is None else wide, flagged, None if size is None else held.get((level, size))),
            )
        )
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
    without = {each.level or "": each.without_records_at_most for each in about.margins.shown or ()}
    lines = []
    for place, number, shown, margins, flagged in cells.ask(_BY_LEVEL.format(flagged=_FLAGGED[cells.flags])):
        level = cells.levels[place].name
        expected = without.get(level) if shown else None
        lines.append(MeasureLine(level, shown, number - shown, *_both(margins), flagged, expected))
    return lines


def _both(found: Iterable[float] | None) -> Iterable[float | None]:
    return found or (None, None)
