"""Indices numbers for several tables: by hand, as properties, and where they are impossible."""

from __future__ import annotations

import importlib
import re
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.inference import (
    Estimate,
    Hierarchy,
    Rounded,
    TableSet,
    TableShape,
    joint_consistency,
    joint_nonnegativity,
    joint_rounding,
    rounding,
)
from tabularium.mechanisms.inference.joint.joint_rounding import Conditions, round_to_sums, violations
from tabularium.mechanisms.inference.joint.projection_schedule import incidence
from tabularium.mechanisms.noise.synthetic import generator

from .dense_tables import breadth_first, equations, measured, random_tables, truth_of

Floats = NDArray[np.float64]
CUBE = {"a": 2, "b": 2, "c": 2}


def exactly(*rows: list[float]) -> Estimate:
    return Estimate(np.array(rows, dtype=float), np.ones((len(rows), 1)))


def test_a_two_by_two_table_by_hand() -> None:
    """Rows 1 and 1, columns 1 and 1, cells of one half: one of the two permutations."""
    table_set = TableSet(
        {
            "cells": TableShape({"row": 2, "column": 2}),
            "rows": TableShape({"row": 2}),
            "columns": TableShape({"column": 2}),
        }
    )
    halves = {"cells": exactly([0.5] * 4), "rows": exactly([1, 1]), "columns": exactly([1, 1])}
    made = joint_rounding(table_set, halves)
    assert made.tables["cells"].tolist() in ([[1, 0, 0, 1]], [[0, 1, 1, 0]])
    assert made.violations == ()
    # With one cell nearer to one, there is no choice.
    tilted = {**halves, "cells": exactly([0.4, 0.6, 0.6, 0.4])}
    assert joint_rounding(table_set, tilted).tables["cells"].tolist() == [[0, 1, 1, 0]]


def test_margins_are_settled_before_cells() -> None:
    # Total 4.1 + 3.6 = 7.7 goes to 8, its rows to 4 and 4, and the cells follow: (2, 2) and (4, 0).
    table_set = TableSet({"cells": TableShape({"row": 2, "column": 2}), "rows": TableShape({"row": 2})})
    made = joint_rounding(table_set, {"cells": exactly([2.3, 1.8, 3.4, 0.2]), "rows": exactly([4.1, 3.6])})
    assert made.tables["rows"].tolist() == [[4, 4]]
    assert made.tables["cells"].tolist() == [[2, 2, 4, 0]]
    assert made.diagnostics() == {"violations": {}, "named": []}


def test_the_rounding_is_the_nearest_under_both_sets_of_sums() -> None:
    """A transportation table against trying every table of floors and ceilings."""
    for seed in range(25):
        rng = generator(seed)
        values = rng.integers(0, 3, size=(3, 3)) + rng.random((3, 3))
        # Sums of some rounding, so that they can be met.
        start = np.floor(values) + (rng.random((3, 3)) < 0.5)
        labels = [np.repeat(np.arange(3), 3), np.tile(np.arange(3), 3)]
        sums = np.r_[start.sum(axis=1), start.sum(axis=0)].astype(np.int64)
        made = round_to_sums(
            values.ravel(), Conditions(incidence(labels, [3, 3]), sums, np.ones(6, dtype=bool), 2)
        )
        made = made.reshape(3, 3)
        assert (np.r_[made.sum(axis=1), made.sum(axis=0)] == sums).all()
        costs = [
            np.abs(table - values).sum()
            for choice in product((0, 1), repeat=9)
            for table in [np.floor(values) + np.reshape(choice, (3, 3))]
            if (np.r_[table.sum(axis=1), table.sum(axis=0)] == sums).all()
        ]
        assert np.abs(made - values).sum() == pytest.approx(min(costs))


def test_sums_that_no_ceiling_reaches_are_reached_from_whole_numbers() -> None:
    # The rows take 1 and 0, the columns 0 and 1: only the empty corner can serve both.
    labels = [np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])]
    sums = Conditions(incidence(labels, [2, 2]), np.array([1, 0, 0, 1]), np.ones(4, dtype=bool), 2)
    assert round_to_sums(np.array([0.5, 0.0, 0.0, 0.5]), sums).tolist() == [0, 1, 0, 0]


