"""The margins of error that are wanted: `tabularium plan` finds shares for them, a run ignores them."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated

from pydantic import Field

from tabularium.validations.spec.kinds import LevelName, Part, TableName
from tabularium.validations.spec.measures.array_owners import array_name
from tabularium.validations.spec.scalars import Portion, Positive, Text, Whole, matching

Digest = Annotated[Text, *matching("[0-9a-f]{64}", "write the SHA-256 as 64 hexadecimal digits")]


class Target(Part):
    """A wanted accuracy: one of ``margin``, ``relative`` and ``unreliable``."""

    table: TableName = Field(description="The table that it is about.")
    measure: TableName | None = Field(
        default=None, description="The measure of the table that it is about; its counts when absent."
    )
    level: LevelName | None = Field(
        default=None, description="The level of its hierarchy; all published levels when absent."
    )
    margin: Positive | None = Field(default=None, description="The largest margin of error of a cell.")
    relative: Portion | None = Field(
        default=None, description='The largest margin as a part of the count `at`, such as "10%".'
    )
    at: Positive | None = Field(
        default=None,
        description="The count or sum that `relative` is a part of; of a mean or rate the number of records.",
    )
    value: Whole | None = Field(
        default=None, description="Of a mean or rate: the one at which it is meant; the worst when absent."
    )
    unreliable: Portion | None = Field(
        default=None,
        description="The largest part of the cells that may be flagged as unreliable by "
        "`publication.quality`; judged on public counts.",
    )

    @property
    def array(self) -> str:
        """The name of what is measured."""
        return self.table if self.measure is None else array_name(self.table, self.measure)

    @property
    def largest(self) -> Fraction | None:
        """The largest margin of error; None where counts decide it."""
        if self.margin is not None:
            return Fraction(self.margin)
        return None if self.relative is None else self.relative * (self.at or 0)

    @property
    def words(self) -> str:
        """What is wanted, in a few words."""
        if self.margin is not None:
            return f"±{self.margin:,}" + (f" at {self.at:,}" if self.at else "")
        if self.relative is not None:
            return f"{float(100 * self.relative):g} % at {self.at:,}"
        return f"at most {float(100 * (self.unreliable or 0)):g} % unreliable"


class Tuning(Part):
    """The published release whose counts shares and levels were chosen on."""

    release: Text = Field(description="Its id.")
    certificate: Digest = Field(description="The SHA-256 of its certificate.")
