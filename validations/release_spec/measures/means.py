"""Means: each record adds its distances from both bounds, which change by T = ``to`` less ``from``.

Estimate, interval and margin are those of :mod:`tabularium.validations.release_spec.measures.pairs`.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from tabularium.validations.release_spec.measures.measure import Answer
from tabularium.validations.release_spec.measures.of_column import OfColumn
from tabularium.validations.release_spec.measures.pairs import Pair
from tabularium.validations.release_spec.scalars import ColumnName


class Mean(OfColumn, Pair):
    """The mean of a column in every cell."""

    mean: ColumnName = Field(description="The column whose mean is published.")

    keys: ClassVar[tuple[str, ...]] = ("mean",)
    answers: ClassVar[tuple[Answer, ...]] = ("average", "sum")

    @property
    def level_of(self) -> str:
        return "mean"

    @property
    def codes(self) -> tuple[str, ...]:
        return ("above_from", "below_to")

    @property
    def query_values(self) -> tuple[list[float], float]:
        return [float(self.top), float(self.bottom)], 1 / self.width
