"""Slow, independent answers: least squares by dense matrices, for a hierarchy and for several tables at once.

Also the projection by trying every active set, and random hierarchies and tables to try them on.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from tabularium.mechanisms.inference import Hierarchy, TableSet, TableShape

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


def gain_of(design: Floats, variances: Floats) -> Floats | None:
    """The least-squares estimates of unknowns as a matrix times the measurements; None where undetermined.

    Rows of ``design`` say which sum of the unknowns each measurement is of. Exact rows (variance 0) are
    constraints, removed by a basis of their null space; rows of infinite variance are dropped.
    """
    exact, noisy = variances == 0, (variances > 0) & np.isfinite(variances)
    gain = np.zeros(design.shape[::-1])
    basis = np.eye(design.shape[1])
    if exact.any():
        gain[:, exact] = np.linalg.pinv(design[exact])
        basis = linalg.null_space(design[exact], rcond=1e-10)
    deviation = np.sqrt(variances[noisy])
    rows = design[noisy] @ basis / deviation[:, None]
    if rows.shape[1] and np.linalg.matrix_rank(rows, tol=1e-8) < rows.shape[1]:
        return None
    gain[:, noisy] = basis @ np.linalg.pinv(rows) / deviation
    gain[:, exact] -= gain[:, noisy] @ design[noisy] @ gain[:, exact]
    return gain


def estimates(design: Floats, values: Floats, variances: Floats) -> tuple[Floats, Floats] | None:
    """Least-squares estimates of all that was measured, and their variances; None where undetermined."""
    if (gain := gain_of(design, variances)) is None:
        return None
    known = np.isfinite(variances)
    shares = (design @ gain)[:, known]
    return shares @ values[known], shares**2 @ variances[known]


def least_squares(parents: Integers, values: Floats, variances: Floats) -> tuple[Floats, Floats] | None:
    """The estimates of one cell at every node of a forest."""
    return estimates(leaf_matrix(parents), values, variances)


def dense_weights(parents: Integers, variances: Floats, chosen: NDArray[np.bool_]) -> Floats:
    """The weight of every measurement in the least-squares estimate of a sum of leaves."""
    gain = gain_of(leaf_matrix(parents), variances)
    assert gain is not None
    return chosen[np.setdiff1d(np.arange(len(parents)), parents)] @ gain


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


# --- several tables ---------------------------------------------------------------------------------


def random_tables(rng: np.random.Generator, *, hierarchies: int = 1) -> TableSet:
    """Random tables over up to four flat dimensions and some hierarchies; sometimes one is cut short."""
    sizes = {name: int(rng.integers(1, 4)) for name in "abc"}
    trees = {f"h{each}": breadth_first(rng, int(rng.integers(1, 9))) for each in range(hierarchies)}
    frames = {}
    for number in range(int(rng.integers(1, 5))):
        flat = [name for name in sizes if rng.random() < 0.5]
        rng.shuffle(flat)
        along = str(rng.choice(list(trees))) if rng.random() < 0.7 else None
        tree = Hierarchy([-1])
        if along is not None:
            depth = int(rng.integers(1, trees[along].depths + 1))
            tree = Hierarchy(trees[along].parents[: int((trees[along].depth < depth).sum())])
        frames[f"t{number}"] = TableShape({name: sizes[name] for name in flat}, along, tree)
    return TableSet(frames)


def breadth_first(rng: np.random.Generator, nodes: int) -> Hierarchy:
    """A random forest numbered level by level, family by family."""
    parents = random_parents(rng, nodes)
    tree = Hierarchy(parents)
    names = np.argsort(tree.depth, kind="stable")
    place = np.empty(nodes, dtype=int)
    place[names] = np.arange(nodes)
    return Hierarchy([-1 if parents[old] < 0 else int(place[parents[old]]) for old in names])


def equations(table_set: TableSet) -> tuple[Floats, dict[str, slice]]:
    """All that must hold between the numbers of all tables: family sums, and every pair's shared marginal."""
    slices, here = {}, 0
    for name, frame in table_set.tables.items():
        slices[name] = slice(here, here + frame.tree.nodes * frame.cells)
        here += frame.tree.nodes * frame.cells
    numbers = np.arange(here)
    rows = []
    for name, frame in table_set.tables.items():
        table = numbers[slices[name]].reshape(frame.shape)
        for parent in np.flatnonzero(~frame.tree.leaf):
            for cell in range(frame.cells):
                row = np.zeros(here)
                row[table[parent, cell]] = 1
                row[table[frame.tree.parents == parent, cell]] = -1
                rows.append(row)
    names = list(table_set.tables)
    for first in range(len(names)):
        for second in range(first):
            rows.extend(_pair(table_set, names[first], names[second], slices, here))
    return np.array(rows) if rows else np.zeros((0, here)), slices


