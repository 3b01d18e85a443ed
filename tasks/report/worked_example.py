"""One number of the release, read aloud with its margin."""

from __future__ import annotations

from dataclasses import dataclass

from tabularium.tasks.report.released_cells import ReleasedCells, names_of

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


_MIDDLE = """
    with fit as materialized (
        select row, number, margin, margin <= number / 2 as telling
        from cells where margin > 0 and number > 0
    ), middle as (
        select quantile_disc(margin, 0.5) filter (telling) as telling, quantile_disc(margin, 0.5) as margin
        from fit
    )
    select row, number, fit.margin from fit, middle
    where fit.margin = coalesce(middle.telling, middle.margin) and (fit.telling or middle.telling is null)
    order by row limit 1"""


def worked_example(name: str, cells: ReleasedCells, method: str) -> Example | None:
    """Return a cell that is neither the surest nor the least sure; None where none has a margin above zero.

    Of those above zero it is the middle one by margin, and of several the first in the table; those with a
    margin of no more than half the count go first.
    """
    for row, count, margin in cells.ask(_MIDDLE):
        node, cell = cells.cell_of(row)
        return Example(name, list(names_of(cells.layout, node, cell)), count, margin, method)
    return None
