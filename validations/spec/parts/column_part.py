"""A column with its public domain."""

from __future__ import annotations

from pydantic import Field

from tabularium.validations.derivation.derived_parts import Derivation
from tabularium.validations.domains.domains import Treatment
from tabularium.validations.spec.kinds import Categories, IntegerRange, LevelName
from tabularium.validations.spec.values import Text


class Column(Derivation):
    """A column with its public domain: one of ``categories``, ``integer`` and ``hierarchy``."""

    title: Text | None = Field(default=None, description="What it is called in what is published.")
    categories: Categories | None = Field(
        default=None,
        description="The codes with their labels, in the order of the cells; or a code list, relative to the "
        "spec file: a CSV with the columns code and label, or one of an SDMX file, as `lists.xml#CL_SEX`.",
    )
    integer: IntegerRange | None = Field(default=None, description="A range of whole numbers, cut into bins.")
    hierarchy: Text | None = Field(
        default=None,
        description="A code list, relative to the spec file: a CSV with the columns code, label and parent, "
        "or one of an SDMX file, as `lists.xml#CL_AREA`.",
    )
    levels: tuple[LevelName, ...] | None = Field(
        default=None, description="The names of the levels of the hierarchy, root first."
    )
    nulls: Treatment = Field(
        default="reject", description="A record with null here is rejected, or goes to `other`."
    )
    invalid: Treatment = Field(
        default="reject",
        description="A record with a value outside the domain is rejected, or goes to `other`.",
    )
    other: Text | None = Field(
        default=None, description="The code (of an integer column: the label of an extra cell) where they go."
    )

    @property
    def code_list(self) -> str | None:
        """The code list that its codes stand in; None where the spec has them, or where they are numbers."""
        return self.categories if isinstance(self.categories, str) else self.hierarchy