def cube_of_halves(zeros: float) -> tuple[TableSet, dict[str, Estimate]]:
    """One half where a + b + c is even, else 0; every slice adds up to 1 (Causey, Cox and Ernst 1985).

    Two cells must be one. Any two of the four lie in a common slice, and then the opposite slice is empty.
    """
    table_set = TableSet({"cube": TableShape(CUBE), **{name: TableShape({name: 2}) for name in CUBE}})
    even = np.array([(a + b + c) % 2 == 0 for a, b, c in product((0, 1), repeat=3)])
    cube = Estimate(np.where(even, 0.5, 0.0)[None], np.where(even, 1.0, zeros)[None])
    ones = Estimate(np.ones((1, 2)), np.zeros((1, 1)))
    return table_set, {"cube": cube, **dict.fromkeys(CUBE, ones)}


def test_an_impossible_three_way_table_is_named() -> None:
    table_set, tables = cube_of_halves(zeros=0.0)
    made = joint_rounding(table_set, tables)
    assert {violation.kind for violation in made.violations} == {"marginal"}
    # Two ones in a common slice: that slice has 2 and its opposite 0, the other two dimensions are right.
    assert len(made.violations) == 2
    assert {violation.tables for violation in made.violations} in [{("cube", name)} for name in CUBE]
    assert sorted(violation.by for violation in made.violations) == [-1, 1]
    assert sorted(made.tables["cube"].ravel().tolist()) == [0] * 6 + [1] * 2
    assert all((made.tables[name] == 1).all() for name in CUBE)
    assert "marginal: cube and " in made.diagnostics()["named"][0]  # type: ignore[index]


def test_the_same_table_is_possible_where_zeros_may_become_one() -> None:
    table_set, tables = cube_of_halves(zeros=1.0)
    made = joint_rounding(table_set, tables)
    assert made.violations == ()
    assert made.tables["cube"].sum() == 2


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 9999), st.sampled_from(["equal", "cells", "exact nodes", "exact cells"]), st.booleans())
def test_everything_holds_that_is_not_named(seed: int, kind: str, clip: bool) -> None:
    rng = generator(seed)
    table_set = random_tables(rng, hierarchies=1 + seed % 2)
    truth = truth_of(table_set, rng, mean=float(rng.choice([0.3, 5.0])))
    values, variances = measured(table_set, truth, kind, rng)
    before = joint_consistency(table_set, values, variances).estimates
    if clip:
        before = joint_nonnegativity(table_set, before).estimates
    assert_honest(table_set, before, joint_rounding(table_set, before), clip)


def assert_honest(table_set: TableSet, before: dict[str, Estimate], made: Rounded, clip: bool) -> None:
    """Violations are exactly what a dense matrix and the distances say."""
    whole = np.concatenate([made.tables[name].ravel() for name in table_set.tables])
    values = np.concatenate([before[name].values.ravel() for name in table_set.tables])
    spread = [np.broadcast_to(before[n].variances, f.shape).ravel() for n, f in table_set.tables.items()]
    kinds = {violation.kind for violation in made.violations}
    assert whole.dtype == np.int64
    assert bool((equations(table_set)[0] @ whole).any()) == bool(kinds & {"hierarchy", "marginal"})
    assert bool((np.abs(whole - values) > 1 + 1e-6).any()) == ("cell" in kinds)
    sure = (np.concatenate(spread) == 0) & (np.abs(values - np.rint(values)) < 1e-7)
    assert bool((whole != np.rint(values))[sure].any()) == ("exact" in kinds)
    assert not clip or whole.min() >= 0
    # Two sets of sums at most: a table that meets them all exists and is found.
    if all(len(frame.flat) <= 1 for frame in table_set.tables.values()):
        assert not kinds & {"hierarchy", "marginal"}


