"""Sparse data, strong noise: totals far from zero stay unbiased, where clipping does not."""

from __future__ import annotations

import math

import numpy as np

from tabularium.mechanisms.inference import Hierarchy, consistency, laplace_variance, nonnegativity, rounding
from tabularium.mechanisms.noise.synthetic import generator

RUNS, LEVELS, SCALE = 200, 3, 30.0  # epsilon 0.1 shared by three levels: scale 3 / 0.1 each


def test_totals_are_unbiased_after_everything() -> None:
    rng = generator(2026)
    parents = np.r_[-1, np.zeros(5, int), 1 + np.arange(500) // 100]
    tree = Hierarchy(parents)
    truth = np.zeros((tree.nodes, 1))
    # Nine cells in ten are empty.
    truth[tree.leaf, 0] = np.where(rng.random(500) < 0.9, 0, rng.geometric(1 / 60, size=500))
    for block in tree.up():
        truth[block.parents] = block.total(truth[block.children])
    # The runs are cells: every cell of the table is one release of the same truth.
    shape, decay = (tree.nodes, RUNS), 1 - math.exp(-1 / SCALE)
    noisy = truth + (rng.geometric(decay, size=shape) - rng.geometric(decay, size=shape))

    linear = consistency(tree, noisy, laplace_variance(SCALE))
    final = rounding(tree, nonnegativity(tree, linear))
    totals = np.arange(6)
    assert (truth[totals, 0] > 5 * np.sqrt(linear.variances[totals, 0])).all()

    def score(values: np.ndarray) -> np.ndarray:
        error = values - truth[totals]
        return error.mean(axis=1) / (error.std(axis=1, ddof=1) / math.sqrt(RUNS))

    assert (np.abs(score(linear.values[totals])) < 3).all()
    assert (np.abs(score(final[totals].astype(float))) < 3).all()

    clipped = np.where(tree.leaf[:, None], np.maximum(noisy, 0), 0.0)
    for block in tree.up():
        clipped[block.parents] = block.total(clipped[block.children])
    assert (score(clipped[totals]) > 20).all()
    # The cells themselves: nearer to the truth than the measurements, and than clipping leaves them.
    leaves = tree.leaf
    errors = [np.abs(v[leaves] - truth[leaves]).mean() for v in (final.astype(float), clipped, noisy)]
    assert errors[0] < errors[1] < errors[2]
