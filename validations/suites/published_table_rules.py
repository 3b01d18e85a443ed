"""What can be wrong with a published table, and in which cells.

These are the rules of a finished table. :mod:`tabularium.validations.suites.publication_suite` counts the
cells that fail them and decides whether the table may be published; `table_faults` names the cells, also of
what may be published all the same: margins of error that are missing, differences that rounding could not
avoid.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tabularium.mechanisms.arrays import strips
from tabularium.mechanisms.inference import Hierarchy
from tabularium.validations.spec.parts.output_options import PostProcessing

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
    found = failing_cells(parents, values, promised)
    if margins is not None:
        found = chain(found, _without_margin(margins))
    named: dict[str, list[dict[str, str]]] = {}
    counts: Counter[str] = Counter()
    for check, nodes, mask in found:
        counts[check] += int(mask.sum())
        cells = named.setdefault(check, [])
        places = np.flatnonzero(mask)[: MOST - len(cells)] if mask.any() else ()
        cells += [codes(int(nodes[place // mask.shape[1]]), int(place % mask.shape[1])) for place in places]
    return [Fault(table, check, tuple(named[check]), count) for check, count in counts.items() if count]


def failing_cells(
    parents: NDArray[np.int64], values: NDArray[Any], promised: PostProcessing
) -> Iterator[tuple[str, NDArray[np.intp], NDArray[np.bool_]]]:
    """Yield check, nodes, and (nodes, cells) whether a cell fails it: some nodes at a time.

    Each of `NO_NUMBER` and the promised checks comes at least once.
    """
    for rows in strips(*values.shape):
        nodes, some = np.arange(rows.start, rows.stop), values[rows]
        finite = np.isfinite(some)
        yield NO_NUMBER, nodes, ~finite
        if promised.rounding:
            yield NOT_WHOLE, nodes, finite & (some != np.rint(some))
        if promised.nonnegativity:
            yield NEGATIVE, nodes, finite & (some < 0)
    if promised.consistency:
        yield NOT_THE_SUM, np.zeros(0, np.intp), np.zeros((0, values.shape[1]), bool)
        yield from _not_the_sum(Hierarchy(parents), values)


def _without_margin(
    margins: NDArray[np.float64],
) -> Iterator[tuple[str, NDArray[np.intp], NDArray[np.bool_]]]:
    for rows in strips(*margins.shape):
        some = margins[rows]
        yield NO_MARGIN, np.arange(rows.start, rows.stop), ~np.isfinite(some) | (some < 0)


def differing(one: NDArray[Any], other: NDArray[Any], slack: ArrayLike) -> NDArray[np.bool_]:
    """Return where two arrays of one shape differ: whole numbers at all, others by more than ``slack``.

    What is not a number differs from everything.
    """
    if _are_whole(one) and _are_whole(other):
        slack = 0
    with np.errstate(invalid="ignore"):
        near: NDArray[np.bool_] = np.abs(one - other) <= slack
    return ~near


def _not_the_sum(
    tree: Hierarchy, values: NDArray[Any]
) -> Iterator[tuple[str, NDArray[np.intp], NDArray[np.bool_]]]:
    """Yield inner nodes, and which of their cells differ from the sums of their children."""
    for block in tree.down(values.shape[1]):
        below = values[block.children]
        with np.errstate(invalid="ignore"):
            slack = _SLACK * block.total(np.abs(below)) + _SLACK
            sums = block.total(below)
        yield NOT_THE_SUM, block.parents, differing(sums, values[block.parents], slack)


def _are_whole(values: NDArray[Any]) -> bool:
    if not np.issubdtype(values.dtype, np.floating):
        return True
    return bool(((values == np.rint(values)) & (np.abs(values) < _EXACT)).all())
