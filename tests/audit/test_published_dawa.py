"""What the published code of DAWA loses, in closed form: two mistakes that the replay audit cannot be shown."""

from __future__ import annotations

from math import exp, log

import numpy as np
import pytest


def above(threshold: float, scale: float) -> float:
    """P(Z > threshold) for Laplace noise Z."""
    return exp(-threshold / scale) / 2 if threshold >= 0 else 1 - exp(threshold / scale) / 2


def chance_of_single_cells(counts: list[int], first: float, price: float, *, folds: float) -> float:
    """How likely the published code cuts three cells apart, in closed form.

    The interval of m of n cells has a cost of its deviation, the price, and Laplace noise of scale
    folds·(2 - 1/m - 1/n)/ε1; the cost of a single cell is the price. Raising a noisy cost to the price does
    not matter here: three prices is what two intervals, or one, must cost more than.
    """
    chance = 1.0
    for start, stop, rest in ((0, 2, 1), (1, 3, 1), (0, 3, 0)):
        inside = np.array(counts[start:stop])
        deviation = float(np.abs(inside - inside.mean()).sum())
        scale = folds * (2 - 1 / inside.size - 1 / 3) / first
        chance *= above((3 - rest) * price - (deviation + price), scale)
    return chance


@pytest.mark.parametrize("folds", [1, 2])
def test_a_single_cell_without_noise_loses_more_than_is_paid(folds: int) -> None:
    """Every interval that holds the cell must make up for the record: already with three cells it is too much.

    With the scale that the proof asks for (folds = 2), too, if only the single cell's noise is left out.
    """
    first, price = 1 / 10, 1000.0
    one, other = (chance_of_single_cells([0, middle, 0], first, price, folds=folds) for middle in (10, 11))
    lost = abs(log(one / other))
    assert lost == pytest.approx(first / folds * (1 / (7 / 6) + 1 / (7 / 6) + (4 / 3) / (4 / 3)))
    assert lost > 1.35 * first


def chance_of_the_last_pair(cells: int, deviates: bool, first: float, price: float) -> float:
    """How likely the published code, with all intervals on offer, makes two of them, cut where it looks last.

    All counts are equal, but that the middle cell may have one record more. An interval of m cells has the
    deviation 0, or 2 - 2/m with that record; its noisy cost is raised to the price, and then as low as can
    be. The last pair is chosen when both of its intervals are there, for all other pairs at least one is
    not, and the whole row costs more than two prices.
    """

    def scale(size: int) -> float:
        return (2 - 1 / size - 1 / cells) / first

    def deviation(size: int) -> float:
        return 2 - 2 / size if deviates else 0.0

    def lowest(size: int, holds: bool) -> float:
        if size == 1:
            return 1.0  # no noise
        return 1 - above(-deviation(size) if holds else 0.0, scale(size))

    def both_lowest(left: int) -> float:
        middle = cells // 2
        return lowest(left, middle < left) * lowest(cells - left, middle >= left)

    chance = above(price - deviation(cells), scale(cells)) * both_lowest(cells - 2)
    for left in range(1, cells):
        if left != cells - 2:
            chance *= 1 - both_lowest(left)
    return chance


def test_raised_costs_lose_more_with_every_rival() -> None:
    first = 1 / 10
    losses = []
    for cells in (11, 41, 161):
        one, other = (chance_of_the_last_pair(cells, more, first, 10.0) for more in (False, True))
        losses.append(abs(log(one / other)) / first)
    assert losses[0] > 2
    assert losses[1] > 10
    assert losses[2] > 40
