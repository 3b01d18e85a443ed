"""How accurate each table is: its margins of error by level and by size of the published count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.inference.margins_of_error.simulated_releases import SIZES
from tabularium.tasks.publish.read_release import Released
from tabularium.tasks.report.opened import size_class
from tabularium.tasks.report.order_statistics import OrderStatistics
from tabularium.tasks.report.released_cells import Part
from tabularium.validations.certificate import Measure


@dataclass(frozen=True)
class AccuracyLine:
    """The margins of the cells of one level and size.

    Attributes
    ----------
    level
        Its name; empty where a table has no hierarchy.
    size
        First and last published count; None where the count was left blank.
    cells
        How many there are.
    median, most
        Margins that half and 95 % of them do not exceed; None where none is given.
    relative, relative_most
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
    most: float | None
    relative: float | None
    relative_most: float | None
    wide: float | None
    flagged: float | None
    held: float | None


class Accuracy:
    """The margins of a table, seen part by part (:class:`tabularium.tasks.report.released_cells.Look`)."""

    def __init__(self, released: Released, name: str) -> None:
        errors = released.certificate.tables[name].margins.errors or ()
        self._held = {(each.level or "", each.counts): float(each.held) for each in errors}
        self._tallies: dict[tuple[str, int], _Tally] = {}
        self._first = True

    def see(self, part: Part) -> None:
        """See one part."""
        of = size_class(part.counts)
        for number in range(-1, len(SIZES)):
            tally = self._tallies.get((part.level.name, number))
            if not self._first and (tally is None or tally.settled):
                continue
            chosen = of == number
            if chosen.any():
                tally = tally or self._tallies.setdefault((part.level.name, number), _Tally())
                tally.see(part, chosen, first=self._first, blank=number < 0)

    def again(self) -> bool:
        """Whether all parts must go by once more."""
        self._first = False
        waiting = [each.again() for each in self._tallies.values()]  # each is to be asked
        return any(waiting)

    def lines(self) -> list[AccuracyLine]:
        """Return the lines of the table, by level from the root down and by size from zero up."""
        levels = list(dict.fromkeys(level for level, _ in self._tallies))
        return [
            self._tallies[level, number].line(level, size, self._held)
            for level in levels
            for number, size in ((-1, None), *enumerate(SIZES))
            if (level, number) in self._tallies
        ]


@dataclass(frozen=True)
class MeasureLine:
    """The margins of a measure in the cells of one level.

    Attributes
    ----------
    level
        Its name; empty where a table has no hierarchy.
    shown, blank
        How many of its numbers are shown, and how many are not.
    median, most
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
    most: float | None
    flagged: float | None
    without: float | None


class MeasureAccuracy:
    """The margins of a measure, seen part by part (:class:`tabularium.tasks.report.released_cells.Look`)."""

    def __init__(self, about: Measure) -> None:
        """Take what the certificate says of the measure."""
        self._without = {each.level or "": each.without_records_at_most for each in about.margins.shown or ()}
        self._tallies: dict[str, _Tally] = {}
        self._shown: dict[str, int] = {}
        self._first = True

    def see(self, part: Part) -> None:
        """See one part."""
        there = np.isfinite(part.counts)
        if self._first:
            self._shown[part.level.name] = self._shown.get(part.level.name, 0) + int(there.sum())
        tally = self._tallies.setdefault(part.level.name, _Tally())
        if self._first or not tally.settled:
            tally.see(part, np.ones(len(there), bool), first=self._first, blank=True)

    def again(self) -> bool:
        """Whether all parts must go by once more."""
        self._first = False
        waiting = [each.again() for each in self._tallies.values()]  # each is to be asked
        return any(waiting)

    def lines(self) -> list[MeasureLine]:
        """Return the lines of the measure, by level from the root down."""
        found = []
        for level, tally in self._tallies.items():
            line, shown = tally.line(level, None, {}), self._shown[level]
            without = self._without.get(level) if shown else None
            about = line.median, line.most, line.flagged, without
            found.append(MeasureLine(level, shown, line.cells - shown, *about))
        return found


class _Tally:
    """The margins of the cells of one level and size."""

    def __init__(self) -> None:
        self._cells = self._wide = self._flagged = 0
        self._flags = False
        self._blank = False
        self._margins, self._relative = OrderStatistics(0.5, 0.95), OrderStatistics(0.5, 0.95)
        self.settled = False

    def see(self, part: Part, chosen: NDArray[np.bool_], *, first: bool, blank: bool) -> None:
        """See the chosen cells of a part; count them the first time. ``blank``: they were left so."""
        margins = part.margins[chosen]
        known = np.isfinite(margins)
        own = margins[known]
        self._margins.see(own)
        if not blank:
            counts = part.counts[chosen][known]
            some = counts > 0
            self._relative.see(own[some] / counts[some])
            self._wide += int((own > counts / 2).sum()) if first else 0
        if first:
            self._blank, self._cells = blank, self._cells + len(margins)
            if part.flags is not None:
                self._flags, self._flagged = True, self._flagged + int(part.flags[chosen].sum())

    def again(self) -> bool:
        """Whether its cells must be seen once more."""
        self.settled = not any([self._margins.again(), self._relative.again()])
        return not self.settled

    def line(
        self,
        level: str,
        size: tuple[int, int | None] | None,
        held: dict[tuple[str, tuple[Any, ...]], float],
    ) -> AccuracyLine:
        """Return what was seen."""
        number = self._margins.number
        median, most = self._margins.found or (None, None)
        relative, relative_most = self._relative.found or (None, None)
        return AccuracyLine(
            level,
            size,
            self._cells,
            median,
            most,
            relative,
            relative_most,
            self._wide / number if number and not self._blank else None,
            self._flagged / self._cells if self._flags else None,
            None if size is None else held.get((level, tuple(size))),
        )
