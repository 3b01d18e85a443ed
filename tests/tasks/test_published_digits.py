"""Numbers that end in other bits on another processor are published as the same."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tabularium.mechanisms.noise.synthetic import generator
from tabularium.tasks.publish.frames import DIGITS, all_in_digits, in_digits


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0.1 + 0.2, 0.3),
        (100 / 3, 33.3333333333),
        (-2 / 3, -0.66666666667),
        (1e-9 / 3, 3.33333333333e-10),
        (9.9999999999999, 10.0),
        (1 / 3 * 1e-40, 1 / 3 * 1e-40),
        *((whole, whole) for whole in (0.0, 600.0, -7.0, 2.0**60 + 2**12, 1e300, math.inf)),
    ],
)
def test_twelve_digits_or_eleven_are_left_and_whole_numbers_stay(number: float, shown: float) -> None:
    assert in_digits(np.array([number]))[0] == shown


def test_digits_are_decimal_and_few() -> None:
    numbers = np.exp(generator(7).uniform(-20, 25, 20_000))
    found = in_digits(numbers)
    assert all(float(f"{each:.{DIGITS}g}") == each for each in found[numbers < 1e11])
    assert np.allclose(found, numbers, rtol=1e-10, atol=0)


def test_what_json_holds_keeps_its_kinds() -> None:
    told = {"a": [1 / 3, 7, True, None, "1/3"], "b": ({"c": 2.0},), "d": math.nan}
    found = all_in_digits(told)
    assert math.isnan(found.pop("d"))
    assert found == {"a": [0.333333333333, 7, True, None, "1/3"], "b": [{"c": 2.0}]}
    assert found["a"][2] is True and isinstance(found["a"][1], int)
