"""From the variance of the numbers of an array to the margin of what is published of them, and back.

A count, or a sum in steps of its grid, has the margin q·√V, q being the quantile of the stated level; of
others the kind of measure knows it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tabularium.mechanisms.inference.margins_of_error.half_widths import quantile
from tabularium.validations.spec.measures.measure import Measure


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
        return 1.0 if self.measure is None else float(self.measure.grid)

    @property
    def by_records(self) -> bool:
        """Whether the margin depends on the size of a cell, as that of a mean or rate."""
        return self.measure is not None and not self.measure.linear

    @property
    def foretold(self) -> bool:
        """Whether its margins follow from variances: not those of medians, or of rates over other numbers."""
        return self.measure is None or self.measure.plannable

    def largest(self, margin: float) -> float:
        """Return the largest margin that can be published within a wanted one; 0 where there is none."""
        if self.whole and not self.by_records:
            return math.floor(margin / self.step + 1e-9) * self.step
        return margin

    def shown(self, half: float) -> float:
        """Return a half-width as it is published."""
        if self.whole and not self.by_records:
            return math.ceil(half / self.step - 1e-9) * self.step
        return half

    def half(self, variance: float, at: float | None = None, value: float | None = None) -> float:
        """Return the half-width that a variance gives; of a mean or rate of ``at`` records and this value."""
        if self.measure is None or self.measure.linear:
            return self.step * quantile(self.level) * math.sqrt(variance)
        assert at is not None  # noqa: S101 - the spec's own check
        return self.measure.planned_half(variance, self.level, at, value)

    def variance(self, half: float, at: float | None = None, value: float | None = None) -> float:
        """Return the largest variance that gives no more than a half-width."""
        if self.measure is None or self.measure.linear:
            return (half / (self.step * quantile(self.level))) ** 2
        assert at is not None  # noqa: S101 - as above
        return self.measure.planned_variance(half, self.level, at, value)
