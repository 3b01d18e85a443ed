"""Measures as they are written, and the arrays of whole numbers by which they are measured.

A value is clamped to public bounds and put on a public grid of whole steps. What one record adds to the
array of a measure is then

    sum        x            x in [from, to], in steps; L1 and L2 change at most max(|from|, |to|)
    mean       (x - from, to - x)            two numbers that are never negative and add to T = to - from,
                                             so that one record changes them by T in L1, at most T in L2
    median     1 in each node that holds x   of a tree of L levels over [from, to] in steps; L1 change L
    by choice  1 in the cell of x            of a histogram, of which one cell is chosen and no number told
    rate       (1, 0) or (0, 1)              whether its test is true or false; change 1
    rate over  1 or 0                        the same where what it is a part of is known otherwise; change 1

each times its weight, where there is one. One draw with that sensitivity protects all numbers of the array.
Quantiles of the same values by a tree are read off one array, which is measured and paid for once.

Bounds may differ by groups, the values of another dimension of the table. A record is in a cell of one group
alone, so that the cells of each group have the noise for its own bounds.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from tabularium.mechanisms.inference.margins_of_error.quantile_margins import PARTS_BESIDE, tree_over
from tabularium.mechanisms.kernels.outward_cells import reaches
from tabularium.validations.domains.domains import CategoryDomain
from tabularium.validations.spec.kinds import BOUND_TAGS, Part, TableName
from tabularium.validations.spec.values import ColumnName, Positive, Share, Step, Text, Whole

Kind = Literal["sum", "mean", "median", "quantile", "rate", "percent"]
KINDS: tuple[Kind, ...] = ("sum", "mean", "median", "quantile", "rate", "percent")
Form = Literal["total", "pair", "tree", "choice"]
"""What its array has of each cell: a sum, two numbers that add up to all, a tree of counts, or a choice."""
PART = "part"
"""The dimension over which the array of a measure has several numbers for each cell."""
MECHANISM = "bounded_sums"
CHOOSING = "quantile_choices"
CHOICE_MARGIN = Fraction(1, 4)


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
    quantile: ColumnName | None = Field(
        default=None,
        description="The column of which a quantile is published: the smallest value that is "
        "not below the part `at` of all.",
    )
    at: Share | None = Field(default=None, description='Of a quantile: which, such as `"1/4"` or `"90%"`.')
    method: Literal["tree", "choice"] | None = Field(
        default=None,
        description="How a median or quantile is measured: by a `tree` of counts over the grid, which agrees "
        "with other tables, or by a private `choice` of one value; a tree when absent.",
    )
    margin_share: Share | None = Field(
        default=None,
        description="Of a choice: the part of its budget that measures its margin; 1/4 when absent.",
    )
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
    start: Bound | None = Field(
        default=None, alias="from", description="The smallest value; smaller ones count as this."
    )
    end: Bound | None = Field(
        default=None,
        alias="to",
        description="The largest value; larger ones count as this. It may differ: `{by: COLUMN, values: …}`.",
    )
    step: Step = Field(
        default=Fraction(1), description="Values are rounded to whole steps; the noise is in steps as well."
    )
    weight: Weight | None = Field(
        default=None,
        description="A survey weight: `{column: PWGTP, to: 400}`; null counts nothing.",
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
    def in_words(self) -> str:
        """What is published of the column, in words."""
        return f"{self.rank} quantile" if self.kind == "quantile" else self.kind

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
        if self.kind in ("median", "quantile"):
            return self.method or "tree"
        return "total" if self.kind == "sum" else "pair"

    @property
    def by(self) -> str | None:
        """The dimension by whose values bounds differ."""
        return next((each.by for each in (self.start, self.end) if isinstance(each, ByGroup)), None)

    @property
    def groups(self) -> tuple[str, ...]:
        """The values by which bounds differ, in the order of the cells; one without a name for no groups."""
        named = (each for each in (self.start, self.end) if isinstance(each, ByGroup))
        return next((tuple(each.values) for each in named), ("",))

    @property
    def bottoms(self) -> tuple[int, ...]:
        """The smallest value of each group: of a test 0."""
        return self._of_groups(0 if self.start is None else self.start)

    @property
    def tops(self) -> tuple[int, ...]:
        """The largest value of each group: of a test 1."""
        return self._of_groups(1 if self.end is None else self.end)

    def _of_groups(self, bound: int | ByGroup) -> tuple[int, ...]:
        if isinstance(bound, ByGroup):
            return tuple(bound.values[code] for code in self.groups)
        return (bound,) * len(self.groups)

    @property
    def bottom(self) -> int:
        """The smallest value of all groups."""
        return min(self.bottoms)

    @property
    def top(self) -> int:
        """The largest value of all groups."""
        return max(self.tops)

    @property
    def span(self) -> int:
        """What the ratio of a rate is multiplied by."""
        return 100 if self.percent is not None else self.per or 1000

    @property
    def spans(self) -> tuple[int, ...]:
        """What the ratio of its numbers is multiplied by, for each group."""
        if self.test is not None:
            return (self.span,)
        return tuple(top - bottom for bottom, top in zip(self.bottoms, self.tops, strict=True))

    @property
    def shown_unit(self) -> str | None:
        """What its numbers are in."""
        if self.unit is not None or self.test is None:
            return self.unit
        return "percent" if self.percent is not None else f"per {self.span:,}".replace(",", " ")

    @property
    def lows(self) -> tuple[int, ...]:
        """``from`` of each group in steps."""
        return tuple(int(bottom / self.step) for bottom in self.bottoms)

    @property
    def widths(self) -> tuple[int, ...]:
        """T of each group: ``to`` less ``from``, in steps."""
        both = zip(self.bottoms, self.tops, strict=True)
        return tuple(int((top - bottom) / self.step) for bottom, top in both)

    @property
    def low(self) -> int:
        """The smallest ``from`` in steps."""
        return min(self.lows)

    @property
    def width(self) -> int:
        """The largest T of a group."""
        return max(self.widths)

    @property
    def heaviest(self) -> int:
        """The largest weight of a record."""
        return 1 if self.weight is None else self.weight.end

    @property
    def rank(self) -> Fraction:
        """Of a quantile: the part of all values up to it."""
        return self.at or Fraction(1, 2)

    @property
    def parts(self) -> int:
        """How many numbers its array has for each cell when it is counted."""
        bins = self.width + 1
        if self.form == "tree":
            return tree_over(bins).parts
        return {"total": 1, "pair": 2, "choice": bins}[self.form]

    @property
    def largest(self) -> int:
        """The most by which one record changes the numbers of its array on one level of a tree, in L1."""
        return max(self.sensitivities)

    @property
    def levels(self) -> int:
        """How often a record is counted in the array: once on each level of a tree, else once."""
        return tree_over(self.width + 1).levels if self.form == "tree" else 1

    @property
    def sensitivity(self) -> int:
        """The most by which one record changes the array in L1; in L2 less by the root of the levels."""
        return self.largest * self.levels

    @property
    def sensitivities(self) -> tuple[int, ...]:
        """The most by which a record changes a level of the numbers of its group, for each group."""
        ones = {"tree": 1, "choice": 1}
        return tuple(
            self.heaviest * ({"total": max(abs(low), abs(low + width)), "pair": width} | ones)[self.form]
            for low, width in zip(self.lows, self.widths, strict=True)
        )

    @property
    def signed(self) -> bool:
        """Whether numbers of its array may be negative, and stay so.

        To cut the noise of a histogram at zero would draw its median towards the middle of the bounds.
        """
        return self.form in ("tree", "choice") or (self.form == "total" and self.low < 0)

    @property
    def part_domain(self) -> CategoryDomain | None:
        """What the numbers of one cell are, as they are released; None where there is one."""
        if self.form == "total":
            return None
        pair = ("above_from", "below_to") if self.test is None else ("true", "false")
        numbers = PARTS_BESIDE + 2 * reaches(self.width + 1) if self.form == "choice" else self.parts
        codes = pair if self.form == "pair" else tuple(map(str, range(numbers)))
        return CategoryDomain(PART, codes, codes)

    @property
    def mechanism(self) -> tuple[str, dict[str, int | str]]:
        """What its array is measured with, and the parameters."""
        if self.form == "choice":
            share = self.margin_share or CHOICE_MARGIN
            return CHOOSING, {"at": str(self.rank), "heaviest": self.heaviest, "margin_share": str(share)}
        return MECHANISM, {"largest": self.largest, "levels": self.levels}

    @property
    def decimals(self) -> int:
        """Digits behind the point of what is published: a hundredth of a step, as far as it has so few.

        Of a rate four digits of all that it is per, and one behind the point at least.
        """
        if self.test is not None:
            return max(1, 4 - math.floor(math.log10(self.span)))
        return max(0, 2 - math.floor(math.log10(self.step)))

    @property
    def declared(self) -> dict[str, Any]:
        """What a certificate says of it, before anything is measured."""
        return {
            "kind": self.kind,
            "of": self.of,
            **({"at": str(self.rank), "method": self.form} if self.form in ("tree", "choice") else {}),
            **({} if self.test is None else {"per": str(self.span), "over": self.over}),
            "from": str(self.bottom),
            "to": str(self.top),
            **({} if self.by is None else {"by": self.by, "groups": self._declared_groups}),
            "step": str(self.step),
            "weight": None if self.weight is None else self.weight.column,
            "largest_weight": str(self.heaviest),
            "largest_change_by_one_record": str(self.sensitivity),
        }

    @property
    def _declared_groups(self) -> list[dict[str, str]]:
        found = zip(self.groups, self.bottoms, self.tops, self.sensitivities, strict=True)
        return [
            {
                "group": code,
                "from": str(bottom),
                "to": str(top),
                "largest_change_by_one_record": str(most),
            }
            for code, bottom, top, most in found
        ]

    @property
    def counts_alike(self) -> tuple[object, ...]:
        """What two measures have in common whose arrays count the same, but for the tests of rates."""
        column = None if self.test is not None else self.of
        bounds = self.by, self.groups, self.bottoms, self.tops
        return self.form, column, bounds, self.step, self.weight
