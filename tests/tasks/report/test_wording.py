"""Numbers as people read them: a number looks the same wherever it stands."""

from __future__ import annotations

import pytest

from tabularium.tasks.report.wording import signed, whole


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ((600, 600.0, 600.04, 599.99999999), "600"),
        ((1.5, 1.499, 1.5000001), "1.5"),
        ((0.24,), "0.24"),
        ((9.999, 10.0), "10"),
        ((-1234.5, -1234.51), "−1,234.5"),
        ((1_000_000, 1_000_000.0), "1,000,000"),
        ((0, 0.0, -0.0), "0"),
        ((0.004, -0.004), "0.00"),
        ((None, float("nan"), float("inf")), "–"),
    ],
)
def test_a_number_is_written_in_one_way(numbers: tuple[float | None, ...], text: str) -> None:
    assert {whole(number) for number in numbers} == {text}


def test_a_difference_has_its_sign() -> None:
    assert [signed(number) for number in (2.50, 0, -0.001, -3.0)] == ["+2.5", "0", "0.00", "−3"]
