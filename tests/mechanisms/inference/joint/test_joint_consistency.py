"""Several tables against dense least squares, and by hand."""

from __future__ import annotations

import re

import numpy as np
import pytest
from numpy.typing import NDArray

import tabularium.mechanisms.inference.joint.joint_consistency as module
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.inference import Hierarchy, TableSet, TableShape, consistency, joint_consistency
from tabularium.mechanisms.noise.synthetic import generator
from tests.dense import dense_tables, equations, measured, random_tables, truth_of

Floats = NDArray[np.float64]
KINDS = ("equal", "cells", "inner unmeasured", "leaves unmeasured", "exact nodes", "exact cells")


def test_two_tables_share_out_their_difference() -> None:
    # The total is 10 by the first, 4 + 3 by the second table: variances 1 and 1 + 1; x = 10 - 3/3.
    tables = TableSet({"all": TableShape(), "sexes": TableShape({"sex": 2})})
    made = joint_consistency(tables, {"all": [[10.0]], "sexes": [[4.0, 3.0]]}, {"all": 1.0, "sexes": 1.0})
    assert made.estimates["all"].values == pytest.approx(9.0)
    assert made.estimates["sexes"].values.ravel() == pytest.approx([5.0, 4.0])
    assert made.estimates["all"].variances == pytest.approx(2 / 3)
    assert made.diagnostics()["shared_marginals"] == [["total", "all", "sexes"]]


def test_a_two_by_two_margin_moves_the_rows_it_shares() -> None:
    # Rows of the table: (1, 2) and (3, 4); the marginal says 5 and 7: each cell takes half of what is missing
    # but a third, for the marginal's own measurement counts as much as one cell's.
    tables = TableSet({"cells": TableShape({"row": 2, "column": 2}), "rows": TableShape({"row": 2})})
    values = {"cells": [[1.0, 2.0, 3.0, 4.0]], "rows": [[6.0, 10.0]]}
    made = joint_consistency(tables, values, {"cells": 1.0, "rows": 1.0})
    assert made.estimates["cells"].values.ravel() == pytest.approx([2, 3, 4, 5])
    assert made.estimates["rows"].values.ravel() == pytest.approx([5, 9])


@pytest.mark.parametrize("kind", KINDS)
def test_agrees_with_dense_least_squares(kind: str) -> None:
    """Values and variances to 1e-9 of the largest, on random tables, hierarchies and cuts."""
    compared = 0
    for seed in range(24 if kind == "leaves unmeasured" else 50):
        rng = generator(1000 + seed)
        table_set = random_tables(rng, hierarchies=1 + seed % 2)
        values, variances = measured(table_set, truth_of(table_set, rng), kind, rng)
        dense = dense_tables(table_set, values, variances)
        if dense is None:
            with pytest.raises(MechanismError, match="not measured"):
                joint_consistency(table_set, values, variances)
            continue
        made = joint_consistency(table_set, values, variances)
        _assert_close(made.estimates, dense)
        if seed % 5 == 0:
            forced = joint_consistency(table_set, values, variances, method="conjugate gradients")
            _assert_close(forced.estimates, dense)
        compared += 1
    assert compared >= 8


def _assert_close(estimates: dict, dense: tuple[dict[str, Floats], dict[str, Floats]]) -> None:
    size = max(1.0, *(float(np.abs(table).max()) for table in dense[0].values()))
    spread = max(1e-3, *(float(table.max()) for table in dense[1].values()))
    for name, estimate in estimates.items():
        assert np.abs(estimate.values - dense[0][name]).max() <= 1e-9 * size
        assert np.abs(estimate.variances - dense[1][name]).max() <= 1e-9 * spread


def test_one_table_is_the_single_table_answer() -> None:
    rng = generator(5)
    tree = Hierarchy([-1, 0, 0, 1, 1])
    values, variances = rng.normal(9, 3, size=(5, 4)), rng.uniform(1, 5, size=(5, 4))
    made = joint_consistency(
        TableSet({"t": TableShape({"x": 4}, "h", tree)}), {"t": values}, {"t": variances}
    )
    single = consistency(tree, values, variances)
    assert (made.estimates["t"].values == single.values).all()
    assert (made.estimates["t"].variances == single.variances).all()


