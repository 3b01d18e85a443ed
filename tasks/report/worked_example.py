"""One number of the release, read aloud with its margin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tabularium.tasks.report.opened import names_of
from tabularium.tasks.report.order_statistics import OrderStatistics
from tabularium.tasks.report.released_cells import Part, ReleasedCells

READ_AS = {
    "exact": (
        "In {of_ten} releases drawn like this one, the true count of this very cell lies between the ends."
    ),
    "simulated": (
        "Over the cells of this table whose published counts are about as large, the true count lies between "
        "the two ends for {of_ten}. That is an average: it is not promised for this cell by itself."
    ),
    "prior": (
        "Over the cells of this table that are about as large, and that changed about as much since the "
        "earlier release they were drawn towards, the true count lies between the two ends for {of_ten}. "
        "That is an average: it is not promised for this cell by itself."
    ),
    "above": (
        "Over the cells of this table in which about as many were to be expected after the level above, and "
        "that differ about as much from it, the true count lies between the two ends for {of_ten}. That is "
        "an average: it is not promised for this cell by itself."
    ),
    "risk": (
        "Over the cells of this table, the true count lies between the two ends for {of_ten}. That is an "
        "average: a cell that differs much from its neighbours may be further off."
    ),
    "measured": (
        "Over the cells of this table whose published counts are about as large, the true count lies between "
        "the two ends for {of_ten}. That is an average: a few cells may be much further off."
    ),
}


@dataclass(frozen=True)
class Example:
    """One published number.

    Attributes
    ----------
    table
        Its name in the spec.
    names
        Dimension, code and label of the cell.
    low, high
        The ends of its interval; nobody is counted less than not at all.
    """

    table: str
    names: list[tuple[str, str, str]]
    count: float
    margin: float
    method: str

    @property
    def low(self) -> float:
        """The lower end."""
        return max(0.0, self.count - self.margin)

    @property
    def high(self) -> float:
        """The upper end."""
        return self.count + self.margin


class MiddleMargin:
    """What finds a cell that is neither the surest nor the least sure: of those above zero, the middle one.

    Cells are ordered by margin; where several have the same, the first in the table is taken. It is seen part
    by part (:class:`tabularium.tasks.report.released_cells.Look`).
    """

    def __init__(self) -> None:
        self._fit, self._telling = OrderStatistics(0.5), OrderStatistics(0.5)

    def see(self, part: Part) -> None:
        """See one part."""
        for middle, telling in ((self._fit, False), (self._telling, True)):
            if middle.found is None:
                middle.see(part.margins[_chosen(part, telling=telling)])

    def again(self) -> bool:
        """Whether all parts must go by once more."""
        return any([self._fit.again(), self._telling.again()])

    def example(self, name: str, cells: ReleasedCells, method: str) -> Example | None:
        """Return the cell once all is seen; None where no cell has a margin above zero."""
        telling = self._telling.found is not None
        middle = self._telling.found or self._fit.found
        if middle is None:
            return None
        for part in cells.parts():
            found = np.flatnonzero(_chosen(part, telling=telling) & (part.margins == middle[0]))
            if len(found):
                node, cell = cells.cell_of(part.first + int(found[0]))
                count, margin = float(part.counts[found[0]]), float(part.margins[found[0]])
                return Example(name, list(names_of(cells.layout, node, cell)), count, margin, method)
        return None


def _chosen(part: Part, *, telling: bool) -> NDArray[np.bool_]:
    """Return the cells above zero that have a margin; ``telling``: of no more than half the count."""
    fit = np.isfinite(part.margins) & (part.margins > 0) & (part.counts > 0)
    return fit & (part.margins <= part.counts / 2) if telling else fit
