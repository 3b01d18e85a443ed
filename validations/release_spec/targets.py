"""The margins of error that are wanted: `tabularium plan` finds shares for them, a run ignores them."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field, Tag

from tabularium.validations.release_spec.kinds import LevelName, Part, TableName, kind_by_key
from tabularium.validations.release_spec.scalars import Portion, Positive, Text, WholeNumber, matching, refuse
from tabularium.validations.release_spec.tables import array_name

Digest = Annotated[Text, *matching("[0-9a-f]{64}", "write the SHA-256 as 64 hexadecimal digits")]


_AT = (
    "The count or sum that `relative` is a part of; of a mean or rate the number of "
    "records in a cell, or of their weights."
)


def _above_zero(part: Fraction) -> Fraction:
    if not part:
        raise refuse("no noise is as small as that", "write a part above zero")
    return part


class TargetBase(Part):
    """What all targets share."""

    table: TableName = Field(description="The table.")
    measure: TableName | None = Field(
        default=None, description="A sum, mean or rate of the table; default: its counts."
    )
    level: LevelName | None = Field(
        default=None, description="The level of the hierarchy; default: every published one."
    )

    @property
    def array(self) -> str:
        """The name of what is measured."""
        return self.table if self.measure is None else array_name(self.table, self.measure)


class MarginTarget(TargetBase):
    """The largest margin of error of a cell; of a mean or rate at a number of records."""

    kind_name: ClassVar[str] = "a target with a margin"
    written_as: ClassVar[str] = "margin"
    unreliable: ClassVar[None] = None
    margin: Positive = Field(description="The largest margin, a whole number.")
    at: Positive | None = Field(default=None, description=_AT)
    value: WholeNumber | None = Field(
        default=None,
        description="Of a mean or rate: its value; default: the worst.",
    )

    @property
    def largest(self) -> Fraction:
        """The largest margin of error."""
        return Fraction(self.margin)

    @property
    def words(self) -> str:
        """What is wanted, in a few words."""
        return f"±{self.margin:,}" + (f" at {self.at:,}" if self.at else "")


class RelativeTarget(TargetBase):
    """The largest margin as a part of a count or sum."""

    kind_name: ClassVar[str] = "a target that is a part of a count"
    written_as: ClassVar[str] = "relative"
    margin: ClassVar[None] = None
    value: ClassVar[None] = None
    unreliable: ClassVar[None] = None
    relative: Annotated[Portion, AfterValidator(_above_zero)] = Field(
        description='Instead of `margin`: the largest margin as a part of the count `at`, such as `"10%"`.'
    )
    at: Positive = Field(description=_AT, examples=[500])

    @property
    def largest(self) -> Fraction:
        """The largest margin of error."""
        return self.relative * self.at

    @property
    def words(self) -> str:
        """What is wanted, in a few words."""
        return f"{float(100 * self.relative):g} % at {self.at:,}"


class UnreliableTarget(TargetBase):
    """The largest part of the cells that may be unreliable."""

    kind_name: ClassVar[str] = "a target of unreliable cells"
    written_as: ClassVar[str] = "unreliable"
    margin: ClassVar[None] = None
    at: ClassVar[None] = None
    value: ClassVar[None] = None
    largest: ClassVar[None] = None
    unreliable: Portion = Field(
        description="Instead of `margin`: the largest part of the cells that `publication.quality` may flag "
        "as unreliable.",
    )

    @property
    def words(self) -> str:
        """What is wanted, in a few words."""
        return f"at most {float(100 * self.unreliable):g} % unreliable"


TARGETS: dict[str, type[TargetBase]] = {
    "[margin]": MarginTarget,
    "[relative]": RelativeTarget,
    "[unreliable]": UnreliableTarget,
}
"""Kinds of target by the tags by which pydantic tells them apart; no key of a file."""


Target = Annotated[
    Annotated[MarginTarget, Tag("[margin]")]
    | Annotated[RelativeTarget, Tag("[relative]")]
    | Annotated[UnreliableTarget, Tag("[unreliable]")],
    *kind_by_key(
        TARGETS,
        "says no accuracy",
        'write one of margin: 25, relative: "10%" with at: 500, unreliable: "20%"',
    ),
]
"""A wanted accuracy."""


class Tuning(Part):
    """The published release whose counts shares and levels were chosen on."""

    release: Text = Field(description="Its id.")
    certificate: Digest = Field(description="The SHA-256 of its certificate.")
