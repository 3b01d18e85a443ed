"""A quantile of a column: the value up to which a part of all records lies, on a grid of few values."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterator
from fractions import Fraction
from typing import ClassVar

import numpy as np
from pydantic import Field

from tabularium.mechanisms.arrays import Floats
from tabularium.mechanisms.histograms.quantile_choices import LARGEST_DENOMINATOR
from tabularium.validations.spec.measures.measure import Answer, Numbers, Problem
from tabularium.validations.spec.measures.of_column import OfColumn
from tabularium.validations.spec.scalars import ColumnName, Share

MOST_BINS = 1 << 14
CELLS = 25
"""Cells with made-up noise of which margins of quantiles are taken."""


class OfRank(OfColumn, ABC):
    """The value up to which a part of all records lies.

    Every number of the grid is a cell of a histogram. Intervals are as wide as the bounds in empty cells, and
    the numbers say little of how many records there are: they are shown wherever there is a number.
    """

    median: ColumnName | None = Field(default=None, description="The column whose median is published.")
    quantile: ColumnName | None = Field(
        default=None,
        description="The column of which a quantile is published: the smallest value up to which "
        "lies the part `at` of all.",
    )
    at: Share | None = Field(
        default=None,
        description='Of a quantile: which, between 0 and 1, such as `"1/4"`, `"0.9"` or `"90%"`; in '
        "parts of at most 1000.",
    )

    keys: ClassVar[tuple[str, ...]] = ("median", "quantile")
    by_value: ClassVar[bool] = True
    may_differ: ClassVar[bool] = False
    answers: ClassVar[tuple[Answer, ...]] = ("quantile", "average", "sum")
    query_shown: ClassVar[Answer | None] = "quantile"
    margin_note: ClassVar[str | None] = (
        "± of a quantile is for values that lie evenly between its bounds; crowded values have less."
    )
    way: ClassVar[str]
    """How it is measured, by the words of the spec and the certificate."""

    @property
    def level_of(self) -> str:
        return self.kind

    @property
    def in_words(self) -> str:
        return f"{self.rank} quantile" if self.kind == "quantile" else self.kind

    @property
    def rank(self) -> Fraction:
        return self.at or Fraction(1, 2)

    @property
    def bins(self) -> int:
        """Numbers of the grid."""
        return self.width + 1

    @property
    def signed(self) -> bool:
        """To cut the noise of a histogram at zero would draw its median towards the middle of the bounds."""
        return True

    def problems(self) -> Iterator[Problem]:
        wrong = list(super().problems())
        yield from wrong
        if wrong:
            return
        if self.kind == "quantile" and self.at is None:
            yield ("at",), "is missing", 'say which quantile, as in at: "1/4"; the median is 1/2'
        elif self.kind != "quantile" and self.at is not None:
            yield ("at",), f"a {self.kind} has no rank", "remove it, or write quantile"
        elif self.rank == 1 or self.rank.denominator > LARGEST_DENOMINATOR:
            hint = f"write a rank below 1, in parts of at most {LARGEST_DENOMINATOR}"
            yield ("at",), f"{self.rank} is no rank that can be measured", hint
        elif self.width >= MOST_BINS:
            what = f"{self.bins} values between `from` and `to`, of which each is a cell of a histogram"
            yield ("step",), what, f"choose a step that leaves at most {MOST_BINS}"

    def change(self, low: int, width: int) -> int:
        return 1

    @property
    def noise_unit(self) -> Fraction:
        """A record."""
        return Fraction(1)

    def limits(self, numbers: Numbers) -> tuple[Floats, Floats]:
        return numbers.bottom, numbers.bottom + numbers.span

    def middle_reach(self, at: Floats, low: Floats, high: Floats) -> float:
        """Return the middle one of some half-widths, of intervals in positions on the grid."""
        reach = np.minimum(np.maximum(at - low, high - at), np.maximum(at, self.width - at))
        return float(self.step) * float(np.median(np.nan_to_num(reach, nan=float(self.width))))

    def reach_of(self, at: Floats, numbers: Numbers, low: Floats, high: Floats) -> Floats:
        """Return how far intervals in positions on the grid reach from published numbers."""
        place, unit = at - float(self.bottom), float(self.step)
        found: Floats = np.maximum(place - unit * low, unit * high - place)
        return np.maximum(found, 0.0)

    @property
    def declared_method(self) -> dict[str, str | None]:
        return {"at": str(self.rank), "method": self.way}
