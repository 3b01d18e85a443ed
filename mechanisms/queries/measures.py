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

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tabularium.mechanisms.arrays import Bools, Floats
from tabularium.mechanisms.queries.grammar import Measure
from tabularium.mechanisms.queries.selected_cells import SelectedCells

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
