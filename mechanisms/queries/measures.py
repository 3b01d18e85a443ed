"""Measures: count, sum, average, quantile, minimum, maximum and share, with intervals.

Each interval holds the true answer with at least the stated probability, over the noise of many such
releases, for each row by itself, and whatever the spread of the records inside their bins could give. An
average is a ratio of two numbers that err together (Fieller 1954), a share that of a number which is 1 for
the records of a part and 0 for the rest of its whole. How each is made stands on the page on errors of
answers. Properties of a histogram of sizes have estimates and no intervals. Everything is made from released
numbers, and costs no budget.

Source: the measures are those of Xiao, Xiong, Yuan 2010, section 4.4, which gives no errors for averages.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import NoReturn

import numpy as np

from tabularium.mechanisms.arrays import Bools, Floats, Indices, Integers
from tabularium.mechanisms.errors import InputError
from tabularium.mechanisms.histograms.histogram_properties import (
    Estimated,
    distance_to_uniformity,
    entropy,
    support_size,
)
from tabularium.mechanisms.inference import margins
from tabularium.mechanisms.queries.attributes import AnyAttribute, Attribute, close, listed
from tabularium.mechanisms.queries.estimators import SelectedCells
from tabularium.mechanisms.queries.grammar import PROPERTIES, Measure, Op, Query, Word, plain, query_error
from tabularium.mechanisms.queries.selection import Axes, CellClasses, Plan, Rows, find, known_names
from tabularium.mechanisms.queries.sources import (
    KnownSums,
    LinearTable,
    NoisySource,
    PublishedTable,
    QuerySource,
)

_HALVINGS = 40
_PERCENT = 100
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Values:
    """The answers of all rows; NaN where there is none, infinite limits where nothing is known."""

    value: Floats
    standard_error: Floats
    low: Floats
    high: Floats

    def times(self, unit: float) -> Values:
        """Return them in a unit that is so many times smaller."""
        return Values(unit * self.value, unit * self.standard_error, unit * self.low, unit * self.high)


def evaluate(
    measure: Measure,
    cells: SelectedCells,
    low: Floats,
    high: Floats,
    level: float,
    *,
    share: float = 0.5,
    signed: bool = False,
) -> Values:
    """Return a measure of every row.

    Parameters
    ----------
    low, high
        (cells,) smallest and largest number of a record in each cell; anything for a count.
    share
        Of a quantile: the part of the records up to it.
    signed
        Of a sum: whether the cells themselves may truly be less than zero, as no number of records is.
    """
    if measure == "count":
        return _count(cells, level)
    if measure == "sum":
        return _sum(cells, low, high, level, signed=signed)
    if measure == "average":
        return _average(cells, low, high, level)
    if measure == "quantile":
        return _quantile(cells, low, high, share, level)
    if measure == "max":
        return _largest(cells, low, high, level)
    mirrored = _largest(cells, -high, -low, level)
    return Values(-mirrored.value, mirrored.standard_error, -mirrored.high, -mirrored.low)


def _count(cells: SelectedCells, level: float) -> Values:
    result = cells.weighted(np.ones(cells.values.shape[1]), level)
    lifted = np.maximum(result.value, 0)
    low, high = np.maximum(lifted - result.half, 0), lifted + result.half
    return Values(result.value, result.standard_error, np.where(np.isfinite(high), low, np.nan), high)


def _sum(cells: SelectedCells, low: Floats, high: Floats, level: float, *, signed: bool) -> Values:
    middle = cells.weighted((low + high) / 2, level)
    below, above = cells.weighted(low, level), cells.weighted(high, level)
    # A sum of numbers that all have one sign has that sign; where nothing is known, that is no interval.
    first, last = -np.inf, np.inf
    if (low >= 0).all() and not signed:
        first = 0.0
    if (high <= 0).all() and not signed:
        last = 0.0
    least, most = (
        np.clip(below.value, first, last) - below.half,
        np.clip(above.value, first, last) + above.half,
    )
    known = np.isfinite(most - least)
    least, most = np.clip(least, first, last), np.clip(most, first, last)
    return Values(
        middle.value, middle.standard_error, np.where(known, least, np.nan), np.where(known, most, np.nan)
    )


def _average(cells: SelectedCells, low: Floats, high: Floats, level: float) -> Values:
    count = cells.weighted(np.ones(len(low)), level).value
    some = count > 0
    divisor = np.where(some, count, 1.0)
    value = np.clip(cells.weighted((low + high) / 2, level).value / divisor, low.min(), high.max())
    error = cells.weighted((low + high) / 2 - value[:, None], level).standard_error / divisor
    least = -_upper_average(cells, -low, divisor, level)
    most = _upper_average(cells, high, divisor, level)
    return Values(
        np.where(some, value, np.nan),
        np.where(some, error, np.inf),
        np.where(some, least, low.min()),
        np.where(some, most, high.max()),
    )


def _upper_average(cells: SelectedCells, numbers: Floats, count: Floats, level: float) -> Floats:
    """Return the largest average of ``numbers`` that the cells do not contradict, for positive counts.

    Above the estimate, |Σ(number - θ)·cell| grows linearly in θ and its half-width is convex, so without
    lifting what is contradicted is an interval: if the largest number is, all from one crossing on. Lifting
    contradicts less, so whatever crossing is found lies no lower than that one.
    """
    least, most = float(numbers.min()), float(numbers.max())

    def contradicted(average: Floats) -> Bools:
        weights = numbers - average[:, None]
        above, below = (np.maximum(item, 0) * cells.values for item in (weights, -weights))
        apart = np.maximum(above.sum(axis=1), 0) - np.maximum(below.sum(axis=1), 0)
        return np.asarray(np.abs(apart) > cells.weighted(weights, level).half)

    inside = np.clip(cells.weighted(numbers, level).value / count, least, most)
    outside = np.maximum(inside, most)
    open_end = ~contradicted(outside)
    limit = _crossing(contradicted, inside, outside)
    return np.clip(np.where(open_end, most, limit), least, most)


def _crossing(beyond: Callable[[Floats], Bools], inside: Floats, outside: Floats) -> Floats:
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        out = beyond(middle)
        inside, outside = np.where(out, inside, middle), np.where(out, middle, outside)
    return outside


def _quantile(cells: SelectedCells, low: Floats, high: Floats, share: float, level: float) -> Values:
    order = np.argsort(low, kind="stable")
    low, high = low[order], high[order]
    result, last = cells.excess(order, share, level), len(low) - 1
    some = cells.values.sum(axis=1) > 0
    at = np.minimum((result.value < -_ROUNDING).sum(axis=1), last)
    first = np.argmax(result.value + result.half >= 0, axis=1)  # at the last number all records are counted
    before = result.value[:, :-1] - result.half[:, :-1] < 0
    final = np.where(before.any(axis=1), last - np.argmax(before[:, ::-1], axis=1), 0)
    # Noise may leave nothing: then the two tests contradict each other, and both ends are kept.
    first, final = np.minimum(first, final), np.maximum(first, final)
    return Values(
        np.where(some, ((low + high) / 2)[at], np.nan),
        np.full(cells.rows, np.nan),
        np.where(some, low[first], low[0]),
        np.where(some, high[final], high[-1]),
    )


def _largest(cells: SelectedCells, low: Floats, high: Floats, level: float) -> Values:
    """Return bounds of the maximum; its value is the least number of the last cell that surely has any."""
    order = np.argsort(low, kind="stable")
    low, high = low[order], high[order]
    result = cells.tails(order, level)
    # All tails up to the last one that surely has records; all tails from the first one that surely has none.
    least = np.cumprod(result.value > result.half, axis=1).sum(axis=1) - 1
    empty = result.value + result.half < 1
    most = len(low) - 1 - np.cumprod(empty[:, ::-1], axis=1).sum(axis=1)
    most = np.maximum(most, least)
    return Values(
        np.where(least >= 0, low[least], np.nan),
        np.full(cells.rows, np.nan),
        np.where(most >= 0, low[np.maximum(least, 0)], np.nan),
        np.where(most >= 0, high[most], np.nan),
    )


MOST_WORK = 20_000_000
"""Rows of an answer times cells of the table up to which invariants are made use of."""


def condition_on_totals(
    table: NoisySource, known: Sequence[KnownSums], rows: Rows, counts: Values, level: float
) -> tuple[Values, tuple[str, ...]]:
    """Return counts, which only measurements gave, with what invariants say of them, and whose names."""
    if not known or len(rows.labels) * math.prod(table.axes.shape) * len(table.axes.parents) > MOST_WORK:
        return counts, ()
    result = [item.copy() for item in (counts.value, counts.standard_error, counts.low, counts.high)]
    used: dict[str, None] = {}
    for row in range(len(rows.labels)):
        cells = rows.cells == row
        variance, value, most, name = min(
            (_conditioned(table, item, cells) for item in known), key=itemgetter(0)
        )
        if variance >= 0.999 * counts.standard_error[row] ** 2:
            continue
        used[name] = None
        step = min(1.0, math.sqrt(variance / table.least_variance))
        half = float(margins(np.array([variance + step**2 / 12]), level)[0]) + step / 2
        ends = (0.0, most) if variance > 0 else (value, value)
        low, high = (min(max(value + sign * half, ends[0]), ends[1]) for sign in (-1, 1))
        for column, number in zip(result, (value, math.sqrt(variance), low, high), strict=True):
            column[row] = number
    return Values(*result), tuple(used)


def _conditioned(table: NoisySource, known: KnownSums, cells: Bools) -> tuple[float, float, float, str]:
    """Return the variance of a count given one invariant, its value, its bound, and the invariant's name."""
    groups = known.groups.reshape(cells.shape)
    cells = cells & table.possible
    touched = np.zeros(len(known.values), bool)
    touched[groups[cells]] = True
    whole, most = touched[groups] & table.possible, float(known.values[touched].sum())
    if most == 0 or (whole == cells).all():
        return 0.0, most, most, known.name
    result = table.parts(cells, whole & ~cells)
    if result is None:
        return math.inf, most, most, known.name
    values, covariances = result
    both, of_whole = float(covariances[0].sum()), float(covariances.sum())
    value = float(values[0] + both / of_whole * (most - values.sum()))
    return max(float(covariances[0, 0]) - both**2 / of_whole, 0.0), value, most, known.name


