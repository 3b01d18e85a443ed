"""Cells that are exactly zero take part in sums as what they are: against dense least squares, and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tabularium.mechanisms.inference import laplace_margin, laplace_variance
from tabularium.mechanisms.queries import (
    Attribute,
    Axes,
    Measurement,
    NoisyTable,
    QueryTable,
    TreeAttribute,
    ask,
)
from tabularium.mechanisms.queries.sources import KnownSums

SEX = Attribute.categories("sex", ["F", "M"])
AREA = TreeAttribute(
    "area",
    ("N", "A", "B", "A1", "A2", "B1", "B2"),
    ("N", "A", "B", "A1", "A2", "B1", "B2"),
    np.array([-1, 0, 0, 1, 1, 2, 2]),
    np.array([0, 1, 1, 2, 2, 2, 2]),
    ("nation", "province", "place"),
)
AXES = Axes(AREA, (SEX,))
LEAVES = np.array([3, 4, 5, 6])
#: Of each leaf and sex: nobody of sex M in A at all, nobody of sex F in B1.
EMPTY = np.array([[0, 1], [0, 1], [1, 0], [0, 0]], bool)


def tree() -> np.ndarray:
    """(nodes, leaves) which leaves are below each node."""
    below = np.zeros((7, 4))
    below[0], below[1, :2], below[2, 2:] = 1, 1, 1
    below[LEAVES, range(4)] = 1
    return below


def impossible() -> np.ndarray:
    return np.stack([[EMPTY[row > 0, sex].all() for row in tree()] for sex in (0, 1)], axis=1)


def table(seed: int = 0) -> QueryTable:
    """Provinces measured with variance 4 and places with 9; nothing at all where nobody can be."""
    rng = np.random.default_rng(seed)
    none, parts = impossible(), []
    for nodes, variance in ((np.array([1, 2]), 4.0), (LEAVES, 9.0)):
        values = np.where(none[nodes], 0, rng.integers(100, 200, size=(len(nodes), 2)))
        parts.append(Measurement(nodes, values, variance))
    return QueryTable("t", AXES, NoisyTable(AXES, tuple(parts), none))


def dense(made: QueryTable, chosen: np.ndarray) -> tuple[float, float]:
    """Estimate and variance of the sum of chosen (leaves, sexes), by least squares over possible leaves."""
    value = variance = 0.0
    assert made.noisy is not None
    for sex in (0, 1):
        kept = ~EMPTY[:, sex]
        rows, seen, weight = [], [], []
        for part in made.noisy.measurements:
            for node, number in zip(part.nodes, np.asarray(part.values)[:, sex], strict=True):
                if (tree()[node] * kept).any():
                    rows.append(tree()[node][kept])
                    seen.append(number)
                    weight.append(1 / float(part.variance))
        design, w = np.array(rows), np.diag(weight)
        spread = np.linalg.inv(design.T @ w @ design)
        want = chosen[kept, sex].astype(float)
        value += float(want @ spread @ design.T @ w @ np.array(seen, float))
        variance += float(want @ spread @ want)
    return value, variance


@pytest.mark.parametrize("seed", range(6))
def test_sums_are_those_of_dense_least_squares(seed: int) -> None:
    made, rng = table(seed), np.random.default_rng(100 + seed)
    sexes, places = ([0], [1], [0, 1])[seed % 3], rng.random(4) < 0.6
    places[seed % 4] = True
    chosen = np.zeros((4, 2), bool)
    chosen[np.ix_(np.flatnonzero(places), sexes)] = True
    area = " or ".join(f"area = {AREA.codes[3 + place]}" for place in np.flatnonzero(places))
    sex = " or ".join(f"sex = {'FM'[each]}" for each in sexes)
    (row,) = ask(f"count where ({area}) and ({sex})", [made]).rows
    value, variance = dense(made, chosen)
    assert row.value == pytest.approx(value) and row.standard_error == pytest.approx(math.sqrt(variance))


def test_nobody_is_exactly_nobody_and_groups_know_which_they_are() -> None:
    rows = ask("count where area in (A, B1) by sex, area.place", [table()]).rows
    exact = [row for row in rows if row.low == row.high == row.value == row.standard_error == 0]
    assert len(rows) == 6 and len(exact) == 3
    assert all(row.standard_error > 0 for row in rows if row not in exact)


def test_equal_noise_is_counted_where_it_was_drawn() -> None:
    """Two of three cells were drawn: the exact quantile of two Laplace errors, not of three."""
    axes, scale = Axes(None, (Attribute.categories("kind", ["a", "b", "c"]),)), 50.0
    cells = Measurement(np.array([0]), np.array([[500, 700, 0]]), laplace_variance(scale), scale)
    noisy = NoisyTable(axes, (cells,), np.array([[False, False, True]]))
    (row,) = ask("count", [QueryTable("t", axes, noisy)]).rows
    assert row.standard_error == pytest.approx(math.sqrt(2 * laplace_variance(scale)))
    assert (row.high - row.low) / 2 == pytest.approx(laplace_margin(scale, 0.9, 2), abs=1)


def test_a_known_sum_is_shared_by_those_that_can_be() -> None:
    """What is known of sex M, 300, lies in B alone; of A and B1 the least squares of B's two places."""
    made = table()
    known = KnownSums("sexes", np.tile([0, 1], (4, 1)), np.array([400.0, 300.0]))
    both = QueryTable("t", AXES, made.noisy, known=(known,))
    (row,) = ask("count where sex = M and area = B", [both]).rows
    assert (row.value, row.low, row.high) == (300, 300, 300)
    (none,) = ask("count where sex = M and area = A", [both]).rows
    assert (none.value, none.low, none.high) == (0, 0, 0)
