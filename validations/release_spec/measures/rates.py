"""Rates: how many records pass a test, of those where it is true or false, or of other numbers.

A rate of its own records is a mean of 1 and 0, and one record changes its pair by 1. Over numbers that are
known otherwise, those of a table, an invariant or public figures, it has one number, the records that pass.
"""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np
from pydantic import Field

from tabularium.mechanisms.arrays import Floats, Integers
from tabularium.mechanisms.inference.margins_of_error.ratio_intervals import (
    quotient_interval,
    quotient_of,
    steady_half,
)
from tabularium.validations.release_spec.kinds import TableName
from tabularium.validations.release_spec.measures.measure import (
    AddsOne,
    Answer,
    Noise,
    Numbers,
    Problem,
    QualityRules,
)
from tabularium.validations.release_spec.measures.pairs import Pair
from tabularium.validations.release_spec.scalars import Positive, Text

OF_RATE = 0.25
"""Largest margin of a useful rate, in parts of what it is per."""


class OfTest(AddsOne, ABC):
    """A measure of the records that pass a test."""

    rate: Text | None = Field(
        default=None,
        description='A test such as `"status = employed"`: how many of `per` records pass.',
    )
    percent: Text | None = Field(default=None, description="The same of a hundred records.")
    per: Positive | None = Field(default=None, description="Of a rate: of how many; default: 1000.")

    keys: ClassVar[tuple[str, ...]] = ("rate", "percent")
    quality_rules: ClassVar[QualityRules] = "rates"

    @property
    def test(self) -> str:
        return self.of

    @property
    def span(self) -> int:
        """What the ratio is multiplied by."""
        return 100 if self.percent is not None else self.per or 1000

    @property
    def spans(self) -> tuple[int, ...]:
        return (self.span,)

    def problems(self) -> Iterator[Problem]:
        if self.percent is not None and self.per is not None:
            yield ("per",), "is 100 of a percentage", "remove it, or write rate instead of percent"

    def largest_useful(self, records: float) -> float:
        return OF_RATE * self.span

    @property
    def decimals(self) -> int:
        """Four digits of all that it is per, and one behind the point at least."""
        return max(1, 4 - math.floor(math.log10(self.span)))

    @property
    def shown_unit(self) -> str | None:
        if self.unit is not None:
            return self.unit
        return "percent" if self.percent is not None else f"per {self.span:,}".replace(",", " ")

    @property
    def description(self) -> str:
        per = "percent" if self.percent is not None else f"per {self.span}"
        total = self.denominator or "the records of which it is true or false"
        return (
            f"How many records pass the test {self.test}{self.weighted}, {per} of {total}, with noise; "
            "one of which it is neither true nor false, because of a null, adds nothing."
        )

    @property
    def part_of(self) -> str:
        return f"what it is per, {self.span}"

    @property
    def declared_method(self) -> dict[str, str | None]:
        return {"per": str(self.span), "over": self.denominator}


class Rate(OfTest, Pair):
    """How many of a table's records pass a test, of those of which it is true or false."""

    answers: ClassVar[tuple[Answer, ...]] = ("rate", "sum")

    @classmethod
    def reads(cls, written: Mapping[str, object]) -> bool:
        return super().reads(written) and written.get("over") is None

    @property
    def codes(self) -> tuple[str, ...]:
        return ("true", "false")

    @property
    def about_query(self) -> str:
        return f"It is of records of which `{self.test}` is true or false, {self.shown_unit}{self.weighed}."

    @property
    def query_values(self) -> tuple[list[float], float]:
        return [float(self.span), 0.0], 1 / self.span


class RateOver(OfTest):
    """How many records pass a test, of what is counted or known elsewhere."""

    over: TableName = Field(
        description="Of both: the table, invariant or figures that it is a part of; default: its own "
        "records.",
    )

    margin_method: ClassVar[str | None] = "inverted"
    answers: ClassVar[tuple[Answer, ...]] = ("sum",)
    query_shown: ClassVar[Answer | None] = None
    margin_note: ClassVar[str | None] = (
        "± of a rate over other numbers is for a rate of all of them; smaller rates have less."
    )

    @classmethod
    def reads(cls, written: Mapping[str, object]) -> bool:
        return super().reads(written) and written.get("over") is not None

    @property
    def denominator(self) -> str:
        return self.over

    def change(self, low: int, width: int) -> int:
        return 1

    def add(
        self, array: Integers, cells: Integers, powers: Sequence[Integers], low: Integers, width: Integers
    ) -> None:
        np.add.at(array, cells, powers[1])

    def estimate(self, numbers: Numbers) -> Floats:
        return self.span * quotient_of(numbers.parts[..., 0], self._denominators(numbers))

    def compared(self, numbers: Numbers) -> tuple[Floats, Floats]:
        return self._denominators(numbers), numbers.spread_whole

    def reach(self, at: Floats, numbers: Numbers, level: float) -> Floats:
        part, spread, total = numbers.parts[..., 0], numbers.spread[..., 0], self._denominators(numbers)
        low, high = quotient_interval(part, total, spread, numbers.spread_whole, level)
        steady = steady_half(part, total, spread, numbers.spread_whole, level, over=True)
        unit = float(self.span)
        widths: Floats = np.maximum(at - unit * low, unit * high - at)
        return np.maximum(np.maximum(widths, unit * steady), 0.0)

    def _denominators(self, numbers: Numbers) -> Floats:
        assert numbers.whole is not None  # noqa: S101 - the caller has looked
        return numbers.whole

    def expected_comparison(self, records: float, noise: Noise) -> tuple[float, float]:
        return records, noise.over

    def expected_half(self, records: float, noise: Noise, level: float) -> float:
        """Return the widest margin of a rate of all that it is over."""
        part, total, spread, spread_whole = map(np.array, (records, records, noise.variance, noise.over))
        low, high = quotient_interval(part, total, spread, spread_whole, level)
        return self.span * max(1.0 - float(low), float(high) - 1.0)

    @property
    def about_query(self) -> str:
        passing = f"It is how many records pass `{self.test}`{self.weighed}"
        return f"{passing}; what its rate is over, {self.over}, is another number."
