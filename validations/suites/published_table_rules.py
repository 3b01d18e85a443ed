"""What can be wrong with a published table, and in which cells.

These are the rules of a finished table. :mod:`validations.suites.publication_suite` counts the cells that
fail them and decides whether the table may be published; `table_faults` names the cells, also of what may be
published all the same: margins of error that are missing, differences that rounding could not avoid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from validations.spec.parts.output_options import PostProcessing

Codes = Callable[[int, int], dict[str, str]]
"""Row and column of a table to the code of every dimension there."""

MOST = 20
"""Cells of one check that are named; the others are counted."""

NO_NUMBER = "no number"
NOT_WHOLE = "not a whole number"
NEGATIVE = "negative"
NOT_THE_SUM = "not the sum of its parts"
NO_MARGIN = "no margin of error"

_SLACK = 1e-9  # relative, for sums of doubles
_EXACT = 2.0**53  # below it a double holds every whole number


@dataclass(frozen=True)
class Fault:
    """Cells that fail one check.

    Attributes
    ----------
    table
        Name of the table, or of the first of two that differ.
    check
        What is wrong with the cells, in words.
    cells
        The first of them, by the codes of their dimensions.
    count
        The number of all of them.
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


def faults_in(table: str, check: str, failing: NDArray[np.bool_], codes: Codes) -> list[Fault]:
    """Return the fault of the cells (rows, columns) that fail a check: a list of one, empty if none fails."""
    places = np.flatnonzero(failing)
    if not len(places):
        return []
    named = tuple(codes(*divmod(int(place), failing.shape[1])) for place in places[:MOST])
    return [Fault(table, check, named, len(places))]


def table_faults(
    table: str,
    parents: NDArray[np.int64],
    values: NDArray[Any],
    codes: Codes,
    *,
    promised: PostProcessing,
    margins: NDArray[np.float64] | None = None,
) -> list[Fault]:
    """Return what is wrong with a table, check by check.

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
    promised
        The steps of post-processing that were done: what they do not promise is not checked.
    margins
        (nodes, cells) half-widths, infinite where there is none; not checked if None.
    """
    failing = failing_cells(parents, values, promised)
    if margins is not None:
        failing[NO_MARGIN] = ~np.isfinite(margins) | (margins < 0)
    return [fault for check, mask in failing.items() for fault in faults_in(table, check, mask, codes)]


def failing_cells(
    parents: NDArray[np.int64], values: NDArray[Any], promised: PostProcessing
) -> dict[str, NDArray[np.bool_]]:
    """Return check -> (nodes, cells) whether a cell fails it, for `NO_NUMBER` and every promised check."""
    finite = np.isfinite(values)
    failing = {NO_NUMBER: ~finite}
    if promised.rounding:
        failing[NOT_WHOLE] = finite & (values != np.rint(values))
    if promised.nonnegativity:
        failing[NEGATIVE] = finite & (values < 0)
    if promised.consistency:
        failing[NOT_THE_SUM] = _not_the_sum(parents, values)
    return failing


def differing(one: NDArray[Any], other: NDArray[Any], slack: ArrayLike) -> NDArray[np.bool_]:
    """Return where two arrays of one shape differ: whole numbers at all, others by more than ``slack``.

    What is not a number differs from everything.
    """
    if _are_whole(one) and _are_whole(other):
        slack = 0
    with np.errstate(invalid="ignore"):
        near: NDArray[np.bool_] = np.abs(one - other) <= slack
    return ~near


def _not_the_sum(parents: NDArray[np.int64], values: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which cells of inner nodes differ from the sums of their children; (nodes, cells)."""
    failing = np.zeros(values.shape, bool)
    children = np.flatnonzero(parents >= 0)
    if not len(children):
        return failing
    # Stable order by parent turns each family into a run, also where siblings are not neighbours.
    order = children[np.argsort(parents[children], kind="stable")]
    families, starts = np.unique(parents[order], return_index=True)
    in_order = bool((np.diff(order) == 1).all())
    below = values[order[0] : order[-1] + 1] if in_order else values[order]  # a view where it can be one
    with np.errstate(invalid="ignore"):
        sums = np.add.reduceat(below, starts, axis=0)
        slack = _SLACK * np.add.reduceat(np.abs(below), starts, axis=0) + _SLACK
    failing[families] = differing(sums, values[families], slack)
    return failing


def _are_whole(values: NDArray[Any]) -> bool:
    if not np.issubdtype(values.dtype, np.floating):
        return True
    return bool(((values == np.rint(values)) & (np.abs(values) < _EXACT)).all())
