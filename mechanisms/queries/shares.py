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

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tabularium.mechanisms.arrays import Floats, Indices, Integers
from tabularium.mechanisms.errors import InputError
from tabularium.mechanisms.queries.attributes import AnyAttribute
from tabularium.mechanisms.queries.estimators import SelectedCells
from tabularium.mechanisms.queries.grammar import Query, plain
from tabularium.mechanisms.queries.measures import MOST_WORK
from tabularium.mechanisms.queries.selection import Axes, Plan, Rows, find
from tabularium.mechanisms.queries.sources import LinearTable, NoisySource, PublishedTable

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
        The rows of :func:`whole_of` and :func:`part_of`.
    of
        (rows of ``part``,) the row of ``whole`` that each is of.
    """

    whole: Rows
    part: Rows
    of: Indices

    @classmethod
    def laid(cls, axes: Axes, whole: Plan, part: Plan, *, made_of_tests: bool) -> Parts:
        """Lay both over the axes of a table: the groups within others, or the same groups.

        Raises
        ------
        InputError
            If the answer would have too many rows, or a group lies in several others.
        """
        wholes, parts = Rows.laid(whole, axes), Rows.laid(part, axes)
        if made_of_tests:  # the part of each group that passes them
            passing = replace(wholes, of=np.where(parts.of >= 0, wholes.of, -1))
            return cls(wholes, passing, np.arange(len(wholes.labels)))
        for name, by in zip(whole.headings, whole.by, strict=True):
            if _inside(parts, Rows.laid(replace(whole, by=(by,)), axes)) is None:
                raise InputError(
                    f"a group lies in several of {plain(name)}, not within one",
                    where="query",
                    hint="name the larger groups behind `within`",
                )
        of = _inside(parts, wholes)
        assert of is not None  # noqa: S101 - they lie within each of its groups
        return cls(wholes, parts, of)

    @property
    def number(self) -> Integers:
        """(rows,) cells of the whole."""
        return self.whole.number[self.of]

    def cells(self, source: NoisySource | PublishedTable) -> SelectedCells | None:
        """Return (rows, 2) what a source knows of every part and of the rest of its whole.

        None where it is no combination of what was measured.

        Raises
        ------
        InputError
            If it needs a suppressed cell.
        """
        cut = isinstance(source, LinearTable) or (self._cut_the_tree and not source.of_leaves_alone)
        # Published levels need not agree, so that what their errors have in common is not known.
        affordable = len(self.of) * self.part.of.size <= MOST_WORK
        if cut and affordable and isinstance(source, NoisySource):
            return self._jointly(source)
        return self._selected(source, at_worst=cut)

    @property
    def _cut_the_tree(self) -> bool:
        """Whether a whole and its part are other nodes of the hierarchy in the same column."""
        if self.whole.axes.tree is None:
            return False
        inside, most = self.whole.of >= 0, np.iinfo(np.intp).max
        low = self.whole.at_tops(np.minimum, np.where(inside, self.part.of, most), most)
        high = self.whole.at_tops(np.maximum, np.where(inside, self.part.of, -2), -2)
        return bool((low < high).any())

    def _jointly(self, source: NoisySource) -> SelectedCells | None:
        """Return parts and rests with what their estimates have in common."""
        found = []
        for place, of in enumerate(self.of):
            own = self.part.of == place
            if (known := source.parts(own, (self.whole.of == of) & ~own)) is None:
                return None
            found.append(known)
        values, covariances = (np.array([each[side] for each in found]) for side in (0, 1))
        return SelectedCells.joint(values, covariances, source.least_variance)

    def _selected(self, source: NoisySource | PublishedTable, *, at_worst: bool) -> SelectedCells | None:
        """Return parts and rests whose estimates may have anything in common, or none where not at worst.

        Then they are in different columns, in each of them all that is in the whole.
        """
        whole, part = source.select(self.whole), source.select(self.part)
        if whole is None or part is None:
            return None

        def beside(name: str, sign: int) -> Floats:
            return _beside(getattr(part, name)[:, 0], getattr(whole, name)[self.of, 0], sign)

        if at_worst:
            one, all_ = (np.sqrt(each.variance[:, 0]) + each.rms_error[:, 0] for each in (part, whole))
            rms_error = _beside(one, all_[self.of], 1)
            return SelectedCells.at_worst(beside("values", -1), rms_error, beside("moved", 1))
        variance, rms_error, moved = (
            np.maximum(beside(name, -1), 0.0) for name in ("variance", "rms_error", "moved")
        )
        steps = np.column_stack([part.step[:, 0], whole.step[self.of, 0]])
        return SelectedCells(
            beside("values", -1), variance, np.where(variance > 0, steps, 0.0), rms_error, moved
        )


def _beside(part: Floats, whole: Floats, sign: int) -> Floats:
    """Return (rows, 2) numbers of the parts, and of the rests: those of the whole with or less these."""
    known = np.isfinite(part) & np.isfinite(whole)  # of the rest nothing is known either where not
    rest = np.where(known, np.where(known, whole, 0.0) + sign * np.where(known, part, 0.0), np.inf)
    return np.column_stack([part, rest])


def _inside(parts: Rows, wholes: Rows) -> Indices | None:
    """Return the row of ``wholes`` that each of ``parts`` lies in; None if one lies in several."""
    cells = parts.of >= 0
    _, first = np.unique(parts.of[cells], return_index=True)
    of = wholes.of[cells][first]
    return of if np.array_equal(of[parts.of[cells]], wholes.of[cells]) else None


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
