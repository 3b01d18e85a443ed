"""Slow, independent answers: dense least squares, and projection by trying every active set."""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]


def random_parents(rng: np.random.Generator, nodes: int) -> Integers:
    """A random forest with shuffled node numbers; families from single children to everyone at once."""
    reach = int(rng.integers(1, nodes + 1))
    parents = np.full(nodes, -1)
    for node in range(1, nodes):
        if rng.random() > 0.05:
            parents[node] = rng.integers(max(0, node - reach), node)
    names = rng.permutation(nodes)
    renamed = np.full(nodes, -1)
    renamed[names] = np.where(parents >= 0, names[parents], -1)
    return renamed


def leaf_matrix(parents: Integers) -> Floats:
    """(nodes, leaves): 1 where the leaf lies at or below the node."""
    leaves = np.setdiff1d(np.arange(len(parents)), parents)
    matrix = np.zeros((len(parents), len(leaves)))
    for column, leaf in enumerate(leaves):
        node = leaf
        while node >= 0:
            matrix[node, column] = 1.0
            node = parents[node]
    return matrix


def least_squares(parents: Integers, values: Floats, variances: Floats) -> tuple[Floats, Floats] | None:
    """Weighted least squares of one cell by the explicit design matrix; None where a node is undetermined.

    Exact rows (variance 0) become constraints, removed by a basis of their null space; rows of infinite
    variance are dropped.
    """
    design = leaf_matrix(parents)
    exact, noisy = variances == 0, (variances > 0) & np.isfinite(variances)
    start = np.zeros(design.shape[1])
    basis = np.eye(design.shape[1])
    if exact.any():
        start = np.linalg.lstsq(design[exact], values[exact])[0]
        basis = linalg.null_space(design[exact])
    free = design @ basis
    deviation = np.sqrt(variances[noisy])
    rows = free[noisy] / deviation[:, None]
    if rows.shape[1] and np.linalg.matrix_rank(rows) < rows.shape[1]:
        return None
    wanted = (values[noisy] - design[noisy] @ start) / deviation
    inverse = np.linalg.pinv(rows)
    return design @ start + free @ (inverse @ wanted), ((free @ inverse) ** 2).sum(axis=1)


def dense_weights(parents: Integers, variances: Floats, chosen: NDArray[np.bool_]) -> Floats:
    """The weight of every measurement in the least-squares estimate of a sum of leaves, by normal equations."""
    design = leaf_matrix(parents)
    noisy = np.isfinite(variances)
    scaled = design[noisy] / variances[noisy][:, None]
    leaves = np.setdiff1d(np.arange(len(parents)), parents)
    weights = np.zeros(len(parents))
    weights[noisy] = scaled @ np.linalg.solve(design[noisy].T @ scaled, chosen[leaves].astype(float))
    return weights


def project_family(values: Floats, weights: Floats, total: float) -> Floats:
    """The nearest non-negative vector of the given sum, by trying every set of positive members."""
    best, best_cost = np.zeros_like(values), np.inf
    for chosen in product((False, True), repeat=len(values)):
        positive = np.array(chosen)
        if not positive.any():
            continue
        tilt = (total - values[positive].sum()) / weights[positive].sum()
        trial = np.where(positive, values + tilt * weights, 0.0)
        cost = float(((trial - values) ** 2 / weights).sum())
        if trial.min() >= -1e-9 and cost < best_cost:
            best, best_cost = trial, cost
    return best
