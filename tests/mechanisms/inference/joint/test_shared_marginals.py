"""Shapes of several tables: which marginals they share, how they are seen, and what does not fit together."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.inference import Hierarchy, TableSet, TableShape
from tabularium.mechanisms.noise.synthetic import generator

from .dense_tables import equations, random_tables, truth_of

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