# --- shares of a whole

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
    """The rows of :func:`whole_of` and :func:`part_of`, and the whole, ``of``, of each part."""

    whole: Rows
    part: Rows
    of: Indices

    @classmethod
    def of_plans(cls, whole: Plan, part: Plan, axes: Axes, *, made_of_tests: bool) -> Parts:
        """Return the groups within others, or what of the same groups passes tests."""
        classes = CellClasses.of_plans(axes.attributes, whole, part)
        wholes, parts = Rows.laid(whole, axes, classes), Rows.laid(part, axes, classes)
        if made_of_tests:
            passing = replace(wholes, of=np.where(parts.of >= 0, wholes.of, -1))
            return cls(wholes, passing, np.arange(len(wholes.labels)))
        for name, by in zip(whole.headings, whole.by, strict=True):
            if _inside(parts, Rows.laid(replace(whole, by=(by,)), axes, classes)) is None:
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
        """Return (rows, 2) what a source knows of every part and the rest of its whole; None as it does."""
        cut = isinstance(source, LinearTable) or (self._cut_the_tree and not source.of_leaves_alone)
        # Published levels need not agree, so that what their errors have in common is not known.
        cut = cut or (isinstance(source, PublishedTable) and self._read_apart(source.present))
        affordable = len(self.of) * len(self.part.leaves) * math.prod(self.part.axes.shape) <= MOST_WORK
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

    def _read_apart(self, present: Bools) -> bool:
        """Whether a part is read from other published nodes than its whole, such as the only child of one."""
        used = []
        for rows in (self.part, self.whole):
            nodes, of = rows.at_nodes(present)
            at = np.zeros((len(present), of.shape[1]), bool)
            at[nodes] = of >= 0
            used.append(at)
        return bool((used[0] & ~used[1]).any())

    def _jointly(self, source: NoisySource) -> SelectedCells | None:
        """Return parts and rests with what their estimates have in common."""
        result = []
        for place, of in enumerate(self.of):
            own = self.part.cells == place
            if (known := source.parts(own, (self.whole.cells == of) & ~own)) is None:
                return None
            result.append(known)
        values, covariances = (np.array([item[side] for item in result]) for side in (0, 1))
        return SelectedCells.joint(values, covariances, source.least_variance)

    def _selected(self, source: NoisySource | PublishedTable, *, at_worst: bool) -> SelectedCells | None:
        """Return parts and rests whose estimates may have anything in common, or none where not at worst.

        Then they are in different columns, in each of them all that is in the whole.
        """
        whole, part = source.select(self.whole), source.select(self.part)
        if whole is None or part is None:
            return None

        def pairs(name: str, sign: int) -> Floats:
            return _pairs(getattr(part, name)[:, 0], getattr(whole, name)[self.of, 0], sign)

        if at_worst:
            one, all_ = (np.sqrt(item.variance[:, 0]) + item.rms_error[:, 0] for item in (part, whole))
            rms_error = _pairs(one, all_[self.of], 1)
            return SelectedCells.at_worst(pairs("values", -1), rms_error, pairs("moved", 1))
        variance, rms_error, moved = (
            np.maximum(pairs(name, -1), 0.0) for name in ("variance", "rms_error", "moved")
        )
        steps = np.column_stack([part.step[:, 0], whole.step[self.of, 0]])
        return SelectedCells(
            pairs("values", -1), variance, np.where(variance > 0, steps, 0.0), rms_error, moved
        )


