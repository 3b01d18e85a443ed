"""Sums: each record adds its value, in steps; one changes the array by at most max(|from|, |to|)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from pydantic import Field

from tabularium.mechanisms.arrays import Floats, Integers
from tabularium.validations.release_spec.measures.measure import OF_SUM, Answer, Numbers, QualityRules
from tabularium.validations.release_spec.measures.of_column import OfColumn
from tabularium.validations.release_spec.scalars import ColumnName


class Sum(OfColumn):
    """The sum of a column in every cell."""

    sum: ColumnName = Field(description="The column of the source that is added up; declared or not.")

    keys: ClassVar[tuple[str, ...]] = ("sum",)
    linear: ClassVar[bool] = True
    plannable: ClassVar[bool] = True
    quality_rules: ClassVar[QualityRules] = "sums"
    answers: ClassVar[tuple[Answer, ...]] = ("sum",)
    query_shown: ClassVar[Answer | None] = "sum"

    def change(self, low: int, width: int) -> int:
        return max(abs(low), abs(low + width))

    def add(
        self, array: Integers, cells: Integers, powers: Sequence[Integers], low: Integers, width: Integers
    ) -> None:
        weights, values = powers
        np.add.at(array, cells, values + low * weights)

    @property
    def signed(self) -> bool:
        return self.low < 0

    def estimate(self, numbers: Numbers) -> Floats:
        sums: Floats = numbers.parts[..., 0] * float(self.step)
        return sums

    def largest_useful(self, records: float) -> float:
        """Return it for values half as large as their bounds allow."""
        middle = max(abs(self.bottom), abs(self.top)) / 2
        return OF_SUM * records * self.heaviest * middle
