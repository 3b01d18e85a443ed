"""A column: its public domain, and what it is made from."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, Tag

from tabularium.validations.domains.domains import Treatment
from tabularium.validations.release_spec.kinds import Categories, IntegerRange, LevelName, Part, kind_by_key
from tabularium.validations.release_spec.scalars import ColumnName, Text


class DatePart(Part):
    """A part of a date, or the age that somebody born on it has at another one."""

    part: Literal["year", "quarter", "month", "iso_year", "iso_week", "age"] = Field(
        description="`year`, `quarter` (1 to 4), `month`, `iso_year` and `iso_week` (ISO 8601: "
        "weeks from Monday, the first with a Thursday of the year), or `age` in "
        "completed years."
    )
    at: Text | None = Field(default=None, description="The date at which an `age` is meant, in quotes.")
    zone: Text | None = Field(
        default=None,
        description="The time zone in whose days instants are dated, by its name in the tz "
        "database: `Europe/Rome`. Needed where the source says when something was, and "
        "not by which clock.",
    )


class Case(Part):
    """One code, and the test of other columns that gives it."""

    when: Text = Field(description="Tests of other columns, in the language of queries.")
    then: Text = Field(description="The code of the records that pass them, and passed no case before.")


class Derivation(Part):
    """Where a column comes from: from one of the source, or from other columns."""

    source_column: ColumnName | None = Field(
        default=None,
        alias="from",
        description="The column of the source that is coded here, or one of a look-up, "
        "`homes.tenure`; default: the column's own name.",
    )
    map: dict[Text, Text] | None = Field(
        default=None,
        description="Recodes: value of the source -> code. A value that is not in it is invalid.",
    )
    date: DatePart | None = Field(
        default=None, description="Takes a part of the dates of the source: `{part: quarter}`."
    )
    cases: tuple[Case, ...] | None = Field(
        default=None, description="Codes by tests of other columns; the first case that holds counts."
    )
    otherwise: Text | None = Field(
        default=None, alias="else", description="The code where no case holds; default: null."
    )

    @property
    def is_made(self) -> bool:
        """Whether its values are computed, and not read from the source."""
        return not (self.map is None and self.date is None and self.cases is None)


class Titled(Derivation):
    """What is published of a column first."""

    title: Text | None = Field(
        default=None, description="What it is called in what is published; default: its name."
    )


class Codes(Titled):
    """Codes in the order of the cells."""

    categories: Categories = Field(
        description="The codes with their labels, in the order of the cells: `code: label` lines, a "
        "list of codes, or a list of `{code: …, label: …}`. Or a code list, relative to "
        "the spec file: a CSV with the columns code and label, or one of an SDMX file, "
        "`lists.xml#CL_SEX`.",
    )

    @property
    def code_list(self) -> str | None:
        """The code list that its codes stand in; None where the spec has them."""
        return self.categories if isinstance(self.categories, str) else None


class Numbers(Titled):
    """Numbers in bins."""

    code_list: ClassVar[None] = None
    integer: IntegerRange = Field(description="A range of numbers, whole ones or decimals, cut into bins.")


class Tree(Titled):
    """A tree of codes."""

    hierarchy: Text = Field(
        description="A code list, relative to the spec file: a CSV with the columns code, label and "
        "parent, or one of an SDMX file, `lists.xml#CL_AREA`. The source holds codes of "
        "leaves.",
    )
    levels: tuple[LevelName, ...] = Field(
        description="With `hierarchy`: the name of every level, root first.",
        examples=["[state, county], root first"],
    )

    @property
    def code_list(self) -> str:
        """The code list that its codes stand in."""
        return self.hierarchy


class Treated(Part):
    """What becomes of records that have no value of the domain."""

    nulls: Treatment = Field(
        default="reject", description="What happens to a record with null here: `reject`, or `other`."
    )
    invalid: Treatment = Field(
        default="reject",
        description="What happens to a record with a value outside the domain: `reject`, or `other`.",
    )
    other: Text | None = Field(
        default=None,
        description="Where these go: one of the codes; of a hierarchy a leaf; of an integer column "
        "the label of an extra cell.",
    )


# A published spec has the fields in the order of the bases, the last one's first.
class CategoryColumn(Treated, Codes):
    """A column of codes."""

    kind_name: ClassVar[str] = "a column of categories"
    written_as: ClassVar[Literal["categories"]] = "categories"


class NumberColumn(Treated, Numbers):
    """A column of numbers in bins."""

    kind_name: ClassVar[str] = "a column of numbers"
    written_as: ClassVar[Literal["integer"]] = "integer"


class HierarchyColumn(Treated, Tree):
    """A column of the leaves of a tree."""

    kind_name: ClassVar[str] = "a column of a hierarchy"
    written_as: ClassVar[Literal["hierarchy"]] = "hierarchy"


COLUMNS: dict[str, type[Part]] = {
    "[categories]": CategoryColumn,
    "[integer]": NumberColumn,
    "[hierarchy]": HierarchyColumn,
}
"""Kinds of column by the tags by which pydantic tells them apart; no key of a file."""
Column = Annotated[
    Annotated[CategoryColumn, Tag("[categories]")]
    | Annotated[NumberColumn, Tag("[integer]")]
    | Annotated[HierarchyColumn, Tag("[hierarchy]")],
    *kind_by_key(COLUMNS, "the column has no domain", "add categories, integer or hierarchy"),
]
"""A column with its public domain."""
