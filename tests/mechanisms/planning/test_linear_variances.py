"""Planned variances are those that least squares states, and their slopes are derivatives."""

from __future__ import annotations

import numpy as np
import pytest

from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.inference import Hierarchy, TableSet, TableShape, consistency, joint_consistency
from tabularium.mechanisms.noise.synthetic import generator
from tabularium.mechanisms.planning.linear_variances import LinearVariances, PlannedTable

UNEVEN = [-1, 0, 0, 0, 1, 1, 2, 3, 3, 3, 4, 4, 5, 6, 6, 6, 7, 7, 8, 9]
GEO = Hierarchy(UNEVEN)
UPPER = Hierarchy(UNEVEN[:10])
JOBS = Hierarchy([-1, -1, 0, 0, 1, 1, 1])
ONE = Hierarchy([-1])


def table(name: str, flat: dict[str, int], tree: Hierarchy = ONE, *depths: int) -> PlannedTable:
    """A table measured at some depths of its tree."""
    along = {id(GEO): "geo", id(UPPER): "geo", id(JOBS): "jobs"}.get(id(tree))
    return PlannedTable(
        name, flat, along, tree, {f"level {d}": np.flatnonzero(tree.depth == d) for d in depths or (0,)}
    )


CASES = {
    "one hierarchy": [table("a", {"x": 3, "y": 2}, GEO, 0, 1, 2, 3)],
    "tables that overlap": [
        table("a", {"x": 3, "y": 2}, GEO, 0, 1, 2, 3),
        table("b", {"x": 3, "z": 4}, UPPER, 0, 2),
        table("c", {"z": 4, "y": 2}),
        table("d", {"x": 3}),
    ],
    "two hierarchies": [
        table("a", {"x": 3, "y": 2}, GEO, 1, 3),
        table("b", {"x": 3}, JOBS, 0, 1),
        table("c", {"x": 3, "y": 2}),
    ],
    "invariants": [
        table("a", {"x": 3, "y": 2}, GEO, 3),
        table("b", {"x": 3, "z": 4}, UPPER, 0, 2),
        PlannedTable("provinces", {}, "geo", Hierarchy(UNEVEN[:4]), {}),
        PlannedTable("ages", {"x": 3}, None, ONE, {}),
    ],
}


@pytest.mark.parametrize("tables", CASES.values(), ids=CASES)
def test_variances_are_those_of_joint_least_squares(tables: list[PlannedTable]) -> None:
    model = LinearVariances(tables)
    precisions = np.exp(generator(1).normal(size=len(model.measurements)))
    values = {each.name: np.zeros((each.tree.nodes, each.cells)) for each in tables}
    measured = {}
    for each in tables:
        known = np.zeros((each.tree.nodes, 1)) if each.cuts else np.full((each.tree.nodes, 1), np.inf)
        for (name, level), precision in zip(model.measurements, precisions, strict=True):
            if name == each.name:
                known[each.cuts[level]] += precision
        with np.errstate(divide="ignore"):
            measured[each.name] = 1 / known
    frames = {each.name: TableShape(each.flat, each.along, each.tree) for each in tables}
    # Not by the analysis of variance, which both would go by.
    joint = joint_consistency(TableSet(frames), values, measured, method="conjugate gradients")
    assert joint.variances == "exact"
    found = model.variances(precisions)
    assert set(found) == {each.name for each in tables if each.cuts}
    for each in tables:
        if each.cuts:
            own = found[each.name].values[model.classes[each.along].of[: each.tree.nodes]]
            wanted = np.broadcast_to(joint.estimates[each.name].variances, values[each.name].shape)
            np.testing.assert_allclose(
                np.repeat(own[:, None], each.cells, axis=1), wanted, rtol=1e-7, atol=1e-9
            )


@pytest.mark.parametrize("tables", CASES.values(), ids=CASES)
def test_slopes_are_derivatives(tables: list[PlannedTable]) -> None:
    model = LinearVariances(tables)
    precisions = np.exp(generator(2).normal(size=len(model.measurements)))
    slopes = model.variances(precisions, slopes=True)
    for place in range(len(precisions)):
        step = np.zeros(len(precisions))
        step[place] = 1e-6
        higher, lower = model.variances(precisions + step), model.variances(precisions - step)
        for name, each in slopes.items():
            change = (higher[name].values - lower[name].values) / 2e-6
            np.testing.assert_allclose(each.slopes[:, place], change, rtol=1e-4, atol=1e-6)


def test_a_level_above_can_be_left_out() -> None:
    model = LinearVariances([table("a", {}, GEO, 0, 1, 2, 3)])
    found = model.variances(np.array([0.0, 2.0, 0.0, 1.0]))["a"].values[model.classes["geo"].of]
    spread = np.full((20, 1), np.inf)
    spread[GEO.depth == 1], spread[GEO.depth == 3] = 0.5, 1.0
    np.testing.assert_allclose(found, consistency(GEO, np.zeros((20, 1)), spread).variances[:, 0])


def test_the_deepest_level_cannot() -> None:
    model = LinearVariances([table("a", {}, GEO, 0, 3)])
    with pytest.raises(MechanismError, match="a leaf is not measured"):
        model.variances(np.array([1.0, 0.0]))


def test_tables_that_are_not_made_to_agree_have_their_own_variance() -> None:
    model = LinearVariances([table("a", {"x": 2}, GEO, 1, 3), table("b", {"x": 2})], agree=False)
    found = model.variances(np.array([2.0, 4.0, 8.0]))
    own = found["a"].values[model.classes["geo"].of]
    assert set(own[GEO.depth == 1]) == {0.5}
    assert set(own[GEO.depth == 3]) == {0.25}
    assert np.isinf(own[GEO.depth == 2]).all()
    assert found["b"].values.tolist() == [0.125]


def test_nodes_alike_are_one_class() -> None:
    even = Hierarchy([-1] + [0] * 4 + [parent for parent in range(1, 5) for _ in range(50)])
    cuts = {str(depth): np.flatnonzero(even.depth == depth) for depth in range(3)}
    classes = LinearVariances([PlannedTable("a", {}, "geo", even, cuts)]).classes["geo"]
    assert classes.counts.tolist() == [1, 4, 50]
