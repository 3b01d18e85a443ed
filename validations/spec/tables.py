"""What is published: tables, histograms, public numbers shown exactly, and cells that nobody can be in."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tabularium.validations.spec.kinds import LevelName, Part, PriorName, TableName
from tabularium.validations.spec.measures.kinds import AnyMeasure
from tabularium.validations.spec.privacy import Privacy
from tabularium.validations.spec.scalars import (
    ColumnName,
    Count,
    ErrorShare,
    Parameter,
    Positive,
    Reason,
    Share,
    Text,
)

PLAIN = ("identity", "cells", "gaussian")
"""Noise of a known distribution in every cell, and nothing else: in each region as in the whole table."""
APART = ("identity", "gaussian")
"""Those whose noise in one cell knows nothing of that in others, nor of how many there are."""
ABOVE = "above"
"""In the place of an earlier release: the counts of a level are drawn towards those of the level above."""
PER_REGION = "per_region"
"""What runs the mechanism of a table in each of its regions."""


class TableEntry(Part):
    """A table as it is written: what is absent is filled in later."""

    name: TableName = Field(
        description="Small letters, digits and underscores, at most 63; also the name of the files."
    )
    title: Text | None = Field(
        default=None, description="What it is called in what is published; default: its name."
    )
    dimensions: tuple[ColumnName, ...] = Field(
        description="The columns that are crossed, each declared under `columns`."
    )
    where: Text | None = Field(
        default=None,
        description='Which records it counts: tests of declared columns, such as `"age >= 15 and '
        'status = employed"`; default: all.',
    )
    size: Positive | None = Field(
        default=None,
        description="About how many records it will count; default: `size` of the spec, if there is "
        "no `where`. A run ignores it.",
    )
    share: Share | None = Field(
        default=None,
        description="The table's part of the budget; default: equal parts. All tables have a share "
        "or none has; shares add to exactly 1.",
    )
    levels: dict[LevelName, Share] | None = Field(
        default=None,
        description="Which levels of the hierarchy are measured, each with its part of the table's "
        "budget; default: the deepest. The parts add to exactly 1.",
    )
    along: ColumnName | None = Field(
        default=None,
        description="The hierarchical dimension that the `levels` belong to; default: the first. "
        "Any other is counted at its leaves.",
    )
    mechanism: Text | None = Field(
        default=None,
        description="How the counts are measured; default: `identity`, under zcdp `gaussian`.",
    )
    parameters: dict[Text, Parameter] = Field(
        default_factory=dict, description="The parameters of the mechanism."
    )
    per: ColumnName | None = Field(
        default=None,
        description="A dimension, such as a region or an industry: the counts of each of its places "
        "are measured by a mechanism of their own, with the whole budget of the table.",
    )
    margin_share: ErrorShare | None = Field(
        default=None,
        description="The part of the table's budget that measures its error, for a mechanism that "
        'cannot tell its own error; at most `"1/2"`, and by default `"1/20"` where it '
        "is needed. `0` publishes no margins of error.",
    )
    prior: PriorName | None = Field(
        default=None,
        description="What the finest counts are drawn towards: those of an earlier release of the "
        "product, by its id, or `above`, what the level above makes expect.",
    )
    measures: dict[TableName, AnyMeasure] = Field(
        default_factory=dict,
        description="Numbers about a column, as well as the counts, by name: sums, means, "
        "quantiles, variances, rates, distinct counts.",
    )


class Table(TableEntry):
    """A table with everything filled in.

    ``levels`` names each measured level of ``along`` with its share of the table's budget; it is empty, and
    ``along`` None, when no dimension is a hierarchy. ``margin_share`` is None where no part of the
    budget measures the error. Of an array, ``measured`` is the measure that it was made for, and ``measures``
    are those that are read off it.
    """

    share: Share
    levels: dict[LevelName, Share]
    mechanism: Text = "identity"
    measured: AnyMeasure | None = Field(default=None, exclude=True)

    @property
    def mechanism_in_words(self) -> str:
        """The mechanism as people are told of it: ``denoise``, ``denoise per region``."""
        if self.per is None or self.mechanism in PLAIN:
            return self.mechanism
        own = self.parameters["mechanism"] if self.mechanism == PER_REGION else self.mechanism
        return f"{own} per {self.per}"


class Histogram(Part):
    """How many values of a column have how many records, as household sizes: never which values these are."""

    name: TableName = Field(description="As of a table; tables and histograms have different names.")
    title: Text | None = Field(
        default=None, description="What it is called in what is published; default: its name."
    )
    of: ColumnName = Field(
        description="The column whose values are counted, such as `household_id`. It needs no "
        "public domain. A record with null here is in no histogram of this column; "
        "tables do count it."
    )
    share: Share = Field(
        description="The histogram's part of the whole budget. What the histograms leave is the "
        "budget of the tables."
    )
    parameters: dict[Text, Parameter] = Field(
        default_factory=dict, description="The parameters of `privhist`, which measures it, except `form`."
    )
    largest: Positive | None = Field(
        default=None,
        description="The largest size that can be, where that is public; none is published above it.",
    )

    def largest_size(self, privacy: Privacy) -> int | None:
        """Return the largest size that is publicly possible: of units themselves, what bounding leaves."""
        known = [self.largest, privacy.max_contributions if self.of == privacy.unit.column else None]
        return min((each for each in known if each is not None), default=None)


class Figures(Part):
    """Numbers that are public without this release, such as a population that rates are over."""

    name: TableName = Field(description="As of a table; all names differ.")
    dimensions: tuple[ColumnName, ...] = Field(
        default=(), description="The columns that are crossed in it; none for a total."
    )
    level: LevelName | None = Field(
        default=None,
        description="The level of its hierarchical dimension that the numbers are about; default: "
        "the deepest.",
    )
    values: Text | None = Field(
        default=None,
        description="A CSV file, relative to the spec file: one column per dimension with its "
        "codes, and `count`. Every cell has a row, a zero too.",
    )
    count: Count | None = Field(
        default=None, description="Instead of `values`, where there are no dimensions: the total."
    )
    reason: Text = Field(description="Where the numbers are public already; it is published.")


class Invariant(Figures):
    """Numbers that are public without this release, and that its tables are to show exactly."""

    on_conflict: Literal["stop", "publish"] = Field(
        default="stop",
        description="What is done if the measurements contradict it beyond chance: `stop`, or "
        "`publish` with the conflict named.",
    )


class Impossible(Part):
    """A public fact: values of columns that nobody can have together."""

    cells: dict[ColumnName, tuple[Text, ...]] = Field(
        description="Column -> the values that cannot occur together with those of the other "
        "columns: codes; of a hierarchy any node, which means all leaves below it; of "
        "an integer column the labels of bins."
    )
    reason: Reason = Field(description="Why, as is known without the data; it is published.")
    records: Literal["reject"] | dict[ColumnName, Text] = Field(
        default="reject",
        description="What becomes of a record that has them all the same: `reject`, or `{COLUMN: "
        "CODE}`, which counts it under that value of one of the columns.",
    )

    @property
    def moved_to(self) -> tuple[str, str] | None:
        """The column and the code under which its records are counted; None where they are rejected."""
        return None if isinstance(self.records, str) else next(iter(self.records.items()))

    @property
    def in_words(self) -> str:
        """The values, as ``age 0-14 with veteran yes``."""
        return " with ".join(f"{name} {' or '.join(values)}" for name, values in self.cells.items())
