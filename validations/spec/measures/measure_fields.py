"""Measures as they are written, and the arrays of whole numbers by which they are measured.

A value is clamped to public bounds and put on a public grid of whole steps. What one record adds to the
array of a measure is then

    sum        x            x in [from, to], in steps; L1 and L2 change at most max(|from|, |to|)
    mean       (x - from, to - x)            two numbers that are never negative and add to T = to - from,
                                             so that one record changes them by T in L1, at most T in L2
    median     1 in the cell of x            of a histogram over [from, to] in steps; change 1
    rate       (1, 0) or (0, 1)              whether its test is true or false; change 1
    rate over  1 or 0                        the same where what it is a part of is known otherwise; change 1

each times its weight, where there is one. One draw with that sensitivity protects all numbers of the array.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Literal, TypeVar

from pydantic import Field

from validations.domains.domains import CategoryDomain
from validations.spec.kinds import Part, TableName
from validations.spec.values import ColumnName, Positive, Share, Step, Text, Whole

Kind = Literal["sum", "mean", "median", "rate", "percent"]
KINDS: tuple[Kind, ...] = ("sum", "mean", "median", "rate", "percent")
Form = Literal["total", "pair", "bins"]
"""What its array has of each cell: one sum, two numbers that add up to all, or a histogram."""
PART = "part"
"""The dimension over which the array of a measure has several numbers for each cell."""
MECHANISM = "bounded_sums"
T = TypeVar("T", bound=Part)


class Weight(Part):
    """A fixed number of each record that its value is multiplied by, such as a survey weight."""

    column: ColumnName = Field(description="The column that holds it; it is rounded to a whole number.")
    end: Positive = Field(
        alias="to", description="The largest weight; larger ones count as this, and less than 0 as 0."
    )


class Measure(Part):
    """A number of every cell beside its count: one of `KINDS`."""

    sum: ColumnName | None = Field(default=None, description="The column whose values are added up.")
    mean: ColumnName | None = Field(default=None, description="The column whose mean is published.")
    median: ColumnName | None = Field(default=None, description="The column whose median is published.")
    rate: Text | None = Field(
        default=None,
        description='A test such as `"status = employed"`: how many of `per` records pass it is published.',
    )
    percent: Text | None = Field(
        default=None, description="A test as of a rate: how many of a hundred records pass it."
    )
    per: Positive | None = Field(default=None, description="Of a rate: of how many; of 1000 when absent.")
    over: TableName | None = Field(
        default=None,
        description="Of a rate: the table, invariant or public figures that it is a part of; its own records "
        "when absent.",
    )
    start: Whole | None = Field(
        default=None, alias="from", description="The smallest value; smaller ones count as this."
    )
    end: Whole | None = Field(
        default=None, alias="to", description="The largest value; larger ones count as this."
    )
    step: Step = Field(
        default=Fraction(1), description="Values are rounded to whole steps; the noise is in steps as well."
    )
    weight: Weight | None = Field(
        default=None,
        description="A survey weight: `{column: PWGTP, to: 400}`; null or unreadable counts nothing.",
    )
    share: Share | None = Field(
        default=None, description="The part of the table's budget; the count has what is left of it."
    )
    title: Text | None = Field(default=None, description="What it is called in what is published.")
    unit: Text | None = Field(default=None, description="What its numbers are in, such as `dollars`.")

    @property
    def kind(self) -> Kind:
        """What is published of the column."""
        return next(kind for kind in KINDS if getattr(self, kind) is not None)

    @property
    def of(self) -> str:
        """The column that holds the values, or the test of a rate."""
        return str(getattr(self, self.kind))

    @property
    def test(self) -> str | None:
        """The test of a rate."""
        return self.rate if self.rate is not None else self.percent

    @property
    def columns(self) -> list[str]:
        """The columns of the source that are read for it, but for those that a test is about."""
        return [*([self.of] if self.test is None else []), *([self.weight.column] if self.weight else [])]

    @property
    def form(self) -> Form:
        """What its array has of each cell."""
        if self.test is not None:
            return "pair" if self.over is None else "total"
        return "total" if self.kind == "sum" else "pair" if self.kind == "mean" else "bins"

    @property
    def bottom(self) -> int:
        """The smallest value: of a test 0."""
        return self.start or 0

    @property
    def top(self) -> int:
        """The largest value: of a test 1."""
        return 1 if self.end is None else self.end

    @property
    def span(self) -> int:
        """What the ratio of its numbers is multiplied by: of a rate what it is per."""
        if self.test is None:
            return self.top - self.bottom
        return 100 if self.percent is not None else self.per or 1000

    @property
    def shown_unit(self) -> str | None:
        """What its numbers are in."""
        if self.unit is not None or self.test is None:
            return self.unit
        return "percent" if self.percent is not None else f"per {self.span:,}".replace(",", " ")

    @property
    def low(self) -> int:
        """``from`` in steps."""
        return int(self.bottom / self.step)

    @property
    def width(self) -> int:
        """T: ``to`` less ``from``, in steps."""
        return int((self.top - self.bottom) / self.step)

    @property
    def heaviest(self) -> int:
        """The largest weight of a record."""
        return 1 if self.weight is None else self.weight.end

    @property
    def parts(self) -> int:
        """How many numbers its array has for each cell."""
        return {"total": 1, "pair": 2, "bins": self.width + 1}[self.form]

    @property
    def sensitivity(self) -> int:
        """The most by which one record changes the array, in L1 and in L2."""
        largest = max(abs(self.low), abs(self.low + self.width))
        return self.heaviest * {"total": largest, "pair": self.width, "bins": 1}[self.form]

    @property
    def signed(self) -> bool:
        """Whether numbers of its array may be negative, and stay so.

        To cut the noise of a histogram at zero would draw its median towards the middle of the bounds.
        """
        return self.form == "bins" or (self.form == "total" and self.low < 0)

    @property
    def part_domain(self) -> CategoryDomain | None:
        """What the numbers of one cell are; None where there is one."""
        if self.form == "total":
            return None
        pair = ("above_from", "below_to") if self.test is None else ("true", "false")
        codes = pair if self.form == "pair" else tuple(map(str, range(self.parts)))
        return CategoryDomain(PART, codes, codes)

    @property
    def decimals(self) -> int:
        """Digits behind the point of what is published: a hundredth of a step, as far as it has so few.

        Of a rate four digits of all that it is per, and one behind the point at least.
        """
        if self.test is not None:
            return max(1, 4 - math.floor(math.log10(self.span)))
        return max(0, 2 - math.floor(math.log10(self.step)))

    @property
    def declared(self) -> dict[str, str | None]:
        """What a certificate says of it, before anything is measured."""
        return {
            "kind": self.kind,
            "of": self.of,
            **({} if self.test is None else {"per": str(self.span), "over": self.over}),
            "from": str(self.bottom),
            "to": str(self.top),
            "step": str(self.step),
            "weight": None if self.weight is None else self.weight.column,
            "largest_weight": str(self.heaviest),
            "largest_change_by_one_record": str(self.sensitivity),
        }

    @property
    def counts_alike(self) -> tuple[object, ...]:
        """What two measures have in common whose arrays count the same, but for the tests of rates."""
        column = None if self.test is not None else self.of
        return self.form, column, self.bottom, self.top, self.step, self.weight


def array_name(table: str, measure: str) -> str:
    """Return the name of the array of a measure; no table has a ``-`` in its own."""
    return f"{table}-{measure}"


def split(table: T) -> Iterator[T]:
    """Yield what is measured of a filled-in table: its counts, then the array of each measure.

    Each with its part of the table's share.
    """
    measures: dict[str, Measure] = table.measures  # type: ignore[attr-defined]
    if not measures:
        yield table
        return
    whole: Fraction = table.share  # type: ignore[attr-defined]
    shares = {name: measure.share or Fraction(0) for name, measure in measures.items()}
    yield table.model_copy(update={"share": whole * (1 - sum(shares.values()))})
    for name, measure in measures.items():
        dimensions: tuple[str, ...] = table.dimensions  # type: ignore[attr-defined]
        yield table.model_copy(
            update={
                "name": array_name(table.name, name),  # type: ignore[attr-defined]
                "dimensions": (*dimensions, *([PART] if measure.part_domain else [])),
                "share": whole * shares[name],
                "mechanism": MECHANISM,
                "parameters": {"largest": measure.sensitivity},
                "margin_share": None,
                "measures": {},
                "measured": measure,
            }
        )


def with_shares(measures: dict[str, Measure]) -> dict[str, Measure]:
    """Return measures with their shares of the table's budget: where none has one, as much as the count."""
    equal = Fraction(1, 1 + len(measures))
    return {
        name: measure if measure.share is not None else measure.model_copy(update={"share": equal})
        for name, measure in measures.items()
    }
