"""Variances and standard deviations, by three numbers that add up to T² for each record.

A record whose value lies x steps above the smallest of T + 1 adds

    (T - x)²,    2·x·(T - x),    x²,

which are not negative and add up to T²: one record changes all three by T² in L1, and by at most T² in L2,
and one draw of noise with that sensitivity protects them (the pair of a mean, one degree up). With b0, b1, b2
their sums and N·T² the sum of these, the mean of x/T is (b1/2 + b2)/(N·T²), that of its square b2/(N·T²), and
the variance, with the number of records as the divisor,

    v = (b0·b2 - b1²/4)/(N·T²)²    in parts of (T steps)².

For true numbers b1² is at most 4·b0·b2 (Cauchy-Schwarz); where noise made it more, v is 0. The interval holds
every v that fits the intervals of both means, each made at half the allowed error.
"""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Sequence
from fractions import Fraction
from typing import ClassVar

import numpy as np
from pydantic import Field

from tabularium.mechanisms.arrays import Floats, Integers
from tabularium.mechanisms.inference.margins_of_error.half_widths import quantile
from tabularium.mechanisms.inference.margins_of_error.ratio_intervals import ratio_interval
from tabularium.validations.release_spec.measures.measure import OF_BOUNDS, Answer, Noise, Numbers
from tabularium.validations.release_spec.measures.of_column import OfColumn
from tabularium.validations.release_spec.scalars import ColumnName


class Spread(OfColumn, ABC):
    """How far the values of a column lie from their mean, in every cell."""

    powers: ClassVar[int] = 2
    margin_method: ClassVar[str | None] = "inverted"
    answers: ClassVar[tuple[Answer, ...]] = ("average", "sum")
    query_shown: ClassVar[Answer | None] = None
    margin_note: ClassVar[str | None] = (
        "± of a variance or standard deviation is for values that lie evenly between its bounds."
    )

    @property
    def parts(self) -> int:
        return 3

    @property
    def codes(self) -> tuple[str, ...]:
        return ("below_to_squared", "twice_both", "above_from_squared")

    @property
    def smallest(self) -> float:
        return 0.0

    @property
    def noise_unit(self) -> Fraction:
        """A squared step."""
        return self.step**2

    def total(self, roots: Numbers) -> float:
        """Return it where the bounds are the same for all: squares of other steps do not add up."""
        return math.nan if self.by is not None else super().total(roots)

    def change(self, low: int, width: int) -> int:
        return width**2

    def add(
        self, array: Integers, cells: Integers, powers: Sequence[Integers], low: Integers, width: Integers
    ) -> None:
        weights, values, squares = powers
        np.add.at(array, 3 * cells, width**2 * weights - 2 * width * values + squares)
        np.add.at(array, 3 * cells + 1, 2 * (width * values - squares))
        np.add.at(array, 3 * cells + 2, squares)

    def compared(self, numbers: Numbers) -> tuple[Floats, Floats]:
        return numbers.parts.sum(axis=-1), numbers.spread.sum(axis=-1)

    def limits(self, numbers: Numbers) -> tuple[Floats, Floats]:
        return np.zeros(1), numbers.span

    def expected_comparison(self, records: float, noise: Noise) -> tuple[float, float]:
        return records * self.heaviest * self.width**2, 3 * noise.variance

    def expected_half(self, records: float, noise: Noise, level: float) -> float:
        """Return it for values that lie evenly between the bounds."""
        third = records * self.heaviest * self.width**2 / 3
        numbers = Numbers(
            np.full((1, 1, 3), third),
            np.array([float(self.bottom)]),
            np.array([max(self.spans)]),
            spread=np.full((1, 1, 3), noise.variance),
        )
        return float(self.reach(self.estimate(numbers), numbers, level).item())

    def largest_useful(self, records: float) -> float:
        return OF_BOUNDS * max(self.spans)

    @property
    def query_values(self) -> tuple[list[float], float]:
        bottom, top = float(self.bottom), float(self.top)
        return [bottom, (bottom + top) / 2, top], 1 / self.width**2

    @property
    def part_of(self) -> str:
        return "the largest that the bounds allow"


def parts_of_largest(parts: Floats) -> Floats:
    """Return variances of three numbers (..., 3), in parts of the largest; NaN where all are zero."""
    below, both, above = np.moveaxis(np.maximum(parts, 0.0), -1, 0)
    records = below + both + above
    with np.errstate(invalid="ignore", divide="ignore"):
        variance = (4 * below * above - both**2) / records**2
    return np.where(records > 0, np.maximum(variance, 0.0), np.nan)