def _pairs(part: Floats, whole: Floats, sign: int) -> Floats:
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
        per_row = " in its row" if query.by else ""
        return f"The answer is how many pass the tests, {of}{per_row}."
    within = f" within each {' and '.join(name.text for name in query.within)}" if query.within else ""
    return f"Shares are {of}{within}, and together make up the whole."


# --- properties of a histogram of sizes


@dataclass(frozen=True, eq=False)
class SizeHistogram:
    """A released histogram of sizes.

    ``column``: The one whose values have the sizes. ``read``: Returns (k, 2) sizes, and how many values have
    each.
    """

    name: str
    column: str
    read: Callable[[], Integers]


def estimate_property(query: Query, histograms: Sequence[SizeHistogram]) -> tuple[SizeHistogram, Estimated]:
    """Return the histogram that a property is asked of, and its estimate."""
    assert query.of is not None  # noqa: S101 - the grammar's own rule
    result = _histogram(query.of, histograms)
    if query.measure == "distance":
        return result, distance_to_uniformity(result.read(), query.symbols)
    return result, (support_size if query.measure == "support" else entropy)(result.read())


def _histogram(name: Word, histograms: Sequence[SizeHistogram]) -> SizeHistogram:
    text = name.text.casefold()
    result = [item for item in histograms if item.name.casefold() == text]
    result = result or [item for item in histograms if item.column.casefold() == text]
    if len(result) == 1:
        return result[0]
    hint = f"{', '.join(PROPERTIES)} are of a `privhist` histogram"
    if names := [item.name for item in result or histograms]:
        hint = f"name one of {listed(names, 16)}"
    raise query_error(name.at, f"{plain(name.text)} is no histogram of sizes of this release", hint)


