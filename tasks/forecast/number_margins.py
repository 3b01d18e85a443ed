"""The margin of a number of a cell, from the size of the cell and the noise, before there are any numbers.

Sums and counts have the margin of their noise, whatever the size. The others are put through the tests that a
release puts them through (:mod:`tabularium.tasks.margins.measure_margins`), with the numbers that the cell is
expected to have instead of measured ones; each kind of measure says which.

Weights are not known: every record is taken to have the largest one, and what comes of it is the least that
the margin can be.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tabularium.mechanisms.inference.margins_of_error.half_widths import margins
from tabularium.mechanisms.inference.margins_of_error.ratio_intervals import EMPTY, chance_if_empty
from tabularium.tasks.plan.array_margins import ArrayMargin
from tabularium.validations.spec.measures.measure import Noise


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
        return self.reading.measure is None or self.reading.measure.linear

    @property
    def at_least(self) -> bool:
        """Whether weights, which nobody knows before, could only widen it."""
        measure = self.reading.measure
        return measure is not None and measure.weight is not None and not self.of_noise_alone

    def shown(self, records: float, times: float = 1.0) -> bool:
        """Whether a mean or rate of so many records is told from noise, and published; as :meth:`margin`."""
        noise, measure = self.noise.smaller(times), self.reading.measure
        compared = None if measure is None else measure.expected_comparison(records, noise)
        return compared is None or float(chance_if_empty(*map(np.array, compared))) <= EMPTY

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
        if measure is None or measure.linear:
            half = float(margins(noise.variance, self.reading.level, whole=self.reading.whole, **noise.alone))
            return self.reading.shown(half * self.reading.step)
        if not records > 0:
            return math.inf
        half = measure.expected_half(records, noise, self.reading.level)
        unit = 10.0**measure.decimals
        return math.ceil(half * unit - 1e-6) / unit
