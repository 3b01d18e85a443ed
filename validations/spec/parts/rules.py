"""The rules of a release spec: what must hold for the microdata before anything is counted."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tabularium.validations.spec.kinds import Part
from tabularium.validations.spec.values import Change, ColumnName, Count, Number, Portion, Share


class Bought(Part):
    """What a noisy number may cost."""

    share: Share = Field(description="Its part of the whole budget, spent whatever comes out.")


@dataclass(frozen=True)
class Tally:
    """A noisy number of privacy units, or of their records, that a spec buys.

    Attributes
    ----------
    of
        The name of a noisy rule, ``cut_units`` or ``records left out``.
    share
        Its part of the whole budget.
    most
        What one unit adds to it at most.
    """

    of: str
    share: Fraction
    most: int = 1

    @property
    def purpose(self) -> str:
        """Its name in the transcript."""
        return f"tally of {self.of}"


class RuleBase(Part):
    """What all validation rules share."""

    severity: Literal["stop", "warn"] = Field(
        default="stop", description="Whether a failure stops the run or is only reported."
    )
    rule: str

    @property
    def about(self) -> tuple[str, ...]:
        """The columns that it looks at."""
        return ()

    @property
    def name(self) -> str:
        """Stable name of the rule: its kind, with its columns if it has any."""
        return f"{self.rule}({', '.join(self.about)})" if self.about else self.rule


class RowCountRule(RuleBase):
    """The number of rows is within bounds."""

    rule: Literal["row_count"]
    min: Count | None = Field(default=None, description="The smallest number of rows.")
    max: Count | None = Field(default=None, description="The largest number of rows.")
    change_from_last: Change | None = Field(
        default=None, description="The largest change against the period before, as a part of it."
    )
    noisy: Bought | None = Field(
        default=None,
        description='Judge a noisy number of privacy units instead of the exact rows: `{share: "1/100"}`.',
    )


class ColumnRule(RuleBase):
    """What the rules about one column share."""

    noisy: ClassVar[None] = None
    column: ColumnName = Field(description="A declared column.")

    @property
    def about(self) -> tuple[str, ...]:
        """The column."""
        return (self.column,)


class NullsRule(ColumnRule):
    """At most so many rows are null in a column."""

    rule: Literal["nulls"]
    at_most: Portion = Field(description="The largest part of the rows that may be null.")


class InvalidRule(ColumnRule):
    """At most so many rows lie outside the domain of a column."""

    rule: Literal["invalid"]
    at_most: Portion = Field(description="The largest part of the rows that may lie outside the domain.")


class NumbersRule(ColumnRule):
    """At most so many rows hold text that is no number in a column that is measured."""

    rule: Literal["numbers"]
    column: ColumnName = Field(description="A column of a measure or weight, declared or not.")
    at_most: Portion = Field(description="The largest part of the rows that may hold no number, and no null.")


class RangeRule(ColumnRule):
    """The values of an integer column lie within bounds."""

    rule: Literal["range"]
    column: ColumnName = Field(description="A declared integer column.")
    min: Number | None = Field(default=None, description="The smallest value.")
    max: Number | None = Field(default=None, description="The largest value.")


class UniqueRule(RuleBase):
    """No two rows agree in these columns."""

    noisy: ClassVar[None] = None
    rule: Literal["unique"]
    columns: tuple[ColumnName, ...] = Field(description="Columns of the source, declared or not.")

    @property
    def about(self) -> tuple[str, ...]:
        """The columns."""
        return self.columns


Rule = Annotated[
    RowCountRule | NullsRule | InvalidRule | NumbersRule | RangeRule | UniqueRule, Field(discriminator="rule")
]
