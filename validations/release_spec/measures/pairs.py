"""Measures by two numbers that are never negative and add up to what is known of each record: A/(A + B).

A record whose value lies x steps above the smallest adds (x, T - x), which changes both by T in L1, and by at
most T in L2.
"""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from tabularium.mechanisms.arrays import Floats, Integers
from tabularium.mechanisms.inference.margins_of_error.half_widths import quantile
from tabularium.mechanisms.inference.margins_of_error.ratio_intervals import (
    ratio_interval,
    ratio_of,
    steady_half,
)
from tabularium.validations.release_spec.measures.measure import Answer, Measure, Noise, Numbers

PLACES = (0.0, 0.25, 0.5)
"""Where between the bounds a mean or rate may lie; beyond the middle margins are the same."""


class Pair(Measure, ABC):
    """A mean of values between two bounds, by what they have above the lower one and below the upper one.

    With p the place of the mean between the bounds, 0 at the lower one, the half-width in a cell of n records
    whose numbers have the variance V is the largest h with

        h·n·T = q·√V·√((1 - p')² + p'²),    p' = p - h or p + h, within the bounds,

    q being the quantile of the stated level: what the test says where noise does not move the numbers. Where
    the mean is not known the worst is taken, one near a bound, with √… = 1.
    """

    plannable: ClassVar[bool] = True
    margin_method: ClassVar[str | None] = "inverted"
    query_shown: ClassVar[Answer | None] = "average"
    margin_note: ClassVar[str | None] = "± of a mean or rate is that of the worst between its bounds."

    @property
    def parts(self) -> int:
        return 2

    def change(self, low: int, width: int) -> int:
        return width

    def add(
        self, array: Integers, cells: Integers, powers: Sequence[Integers], low: Integers, width: Integers
    ) -> None:
        weights, values = powers
        np.add.at(array, 2 * cells, values)
        np.add.at(array, 2 * cells + 1, width * weights - values)

    def estimate(self, numbers: Numbers) -> Floats:
        return numbers.bottom + numbers.span * ratio_of(numbers.parts)

    def compared(self, numbers: Numbers) -> tuple[Floats, Floats]:
        return numbers.parts.sum(axis=-1), numbers.spread.sum(axis=-1)

    def reach(self, at: Floats, numbers: Numbers, level: float) -> Floats:
        low, high = ratio_interval(numbers.parts, numbers.spread, level)
        one, other = (numbers.parts[..., side] for side in (0, 1))
        spread_one, spread_other = (numbers.spread[..., side] for side in (0, 1))
        steady = steady_half(one, other, spread_one, spread_other, level, over=False)
        offset, unit = at - numbers.bottom, numbers.span
        widths: Floats = np.maximum(offset - unit * low, unit * high - offset)
        return np.maximum(np.maximum(widths, unit * steady), 0.0)

    def limits(self, numbers: Numbers) -> tuple[Floats, Floats]:
        return numbers.bottom, numbers.bottom + numbers.span

    def total(self, roots: Numbers) -> float:
        if self.by is None:
            return super().total(roots)
        pairs = roots.parts[0]
        records = pairs.sum(axis=1) * float(self.grid) / roots.span
        sums = roots.bottom * records + pairs[:, 0] * float(self.grid)
        return float(sums.sum() / records.sum()) if records.sum() > 0 else math.nan

    def expected_comparison(self, records: float, noise: Noise) -> tuple[float, float]:
        return records * self.heaviest * self.width, 2 * noise.variance

    def expected_half(self, records: float, noise: Noise, level: float) -> float:
        """Return the widest that a value at a bound, a quarter or half of the way to the other would have."""
        at, width = records * self.heaviest, float(self.spans[0])
        values = [self.bottom + position * width for position in PLACES]
        return max(self.planned_half(noise.variance, level, at, value) for value in values)

    def planned_half(self, variance: float, level: float, at: float, value: float | None) -> float:
        steps, width = at * self.width, max(self.spans)
        if value is None:
            return width * min(1.0, quantile(level) * math.sqrt(variance) / steps)
        position = self._position(value)
        parts, spread = steps * np.array([[position, 1 - position]]), np.full((1, 2), variance)
        low, high = ratio_interval(parts, spread, level)
        steady = steady_half(parts[:, 0], parts[:, 1], spread[:, 0], spread[:, 1], level, over=False)
        reach = float(np.max([position - low, high - position, steady]))
        return width * min(reach, max(position, 1 - position))

    def planned_variance(self, half: float, level: float, at: float, value: float | None) -> float:
        steps, reach, most = at * self.width, half / max(self.spans), 1.0
        if value is not None:
            position = self._position(value)
            ends = [end for end in (position - reach, position, position + reach) if 0 <= end <= 1]
            most = max((1 - end) ** 2 + end**2 for end in ends)
        return (reach * steps / quantile(level)) ** 2 / most

    def _position(self, value: float) -> float:
        return (value - self.bottom) / max(self.spans)
