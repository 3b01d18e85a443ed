"""Losses that are tied: what is a product stays one, and what is settled stays in proportion."""

from __future__ import annotations

import numpy as np

from tabularium.mechanisms.planning.smallest_budget import LossSlot, Ties

PLACES = [
    *(LossSlot("pay", level, "pay", "pay") for level in ("top", "low")),
    *(LossSlot("pay", level, "pay-sum", "pay-sum") for level in ("top", "low")),
    *(LossSlot("pay", level, "pay-median", "pay") for level in ("top", "low")),
    LossSlot("ages", "", "ages", "ages"),
]
PROPORTIONS = np.array([1, 1, 1, 1, 3, 3, 1.0])


def test_arrays_of_one_table_have_the_same_parts_for_levels() -> None:
    ties = Ties.of(PLACES, PROPORTIONS)
    assert ties.factors.shape == (7, 4)  # two arrays, one level more than needed, the other table
    assert not ties.loose
    np.testing.assert_array_equal(ties.blocks, [0, 1, 0, 1, 0, 1, 2])
    moved = ties.following(np.ones(7)) * np.exp(ties.factors @ np.array([0.3, -0.2, 1.1, 0.7]))
    pay, total, median, _ = moved[:2], moved[2:4], moved[4:6], moved[6]
    np.testing.assert_allclose(median, 3 * pay)
    np.testing.assert_allclose(pay[0] / pay[1], total[0] / total[1])


def test_what_is_tied_already_is_fitted_by_itself() -> None:
    ties = Ties.of(PLACES, PROPORTIONS)
    losses = np.array([1, 2, 5, 10, 3, 6, 7.0])
    np.testing.assert_allclose(ties.fitted(losses), losses)
    without = np.array([0, 2, 0, 10, 0, 6, 7.0])
    np.testing.assert_allclose(ties.fitted(without), without)
    near = ties.fitted(np.array([1, 2, 5, 12, 3, 6, 7.0]))
    np.testing.assert_allclose(near[0] / near[1], near[2] / near[3])


def test_tables_of_one_array_are_free() -> None:
    places = [LossSlot("a", level, "a", "a") for level in ("top", "low")] + [LossSlot("b", "", "b", "b")]
    ties, free = Ties.of(places, np.ones(3)), Ties.none(3)
    assert ties.loose
    np.testing.assert_array_equal(ties.factors.sum(axis=1), 1)
    np.testing.assert_array_equal(free.fitted(np.array([1.0, 0.0, 4.0])), [1, 0, 4])
