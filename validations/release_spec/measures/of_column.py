"""A measure of the values of a column, with public bounds that may differ by groups and a public grid."""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Annotated, ClassVar, Self

import numpy as np
from pydantic import Discriminator, Field, Tag

from tabularium.mechanisms.arrays import Floats
from tabularium.mechanisms.histograms.quantile_choices import LARGEST_DENOMINATOR
from tabularium.mechanisms.queries.attributes import shown_number
from tabularium.validations.release_spec.kinds import BOUND_TAGS, Part
from tabularium.validations.release_spec.measures.measure import Answer, Measure, Numbers, Problem
from tabularium.validations.release_spec.scalars import ColumnName, Share, Step, Text, WholeNumber

EXACT = 1 << 53  # up to here every whole number is a double
_VALUE, _GROUPS = BOUND_TAGS


class ByGroup(Part):
    """A bound for each value of a column that the table is crossed by."""

    by: ColumnName = Field(description="The column: a dimension of the table, and no hierarchy.")
    values: dict[Text, WholeNumber] = Field(description="The bound for each of its codes, all of them.")


Bound = Annotated[
    Annotated[WholeNumber, Tag(_VALUE)] | Annotated[ByGroup, Tag(_GROUPS)],
    Discriminator(lambda bound: _GROUPS if isinstance(bound, dict | ByGroup) else _VALUE),
]
"""One bound for all records, or one for each group."""


class OfColumn(Measure, ABC):
    """A measure of values between ``from`` and ``to``, in steps."""

    general: ClassVar[tuple[str, ...]] = ("from", "to", "step", *Measure.general)
    may_differ: ClassVar[bool] = True
    """Whether bounds may differ by groups."""

    start: Bound = Field(
        alias="from",
        description="The smallest value, a whole number; smaller ones count as this. By group: `{by: COLUMN, "
        "values: …}`.",
        examples=[0],
    )
    end: Bound = Field(
        alias="to",
        description="The largest value, written like `from`.",
        examples=[150000],
    )
    step: Step = Field(
        default=Fraction(1),
        description="Values are rounded to steps from `from`; both bounds are on the grid. A decimal or "
        "fraction in quotes.",
    )

    @property
    def grid(self) -> Fraction:
        return self.step

    @property
    def by(self) -> str | None:
        """The dimension by whose values bounds differ."""
        return next((bound.by for bound in (self.start, self.end) if isinstance(bound, ByGroup)), None)

    @property
    def groups(self) -> tuple[str, ...]:
        named = (bound for bound in (self.start, self.end) if isinstance(bound, ByGroup))
        return next((tuple(bound.values) for bound in named), ("",))

    @property
    def bottoms(self) -> tuple[int, ...]:
        return self._by_group(self.start)

    @property
    def tops(self) -> tuple[int, ...]:
        return self._by_group(self.end)

    def _by_group(self, bound: int | ByGroup) -> tuple[int, ...]:
        if isinstance(bound, ByGroup):
            return tuple(bound.values[code] for code in self.groups)
        return (bound,) * len(self.groups)

    def of_group(self, index: int) -> Self:
        if self.by is None:
            return self
        return self.model_copy(update={"start": self.bottoms[index], "end": self.tops[index]})

    def in_order(self, codes: Sequence[str]) -> Self:
        def ordered(bound: int | ByGroup) -> int | ByGroup:
            if not isinstance(bound, ByGroup):
                return bound
            values = {code: bound.values[code] for code in codes if code in bound.values}
            return bound.model_copy(update={"values": values})

        return self.model_copy(update={"start": ordered(self.start), "end": ordered(self.end)})

    def problems(self) -> Iterator[Problem]:
        if any(top <= bottom for bottom, top in zip(self.bottoms, self.tops, strict=True)):
            yield ("to",), "is not above `from`", "write public bounds of the values, the larger as `to`"
            return
        for key, values in (("from", self.bottoms), ("to", self.tops)):
            if any(abs(value) > EXACT or abs(value / self.step) > EXACT for value in values):
                what = "lies beyond 2^53, in numbers or in steps, where doubles do not tell neighbours apart"
                yield (key,), what, "choose a larger step, or bounds nearer to zero"
                return
            if any((value / self.step).denominator != 1 for value in values):
                yield (key,), "is not a whole number of steps", "choose bounds that `step` divides"
                return

    @property
    def decimals(self) -> int:
        """A hundredth of a step, as far as it has so few."""
        return max(0, 2 - math.floor(math.log10(self.step)))

    @property
    def description(self) -> str:
        bounds = zip(self.groups, self.bottoms, self.tops, strict=True)
        clamped = "; ".join(
            f"values below {low} and above {high} count as these{group and f' where {self.by} is {group}'}"
            for group, low, high in bounds
        )
        return (
            f"The {self.in_words} of {self.of}{self.weighted}, with noise; {clamped}, in steps of "
            f"{self.step}; records without one add nothing."
        )

    @property
    def about_query(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        bounds = f"{shown_number(float(self.bottom))} to {shown_number(float(self.top))}{unit}"
        if self.by is not None:
            bounds += f", which differ by {self.by}"
        clamped = f"Values of {self.of} count as far as their bounds, {bounds}"
        steps = f", in steps of {shown_number(float(self.step))}"
        return f"{clamped}{steps}{self.weighed}; records without a value are left out."


# A quantile of a column: the value up to which a part of all records lies, on a grid of few values.


MOST_BINS = 1 << 14
CELLS = 25
"""Simulated cells from which margins of quantiles are taken."""


class OfRank(OfColumn, ABC):
    """The value up to which a part of all records lies.

    Every number of the grid is a cell of a histogram. Intervals are as wide as the bounds in empty cells, and
    the numbers say little of how many records there are: they are shown wherever there is a number.
    """

    median: ColumnName | None = Field(default=None, description="The column whose median is published.")
    quantile: ColumnName | None = Field(
        default=None,
        description="The column of which a quantile is published: the smallest value up to which the part "
        "`at` lies.",
    )
    at: Share | None = Field(
        default=None,
        description='Of a quantile: which, such as `"1/4"` or `"90%"`; in parts of at most 1000.',
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
        offset, unit = at - float(self.bottom), float(self.step)
        widths: Floats = np.maximum(offset - unit * low, unit * high - offset)
        return np.maximum(widths, 0.0)

    @property
    def declared_method(self) -> dict[str, str | None]:
        return {"at": str(self.rank), "method": self.way}
