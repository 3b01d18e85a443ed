"""Answers: the query put to whatever knows its cells best, with what its errors are and how that is known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mechanisms.errors import InputError
from mechanisms.inference.arrays import Floats
from mechanisms.queries.answer_sources import NoisyTable, PublishedTable, Source
from mechanisms.queries.attributes import AnyAttribute, listed
from mechanisms.queries.grammar import Measure, Query, parse
from mechanisms.queries.measures import evaluate
from mechanisms.queries.query_plan import Plan, plans
from mechanisms.queries.selected_cells import SelectedCells, laid_together
from mechanisms.queries.selection import Axes, Selection

METHODS = {
    "noise": (
        "From the noisy measurement of every cell before post-processing. Its noise is independent and of "
        "known variance, so the variance of a sum is exact; the interval holds for each row by itself."
    ),
    "least squares": (
        "From the noisy measurements of all levels before post-processing, by weighted least squares. The "
        "variance is exact, with what the estimates of different cells have in common; the interval holds "
        "for each row by itself."
    ),
    "published": (
        "From the published cells. The variance of their noise is exact; what non-negativity and rounding "
        "moved is taken from the published margins and added up in full. The interval holds for each row by "
        "itself, and is wide for sums over many cells."
    ),
    "added up": (
        "From the published cells, whose errors may go together in any way: their margins are added up, the "
        "worst case (Cauchy-Schwarz). Where margins hold on average over the cells and not for each, as the "
        "certificate says, so do these intervals: on average over sums of this size."
    ),
    "unknown": "From the published cells. Nothing is known of their errors, so there are no intervals.",
}


class Askable(Protocol):
    """A table that can be asked. What it knows is looked at only when it is the one asked for."""

    @property
    def name(self) -> str:
        """Of the table."""

    @property
    def axes(self) -> Axes:
        """Its attributes."""

    @property
    def noisy(self) -> NoisyTable | None:
        """Its noisy measurements, where they are published and have a known distribution."""

    @property
    def published(self) -> PublishedTable | None:
        """Its published cells, where there are any."""


@dataclass(frozen=True, eq=False)
class QueryTable:
    """A table in memory; see :class:`Askable`."""

    name: str
    axes: Axes
    noisy: NoisyTable | None = None
    published: PublishedTable | None = None


@dataclass(frozen=True)
class Row:
    """One line of an answer; None where there is nothing to say.

    Attributes
    ----------
    group
        (code, label) for each name of the query's ``by``.
    value, standard_error, low, high
        The estimate, the root mean square of its error (or a bound of it), and the interval.
    published
        The same computed from the published cells.
    """

    group: tuple[tuple[str, str], ...]
    value: float | None
    standard_error: float | None
    low: float | None
    high: float | None
    published: float | None


@dataclass(frozen=True)
class Answer:
    """What came out.

    Attributes
    ----------
    measure
        What was computed.
    headings
        The names of the query's ``by``.
    rows
        One for each combination of groups that has cells.
    level
        Of the intervals.
    table, method
        Which table, and how its errors are known: a key of ``METHODS``.
    cells
        How many cells of the measured table the largest row sums.
    binned
        Whether numbers are known up to bins only, so that the intervals hold more than noise.
    up_to
        Where the last bin ends on the word of whoever asked; None where nobody said.
    """

    measure: Measure
    headings: tuple[str, ...]
    rows: tuple[Row, ...]
    level: float
    table: str
    method: str
    cells: int
    binned: bool
    up_to: str | None = None


@dataclass(frozen=True, eq=False)
class _Candidate:
    table: Askable
    plans: tuple[Plan, ...]
    source: Source
    cells: SelectedCells
    width: float


def ask(
    text: str,
    tables: Sequence[Askable],
    *,
    level: float = 0.9,
    source: str | None = None,
) -> Answer:
    """Answer a query.

    Parameters
    ----------
    text
        The query; see :mod:`mechanisms.queries.grammar`.
    tables
        Tables over the same records. Of those that have all attributes, the one is taken that knows the
        counts behind the answer best.
    level
        Probability of the intervals.
    source
        ``"measurements"`` or ``"tables"`` to have it from there; by default what is known of every
        sum, and of several such sources the one with the narrower intervals.

    Raises
    ------
    InputError
        Saying what in the query is not understood or not known, or that no table can answer it.

    Examples
    --------
    >>> import numpy as np
    >>> from mechanisms.queries import Attribute, Axes, Measurement, NoisyTable, QueryTable
    >>> axes = Axes(None, (Attribute.bins("age", [0, 20, 65, 100]), Attribute.categories("sex", ["F", "M"])))
    >>> noisy = Measurement(np.array([0]), np.array([[[30, 31], [52, 48], [20, 12]]]), 199.8, 10.0)
    >>> people = QueryTable("people", axes, NoisyTable(axes, (noisy,)))
    >>> row = ask("count where age < 65 and sex = F", [people]).rows[0]
    >>> row.value, row.low, row.high
    (82.0, 49.0, 115.0)
    """
    if not 0 < level < 1:
        raise InputError("the level is not between 0 and 1", where="level", mend="0.9 means 90 percent")
    query = parse(text)
    best = _best(query, tables, level, source)
    if not best.cells.rows:
        raise no_rows()
    numbers = best.plans[0].numbers
    values = evaluate(query.measure, best.cells, *numbers, level)
    published = _published(best, query, numbers, level)
    selections = [Selection.of(each, best.table.axes) for each in best.plans]
    number = np.sum([each.cells() for each in selections], axis=0)
    labels = [each for each, some in zip(selections[0].labels(), number > 0, strict=True) if some]
    columns = (values.value, values.standard_error, values.low, values.high, published)
    rows = tuple(
        Row(group, *(_known(column[place]) for column in columns)) for place, group in enumerate(labels)
    )
    binned = query.measure != "count" and bool((numbers[0] < numbers[1]).any())
    return Answer(
        query.measure,
        best.plans[0].headings,
        rows,
        level,
        best.table.name,
        best.source.method,
        int(number.max()) * best.cells.values.shape[1],
        binned,
        None if query.up_to is None else query.up_to.text,
    )


def _best(query: Query, tables: Sequence[Askable], level: float, source: str | None) -> _Candidate:
    found = [
        _candidate(table, made, known, level)
        for table, made in _plans(query, tables)
        for known in _sources(table, source)
    ]
    if not found:
        raise InputError(
            "this release holds no measurements that a query could be answered from",
            where="--from measurements",
            mend="leave the option out: the published tables are used",
        )
    # What is known of every sum goes before what is known on average, even where that is narrower: to choose
    # by widths that depend on what was drawn would pick the runs in which they are too narrow.
    return min(found, key=lambda candidate: (not _of_noise(candidate.source), candidate.width))


def _of_noise(source: Source) -> bool:
    return isinstance(source, NoisyTable) or source.noise is not None


def _sources(table: Askable, wanted: str | None) -> list[Source]:
    noisy = [] if table.noisy is None or wanted == "tables" else [table.noisy]
    published = [] if table.published is None or wanted == "measurements" else [table.published]
    if noisy and published and published[0].noise is not None:
        published = []  # the same noise, moved: never better known
    return [*noisy, *published]


def _selected(source: Source, made: tuple[Plan, ...], axes: Axes) -> SelectedCells:
    """Return the cells of all plans, which share none, as the rows of one answer."""
    parts = [source.select(each) for each in made]
    if len(parts) == 1:
        return parts[0]
    some = np.array([Selection.of(each, axes).cells() > 0 for each in made])
    place = np.cumsum(some.any(axis=0)) - 1
    of = made[0].of
    masks = np.ones((len(made), 1), bool) if of is None else np.array([each.masks[of] for each in made])
    column = np.cumsum(masks.any(axis=0)) - 1
    shape = int(place[-1]) + 1, int(column[-1]) + 1
    return laid_together(parts, [place[each] for each in some], [column[each] for each in masks], shape)


def _candidate(table: Askable, made: tuple[Plan, ...], source: Source, level: float) -> _Candidate:
    cells = _selected(source, made, table.axes)
    # By how well the counts are known, whatever is computed from them: the same yardstick for all.
    counted = cells.weighted(np.ones(cells.values.shape[1]), level)
    return _Candidate(table, made, source, cells, float((counted.half**2).sum()))


def _plans(query: Query, tables: Sequence[Askable]) -> list[tuple[Askable, tuple[Plan, ...]]]:
    found, failed = [], []
    for table in tables:
        try:
            made = plans(query, table.axes.attributes, tree=table.axes.tree is not None)
            found.append((table, made))
        except InputError as error:
            failed.append(error)
    if found:
        return found
    if len(failed) == 1:
        raise failed[0]
    # Is it that something is not known at all, or only not in one table?
    everything: dict[str, AnyAttribute] = {}
    for table in tables:
        for attribute in table.axes.attributes:
            other = everything.get(attribute.name)
            if other is None or other.cells < attribute.cells:
                everything[attribute.name] = attribute
    plans(query, list(everything.values()))
    shown = [f"{table.name}: {', '.join(a.name for a in table.axes.attributes)}" for table in tables]
    raise InputError(
        "no table has all that is asked for", where="query", mend=f"ask of one of {listed(shown, 12)}"
    )


def _published(best: _Candidate, query: Query, numbers: tuple[Floats, Floats], level: float) -> Floats:
    """Return what the published cells say, NaN where they say nothing of that kind."""
    nothing = np.full(best.cells.rows, np.nan)
    if best.table.published is None or query.measure in {"min", "max"}:
        return nothing
    source = best.table.published
    cells = best.cells if best.source is source else _selected(source, best.plans, best.table.axes)
    return evaluate(query.measure, cells, *numbers, level).value


def _known(number: float) -> float | None:
    return float(number) if math.isfinite(number) else None


def explain(answer: Answer) -> str:
    """Return how the intervals of an answer are made, in sentences."""
    said = [METHODS[answer.method]]
    if answer.measure == "average":
        said.append("The interval of an average holds every ratio that the sum and the count together allow.")
    if answer.measure in {"min", "max"}:
        said.append(
            "The answer is the most extreme value that surely occurs; what lies beyond it in the interval "
            "may occur so rarely that noise hides it."
        )
    if answer.binned and answer.measure in {"sum", "average"}:
        said.append(
            "Numbers are published in bins: the answer takes every record at the middle of its bin, and the "
            "interval holds whatever their spread inside the bins could make of it."
        )
    if answer.up_to is not None:
        said.append(f"The last bin was taken to end at {answer.up_to}, as the question says.")
    return " ".join(said)


def no_rows() -> InputError:
    """Return the error for a query that chooses no cell."""
    return InputError("no cell fits all the tests", where="query", mend="check what stands behind `where`")
