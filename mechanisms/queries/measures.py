"""Count, sum, average, quantile, minimum and maximum with intervals, from weighted sums of chosen cells.

Each interval holds the true answer with at least the stated probability, over the noise of many such
releases, for each row by itself. Where a cell is a bin of several numbers, the interval also holds every
answer that the spread of the records inside their bins could give.

- *count*: the weights are 1. No count is below zero, so the interval is that around the larger of the number
  and zero, and cut there.
- *sum*: the value takes every record at the middle of its bin. The true sum lies between the sums with all
  records at the lower and at the upper ends; the interval goes from the lower limit of the one to the upper
  limit of the other. Each end is missed with half the probability at most.
- *average*: a ratio of two numbers that err together. θ is the average exactly when Σ(number - θ)·cell = 0, a
  weighted sum like any other, so the interval holds those θ for which that sum is within its half-width of
  zero (Fieller 1954), within the range of the numbers. That is honest however small the count is, where
  dividing a sum's interval by a count would not be. What lies above θ and what lies below are lifted to zero
  first, each for itself, which rejects the true θ no more often, and never all of them
  (:mod:`tabularium.mechanisms.inference.margins_of_error.ratio_intervals`). Bins as for sums.
- *quantile* at q: the smallest number v up to which lie q of all records, so that L(v), the records up to v
  less q times all, is zero or more at the quantile and below zero before it. Numbers v with L(v) surely below
  zero are too small, and numbers before which L is surely above zero too large: the interval is the rest, and
  each end is missed with half the probability at most. Of noisy cells L need not rise; the answer is where
  it would cross zero if its values were sorted.
- *max* (*min* is its mirror image): with T(v) the number of records at v or above, the maximum is at least v
  if and only if T(v) >= 1. Going up from the smallest number while the lower limit of T(v) is above zero
  gives a lower bound, going down from the largest while its upper limit is below one gives an upper bound.
  Each walk stops at its first failure, and the statements are nested, so only the first false one can go
  wrong: no correction for many tests is needed. A single record cannot be told from noise, so the upper bound
  is often the end of the domain, and says so honestly.

Source: the measures are those of Xiao, Xiong, Yuan 2010, section 4.4, which gives no errors for averages.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np

from tabularium.mechanisms.arrays import Bools, Floats
from tabularium.mechanisms.inference import margins
from tabularium.mechanisms.queries.attributes import Attribute, close, listed
from tabularium.mechanisms.queries.estimators import SelectedCells
from tabularium.mechanisms.queries.grammar import Measure, Op, Query, Word, plain, query_error
from tabularium.mechanisms.queries.selection import Rows, known_names
from tabularium.mechanisms.queries.sources import Askable, KnownSums, NoisySource

_HALVINGS = 40
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Values:
    """The answers of all rows; NaN where there is none, infinite limits where nothing is known.

    Attributes
    ----------
    value, standard_error, low, high
        (rows,).
    """

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
    measure
        Which.
    cells
        The cells.
    low, high
        (cells,) smallest and largest number of a record in each cell; anything for a count.
    level
        Of the intervals.
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
    found = cells.weighted(np.ones(cells.values.shape[1]), level)
    lifted = np.maximum(found.value, 0)
    low, high = np.maximum(lifted - found.half, 0), lifted + found.half
    return Values(found.value, found.standard_error, np.where(np.isfinite(high), low, np.nan), high)


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
        above, below = (np.maximum(each, 0) * cells.values for each in (weights, -weights))
        apart = np.maximum(above.sum(axis=1), 0) - np.maximum(below.sum(axis=1), 0)
        found: Bools = np.abs(apart) > cells.weighted(weights, level).half
        return found

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
    found, last = cells.excess(order, share, level), len(low) - 1
    some = cells.values.sum(axis=1) > 0
    at = np.minimum((found.value < -_ROUNDING).sum(axis=1), last)
    first = np.argmax(found.value + found.half >= 0, axis=1)  # at the last number all records are counted
    before = found.value[:, :-1] - found.half[:, :-1] < 0
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
    found = cells.tails(order, level)
    # All tails up to the last one that surely has records; all tails from the first one that surely has none.
    least = np.cumprod(found.value > found.half, axis=1).sum(axis=1) - 1
    empty = found.value + found.half < 1
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
    """Return the counts of all rows with what invariants say of them, and the names of these.

    Parameters
    ----------
    counts
        What the measurements alone say of each row.
    level
        Of the intervals.
    """
    if not known or len(rows.labels) * math.prod(table.axes.shape) * len(table.axes.parents) > MOST_WORK:
        return counts, ()
    found = [each.copy() for each in (counts.value, counts.standard_error, counts.low, counts.high)]
    used: dict[str, None] = {}
    for row in range(len(rows.labels)):
        cells = rows.of == row
        best = min((_Conditioned.on(table, each, cells) for each in known), key=lambda each: each.variance)
        if best.variance >= 0.999 * counts.standard_error[row] ** 2:
            continue
        used[best.name] = None
        step = min(1.0, math.sqrt(best.variance / table.least_variance))
        half = float(margins(np.array([best.variance + step**2 / 12]), level)[0]) + step / 2
        ends = (0.0, best.most) if best.variance > 0 else (best.value, best.value)
        low, high = (min(max(best.value + sign * half, ends[0]), ends[1]) for sign in (-1, 1))
        for column, number in zip(found, (best.value, math.sqrt(best.variance), low, high), strict=True):
            column[row] = number
    return Values(*found), tuple(used)


@dataclass(frozen=True)
class _Conditioned:
    """A count with what one invariant says of it, and ``most``, its bound."""

    name: str
    value: float
    variance: float
    most: float

    @classmethod
    def on(cls, table: NoisySource, known: KnownSums, cells: Bools) -> _Conditioned:
        groups = known.groups.reshape(cells.shape)
        cells = cells & table.possible
        touched = np.zeros(len(known.values), bool)
        touched[groups[cells]] = True
        whole, most = touched[groups] & table.possible, float(known.values[touched].sum())
        if most == 0 or (whole == cells).all():
            return cls(known.name, most, 0.0, most)
        found = table.parts(cells, whole & ~cells)
        if found is None:
            return cls(known.name, most, math.inf, most)
        values, covariances = found
        both, of_whole = float(covariances[0].sum()), float(covariances.sum())
        value = float(values[0] + both / of_whole * (most - values.sum()))
        return cls(known.name, value, max(float(covariances[0, 0]) - both**2 / of_whole, 0.0), most)


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
        What is published of it in the table, and the share of a quantile.
    alike
        What is equal for measures that add up the same.
    """

    column: str = ""
    answers: tuple[Measure, ...] = ("sum",)
    unit: float = 1.0
    signed: bool = False
    about: str = ""
    shown: tuple[Measure, float] = ("sum", 0.5)
    alike: object = None

    def mask(self, values: Iterable[Word], level: str | None = None) -> Bools:
        """Refuse: records are not told apart by a measure."""
        self._refuse(next(iter(values)).at)

    def span(self, op: Op, bound: Word, level: str | None = None) -> Bools:
        """Refuse: records are not told apart by a measure."""
        self._refuse(bound.at)

    def _refuse(self, at: int) -> NoReturn:
        raise query_error(
            at,
            f"{plain(self.name)} is a measure, by whose values no records were told apart",
            f"ask for {self.offers}, with tests of columns that the table crosses",
        )

    def is_shown(self, query: Query) -> bool:
        """Return whether what is asked is what is published of it."""
        return query.measure == self.shown[0] and query.share == self.shown[1]

    @property
    def offers(self) -> str:
        """What can be asked of it, in words."""
        half = self.shown[1] == 0.5
        share = f"median({self.name})" if half else f"quantile({self.name}, {self.shown[1]:g})"
        return ", ".join(share if each == "quantile" else f"{each}({self.name})" for each in self.answers)


