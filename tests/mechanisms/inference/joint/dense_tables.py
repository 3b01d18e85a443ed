"""Slow, independent answers for several tables: one dense design matrix over the full cross."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from tabularium.mechanisms.inference import Hierarchy, TableSet, TableShape
from tests.mechanisms.inference.dense import leaf_matrix, random_parents

Floats = NDArray[np.float64]


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
    y = np.concatenate([values[name].ravel() for name in table_set.tables])
    s = np.concatenate(
        [np.broadcast_to(variances[name], frame.shape).ravel() for name, frame in table_set.tables.items()]
    )
    exact, noisy = s == 0, (s > 0) & np.isfinite(s)
    start = np.zeros(basis.shape[1])
    free = np.eye(basis.shape[1])
    if exact.any():
        start = np.linalg.lstsq(basis[exact], y[exact])[0]
        free = linalg.null_space(basis[exact], rcond=1e-10)
    design = basis @ free
    rows = design[noisy] / np.sqrt(s[noisy])[:, None]
    if rows.shape[1] and np.linalg.matrix_rank(rows, tol=1e-8) < rows.shape[1]:
        return None
    inverse = np.linalg.pinv(rows)
    x = basis @ start + design @ (inverse @ ((y - basis @ start)[noisy] / np.sqrt(s[noisy])))
    v = ((design @ inverse) ** 2).sum(axis=1)
    shape = {name: frame.shape for name, frame in table_set.tables.items()}
    return (
        {name: x[part].reshape(shape[name]) for name, part in slices.items()},
        {name: v[part].reshape(shape[name]) for name, part in slices.items()},
    )


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
