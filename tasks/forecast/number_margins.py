"""The margin of a number of a cell, from the size of the cell and the noise, before there are any numbers.

Sums and counts have the margin of their noise, whatever the size. The others are put through the tests that a
release puts them through (:mod:`tabularium.tasks.margins.measure_margins`), with the numbers that the cell is
expected to have instead of measured ones:

- of a mean or rate the widest margin is taken that one at a bound, a quarter or half of the way between
  the bounds would have; a rate over other numbers is taken to be all of them, where its margin is widest;
- of a quantile values are taken to lie evenly between the bounds. Where they crowd, margins are narrower.
  How far noise moves a choice and the ends of an interval is tried out, with noise that is made up and
  always the same.

Weights are not known: every record is taken to have the largest one, and what comes of it is the least that
the margin can be.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from tabularium.mechanisms.arrays import Floats, Indices
from tabularium.mechanisms.inference.margins_of_error.half_widths import margins
from tabularium.mechanisms.inference.margins_of_error.quantile_margins import (
    chosen_interval,
    chosen_position,
    tree_over,
)
from tabularium.mechanisms.inference.margins_of_error.ratio_intervals import (
    EMPTY,
    chance_if_empty,
    quotient_interval,
)
from tabularium.mechanisms.kernels.outward_cells import outward_sums
from tabularium.mechanisms.noise.synthetic import generator
from tabularium.tasks.plan.array_margins import ArrayMargin

PLACES = (0.0, 0.25, 0.5)
"""Where between the bounds a mean or rate may lie; beyond the middle margins are the same."""
CELLS = 25
"""Cells with made-up noise of which margins of quantiles are taken."""


@dataclass(frozen=True)
class Noise:
    """What is known of the noise in the numbers of a cell.

    Attributes
    ----------
    variance
        Of each of them, in steps, after tables and levels were made to agree.
    alone
        Scale (discrete Laplace) or σ (Gaussian) where the number is a single measurement, by its name in
        :func:`~tabularium.mechanisms.inference.margins_of_error.half_widths.margins`.
    rate
        Of a choice, how fast it becomes unlikely with each record that it misses by.
    over
        Variance of what a rate is over; 0 where it is public.
    """

    variance: float
    alone: dict[str, float]
    rate: float = math.inf
    over: float = 0.0

    def smaller(self, times: float) -> Noise:
        """Return noise whose standard deviations are so many times smaller."""
        alone = {name: size / times for name, size in self.alone.items()}
        return replace(
            self,
            variance=self.variance / times**2,
            alone=alone,
            rate=self.rate * times,
            over=self.over / times**2,
        )


@dataclass(frozen=True)
class NumberMargin:
    """How the margin of one number follows: a count where ``reading`` has no measure.

    Attributes
    ----------
    reading
        Of its array, with the bounds of its group alone.
    noise
        In it.
    """

    reading: ArrayMargin
    noise: Noise

    @property
    def of_noise_alone(self) -> bool:
        """Whether it is the same in cells of all sizes."""
        return self.reading.measure is None or self.reading.measure.kind == "sum"

    @property
    def at_least(self) -> bool:
        """Whether weights, which nobody knows before, could only widen it."""
        measure = self.reading.measure
        return measure is not None and measure.weight is not None and not self.of_noise_alone

    def shown(self, records: float, times: float = 1.0) -> bool:
        """Whether a mean or rate of so many records is told from noise, and published; as :meth:`margin`."""
        noise, measure = self.noise.smaller(times), self.reading.measure
        if measure is None or measure.form not in ("pair", "total") or measure.kind == "sum":
            return True
        number, spread = records, noise.over
        if measure.over is None:
            number, spread = records * measure.heaviest * measure.width, 2 * noise.variance
        return float(chance_if_empty(np.array(number), np.array(spread))) <= EMPTY

    def margin(self, records: float, times: float = 1.0) -> float:
        """Return the margin in a cell of so many records, in the unit of what is published.

        Parameters
        ----------
        records
            In the cell; of a rate over other numbers what it is over.
        times
            Were the noise so many times smaller.
        """
        noise, measure = self.noise.smaller(times), self.reading.measure
        if measure is None or measure.kind == "sum":
            half = float(margins(noise.variance, self.reading.level, whole=self.reading.whole, **noise.alone))
            return self.reading.shown(half * self.reading.step)
        if not records > 0:
            return math.inf
        if measure.over is not None:
            return self._of_quotient(records, noise)
        if measure.form == "pair":
            at, width = records * measure.heaviest, float(measure.spans[0])
            values = [measure.bottom + place * width for place in PLACES]
            half = max(self.reading.half(noise.variance, at, value) for value in values)
        else:
            half = self._of_quantile(records * measure.heaviest, noise)
        unit = 10.0**measure.decimals
        return math.ceil(half * unit - 1e-6) / unit

    def _of_quotient(self, whole: float, noise: Noise) -> float:
        measure = self.reading.measure
        assert measure is not None  # noqa: S101 - the caller has looked
        part, of, spread, spread_of = map(np.array, (whole, whole, noise.variance, noise.over))
        low, high = quotient_interval(part, of, spread, spread_of, self.reading.level)
        return measure.span * max(1.0 - float(low), float(high) - 1.0)

    def _of_quantile(self, records: float, noise: Noise) -> float:
        """Return the middle one of the margins that some cells with made-up noise would have."""
        measure, level = self.reading.measure, self.reading.level
        assert measure is not None  # noqa: S101 - the caller has looked
        bins, draw = measure.width + 1, generator(0)
        if measure.form == "choice":
            chosen = _choices(draw, bins, measure.rank, noise.rate * records)
            around = outward_sums(np.ones((CELLS, bins), np.int64), chosen) * (records / bins)
            made_up = around + draw.normal(0.0, math.sqrt(noise.variance), around.shape)
            numbers = np.column_stack([chosen, np.full(CELLS, noise.rate), made_up])
            at = chosen_position(numbers)
            low, high = chosen_interval(numbers, np.full(numbers.shape, noise.variance), bins, level)
        else:
            true = _tree(bins) * records
            numbers = true + draw.normal(0.0, math.sqrt(noise.variance), (CELLS, len(true)))
            spread = np.full(numbers.shape, noise.variance)
            at = tree_over(bins).quantile_of(numbers, measure.rank)
            low, high = tree_over(bins).interval(numbers, spread, measure.rank, level)
        reach = np.minimum(np.maximum(at - low, high - at), np.maximum(at, bins - 1 - at))
        return float(measure.step) * float(np.median(np.nan_to_num(reach, nan=bins - 1.0)))


def _tree(bins: int) -> Floats:
    """Return the numbers of a tree over a grid on which one record lies evenly."""
    tree, position = tree_over(bins), np.arange(bins)
    parts = [np.bincount(nodes, minlength=tree.parts) for nodes in tree.nodes_of(position)]
    found: Floats = np.sum(parts, axis=0) / bins
    return found


def _choices(draw: np.random.Generator, bins: int, rank: Fraction, rate: float) -> Indices:
    """Return the positions that a choice would take in some cells whose records lie evenly on a grid."""
    at = math.ceil(rank * bins) - 1
    missed = np.abs(np.arange(bins) - at) / bins
    likely = np.exp(-np.where(missed > 0, missed * rate, 0.0))
    return draw.choice(bins, CELLS, p=likely / likely.sum())


def noise_of_choice(scale: float, variance: float) -> Noise:
    """Return the noise of a choice: how far it misses, and the variance of the counts beside it."""
    return Noise(variance, {}, rate=1 / scale if scale else math.inf)
