"""Values that cannot occur together: public facts, by which cells are exactly zero."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tabularium.validations.spec.kinds import Part
from tabularium.validations.spec.values import ColumnName, Reason, Text


class Impossible(Part):
    """A public fact: values of columns that nobody can have together."""

    cells: dict[ColumnName, tuple[Text, ...]] = Field(
        description="Column -> the values that cannot occur with those of the other columns here: codes, "
        "of a hierarchy of any node, of an `integer` column the labels of bins."
    )
    reason: Reason = Field(description="Why, as is known without the data; it is published.")
    records: Literal["reject"] | dict[ColumnName, Text] = Field(
        default="reject",
        description="What becomes of a record that has them: `reject`, or `{COLUMN: CODE}`, which counts it "
        "under that value of one of the columns.",
    )

    @property
    def moved_to(self) -> tuple[str, str] | None:
        """The column and the code under which its records are counted; None where they are rejected."""
        return None if isinstance(self.records, str) else next(iter(self.records.items()))

    @property
    def in_words(self) -> str:
        """The values, as ``age 0-14 with veteran yes``."""
        return " with ".join(f"{name} {' or '.join(values)}" for name, values in self.cells.items())
