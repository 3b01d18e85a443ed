"""What judges suites in tests of other things says what Great Expectations says."""

from __future__ import annotations

from math import nan
from typing import Any

import pytest

from tabularium.validations.suites.gx_engine import Bound, NotCheckedError, Same
from tests.plain_suites import LIBRARY, plain

NUMBERS: dict[str, list[Any]] = {
    "whole": [3, 1, 2],
    "gaps": [None, 4, None],
    "broken": [0.5, nan, 0.75],
    "alike": [7, 7, 7],
    "none": [None, None, None],
    "huge": [2**60, -(2**60), 0],
    "half alike": [None, 5, 5],
}
ENDS = [(None, None), (1, 3), (1, 2), (2, None), (None, 0.75), (0.5, 4), (-(2**60), 2**60), (7, 7)]


@pytest.mark.parametrize("rows", [1, 3])
def test_every_bound_of_every_column_is_judged_as_by_the_library(rows: int) -> None:
    numbers = {name: column[:rows] for name, column in NUMBERS.items()}
    suite = [Bound(f"{name} {ends}", name, *ends) for name in numbers for ends in ENDS if any(ends)]
    suite += [Same(f"{name} same", name) for name in numbers]
    verdicts = plain("s", numbers, suite)[0]
    assert verdicts == LIBRARY("s", numbers, suite)[0]
    assert True in verdicts and False in verdicts


def test_a_column_that_is_not_there_is_an_error_of_both() -> None:
    for judge in (plain, LIBRARY):
        with pytest.raises((KeyError, NotCheckedError)):
            judge("s", {"n": [1]}, [Bound("rule", "m", 0)])
