"""Answers: the query put to whatever knows its cells best, with what its errors are and how that is known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tabularium.mechanisms.arrays import Floats, Integers
from tabularium.mechanisms.errors import InputError
from tabularium.mechanisms.inference.margins_of_error.half_widths import quantile
from tabularium.mechanisms.queries.attributes import AnyAttribute, listed
from tabularium.mechanisms.queries.estimators import SelectedCells
from tabularium.mechanisms.queries.grammar import PROPERTIES, Measure, Query, Word, parse
from tabularium.mechanisms.queries.measures import (
    NUMBERS,
    WORST,
    MeasuredAttribute,
    Parts,
    SizeHistogram,
    Values,
    asked_of,
    condition_on_totals,
    estimate_property,
    evaluate,
    in_words,
    measure_in,
    part_of,
    whole_of,
)
from tabularium.mechanisms.queries.selection import Plan, Rows, bind
from tabularium.mechanisms.queries.sources import NoisySource, PublishedCells, PublishedTable, QuerySource

Source = NoisySource | PublishedTable


@dataclass(frozen=True, eq=False)
class _Bound:
    """A query as it is put to one table; ``parts`` for shares."""

    table: QuerySource
    query: Query
    plan: Plan
    rows: Rows
    parts: Parts | None = None

    @property
    def number(self) -> Integers:
        """(rows,) how many cells each row is made of."""
        return self.rows.number if self.parts is None else self.parts.number

    @property
    def numbers(self) -> tuple[Floats, Floats]:
        """The smallest and largest number of a record in each cell of what is measured."""
        return self.plan.numbers if self.parts is None else (NUMBERS, NUMBERS)

    @property
    def is_shown(self) -> bool:
        """Whether what is asked is what is published of a measure."""
        measured = measure_in(self.table)
        return measured is not None and measured.is_shown(self.query)

    def cells(self, source: Source) -> SelectedCells | None:
        """Return what a source knows; None where it is no combination of what was measured."""
        return source.select(self.rows) if self.parts is None else self.parts.cells(source)

    def evaluated(self, cells: SelectedCells, level: float) -> Values:
        """Return what is asked for, from its cells."""
        query, measured = self.query, measure_in(self.table)
        if query.measure == "share":
            result = evaluate("average", cells, *self.numbers, level)
            # Ends are searched for: 0 and 1 are hit all but exactly.
            values = replace(result, low=np.round(result.low, 9), high=np.round(result.high, 9))
            return values.times(100.0) if query.percent else values
        signed = measured is not None and measured.signed
        values = evaluate(query.measure, cells, *self.numbers, level, share=query.share, signed=signed)
        return values.times(measured.unit) if measured is not None and query.measure == "sum" else values

    def width(self, cells: SelectedCells, level: float) -> float:
        """Return how well the counts are known, whatever is computed from them: the yardstick for sources."""
        measured, weights = measure_in(self.table), np.ones(cells.values.shape[1])
        if self.query.measure == "share":
            weights = NUMBERS - 0.5
        elif measured is not None:
            numbers = measured.unit * self.numbers[0]
            weights = {"sum": numbers, "average": numbers - numbers.mean()}.get(self.query.measure, weights)
        return float((cells.weighted(weights, level).half ** 2).sum())


@dataclass(frozen=True, eq=False)
class _Candidate:
    put: _Bound
    source: Source
    cells: SelectedCells
    width: float


def ask(
    text: str | Query,
    tables: Sequence[QuerySource],
    *,
    level: float = 0.9,
    source: str | None = None,
    histograms: Sequence[SizeHistogram] = (),
) -> Answer:
    """Answer a query.

    Parameters
    ----------
    text
        The query, or what is read from it; see :mod:`tabularium.mechanisms.queries.grammar`.
    tables
        Tables and arrays of measures. Of those that have all attributes, and count the records that are
        asked for, the one is taken that knows the numbers behind the answer best.
    level
        Probability of the intervals.
    source
        ``"measurements"`` or ``"tables"`` to have it from there; by default what is known of every
        sum, and of several such sources the one with the narrower intervals.
    histograms
        Histograms of sizes, whose properties can be asked.

    Raises
    ------
    InputError
        Saying what in the query is not understood or not known, or that no table can answer it.

    Examples
    --------
    >>> import numpy as np
    >>> from tabularium.mechanisms.queries import Attribute, Axes, Measurement, NoisyTable, QueryTable
    >>> axes = Axes(None, (Attribute.bins("age", [0, 20, 65, 100]), Attribute.categories("sex", ["F", "M"])))
    >>> noisy = Measurement(np.array([0]), np.array([[[30, 31], [52, 48], [20, 12]]]), 199.8, 10.0)
    >>> people = QueryTable("people", axes, NoisyTable(axes, (noisy,)))
    >>> row = ask("count where age < 65 and sex = F", [people]).rows[0]
    >>> row.value, row.low, row.high
    (82.0, 49.0, 115.0)
    """
    if not 0 < level < 1:
        raise InputError("the level is not between 0 and 1", where="level", hint="0.9 means 90 percent")
    query = parse(text) if isinstance(text, str) else text
    if query.measure in PROPERTIES:
        return _of_property(query, histograms, level)
    if not tables:
        raise InputError("there is no table of counts", where="query", hint="ask a release that has one")
    put = _shares(query, tables) if query.measure == "share" else _bound(query, tables)
    if not put[0].number.size:
        raise no_rows()
    candidates, cut = [], False
    for each in put:
        for known in _sources(each, source):
            if (cells := each.cells(known)) is None:
                cut = True
            else:
                candidates.append(_Candidate(each, known, cells, each.width(cells, level)))
    if cut and not candidates:
        raise InputError(
            "some of this cuts groups of cells, and only the sums of these were measured",
            where="query",
            hint="leave out `--from measurements`: published cells answer it, spread evenly within a group",
        )
    if not candidates:
        return _of_single_cells(put, level, source)
    # What is known of every sum goes before what is known on average, even where that is narrower: to choose
    # by widths that depend on what was drawn would pick the runs in which they are too narrow.
    best = min(
        candidates,
        key=lambda each: (isinstance(each.source, PublishedTable) and each.source.noise is None, each.width),
    )
    asked, used = best.put, tuple[str, ...]()
    values, published = asked.evaluated(best.cells, level), _published(best, level)
    if asked.query.measure == "count" and isinstance(best.source, NoisySource):
        values, used = condition_on_totals(best.source, asked.table.known, asked.rows, values, level)
    worst = best.source.method not in ("added up", "unknown") and bool(best.cells.rms_error.any())
    shares = in_words(query) if query.measure == "share" else ""
    answer = _answer(asked, best.source, values, published, level)
    shares = f"{shares} {WORST}" if shares and worst else shares
    return replace(
        answer, invariants=used, spread=cut and not isinstance(best.source, NoisySource), shares=shares
    )


def _answer(
    put: _Bound, source: Source | PublishedCells, values: Values, published: Floats, level: float
) -> Answer:
    query, numbers, measured = put.query, put.numbers, measure_in(put.table)
    columns = (values.value, values.standard_error, values.low, values.high, published)
    labels = enumerate(put.rows.labels)
    return Answer(
        query.measure,
        put.plan.headings,
        tuple(Row(group, *(_known(column[row]) for column in columns)) for row, group in labels),
        level,
        put.table.name,
        source.method,
        int(put.number.max()) // (1 if measured is None else len(numbers[0])),
        query.measure not in {"count", "share"} and bool((numbers[0] < numbers[1]).any()),
        None if query.up_to is None else query.up_to.text,
        measured,
    )


def _of_property(query: Query, histograms: Sequence[SizeHistogram], level: float) -> Answer:
    histogram, result = estimate_property(query, histograms)
    row = Row((), result.value, None, None, None, None)
    estimator = f"Estimator: {result.estimator} ({result.source}). {result.error}"
    return Answer(
        query.measure, (), (row,), level, histogram.name, "estimated", 0, False, estimator=estimator
    )


def _sources(put: _Bound, wanted: str | None) -> list[Source]:
    table = put.table
    noisy = [] if table.noisy is None or wanted == "tables" else [table.noisy]
    if noisy and put.parts is not None and (alternative := noisy[0].alternative) is not None:
        noisy.append(alternative)
    published = [] if table.published is None or wanted == "measurements" else [table.published]
    if noisy and published and (published[0].noise is not None or np.isnan(published[0].values).any()):
        published = []  # the same noise, moved, which is never better known; or some of it is suppressed
    return [*noisy, *published]


def _shares(query: Query, tables: Sequence[QuerySource]) -> list[_Bound]:
    """Return a query for shares as it is put to the tables that know both parts and wholes."""
    put, failed = [], []
    for whole in _bound(whole_of(query), tables):
        try:
            (part,) = _bound(part_of(query, whole.table.axes.attributes), [whole.table])
        except InputError as error:
            failed.append(error)
            continue
        parts = Parts.of_plans(whole.plan, part.plan, whole.table.axes, made_of_tests=bool(query.passing))
        put.append(_Bound(whole.table, query, part.plan, parts.part, parts))
    if not put:
        _bound(part_of(query), tables)  # which says what of several tables is missing
        raise failed[0]
    return put


def _bound(query: Query, tables: Sequence[QuerySource]) -> list[_Bound]:
    put = asked_of(query, tables)
    result, failed = [], []
    for table, own in put:
        try:
            result.append((table, own, bind(own, table.axes.attributes)))
        except InputError as error:
            failed.append(error)
    if result:
        return [_Bound(*item, Rows.laid(item[2], item[0].axes)) for item in result]
    failed += _of_other_records(query, tables)
    if len(failed) == 1 or not put:
        raise failed[0]
    # Is it that something is not known at all, or only not in one table?
    everything: dict[str, AnyAttribute] = {}
    for table, _ in put:
        for attribute in table.axes.attributes:
            other = everything.get(attribute.name)
            if other is None or other.cells < attribute.cells:
                everything[attribute.name] = attribute
    bind(put[0][1], list(everything.values()))
    shown = [f"{table.name}: {', '.join(a.name for a in table.axes.attributes)}" for table, _ in put]
    raise InputError(
        "no table has all that is asked for", where="query", hint=f"ask of one of {listed(shown, 12)}"
    )


def _of_other_records(query: Query, tables: Sequence[QuerySource]) -> list[InputError]:
    """Return why tables of other records could not answer, were they named; refuse if one of them could."""
    failed = []
    for other in tables:
        if other.asked(query) is not None:
            continue
        try:
            named = asked_of(replace(query, table=Word(other.name, 1)), [other])
            for table, own in named:
                bind(own, table.axes.attributes)
        except InputError as error:
            failed.append(error)
            continue
        if named:
            raise InputError(
                f"no table of all records answers this, and table {other.name} counts only some of them",
                where="query",
                hint=f"write `from {other.name}` if you mean those, or the tests of its `where`",
            )
        failed.append(no_rows())
    return failed


def _of_single_cells(put: Sequence[_Bound], level: float, source: str | None) -> Answer:
    """Return an answer whose rows are published cells of a measure that does not add up."""
    known = [] if source == "measurements" else [item for item in put if item.table.single is not None]
    for item in known:
        single = item.table.single
        if single is None or not item.is_shown or level != single.level:
            continue
        cells = _single(item, single)
        if np.isnan(cells.values).any():
            continue
        (value,), (margin,) = cells.values.T, cells.moved.T
        error = np.where(np.isfinite(margin), margin / quantile(level), np.nan)
        low = value - margin if item.query.measure != "distinct" else np.maximum(value - margin, 0)
        return _answer(item, single, Values(value, error, low, value + margin), value, level)
    if known:
        measured = measure_in(known[0].table)
        more = "; a release with its measurements answers more"
        raise InputError(
            "published numbers of this measure do not make those of several cells, or at another level",
            where="query",
            hint=f"ask for one published cell a row{more if measured is None or measured.additive else ''}",
        )
    raise InputError(
        "this release holds no measurements that a query could be answered from",
        where="--from measurements",
        hint="leave the option out: the published tables are used",
    )


def _single(put: _Bound, single: PublishedCells) -> SelectedCells:
    """Return rows that are one published cell with their margins as ``moved``; not a number of others."""
    plan = replace(put.plan, of=None, numbers=(np.ones(1), np.ones(1)))
    return single.select(Rows.laid(plan, single.axes))


def _published(best: _Candidate, level: float) -> Floats:
    """Return what the published cells say, NaN where they say nothing of that kind."""
    put, table = best.put, best.put.table
    if table.single is not None and put.is_shown:
        return _single(put, table.single).values[:, 0]
    nothing = np.full(best.cells.rows, np.nan)
    if table.published is None or put.query.measure in {"quantile", "min", "max"}:
        return nothing
    cells: SelectedCells | None = best.cells
    if best.source is not table.published:
        try:
            cells = put.cells(table.published)
        except InputError:  # some of them are suppressed
            return nothing
    assert cells is not None  # noqa: S101 - published cells make up everything
    return put.evaluated(cells, level).value


def _known(number: float) -> float | None:
    return float(number) + 0.0 if math.isfinite(number) else None  # zero has no sign


def no_rows() -> InputError:
    """Return the error for a query that chooses no cell."""
    return InputError("no cell fits all the tests", where="query", hint="check what stands behind `where`")


METHODS = {
    "noise": (
        "From the noisy measurement of every cell before post-processing. Its noise is independent and of "
        "known variance, so the variance of a sum is exact; the interval holds for each row by itself."
    ),
    "least squares": (
        "From all noisy measurements before post-processing, of cells, of sums of cells and of levels, by "
        "weighted least squares. The variance is exact, with what the estimates of different cells have in "
        "common; the interval holds for each row by itself."
    ),
    "chosen sums": (
        "From the noisy measurements before post-processing. Noise decided which groups of cells were "
        "measured together: a row that is made of such groups is answered from their sums, which were drawn "
        "afterwards, and any other from what was drawn before. The variance is exact in either case, and the "
        "interval holds for each row by itself."
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
    "single cell": (
        "From published cells, each row one of them, with their margins of error: there are no published "
        "measurements from which more could be known."
    ),
    "estimated": (
        "From the published histogram of sizes, by an estimator for exact sizes. Its own error is that of "
        "the records as a sample of what they might have been; the noise of the release comes on top. How "
        "much both make depends on the data, so there is no interval."
    ),
    "unknown": "From the published cells. Nothing is known of their errors, so there are no intervals.",
}


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
        Where the last bin ends as the query states; None where it does not.
    of
        The measure of the table that it was computed from, with its bounds; None for counts.
    invariants
        Names of the public numbers that were made use of.
    spread
        Whether rows cut groups of cells where only the sums were measured: published cells answer.
    shares
        What shares are of, as a sentence; empty for anything else.
    estimator
        How a property of a histogram was estimated, and what is known of its error, in sentences.
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
    of: MeasuredAttribute | None = None
    invariants: tuple[str, ...] = ()
    spread: bool = False
    shares: str = ""
    estimator: str = ""


def describe(answer: Answer) -> str:
    """Return how the intervals of an answer are made, in sentences."""
    sentences = [METHODS[answer.method]]
    if answer.estimator:
        sentences.append(answer.estimator)
    if answer.spread:
        sentences.append(
            "What is asked is no combination of what was measured: it cuts groups of cells. Only "
            "the sums of these were measured; their counts are spread evenly within each group."
        )
    if answer.shares:
        sentences.append(
            f"{answer.shares} The interval of a share holds every ratio that the part and the rest allow."
        )
    if answer.measure == "average":
        sentences.append(
            "The interval of an average holds every ratio that the sum and the count together allow."
        )
    if answer.measure in {"min", "max"}:
        sentences.append(
            "The answer is the most extreme value that surely occurs; what lies beyond it in the interval "
            "may occur so rarely that noise hides it."
        )
    if answer.invariants:
        sentences.append(
            f"Made use of are the public numbers {' and '.join(answer.invariants)}: what they fix is exact, "
            "and a part of it is known better."
        )
    if answer.of is not None:
        sentences.append(answer.of.about)
    if answer.measure == "quantile":
        sentences.append(
            "The interval of a quantile holds every number that could have this share of all up to it."
        )
    if answer.binned and answer.measure in {"sum", "average", "quantile"}:
        sentences.append(
            "Numbers are published in bins: the answer takes every record at the middle of its bin, and the "
            "interval holds whatever their spread inside the bins could make of it."
        )
    if answer.up_to is not None:
        sentences.append(f"The last bin was taken to end at {answer.up_to}, as the question says.")
    return " ".join(sentences)
