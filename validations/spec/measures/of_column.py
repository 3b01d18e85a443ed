"""A measure of the values of a column, with public bounds that may differ by groups and a public grid."""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Annotated, ClassVar, Self

from pydantic import Discriminator, Field, Tag

from tabularium.mechanisms.queries.attributes import shown_number
from tabularium.validations.spec.kinds import BOUND_TAGS, Part
from tabularium.validations.spec.measures.measure import Measure, Problem
from tabularium.validations.spec.scalars import ColumnName, Step, Text, Whole

EXACT = 1 << 53  # up to here every whole number is a double
_VALUE, _GROUPS = BOUND_TAGS


class ByGroup(Part):
    """A bound for each value of a column that the table is crossed by."""

    by: ColumnName = Field(description="The column: a dimension of the table, and no hierarchy.")
    values: dict[Text, Whole] = Field(description="The bound for each of its codes, all of them.")


Bound = Annotated[
    Annotated[Whole, Tag(_VALUE)] | Annotated[ByGroup, Tag(_GROUPS)],
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
        description="The smallest value, a whole number; smaller ones count as this. It may differ "
        "by group: `{by: COLUMN, values: …}`.",
        examples=[0],
    )
    end: Bound = Field(
        alias="to",
        description="The largest value, a whole number; larger ones count as this. It may differ by group.",
        examples=[150000],
    )
    step: Step = Field(
        default=Fraction(1),
        description="The grid: values are rounded to whole steps from `from`, and both bounds are "
        "on it. A decimal or a fraction in quotes.",
    )

    @property
    def grid(self) -> Fraction:
        return self.step

    @property
    def by(self) -> str | None:
        """The dimension by whose values bounds differ."""
        return next((each.by for each in (self.start, self.end) if isinstance(each, ByGroup)), None)

    @property
    def groups(self) -> tuple[str, ...]:
        named = (each for each in (self.start, self.end) if isinstance(each, ByGroup))
        return next((tuple(each.values) for each in named), ("",))

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

    def of_group(self, place: int) -> Self:
        if self.by is None:
            return self
        return self.model_copy(update={"start": self.bottoms[place], "end": self.tops[place]})

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
