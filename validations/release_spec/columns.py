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
        description="`year`, `quarter`, `month`, `iso_year` and `iso_week` (ISO 8601), or `age` in completed "
        "years."
    )
    at: Text | None = Field(default=None, description="The date of an `age`, in quotes.")
    zone: Text | None = Field(
        default=None,
        description="The time zone of the days in which instants are dated, such as `Europe/Rome`; needed "
        "where the source has instants.",
    )


class Case(Part):
    """One code, and the test of other columns that gives it."""

    when: Text = Field(description="Tests of other columns.")
    then: Text = Field(description="The code of records that pass, and passed no case before.")


class Derivation(Part):
    """Where a column comes from: from one of the source, or from other columns."""

    source_column: ColumnName | None = Field(
        default=None,
        alias="from",
        description="The column of the source, or of a look-up (`homes.tenure`), that is coded here; "
        "default: its own name.",
    )
    map: dict[Text, Text] | None = Field(
        default=None,
        description="Value of the source -> code. Any other value is invalid.",
    )
    date: DatePart | None = Field(default=None, description="A part of dates: `{part: quarter}`.")
    cases: tuple[Case, ...] | None = Field(
        default=None, description="Codes by tests of other columns; the first that holds counts."
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

    title: Text | None = Field(default=None, description="Its title in what is published; default: its name.")


class Codes(Titled):
    """Codes in the order of the cells."""

    categories: Categories = Field(
        description="Codes and labels in the order of the cells: `code: label` lines, a list of codes, or a "
        "list of `{code: …, label: …}`. Or a code list, relative to the spec file: a CSV with "
        "the columns code and label, or one of an SDMX file, `lists.xml#CL_SEX`.",
    )

    @property
    def code_list(self) -> str | None:
        """The code list that its codes stand in; None where the spec has them."""
        return self.categories if isinstance(self.categories, str) else None


class Numbers(Titled):
    """Numbers in bins."""

    code_list: ClassVar[None] = None
    integer: IntegerRange = Field(description="A range of whole numbers or decimals, cut into bins.")


class Tree(Titled):
    """A tree of codes."""

    hierarchy: Text = Field(
        description="A code list of a tree: a CSV with the columns code, label and parent, or one of an SDMX "
        "file, `lists.xml#CL_AREA`. The source holds leaves.",
    )
    levels: tuple[LevelName, ...] = Field(
        description="With `hierarchy`: the names of all levels, root first.",
        examples=["[state, county], root first"],
    )

    @property
    def code_list(self) -> str:
        """The code list that its codes stand in."""
        return self.hierarchy


class Treated(Part):
    """What becomes of records that have no value of the domain."""

    nulls: Treatment = Field(
        default="reject", description="What happens to a record with null: `reject`, or `other`."
    )
    invalid: Treatment = Field(
        default="reject",
        description="The same with a value outside the domain.",
    )
    other: Text | None = Field(
        default=None,
        description="Where `other` counts them: a code, a leaf, or the label of an extra cell of an integer "
        "column.",
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
