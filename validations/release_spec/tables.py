"""Tables in a spec: tables, histograms, public numbers shown exactly, impossible cells, and noisy arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Literal, TypeVar

from pydantic import Field

from tabularium.validations.release_spec.kinds import LevelName, Part, PriorName, TableName
from tabularium.validations.release_spec.measures.kinds import AnyMeasure
from tabularium.validations.release_spec.measures.measure import PART, Measure
from tabularium.validations.release_spec.privacy import Privacy
from tabularium.validations.release_spec.scalars import (
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
        description="Small letters, digits and underscores, at most 63; also the name of its files."
    )
    title: Text | None = Field(default=None, description="Its title in what is published; default: its name.")
    dimensions: tuple[ColumnName, ...] = Field(description="The columns that are crossed.")
    where: Text | None = Field(
        default=None,
        description='Which records it counts, such as `"age >= 15 and status = employed"`; default: all.',
    )
    size: Positive | None = Field(
        default=None,
        description="About how many records it will count; without `where`, default: `size` of the spec.",
    )
    share: Share | None = Field(
        default=None,
        description="Its part of the budget; default: equal parts. All tables have one or none; they add to "
        "exactly 1.",
    )
    levels: dict[LevelName, Share] | None = Field(
        default=None,
        description="The levels that are measured, each with its part of the table's budget; default: the "
        "deepest. The parts add to exactly 1.",
    )
    along: ColumnName | None = Field(
        default=None,
        description="The dimension that `levels` belong to; default: the first hierarchical one. Any other "
        "is counted at its leaves.",
    )
    mechanism: Text | None = Field(
        default=None,
        description="How counts are measured; default: `identity`, under zcdp `gaussian`.",
    )
    parameters: dict[Text, Parameter] = Field(default_factory=dict, description="Its parameters.")
    per: ColumnName | None = Field(
        default=None,
        description="A dimension, such as a region: each of its values has a mechanism of its own, with the "
        "whole budget of the table.",
    )
    margin_share: ErrorShare | None = Field(
        default=None,
        description='The part of the table\'s budget that measures its error, at most `"1/2"`; `0` for no '
        'margins. Default: `"1/20"` for a mechanism that cannot tell its own error.',
    )
    prior: PriorName | None = Field(
        default=None,
        description="What the finest counts are drawn towards: an earlier release of the product, by its id, "
        "or `above`.",
    )
    measures: dict[TableName, AnyMeasure] = Field(
        default_factory=dict,
        description="Sums, means, quantiles, variances, rates and distinct counts, by name.",
    )


class Table(TableEntry):
    """A table with everything filled in.

    ``levels`` names each measured level of ``along`` with its share of the table's budget; it is empty, and
    ``along`` None, when no dimension is a hierarchy. ``margin_share`` is None where no part of the budget
    measures the error. For an array, ``measured`` is the measure that it was made for, and ``measures`` are
    those that are read off it.
    """

    share: Share
    levels: dict[LevelName, Share]
    mechanism: Text = "identity"
    measured: AnyMeasure | None = Field(default=None, exclude=True)

    @property
    def mechanism_in_words(self) -> str:
        """The mechanism in words: ``denoise``, ``denoise per region``."""
        if self.per is None or self.mechanism in PLAIN:
            return self.mechanism
        name = self.parameters["mechanism"] if self.mechanism == PER_REGION else self.mechanism
        return f"{name} per {self.per}"


class Histogram(Part):
    """How many values of a column have how many records, as household sizes: never which values these are."""

    name: TableName = Field(description="As of a table, and different from theirs.")
    title: Text | None = Field(default=None, description="Its title in what is published; default: its name.")
    of: ColumnName = Field(
        description="The column whose values are counted, such as `household_id`; it needs no domain. "
        "Records with null are left out."
    )
    share: Share = Field(description="Its part of the whole budget; tables have the rest.")
    parameters: dict[Text, Parameter] = Field(
        default_factory=dict, description="Parameters of `privhist`, except `form`."
    )
    largest: Positive | None = Field(
        default=None,
        description="The largest size that is possible, if that is public.",
    )

    def largest_size(self, privacy: Privacy) -> int | None:
        """Return the largest size that is publicly possible: of units themselves, what bounding leaves."""
        known = [self.largest, privacy.max_contributions if self.of == privacy.unit.column else None]
        return min((limit for limit in known if limit is not None), default=None)


class Figures(Part):
    """Numbers that are public without this release, such as a population that rates are over."""

    name: TableName = Field(description="As of a table; all names differ.")
    dimensions: tuple[ColumnName, ...] = Field(
        default=(), description="The columns that are crossed; none for a total."
    )
    level: LevelName | None = Field(
        default=None,
        description="The level of its hierarchical dimension; default: the deepest.",
    )
    values: Text | None = Field(
        default=None,
        description="A CSV file, relative to the spec file, with one column of codes per dimension, and "
        "`count`; one row for every cell.",
    )
    count: Count | None = Field(default=None, description="Instead of `values`: the total.")
    reason: Text = Field(description="Where the numbers are public; it is published.")


class Invariant(Figures):
    """Numbers that are public without this release, and that its tables are to show exactly."""

    on_conflict: Literal["stop", "publish"] = Field(
        default="stop",
        description="If measurements contradict it beyond chance: `stop`, or `publish` and name the "
        "conflict.",
    )


class Impossible(Part):
    """A public fact: values of columns that nobody can have together."""

    cells: dict[ColumnName, tuple[Text, ...]] = Field(
        description="Column -> values that cannot occur together with those of the other columns: codes, any "
        "nodes of a hierarchy, or labels of bins."
    )
    reason: Reason = Field(description="Why, from public knowledge; it is published.")
    records: Literal["reject"] | dict[ColumnName, Text] = Field(
        default="reject",
        description="What becomes of such a record: `reject`, or `{COLUMN: CODE}` to count it under another "
        "value.",
    )

    @property
    def moved_to(self) -> tuple[str, str] | None:
        """The column and the code under which its records are counted; None where they are rejected."""
        return None if isinstance(self.records, str) else next(iter(self.records.items()))

    @property
    def in_words(self) -> str:
        """The values, as ``age 0-14 with veteran yes``."""
        return " with ".join(f"{name} {' or '.join(values)}" for name, values in self.cells.items())


# The arrays by which the measures of a table are measured: which each is read off, and what pays for it.


T = TypeVar("T", bound=Part)


def array_name(table: str, owner: str) -> str:
    """Return the name of the array that a measure has of its own; no table has a ``-`` in its own."""
    return f"{table}-{owner}"


def array_of(measures: Mapping[str, Measure], table: str, name: str) -> str:
    """Return the name of the array that a measure is read off."""
    return array_name(table, owner_of(measures, name))


def owner_of(measures: Mapping[str, Measure], name: str) -> str:
    """Return the measure whose array it is: of quantiles by one tree the first, of all others their own."""
    measure = measures[name]
    if not measure.reads_shared_array:
        return name
    return next(name for name, other in measures.items() if other.counts_alike == measure.counts_alike)


def owners(measures: Mapping[str, Measure]) -> dict[str, Measure]:
    """Return the measures that have an array of their own, which pays for others that are read off it."""
    return {name: measure for name, measure in measures.items() if owner_of(measures, name) == name}


def counts_of(table: T) -> T:
    """Return the counts of a filled-in table with what measures them: in each region its own mechanism."""
    per: str | None = table.per  # type: ignore[attr-defined]
    mechanism: str = table.mechanism  # type: ignore[attr-defined]
    if per is None or mechanism in (*PLAIN, PER_REGION):
        return table
    parameters = {
        "mechanism": mechanism,
        "parameters_of_each": dict(table.parameters),  # type: ignore[attr-defined]
        "axis": axis_of(table, per),
    }
    return table.model_copy(update={"mechanism": PER_REGION, "parameters": parameters})


def axis_of(table: Part, name: str) -> int:
    """Return the axis of a dimension in the shape in which a filled-in table is counted."""
    along: str | None = table.along  # type: ignore[attr-defined]
    if name == along:
        return 0
    others = [dimension for dimension in table.dimensions if dimension != along]  # type: ignore[attr-defined]
    return others.index(name) + (along is not None)  # the nodes of the hierarchy come first


def split(table: T) -> Iterator[T]:
    """Yield what is measured of a filled-in table: its counts, then the array of each measure.

    Each with its part of the table's share.
    """
    measures: dict[str, Measure] = table.measures  # type: ignore[attr-defined]
    if not measures:
        yield counts_of(table)
        return
    share: Fraction = table.share  # type: ignore[attr-defined]
    arrays = owners(measures)
    shares = {name: measure.share or Fraction(0) for name, measure in arrays.items()}
    yield counts_of(table).model_copy(update={"share": share * (1 - sum(shares.values()))})
    for name, measure in arrays.items():
        mechanism, parameters = measure.mechanism
        dimensions: tuple[str, ...] = table.dimensions  # type: ignore[attr-defined]
        yield table.model_copy(
            update={
                "name": array_of(measures, table.name, name),  # type: ignore[attr-defined]
                "dimensions": (*dimensions, *([PART] if measure.part_domain else [])),
                "share": share * shares[name],
                "mechanism": mechanism,
                "parameters": parameters | _of_groups(table, measure),
                "per": None,
                "margin_share": None,
                "measures": {n: entry for n, entry in measures.items() if owner_of(measures, n) == name},
                "measured": measure,
            }
        )


def _of_groups(table: T, measure: Measure) -> dict[str, object]:
    """Return the parameters of the mechanism that say how the noise differs by groups."""
    if measure.by is None:
        return {}
    return {"by_group": list(measure.sensitivities), "axis": axis_of(table, measure.by)}


def in_order(measure: Measure, codes: Mapping[str, tuple[str, ...]]) -> Measure:
    """Return a measure whose groups stand in the order of the cells: column -> its codes."""
    return measure if measure.by is None or measure.by not in codes else measure.in_order(codes[measure.by])


def with_shares(measures: dict[str, Measure]) -> dict[str, Measure]:
    """Return measures with their shares of the table's budget: where none has one, as much as the count.

    A quantile that is read off the array of another one has none.
    """
    arrays = owners(measures)
    equal = Fraction(1, 1 + len(arrays))
    return {
        name: measure.model_copy(update={"share": equal})
        if measure.share is None and name in arrays
        else measure
        for name, measure in measures.items()
    }