# --- which tables and measures are asked


@dataclass(frozen=True, eq=False)
class MeasuredAttribute(Attribute):
    """A measure of a table, as the last attribute of its array.

    Attributes
    ----------
    column
        Of the source that it is made of.
    answers
        What can be computed from it.
    unit
        By which sums are multiplied; an average needs none.
    signed
        Whether its numbers may truly be less than zero.
    about
        How its values are bounded, as a sentence.
    shown
        What is published of it in the table, where a query can ask for it, and the share of a quantile.
    alike
        What is equal for measures that add up the same.
    additive
        Whether numbers of cells make those of several, where their measurements are known.
    """

    column: str = ""
    answers: tuple[Measure, ...] = ("sum",)
    unit: float = 1.0
    signed: bool = False
    about: str = ""
    shown: tuple[Measure | None, float] = ("sum", 0.5)
    alike: object = None
    additive: bool = True

    def mask(self, values: Iterable[Word], level: str | None = None) -> Bools:
        """Refuse: records are not distinguished by a measure."""
        self._refuse(next(iter(values)).at)

    def span(self, op: Op, bound: Word, level: str | None = None) -> Bools:
        """Refuse: records are not distinguished by a measure."""
        self._refuse(bound.at)

    def _refuse(self, at: int) -> NoReturn:
        raise query_error(
            at,
            f"{plain(self.name)} is a measure, and the release does not separate records by its values",
            f"ask for {self.offers or 'counts'}, with tests of columns that the table crosses",
        )

    def is_shown(self, query: Query) -> bool:
        """Return whether what is asked is what is published of it."""
        return query.measure == self.shown[0] and query.share == self.shown[1]

    @property
    def largest(self) -> float:
        """The largest number that a record can have; of a rate what it is per."""
        return math.nan if self.high is None else float(self.high.max())

    @property
    def offers(self) -> str:
        """What can be asked of it, in words."""
        half = self.shown[1] == 0.5
        share = f"median({self.name})" if half else f"quantile({self.name}, {self.shown[1]:g})"
        return ", ".join(share if item == "quantile" else f"{item}({self.name})" for item in self.answers)


