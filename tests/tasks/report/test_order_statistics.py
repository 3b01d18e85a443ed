"""Quantiles of numbers that go by in parts are those that numpy finds in all of them together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tabularium.tasks.report import order_statistics
from tabularium.tasks.report.order_statistics import OrderStatistics

SHARES = (0.05, 0.5, 0.95)


def found(numbers: NDArray[np.float64], parts: int) -> tuple[tuple[float, ...] | None, int]:
    statistics, times = OrderStatistics(*SHARES), 0
    while not times or statistics.again():
        for some in np.array_split(numbers, parts):
            statistics.see(some)
        times += 1
    return statistics.found, times


def expected(numbers: NDArray[np.float64]) -> tuple[float, ...] | None:
    return tuple(np.quantile(numbers, SHARES, method="inverted_cdf").tolist()) if len(numbers) else None


@pytest.mark.parametrize("held", [0, 3, 1 << 17])
@given(
    st.lists(st.floats(0, allow_nan=False) | st.sampled_from([0.0, -0.0, 1.0, 2.0, 2.0**60]), max_size=40),
    st.integers(1, 4),
)
def test_they_are_those_of_numpy(held: int, numbers: list[float], parts: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(order_statistics, "HELD", held)
        assert found(np.array(numbers), parts)[0] == expected(np.array(numbers))


@pytest.mark.parametrize(
    ("numbers", "most"),
    [
        (np.full(300_000, 7.0), 2),
        (np.arange(300_000.0) % 90, 2),
        (np.random.default_rng(1).random(300_000), 2),
        (7 + np.random.default_rng(2).random(300_000) * 1e-9, 4),
    ],
)
def test_many_numbers_go_by_few_times(numbers: NDArray[np.float64], most: int) -> None:
    quantiles, times = found(numbers, 5)
    assert quantiles == expected(numbers)
    assert times <= most