@pytest.mark.parametrize("seed", [42, 45])
def test_three_sets_of_sums_are_met_by_rounding_the_margins_again(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = generator(seed)
    sizes = {name: int(rng.integers(2, 4)) for name in "abc"}
    tree = breadth_first(rng, 5)
    table_set = TableSet(
        {pair: TableShape({name: sizes[name] for name in pair}, "h", tree) for pair in ("ab", "ac", "bc")}
    )
    values, variances = measured(table_set, truth_of(table_set, rng, mean=0.4), "cells", rng)
    before = joint_nonnegativity(
        table_set, joint_consistency(table_set, values, variances).estimates
    ).estimates
    made = joint_rounding(table_set, before)
    assert_honest(table_set, before, made, clip=True)
    assert made.violations == ()
    # Under marginals that were settled without the tables in view some equations are missed, and named.
    monkeypatch.setattr(
        importlib.import_module("tabularium.mechanisms.inference.joint.joint_rounding"), "FAMILY", 0
    )
    first, again = joint_rounding(table_set, before), joint_rounding(table_set, before)
    assert_honest(table_set, before, first, clip=True)
    assert {violation.kind for violation in first.violations} == {"marginal"}
    assert again.violations == first.violations
    assert all((again.tables[name] == table).all() for name, table in first.tables.items())


def test_invariants_are_kept() -> None:
    tree = Hierarchy([-1, 0, 0, 1, 1, 2, 2])
    cut = Hierarchy(tree.parents[:3])
    table_set = TableSet(
        {
            "people": TableShape({"sex": 2, "age": 3}, "region", tree),
            "jobs": TableShape({"job": 4, "sex": 2}, "region", tree),
            "national": TableShape({"sex": 2}),
            "populations": TableShape({}, "region", cut),
        }
    )
    for seed in range(5):
        rng = generator(seed)
        truth = truth_of(table_set, rng, mean=3)
        values = {name: table + rng.normal(0, 4, table.shape) for name, table in truth.items()}
        values |= {name: truth[name] for name in ("national", "populations")}
        variances = {
            "people": np.full((7, 1), 9.0),
            "jobs": np.full((7, 1), 16.0),
            "national": np.array([[0.0]]),
            "populations": np.array([[np.inf], [0.0], [0.0]]),
        }
        before = joint_nonnegativity(
            table_set, joint_consistency(table_set, values, variances).estimates
        ).estimates
        made = joint_rounding(table_set, before)
        assert not [violation for violation in made.violations if violation.kind != "cell"]
        assert (made.tables["national"] == truth["national"]).all()
        assert (made.tables["populations"] == truth["populations"]).all()
        assert (made.tables["people"][:3].sum(axis=1) == truth["populations"][:, 0]).all()
        assert (made.tables["jobs"][0].reshape(4, 2).sum(axis=0) == truth["national"][0]).all()


def test_whole_tables_come_back_unchanged() -> None:
    for seed in range(12):
        rng = generator(seed)
        table_set = random_tables(rng)
        truth = truth_of(table_set, rng)
        tables = {
            name: Estimate(table + rng.uniform(-1e-9, 1e-9, table.shape), np.ones((len(table), 1)))
            for name, table in truth.items()
        }
        made = joint_rounding(table_set, tables)
        assert made.violations == ()
        assert all((made.tables[name] == truth[name]).all() for name in truth)


def test_one_table_is_the_single_table_answer() -> None:
    rng = generator(6)
    tree = Hierarchy([-1, 0, 0, 1, 1])
    table_set = TableSet({"t": TableShape({"x": 4}, "h", tree)})
    linear = joint_consistency(table_set, {"t": rng.normal(9, 9, size=(5, 4))}, {"t": 2.0}).estimates
    assert (joint_rounding(table_set, linear).tables["t"] == rounding(tree, linear["t"])).all()


def test_the_final_check_believes_nobody() -> None:
    """Numbers damaged after the rounding are found, each by name."""
    tree = Hierarchy([-1, 0, 0])
    table_set = TableSet({"t": TableShape({"x": 2}, "h", tree), "s": TableShape({}, "h", tree)})
    whole = {"t": np.array([[3, 4], [1, 2], [2, 2]]), "s": np.array([[7], [3], [4]])}
    values = {name: table.astype(float) for name, table in whole.items()}
    exact = {"t": np.zeros((3, 2), bool), "s": np.array([[True], [False], [False]])}
    assert violations(table_set, whole, values, exact) == ()
    whole["t"][2, 1] = 4
    assert [str(each) for each in violations(table_set, whole, values, exact)] == [
        "hierarchy: t on h x x (node 0, x 1): -2",
        "cell: t on h x x (node 2, x 1): +2",
        "marginal: t and s on h (node 2): +2",
    ]
    whole["s"][0, 0] = 6
    named = [str(each) for each in violations(table_set, whole, values, exact)]
    assert "exact: s on h (node 0): -1" in named
    assert "hierarchy: s on h (node 0): -1" in named


@pytest.mark.parametrize(
    ("cells", "total", "message"),
    [
        ([1.0, np.nan], 1.0, "table a: node 0 has a value that is not finite"),
        ([2.0**60, 0.0], 2.0**60, "of table a has a value beyond exact whole numbers"),
        ([1.0, 2.0], 4.0, "the tables do not add up or do not agree"),
    ],
)
def test_bad_input_is_named_in_one_line(cells: list[float], total: float, message: str) -> None:
    table_set = TableSet({"a": TableShape({"x": 2}), "b": TableShape()})
    with pytest.raises(MechanismError, match=re.escape(message)) as caught:
        joint_rounding(table_set, {"a": exactly(cells), "b": exactly([total])})
    assert "\n" not in str(caught.value)