def _pair(table_set: TableSet, one: str, other: str, slices: dict[str, slice], size: int) -> list[Floats]:
    """One row per node and group of the pair's shared marginal: every node, not only leaves."""
    frames = [table_set.tables[one], table_set.tables[other]]
    shared = [name for name in frames[0].flat if name in frames[1].flat]
    along = frames[0].along if frames[0].along == frames[1].along else None
    nodes = min(frame.tree.nodes for frame in frames) if along else 1
    rows = []
    for node in range(nodes):
        for group in np.ndindex(*(frames[0].flat[name] for name in shared)):
            row = np.zeros(size)
            for sign, name, frame in zip((1, -1), (one, other), frames, strict=True):
                table = np.arange(size)[slices[name]].reshape(frame.tree.nodes, *frame.flat.values())
                lines = table[[node]] if along else table[frame.tree.roots]
                index = tuple(
                    group[shared.index(dimension)] if dimension in shared else slice(None)
                    for dimension in frame.flat
                )
                row[lines[(slice(None), *index)].ravel()] += sign
            rows.append(row)
    return rows


def dense_tables(
    table_set: TableSet, values: dict[str, Floats], variances: dict[str, Floats]
) -> tuple[dict[str, Floats], dict[str, Floats]] | None:
    """Weighted least squares by a null-space basis; None where something is undetermined."""
    matrix, slices = equations(table_set)
    basis = linalg.null_space(matrix) if len(matrix) else np.eye(matrix.shape[1])
    y, s = (
        np.concatenate(
            [np.broadcast_to(of[name], each.shape).ravel() for name, each in table_set.tables.items()]
        )
        for of in (values, variances)
    )
    if (found := estimates(basis, y, s)) is None:
        return None
    x, v = (
        {k: each[part].reshape(table_set.tables[k].shape) for k, part in slices.items()} for each in found
    )
    return x, v


def truth_of(table_set: TableSet, rng: np.random.Generator, mean: float = 5.0) -> dict[str, Floats]:
    """Indices, non-negative tables that agree: counts of one made-up set of records."""
    trees: dict[str, Hierarchy] = {}
    sizes: dict[str, int] = {}
    for frame in table_set.tables.values():
        sizes |= dict(frame.flat)
        if frame.along and frame.tree.nodes > trees.get(frame.along, Hierarchy([-1])).nodes - 1:
            trees[frame.along] = frame.tree
    records = int(rng.poisson(mean * 20))
    leaf = {name: rng.choice(np.flatnonzero(tree.leaf), records) for name, tree in trees.items()}
    code = {name: rng.integers(0, size, records) for name, size in sizes.items()}
    tables = {}
    for name, frame in table_set.tables.items():
        cell = np.zeros(records, dtype=int)
        for dimension, size in frame.flat.items():
            cell = cell * size + code[dimension]
        if frame.along is None:
            tables[name] = np.bincount(cell, minlength=frame.cells)[None].astype(float)
            continue
        above = leaf_matrix(trees[frame.along].parents)[: frame.tree.nodes]
        leaves = np.setdiff1d(np.arange(trees[frame.along].nodes), trees[frame.along].parents)
        counts = np.zeros((len(leaves), frame.cells))
        np.add.at(counts, (np.searchsorted(leaves, leaf[frame.along]), cell), 1)
        tables[name] = above @ counts
    return tables


def measured(
    table_set: TableSet, truth: dict[str, Floats], kind: str, rng: np.random.Generator
) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Noisy measurements and their variances: equal at a node or not, with unmeasured or exact parts."""
    values, variances = {}, {}
    for name, frame in table_set.tables.items():
        width = 1 if kind == "equal" else frame.cells
        spread = np.exp(rng.uniform(-2, 2, size=(frame.tree.nodes, width)))
        some = rng.random(spread.shape) < 0.25
        if kind == "inner unmeasured":
            spread[some & ~frame.tree.leaf[:, None]] = np.inf
        elif kind == "leaves unmeasured":
            spread[some] = np.inf
        elif kind == "exact nodes":
            spread[some[:, 0]] = 0.0
        elif kind == "exact cells":
            spread[some] = 0.0
        noise = 3 * np.sqrt(np.where(np.isinf(spread), 0.0, spread))
        values[name] = truth[name] + noise * rng.normal(size=frame.shape)
        variances[name] = spread
    return values, variances