def asked_of(query: Query, tables: Sequence[QuerySource]) -> list[tuple[QuerySource, Query]]:
    """Return the tables or arrays that know what is asked of them, each with the query as it is put to it.

    Of those that count other records none is asked, unless the query names it.
    """
    if query.table is not None:
        tables = _named(query.table, tables)
    result = [(table, put) for table in tables if (put := table.asked(query)) is not None]
    counts = [item for item in result if measure_in(item[0]) is None]
    if query.of is None:
        return counts
    arrays = [(item, put, known) for item, put in result if (known := measure_in(item)) is not None]
    name = query.of.text.casefold()
    own = [item for item in arrays if item[2].name.casefold() == name]
    crossed = any(_has(table, name) for table, _ in counts)
    of_column = [] if crossed else [item for item in arrays if item[2].column.casefold() == name]
    if not own and not of_column:
        if query.measure in {"rate", "distinct"} or (
            arrays and not any(_has(table, name) for table in tables)
        ):
            _refuse_unknown(query.of, tables)
        return counts
    able = [item for item in own if query.measure in item[2].answers]
    able = able or [item for item in of_column if query.measure in item[2].answers]
    if not able:
        kind = "median" if query.measure == "quantile" else query.measure
        offers = dict.fromkeys(known.offers for _, _, known in own or of_column)
        what = f"no {kind} of {plain(query.of.text)} was measured"
        hint = " or ".join(filter(None, offers))
        raise query_error(query.of.at, what, f"ask for {hint}" if hint else "read it in its published table")
    per_cent = [item for item in able if item[2].largest == _PERCENT]
    if query.percent and not per_cent:
        what = f"{plain(query.of.text)} is a rate per {able[0][2].largest:g}, and no percentage"
        raise query_error(query.of.at, what, f"ask for rate({query.of.text})")
    able = per_cent if query.percent else able
    if len({known.alike for _, _, known in able}) > 1:
        raise query_error(
            query.of.at,
            f"{plain(query.of.text)} could be several measures, with other bounds, steps or weights",
            f"name one, or its table with `from`: {listed([f'{k.name} from {t.name}' for t, _, k in able])}",
        )
    if query.up_to is not None:
        raise query_error(query.up_to.at, "the bounds of a measure are known", "leave `up to` out")
    measure: Measure = "average" if query.measure == "rate" else query.measure
    return [
        (table, replace(put, of=Word(known.name, query.of.at), measure=measure, percent=False))
        for table, put, known in able
    ]


def measure_in(table: QuerySource) -> MeasuredAttribute | None:
    """Return the measure whose array a table is, or None for counts."""
    attributes = table.axes.attributes
    return attributes[-1] if attributes and isinstance(attributes[-1], MeasuredAttribute) else None


def _named(table: Word, tables: Sequence[QuerySource]) -> list[QuerySource]:
    result = [item for item in tables if item.name.casefold() == table.text.casefold()]
    if not result:
        names = list(dict.fromkeys(item.name for item in tables))
        what = f"there is no table {plain(table.text)}"
        raise query_error(table.at, what, f"known are {listed(names, 16)}")
    return result


def _refuse_unknown(name: Word, tables: Sequence[QuerySource]) -> NoReturn:
    names = [attribute.name for table in tables for attribute in table.axes.attributes]
    known = list(dict.fromkeys(names))
    if name.text in known:
        measures = list(
            dict.fromkeys(item.name for table in tables if (item := measure_in(table)) is not None)
        )
        hint = f"measures are {listed(measures, 16)}" if measures else "this release has no measures"
        raise query_error(name.at, f"{plain(name.text)} is an attribute, and no measure of this kind", hint)
    near = close(name.text, known)
    guess = f"did you mean {plain(near)}? " if near is not None else ""
    what = f"there is no measure or attribute {plain(name.text)}"
    raise query_error(name.at, what, f"{guess}known are {listed(known, 16)}")


def _has(table: QuerySource, name: str) -> bool:
    return name.rpartition(".")[2] in {known.casefold() for known in known_names(table.axes.attributes)}
