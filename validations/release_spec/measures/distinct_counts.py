"""Distinct counts: how many different values of a column, such as patients among stays, a cell has.

A record that is added brings its value into its cell, or finds it there: the number of its cell grows by 1 or
by 0, and that of no other cell of the level changes. So one record changes the numbers of a level by at most
1, in L1 and in L2, whichever others have its value. A privacy unit with c kept records is added record by
record, and changes them by at most c (group privacy); where the values are the privacy units themselves, by 1
in each of at most c cells. Each level is measured by itself, with its own part of the budget, as levels of
counts are: a record pays for all of them together.

Values of cells have records in common, so that numbers do not add up: those of several cells, of a level
above, or of another table are counted and measured separately, and made to agree with nothing. The largest of
them is no more than that of all together, and their sum is no less; noise may contradict either, and neither
is used, so that every number has the error of one measurement.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np
from pydantic import Field

from tabularium.mechanisms.arrays import Floats, Integers
from tabularium.validations.release_spec.measures.measure import (
    OF_SUM,
    AddsOne,
    Answer,
    Numbers,
    Problem,
    QualityRules,
)
from tabularium.validations.release_spec.scalars import ColumnName


class DistinctCount(AddsOne):
    """The number of different values of a column in every cell."""

    distinct: ColumnName = Field(
        description="The column whose different values are counted. It needs no domain, and its values are "
        "not published.",
    )

    keys: ClassVar[tuple[str, ...]] = ("distinct",)
    linear: ClassVar[bool] = True
    adds_up: ClassVar[bool] = False
    quality_rules: ClassVar[QualityRules] = "sums"
    answers: ClassVar[tuple[Answer, ...]] = ("distinct",)
    query_shown: ClassVar[Answer | None] = "distinct"

    @property
    def identifier(self) -> str:
        return self.distinct

    @property
    def in_words(self) -> str:
        return "distinct count"

    def problems(self) -> Iterator[Problem]:
        if self.weight is not None:
            yield ("weight",), "values that are counted once have no weight", "remove it"

    def change(self, low: int, width: int) -> int:
        return 1

    def add(
        self, array: Integers, cells: Integers, powers: Sequence[Integers], low: Integers, width: Integers
    ) -> None:
        """Add numbers of different values, which an engine has counted: each cell comes once."""
        np.add.at(array, cells, powers[0])

    def estimate(self, numbers: Numbers) -> Floats:
        return numbers.parts[..., 0]

    def largest_useful(self, records: float) -> float:
        """Return it for values with one record each."""
        return OF_SUM * records

    @property
    def decimals(self) -> int:
        return 0

    @property
    def description(self) -> str:
        return (
            f"How many different values of {self.distinct} the counted records have, with noise; records "
            "without one add nothing. Not additive: a value may be in several cells, so that numbers of "
            "cells, levels or tables must not be added up."
        )

    @property
    def declared_method(self) -> dict[str, str | None]:
        return {"additive": "no"}

    @property
    def about_query(self) -> str:
        return (
            f"It is how many different values of {self.distinct} the counted records of a cell have: such "
            "numbers do not add up."
        )
