"""Which published cells fail a check: their codes, not only that there are some.

:mod:`validations.suites.publication_suite` says whether a table may be published. This says where to look
when it may not, and names what may be published all the same: margins that are missing, differences that
rounding could not avoid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Codes = Callable[[int, int], dict[str, str]]
"""Row and column of a table to the code of every dimension there."""

MOST = 20
"""Cells of one check that are named; the others are counted."""

_SLACK = 1e-9  # relative, for sums of doubles


@dataclass(frozen=True)
class Broken:
    """Cells that fail one check.

    Attributes
    ----------
    table
        Name of the table, or of two that differ.
    check
        In words.
    cells
        The first of them, by the codes of their dimensions.
    count
        Of all of them.
    """

    table: str
    check: str
    cells: tuple[dict[str, str], ...]
    count: int

    def lines(self) -> Iterator[str]:
        """Yield one line for every cell that is named, and one for the others."""
        for codes in self.cells:
            where = ", ".join(f"{name} {code}" for name, code in codes.items()) or "the only cell"
            yield f"table {self.table}: {where}: {self.check}"
        if self.count > len(self.cells):
            yield f"table {self.table}: {self.count - len(self.cells):,} cells more: {self.check}"


def broken(table: str, check: str, mask: NDArray[np.bool_], codes: Codes) -> list[Broken]:
    """Return the cells (rows, columns) where a mask holds: a list of one, empty if it never does."""
    places = np.flatnonzero(mask.reshape(-1))
    if not len(places):
        return []
    named = tuple(codes(*divmod(int(place), mask.shape[1])) for place in places[:MOST])
    return [Broken(table, check, named, len(places))]


def broken_cells(
    table: str,
    parents: NDArray[np.int64],
    values: NDArray[Any],
    codes: Codes,
    *,
    integral: bool = True,
    nonnegative: bool = True,
    additive: bool = True,
    margins: NDArray[np.float64] | None = None,
) -> list[Broken]:
    """Return the cells of a table that are not what they should be, check by check.

    Parameters
    ----------
    table
        Its name.
    parents
        (nodes,) parent of each node, -1 for a root.
    values
        (nodes, cells) published numbers.
    codes
        What a row and column are about.
    integral, nonnegative, additive
        What post-processing promised.
    margins
        (nodes, cells), infinite where there is none; not checked if None.
    """
    numbers = np.asarray(values, np.float64)
    finite = np.isfinite(numbers)
    found = broken(table, "no number", ~finite, codes)
    if integral:
        found += broken(table, "not a whole number", finite & (numbers != np.rint(numbers)), codes)
    if nonnegative:
        found += broken(table, "negative", finite & (numbers < 0), codes)
    if additive:
        found += broken(table, "not the sum of its parts", _apart(parents, numbers), codes)
    if margins is not None:
        wrong = ~np.isfinite(margins) | (np.where(np.isfinite(margins), margins, 0.0) < 0)
        found += broken(table, "no margin of error", wrong, codes)
    return found


def _apart(parents: NDArray[np.int64], numbers: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Tell which numbers of inner nodes differ from the sums of their children."""
    children = np.flatnonzero(parents >= 0)
    order = children[np.argsort(parents[children], kind="stable")]
    apart = np.zeros(numbers.shape, bool)
    if not len(order):
        return apart
    families, starts = np.unique(parents[order], return_index=True)
    with np.errstate(invalid="ignore"):
        sums = np.add.reduceat(numbers[order], starts, axis=0)
        slack = _SLACK * np.add.reduceat(np.abs(numbers[order]), starts, axis=0) + _SLACK
        apart[families] = ~(np.abs(sums - numbers[families]) <= slack)
    return apart
