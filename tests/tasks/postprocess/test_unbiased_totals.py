"""Totals stay unbiased where many cells are empty, also at the roots."""

from __future__ import annotations

import numpy as np

from tabularium.mechanisms.inference import Estimate, Hierarchy
from tabularium.mechanisms.noise.synthetic import generator
from tabularium.tasks.postprocess.agreement import with_fair_roots


def test_a_root_worked_by_hand() -> None:
    """Cells 5, -1, 2 sum to 6: the plane x + y = 6 is met by taking 1/2 from each positive cell."""
    estimate = Estimate(np.array([[5.0, -1.0, 2.0]]), np.array([[4.0]]))
    assert np.allclose(with_fair_roots(Hierarchy([-1]), estimate).values, [[4.5, 0.0, 1.5]])


def test_a_more_certain_cell_moves_less() -> None:
    """Weights 1/variance: of the excess 1, the cell of variance 3 takes three quarters."""
    estimate = Estimate(np.array([[5.0, -1.0, 2.0]]), np.array([[1.0, 1.0, 3.0]]))
    assert np.allclose(with_fair_roots(Hierarchy([-1]), estimate).values, [[4.75, 0.0, 1.25]])


def test_a_negative_total_becomes_zero() -> None:
    estimate = Estimate(np.array([[1.0, -4.0], [1.0, -4.0]]), np.array([[1.0], [1.0]]))
    assert np.allclose(with_fair_roots(Hierarchy([-1, -1]), estimate).values, 0)


def test_the_total_of_a_sparse_table_is_unbiased_and_clipping_is_not() -> None:
    draw = generator(5)
    truth = np.zeros((1, 400))
    truth[0, :40] = 50
    kept, clipped = [], []
    for _ in range(200):
        noise = draw.geometric(0.1, truth.shape) - draw.geometric(0.1, truth.shape)
        noisy = Estimate(truth + noise, np.array([[2 * 0.9 / 0.01]]))
        kept.append(with_fair_roots(Hierarchy([-1]), noisy).values.sum() - truth.sum())
        clipped.append(np.clip(noisy.values, 0, None).sum() - truth.sum())
    error = np.std(kept) / np.sqrt(len(kept))
    assert abs(np.mean(kept)) < 3 * error
    assert np.mean(clipped) > 50 * error
