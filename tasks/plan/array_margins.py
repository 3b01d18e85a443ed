"""From the variance of the numbers of an array to the margin of what is published of them, and back.

A count, or a sum in steps of its grid, has the margin q·√V, q being the quantile of the stated level. A mean
of n values, or a rate of n records with T = 1, has the margin of the test of
:mod:`tabularium.mechanisms.inference.margins_of_error.ratio_intervals`: with p the place of the mean between
the bounds, 0 at ``from``, which are T steps apart, it is the largest h with

    h·n·T = q·√V·√((1 - p')² + p'²),    p' = p - h or p + h, within the bounds,

which is what the test says where the noise does not move its numbers. Where the mean is not known the worst
is taken, a mean near a bound, with √… = 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tabularium.mechanisms.inference.margins_of_error.half_widths import quantile
from tabularium.mechanisms.inference.margins_of_error.ratio_intervals import ratio_interval, steady_half
from tabularium.validations.spec.measures.measure_fields import Measure


@dataclass(frozen=True)
class ArrayMargin:
    """How margins of an array are read off its variances.

    Attributes
    ----------
    measure
        What is measured; None of counts.
    whole
        Whether numbers are made whole, and margins with them.
    level
        Share of the errors that a margin holds.
    """

    measure: Measure | None
    whole: bool
    level: float

    @property
    def step(self) -> float:
        """The unit of what is published, in which the numbers of the array are whole."""
        return 1.0 if self.measure is None else float(self.measure.step)

    @property
    def of_pair(self) -> bool:
        """Whether a mean or rate is published, whose margin depends on the size of a cell."""
        return self.measure is not None and self.measure.form == "pair"

    @property
    def foretold(self) -> bool:
        """Whether its margins follow from variances: not those of medians, or of rates over other numbers."""
        return self.measure is None or self.of_pair or self.measure.kind == "sum"

    def largest(self, margin: float) -> float:
        """Return the largest margin that can be published within a wanted one; 0 where there is none."""
        if self.whole and not self.of_pair:
            return math.floor(margin / self.step + 1e-9) * self.step
        return margin

    def shown(self, half: float) -> float:
        """Return a half-width as it is published."""
        if self.whole and not self.of_pair:
            return math.ceil(half / self.step - 1e-9) * self.step
        return half

    def half(self, variance: float, at: float | None = None, value: float | None = None) -> float:
        """Return the half-width that a variance gives; of a mean or rate of ``at`` records and this value."""
        if not self.of_pair:
            return self.step * quantile(self.level) * math.sqrt(variance)
        steps, width = self._cell(at)
        place = self._place(value)
        if place is None:
            return width * min(1.0, quantile(self.level) * math.sqrt(variance) / steps)
        parts, spread = steps * np.array([[place, 1 - place]]), np.full((1, 2), variance)
        low, high = ratio_interval(parts, spread, self.level)
        steady = steady_half(parts[:, 0], parts[:, 1], spread[:, 0], spread[:, 1], self.level, over=False)
        reach = float(np.max([place - low, high - place, steady]))
        return width * min(reach, max(place, 1 - place))

    def variance(self, half: float, at: float | None = None, value: float | None = None) -> float:
        """Return the largest variance that gives no more than a half-width."""
        if not self.of_pair:
            return (half / (self.step * quantile(self.level))) ** 2
        steps, width = self._cell(at)
        place, reach = self._place(value), half / width
        most = 1.0
        if place is not None:
            ends = [end for end in (place - reach, place, place + reach) if 0 <= end <= 1]
            most = max((1 - end) ** 2 + end**2 for end in ends)
        return (reach * steps / quantile(self.level)) ** 2 / most

    def _cell(self, at: float | None) -> tuple[float, float]:
        """Return what the two numbers of a pair add to in a cell, and how far apart their ratio can be."""
        assert self.measure is not None and at is not None  # noqa: S101 - the spec's own check
        of_test = self.measure.test is not None
        return at * self.measure.width, self.measure.span if of_test else self.measure.width * self.step

    def _place(self, value: float | None) -> float | None:
        if value is None:
            return None
        assert self.measure is not None  # noqa: S101 - as above
        return (value - self.measure.bottom) / self._cell(1.0)[1]
