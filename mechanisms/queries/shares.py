"""Shares of a whole: the average of a number that is 1 for records of a part and 0 for all others.

A share is A/(A + B), with A the records of a part and B those of the rest of its whole, so that its interval
is that of an average (:mod:`.measures`), and holds however small the whole is. What is needed are the
estimates of A and B and how they err together:

- where both are in different columns of a table, or no level but the lowest was measured, they err
  independently: B is the whole less A, and so is its variance;
- where a hierarchy is cut in parts, estimates of its nodes have errors in common, and so have cells of which
  sums were measured. The source is asked for the covariances of each row by itself (``parts``); of more rows
  than that can be done for, only the variances of A and of the whole are used, as if both erred together as
  badly as they can;
- of published cells whose errors may go together, and of those at several levels, bounds add up.

Invariants are not made use of.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tabularium.mechanisms.arrays import Floats, Indices, Integers
from tabularium.mechanisms.errors import InputError
from tabularium.mechanisms.queries.answer_sources import NoisyTable, PublishedTable, selected
from tabularium.mechanisms.queries.attributes import AnyAttribute, Groups
from tabularium.mechanisms.queries.grammar import Query, plain
from tabularium.mechanisms.queries.linear_tables import LinearTable
from tabularium.mechanisms.queries.measures import MOST_WORK
from tabularium.mechanisms.queries.query_plan import Plan, find
from tabularium.mechanisms.queries.selection import Axes, SelectedCells, cells_of_rows, named_rows

NUMBERS = np.array([1.0, 0.0])
"""What a record of the part counts, and one of the rest."""


def whole_of(query: Query) -> Query:
    """Return the count of the records that a share is of."""
    return replace(query, measure="count", by=query.by if query.passing else query.within, passing=())


def part_of(query: Query, attributes: Sequence[AnyAttribute] = ()) -> Query:
    """Return the count of the records whose share is asked for, in a table of such attributes.

    Of ``place within province`` every place is in one province, and says so by itself.
    """
    if query.passing:
        return replace(query, measure="count", where=(*query.where, *query.passing), passing=())
    inside = {find(name, attributes)[0] for name in query.by} if attributes else set()
    kept = [name for name in query.within if not attributes or find(name, attributes)[0] not in inside]
    return replace(query, measure="count", by=(*kept, *query.by))


@dataclass(frozen=True, eq=False)
class Parts:
    """The parts and wholes of all rows of an answer, on the axes of one table.

    Attributes
    ----------
    whole, part
        The plans of :func:`whole_of` and :func:`part_of`.
    labels
        (code, label) of the groups of each row.
    number
        (rows,) cells of the whole.
    of
        (rows,) the row of ``whole`` that each is of.
    place
        (rows,) the row of ``part`` that each is; -1 where no cell passes the tests.
    """

    axes: Axes
    whole: tuple[Plan, ...]
    part: tuple[Plan, ...]
    labels: list[tuple[tuple[str, str], ...]]
    number: Integers
    of: Indices
    place: Indices

    @classmethod
    def on(cls, axes: Axes, whole: tuple[Plan, ...], part: tuple[Plan, ...], *, made_of_tests: bool) -> Parts:
        """Lay both over the axes of a table: the groups within others, or the same groups.

        Raises
        ------
        InputError
            If the answer would have too many rows, or a group lies in several others.
        """
        wholes, number = named_rows(axes, whole)
        parts, _ = named_rows(axes, part)
        if made_of_tests:  # the part of each group that passes them
            found = {labels: row for row, labels in enumerate(parts)}
            place = np.array([found.get(labels, -1) for labels in wholes], np.intp)
            return cls(axes, whole, part, wholes, number, np.arange(len(wholes)), place)
        above = [_above(*each, part[0].by) for each in zip(whole[0].headings, whole[0].by, strict=True)]
        found = {labels: row for row, labels in enumerate(wholes)}
        keys = [tuple(groups[labels[column]] for column, groups in above) for labels in parts]
        of = np.array([found[key] for key in keys], np.intp)
        return cls(axes, whole, part, parts, number[of], of, np.arange(len(parts)))

    def cells(self, source: NoisyTable | LinearTable | PublishedTable) -> SelectedCells | None:
        """Return (rows, 2) what a source knows of every part and of the rest of its whole.

        None where it is no combination of what was measured.

        Raises
        ------
        InputError
            If it needs a suppressed cell.
        """
        if not len(self.of):
            return SelectedCells(*np.zeros((5, 0, 2)))
        if isinstance(source, LinearTable):
            return self._of_measured(source)
        whole, part = selected(source, self.whole), selected(source, self.part)
        if not self._cuts_the_tree or (isinstance(source, NoisyTable) and source.of_leaves_alone):
            return self._of_columns(whole, part)
        # Published levels need not agree, so that what their errors have in common is not known.
        return self._of_measured(source) if isinstance(source, NoisyTable) else self._at_worst(source)

    @property
    def _cuts_the_tree(self) -> bool:
        """Whether a whole and its part are other nodes of the hierarchy in the same column."""
        if self.axes.tree is None:
            return False
        tops = [dict(plans[0].by).get(0) for plans in (self.whole, self.part)]
        if tops[1] is not None and (tops[0] is None or tops[0].codes != tops[1].codes):
            return True
        return any(
            not np.array_equal(part.masks[0], whole.masks[0])
            for part in self.part
            for whole in self.whole
            if all((a & b).any() for a, b in zip(part.masks[1:], whole.masks[1:], strict=True))
        )

    def _of_columns(self, whole: SelectedCells, part: SelectedCells) -> SelectedCells:
        """Return parts and rests that are in different columns, in each of them all that is in the whole."""
        values, *bounds = (
            self._beside(each(part), each(whole), -1) for each in (_values, _variance, _rms_error, _moved)
        )
        variance, rms_error, moved = (np.maximum(each, 0.0) for each in bounds)
        steps = np.column_stack([self._part(_step(part)), _step(whole)[self.of]])
        steps = np.where(variance > 0, steps, 0.0)
        return SelectedCells(values, variance, steps, rms_error, moved)

    def _of_measured(self, source: NoisyTable | LinearTable) -> SelectedCells | None:
        """Return parts and rests with what their estimates have in common."""
        if len(self.of) * math.prod((*self.axes.shape, len(self.axes.parents))) > MOST_WORK:
            return self._at_worst(source)
        wholes = list(cells_of_rows(self.axes, self.whole))
        parts = list(cells_of_rows(self.axes, self.part))
        found = []
        for of, place in zip(self.of, self.place, strict=True):
            own = parts[place] if place >= 0 else np.zeros_like(wholes[of])
            found.append(source.parts(own, wholes[of] & ~own))
        if any(each is None for each in found):
            return None
        values, covariances = (
            np.array([each[side] for each in found if each is not None]) for side in (0, 1)
        )
        variance = np.maximum(np.einsum("ijj->ij", covariances), 0.0)
        nothing, least = np.zeros_like(values), source.least_variance
        steps = np.minimum(1.0, np.sqrt(variance / least))
        return SelectedCells(
            values, variance, steps, nothing, nothing, covariances=covariances, least_variance=least
        )

    def _at_worst(self, source: NoisyTable | LinearTable | PublishedTable) -> SelectedCells | None:
        """Return parts and rests whose estimates may have anything in common."""
        if isinstance(source, LinearTable):
            whole, part = source.select(self.whole), source.select(self.part)
        else:
            whole, part = selected(source, self.whole), selected(source, self.part)
        if whole is None or part is None:
            return None
        values = self._beside(_values(part), _values(whole), -1)
        one, all_ = (np.sqrt(_variance(each)) + _rms_error(each) for each in (part, whole))
        rms_error, moved = self._beside(one, all_, 1), self._beside(_moved(part), _moved(whole), 1)
        return SelectedCells(values, 0 * values, 0 * values, rms_error, moved)

    def _part(self, each: Floats) -> Floats:
        """Return (rows,) numbers of the parts, 0 where there is no cell."""
        return np.where(self.place >= 0, np.append(each, 0.0)[self.place], 0.0)

    def _beside(self, part: Floats, whole: Floats, sign: int) -> Floats:
        """Return (rows, 2) numbers of the parts, and of the rests: those of the whole with or less these."""
        own, all_ = self._part(part), whole[self.of]
        known = np.isfinite(own) & np.isfinite(all_)  # of the rest nothing is known either where not
        rest = np.where(known, np.where(known, all_, 0.0) + sign * np.where(known, own, 0.0), np.inf)
        return np.column_stack([own, rest])


def _above(
    name: str, within: tuple[int, Groups], by: Sequence[tuple[int, Groups]]
) -> tuple[int, dict[tuple[str, str], tuple[str, str]]]:
    """Return which column of rows a group is told from, and the group that each of its values lies in."""
    place, outer = within
    column = [other for other, _ in by].index(place)
    inner = by[column][1]
    pairs = np.unique(np.column_stack([inner.of, outer.of]), axis=0)
    if len(pairs) > len(np.unique(pairs[:, 0])):
        raise InputError(
            f"a group lies in several of {plain(name)}, not within one",
            where="query",
            hint="name the larger groups behind `within`",
        )
    names = {
        (inner.codes[one], inner.labels[one]): (outer.codes[other], outer.labels[other])
        for one, other in pairs
    }
    return column, names


def _values(cells: SelectedCells) -> Floats:
    return cells.values[:, 0]


def _variance(cells: SelectedCells) -> Floats:
    return cells.variance[:, 0]


def _step(cells: SelectedCells) -> Floats:
    return cells.step[:, 0]


def _rms_error(cells: SelectedCells) -> Floats:
    return cells.rms_error[:, 0]


def _moved(cells: SelectedCells) -> Floats:
    return cells.moved[:, 0]


WORST = (
    "What the numbers of a row have in common is not worked out here: the interval is that of the worst "
    "case, and wider than it need be."
)


def in_words(query: Query) -> str:
    """Say what the shares of an answer are of."""
    of = "the records that pass the tests behind `where`" if query.where else "all records of the table"
    of = f"in percent of {of}" if query.percent else f"of {of}"
    if query.passing:
        each = " in its row" if query.by else ""
        return f"The answer is how many pass the tests, {of}{each}."
    within = f" within each {' and '.join(name.text for name in query.within)}" if query.within else ""
    return f"Shares are {of}{within}, and together make up the whole."