def test_public_totals_are_one_more_table() -> None:
    """A national total by sex, and populations of the districts; nation itself not stated."""
    rng = generator(11)
    tree = Hierarchy([-1, 0, 0, 1, 1, 2, 2])
    cut = Hierarchy(tree.parents[:3])
    table_set = TableSet(
        {
            "people": TableShape({"sex": 2, "age": 3}, "region", tree),
            "jobs": TableShape({"job": 4}, "region", tree),
            "national": TableShape({"sex": 2}),
            "populations": TableShape({}, "region", cut),
        }
    )
    truth = truth_of(table_set, rng, mean=20)
    variances: dict[str, Floats] = {
        "people": rng.uniform(1, 9, size=(7, 6)),
        "jobs": np.full((7, 1), 4.0),
        "national": np.array([[0.0, np.inf]]),
        "populations": np.array([[np.inf], [0.0], [0.0]]),
    }
    values = {name: table + rng.normal(0, 3, table.shape) for name, table in truth.items()}
    values["national"], values["populations"] = truth["national"], truth["populations"]
    values["national"][0, 1] = np.nan
    dense = dense_tables(table_set, {**values, "national": np.nan_to_num(values["national"])}, variances)
    assert dense is not None
    made = joint_consistency(table_set, values, variances)
    _assert_close(made.estimates, dense)
    people = made.estimates["people"].values
    assert people[1:3].sum(axis=1) == pytest.approx(truth["populations"][1:, 0], abs=1e-9)
    assert people[0, :3].sum() == pytest.approx(truth["national"][0, 0], abs=1e-9)
    # What was not stated comes out of the other tables.
    assert made.estimates["national"].values[0, 1] == pytest.approx(people[0, 3:].sum())
    assert made.estimates["populations"].values[0, 0] == pytest.approx(truth["populations"][1:, 0].sum())


def test_tables_that_share_the_total_alone() -> None:
    table_set = TableSet(
        {
            "a": TableShape({"x": 2}, "h", Hierarchy([-1, 0, 0])),
            "b": TableShape({"y": 3}, "g", Hierarchy([-1, 0])),
        }
    )
    rng = generator(3)
    values, variances = measured(table_set, truth_of(table_set, rng), "cells", rng)
    dense = dense_tables(table_set, values, variances)
    assert dense is not None
    _assert_close(joint_consistency(table_set, values, variances).estimates, dense)


def test_estimated_variances_are_near_the_exact_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = generator(8)
    tree = Hierarchy(np.r_[-1, np.zeros(3, int), 1 + np.arange(9) // 3])
    table_set = TableSet({"a": TableShape({"x": 2, "y": 3}, "h", tree), "b": TableShape({"x": 2}, "h", tree)})
    values, variances = measured(table_set, truth_of(table_set, rng), "cells", rng)
    exact = joint_consistency(table_set, values, variances)
    monkeypatch.setattr(module, "SMALL", 0)
    rough = joint_consistency(table_set, values, variances)
    assert (exact.variances, rough.variances, rough.probes) == ("exact", "estimated", 32)
    for name, estimate in exact.estimates.items():
        ratio = rough.estimates[name].variances / estimate.variances
        # 32 probes: a standard error of a quarter at most.
        assert 0.9 < ratio.mean() < 1.1
        assert (np.abs(ratio - 1) < 1).all()
        assert (rough.estimates[name].values == estimate.values).all()


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e9])
def test_units_do_not_matter(scale: float) -> None:
    rng = generator(21)
    table_set = random_tables(generator(4), hierarchies=1)
    values, variances = measured(table_set, truth_of(table_set, rng), "cells", rng)
    one = joint_consistency(table_set, values, variances)
    other = joint_consistency(
        table_set,
        {name: table * scale for name, table in values.items()},
        {name: table * scale**2 for name, table in variances.items()},
    )
    for name, estimate in one.estimates.items():
        size = np.abs(estimate.values).max()
        assert np.abs(other.estimates[name].values / scale - estimate.values).max() <= 1e-6 * size


@pytest.mark.parametrize(
    ("values", "variances", "message"),
    [
        ({"a": [[1.0, 2.0]]}, {"a": 1.0}, "table b has no values or no variances"),
        ({"a": [[1.0]], "b": [[1.0]]}, {"a": 1.0, "b": 1.0}, "table a: the values are not of shape (1, 2)"),
        (
            {"a": [[1.0, np.nan]], "b": [[1.0]]},
            {"a": 1.0, "b": 1.0},
            "table a has a measurement that is not finite",
        ),
        (
            {"a": [[1.0, 2.0]], "b": [[1.0]]},
            {"a": -1.0, "b": 1.0},
            "table a: node 0 has a variance that is negative",
        ),
        (
            {"a": [[1.0, 2.0]], "b": [[4.0]]},
            {"a": 0.0, "b": 0.0},
            "the exact values of table b at node 0 contradict those of another table",
        ),
        ({"a": [[1.0, 2.0]], "b": [[4.0]]}, {"a": [[np.inf, np.inf]], "b": 1.0}, "is not measured"),
    ],
)
def test_bad_input_is_named_in_one_line(values: dict, variances: dict, message: str) -> None:
    table_set = TableSet({"a": TableShape({"x": 2}), "b": TableShape()})
    with pytest.raises(MechanismError, match=re.escape(message)) as caught:
        joint_consistency(table_set, values, variances)
    assert "\n" not in str(caught.value)


def test_contradicting_cells_are_named() -> None:
    table_set = TableSet({"a": TableShape({"x": 2, "y": 2}), "b": TableShape({"x": 2})})
    values = {"a": [[1.0, 2.0, 3.0, 4.0]], "b": [[3.0, 8.0]]}
    variances = {"a": [[1.0, 2.0, 0.0, 0.0]], "b": [[1.0, 0.0]]}
    with pytest.raises(
        MechanismError,
        match=re.escape("exact values of a and b contradict each other on their marginal x (group 1)"),
    ):
        joint_consistency(table_set, values, variances)