def asked_of(query: Query, tables: Sequence[Askable]) -> list[tuple[Askable, Query]]:
    """Return the tables or arrays that know what is asked of them, each with the query as it is put to it.

    Of those that count other records none is asked, unless the query names it.

    Raises
    ------
    InputError
        Naming a table that there is not, a name that could mean several measures, or what of a measure cannot
        be computed.
    """
    if query.table is not None:
        tables = _named(query.table, tables)
    found = [(table, put) for table in tables if (put := table.asked(query)) is not None]
    counts = [each for each in found if measure_in(each[0]) is None]
    if query.of is None:
        return counts
    arrays = [(each, put, known) for each, put in found if (known := measure_in(each)) is not None]
    name = query.of.text.casefold()
    own = [each for each in arrays if each[2].name.casefold() == name]
    crossed = any(_has(table, name) for table, _ in counts)
    of_column = [] if crossed else [each for each in arrays if each[2].column.casefold() == name]
    if not own and not of_column:
        if query.measure == "rate" or (arrays and not any(_has(table, name) for table in tables)):
            _refuse_unknown(query.of, tables)
        return counts
    able = [each for each in own if query.measure in each[2].answers]
    able = able or [each for each in of_column if query.measure in each[2].answers]
    if not able:
        kind = "median" if query.measure == "quantile" else query.measure
        offers = dict.fromkeys(known.offers for _, _, known in own or of_column)
        what = f"no {kind} of {plain(query.of.text)} was measured"
        raise query_error(query.of.at, what, f"ask for {' or '.join(offers)}")
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
        (table, replace(put, of=Word(known.name, query.of.at), measure=measure)) for table, put, known in able
    ]


def measure_in(table: Askable) -> MeasuredAttribute | None:
    """Return the measure whose array a table is, or None for counts."""
    attributes = table.axes.attributes
    return attributes[-1] if attributes and isinstance(attributes[-1], MeasuredAttribute) else None


def _named(table: Word, tables: Sequence[Askable]) -> list[Askable]:
    found = [each for each in tables if each.name.casefold() == table.text.casefold()]
    if not found:
        names = list(dict.fromkeys(each.name for each in tables))
        what = f"there is no table {plain(table.text)}"
        raise query_error(table.at, what, f"known are {listed(names, 16)}")
    return found


def _refuse_unknown(name: Word, tables: Sequence[Askable]) -> NoReturn:
    names = [attribute.name for table in tables for attribute in table.axes.attributes]
    known = list(dict.fromkeys(names))
    if name.text in known:
        measures = list(
            dict.fromkeys(each.name for table in tables if (each := measure_in(table)) is not None)
        )
        hint = f"measures are {listed(measures, 16)}" if measures else "this release has no measures"
        raise query_error(name.at, f"{plain(name.text)} is an attribute, and no measure of this kind", hint)
    near = close(name.text, known)
    guess = f"did you mean {plain(near)}? " if near is not None else ""
    what = f"there is no measure or attribute {plain(name.text)}"
    raise query_error(name.at, what, f"{guess}known are {listed(known, 16)}")


def _has(table: Askable, name: str) -> bool:
    return name.rpartition(".")[2] in {known.casefold() for known in known_names(table.axes.attributes)}
