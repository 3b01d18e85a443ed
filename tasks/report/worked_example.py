"""One number of the release, read aloud with its margin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tasks.publish.read_release import ReleasedNumbers
from tasks.report.opened import names_of

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


def example_of(name: str, numbers: ReleasedNumbers, method: str) -> Example | None:
    """Choose a cell that is neither the surest nor the least sure: of those above zero, the middle one.

    Cells are ordered by margin; where several have the same, the first in the table is taken. None where no
    cell has a margin above zero.
    """
    layout = numbers.layout
    fit = np.isfinite(numbers.margins) & (numbers.margins > 0) & (numbers.counts > 0)
    fit &= numbers.present[:, None]
    telling = fit & (numbers.margins <= numbers.counts / 2)
    chosen = np.flatnonzero(telling if telling.any() else fit)
    if not len(chosen):
        return None
    margins = numbers.margins.reshape(-1)[chosen]
    middle = np.quantile(margins, 0.5, method="inverted_cdf")
    place = int(chosen[np.argmax(margins == middle)])
    node, cell = divmod(place, layout.cells)
    count, margin = float(numbers.counts[node, cell]), float(numbers.margins[node, cell])
    return Example(name, list(names_of(layout, node, cell)), count, margin, method)