# --- Shapes of several tables: which marginals they share, how they are seen, and what does not fit together ---


TREE = Hierarchy([-1, 0, 0, 1, 1, 2])
SHORT = Hierarchy([-1, 0, 0])


def test_the_shared_marginals_are_found() -> None:
    both = TableSet(
        {
            "people": TableShape({"sex": 2, "age": 3}, "region", TREE),
            "schooling": TableShape({"age": 3, "education": 4}, "region", SHORT),
            "jobs": TableShape({"sex": 2}),
        }
    )
    assert [str(marginal) for marginal in both.marginals] == [
        "total",
        "sex",
        "age x region".replace("age x region", "region x age"),
        "region x age x education",
        "region x age x sex",
    ]
    assert {(str(link.marginal), *link.tables) for link in both.links} == {
        ("region x age", "people", "schooling"),
        ("sex", "people", "jobs"),
    }
    # They agree where the shorter hierarchy ends; above that agreement follows.
    (deep,) = (link for link in both.links if str(link.marginal) == "region x age")
    assert [view.rows.tolist() for view in deep.views if view.rows is not None] == [[1, 2], [1, 2]]


def test_a_margin_is_gathered_in_its_own_order_and_handed_back() -> None:
    both = TableSet({"one": TableShape({"b": 2, "a": 3}), "two": TableShape({"a": 3, "b": 2})})
    (link,) = both.links
    table = np.arange(6.0)[None]
    assert link.views[1].gather(table).tolist() == table.tolist()
    # Cells (b, a): 0 1 2 / 3 4 5, so by (a, b): 0 3 1 4 2 5.
    assert link.views[0].gather(table).tolist() == [[0, 3, 1, 4, 2, 5]]
    back = np.zeros((1, 6))
    link.views[0].scatter(link.views[0].gather(table), back)
    assert back.tolist() == table.tolist()


def test_links_imply_the_agreement_of_every_pair() -> None:
    """The few links must leave the same freedom as all pairs at all nodes: equal ranks."""
    for seed in range(14):
        table_set = random_tables(generator(seed), hierarchies=1 + seed % 2)
        every, slices = equations(table_set)
        rows = list(every)
        tables = {name: np.zeros(frame.shape) for name, frame in table_set.tables.items()}
        few = []
        for name, frame in table_set.tables.items():
            for place in range(tables[name].size):
                tables[name].flat[place] = 1.0
                column = [
                    np.concatenate(
                        [
                            (v.gather(tables[t]) if t == name else np.zeros(v.shape)).ravel()
                            for v, t in zip(link.views, link.tables, strict=True)
                        ]
                    )
                    for link in table_set.links
                ]
                few.append(
                    np.concatenate([c[: len(c) // 2] - c[len(c) // 2 :] for c in column])
                    if column
                    else np.zeros(0)
                )
                tables[name].flat[place] = 0.0
            del frame
        families = [row for row in rows if sum(np.any(row[part]) for part in slices.values()) == 1]
        own = np.array(families).reshape(-1, every.shape[1])
        linked = np.vstack([own, np.array(few).T])
        rank = np.linalg.matrix_rank
        assert rank(linked) == rank(every) == rank(np.vstack([linked, every]))


def test_the_truth_of_the_test_tables_meets_all_equations() -> None:
    for seed in range(20):
        table_set = random_tables(generator(seed))
        truth = truth_of(table_set, generator(seed))
        joined = np.concatenate([truth[name].ravel() for name in table_set.tables])
        assert not (equations(table_set)[0] @ joined).any()
        assert table_set.gap(truth) == 0


@pytest.mark.parametrize(
    ("frames", "message"),
    [
        ({}, "there are no tables"),
        ({"a": TableShape({"x": 2}), "b": TableShape({"x": 3})}, "dimension x has two sizes"),
        (
            {"a": TableShape({}, "x", SHORT), "b": TableShape({"x": 3})},
            "dimension x is a hierarchy in one table and flat in another",
        ),
        (
            {"a": TableShape({}, "x", TREE), "b": TableShape({}, "x", Hierarchy([-1, 0, 0, 0]))},
            "two tables have different hierarchies along x",
        ),
        (
            {"a": TableShape({}, "x", TREE), "b": TableShape({}, "x", Hierarchy([-1, 0, 0, 1]))},
            "two tables have different hierarchies along x",
        ),
    ],
)
def test_what_does_not_fit_together_is_named(frames: dict[str, TableShape], message: str) -> None:
    with pytest.raises(MechanismError, match=re.escape(message)):
        TableSet(frames)


def test_a_frame_checks_itself() -> None:
    with pytest.raises(MechanismError, match="has no categories"):
        TableShape({"x": 0})
    with pytest.raises(MechanismError, match="has a hierarchy that has no name"):
        TableShape({}, None, SHORT)
    with pytest.raises(MechanismError, match="stands in a table twice"):
        TableShape({"x": 2}, "x", SHORT)