def interval_of_largest(parts: Floats, variances: Floats, level: float) -> tuple[Floats, Floats]:
    """Return the smallest and largest variance that estimates (..., 3) leave possible, as above."""
    below, both, above = np.moveaxis(np.maximum(parts, 0.0), -1, 0)
    noise = np.moveaxis(np.broadcast_to(variances, parts.shape), -1, 0)
    part_level = (1 + level) / 2  # both intervals hold at once at the level
    mean_low, mean_high = ratio_interval(
        np.stack([above + both / 2, below + both / 2], axis=-1),
        # Their errors share the error of `both`; leaving it out makes the test wider.
        np.stack([noise[2] + noise[1] / 4, noise[0] + noise[1] / 4], axis=-1),
        part_level,
    )
    square_low, square_high = ratio_interval(
        np.stack([above, below + both], axis=-1),
        np.stack([noise[2], noise[0] + noise[1]], axis=-1),
        part_level,
    )
    low = np.clip(4 * (square_low - mean_high**2), 0.0, 1.0)
    return low, np.clip(4 * (square_high - mean_low**2), low, 1.0)


def least_half(parts: Floats, variances: Floats, level: float) -> Floats:
    """Return the half-width to first order, in parts of the largest.

    It counts where there are so many records that a double does not tell the ends of the interval apart.
    """
    below, both, above = np.moveaxis(np.maximum(parts, 0.0), -1, 0)
    records, largest = below + both + above, parts_of_largest(parts)
    with np.errstate(invalid="ignore", divide="ignore"):
        slopes = np.stack([4 * above, -2 * both, 4 * below], axis=-1) / records[..., None] ** 2
        slopes = slopes - (2 * largest / records)[..., None]
        half = quantile(level) * np.sqrt((slopes**2 * variances).sum(axis=-1))
    known: Floats = np.nan_to_num(half)
    return known


class Variance(Spread):
    """The variance of a column in every cell."""

    variance: ColumnName = Field(
        description="The column whose variance is published; the divisor is the number of records."
    )

    keys: ClassVar[tuple[str, ...]] = ("variance",)

    @property
    def spans(self) -> tuple[float, ...]:
        """The largest variance between the bounds: half of all values at either."""
        return tuple((top - bottom) ** 2 / 4 for bottom, top in zip(self.bottoms, self.tops, strict=True))

    def estimate(self, numbers: Numbers) -> Floats:
        return numbers.span * parts_of_largest(numbers.parts)

    def reach(self, at: Floats, numbers: Numbers, level: float) -> Floats:
        low, high = interval_of_largest(numbers.parts, numbers.spread, level)
        half = numbers.span * least_half(numbers.parts, numbers.spread, level)
        return np.maximum(np.maximum(at - numbers.span * low, numbers.span * high - at), half)

    @property
    def decimals(self) -> int:
        """As many as a hundredth of a squared step has, and none where that is more than 1."""
        return max(0, 2 - math.floor(math.log10(self.step**2)))


class StandardDeviation(Spread):
    """The standard deviation of a column in every cell: the root of the variance, and of its interval."""

    standard_deviation: ColumnName = Field(description="The same for the root of the variance.")

    keys: ClassVar[tuple[str, ...]] = ("standard_deviation",)

    @property
    def spans(self) -> tuple[float, ...]:
        """The largest standard deviation between the bounds: half of all values at either."""
        return tuple((top - bottom) / 2 for bottom, top in zip(self.bottoms, self.tops, strict=True))

    def estimate(self, numbers: Numbers) -> Floats:
        return numbers.span * np.sqrt(parts_of_largest(numbers.parts))

    def reach(self, at: Floats, numbers: Numbers, level: float) -> Floats:
        low, high = map(np.sqrt, interval_of_largest(numbers.parts, numbers.spread, level))
        root = np.sqrt(parts_of_largest(numbers.parts))
        with np.errstate(invalid="ignore", divide="ignore"):
            half = least_half(numbers.parts, numbers.spread, level) / (2 * root)
        half = numbers.span * np.where(root > 0, half, 0.0)
        return np.maximum(np.maximum(at - numbers.span * low, numbers.span * high - at), half)

    @property
    def in_words(self) -> str:
        return "standard deviation"
