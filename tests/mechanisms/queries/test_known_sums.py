"""Counts with public numbers: exactly what they fix, and the variance that any least squares would find."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tabularium.mechanisms.inference import laplace_margin, laplace_variance
from tabularium.mechanisms.noise.synthetic import generator
from tabularium.mechanisms.queries import (
    Attribute,
    Axes,
    KnownSums,
    Measurement,
    NoisyTable,
    QueryTable,
    TreeAttribute,
    ask,
)
from tests.dense import gain_of, leaf_matrix
from tests.mechanisms.queries.scene import AREA
from tests.sizes import runs

SEX = Attribute.categories("sex", ["F", "M"])
AGE = Attribute.bins("age", [0, 20, 65])
KNOWN_AXES = Axes(AREA, (AGE, SEX))
KNOWN_LEAVES = len(AREA.leaves)
SHAPE = (KNOWN_LEAVES, AGE.cells, SEX.cells)
VARIANCES = {0: 3.0, 1: 8.0, 2: 5.0}


def a_table(known: tuple[KnownSums, ...], seed: int = 3) -> QueryTable:
    """Measurements of three levels: C is a leaf at the second, so that it was measured there alone."""
    rng = generator(seed)
    parts = tuple(
        Measurement(
            np.flatnonzero(AREA.depth == depth),
            rng.integers(0, 50, (int((AREA.depth == depth).sum()), *SHAPE[1:])),
            variance,
        )
        for depth, variance in VARIANCES.items()
    )
    return QueryTable("t", KNOWN_AXES, NoisyTable(KNOWN_AXES, parts), known=known)


def every_measurement(noisy: NoisyTable) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which cells of the leaves each measurement is a sum of, what was measured, and the variances."""
    below, columns = leaf_matrix(noisy.axes.parents), np.eye(math.prod(noisy.axes.shape))
    parts = noisy.measurements
    return (
        np.vstack([np.kron(below[part.nodes], columns) for part in parts]),
        np.concatenate([np.asarray(part.values, float).reshape(-1) for part in parts]),
        np.concatenate([np.full(np.size(part.values), float(part.variance)) for part in parts]),
    )


def by_matrices(table: QueryTable, cells: np.ndarray, known: KnownSums) -> tuple[float, float]:
    """Generalised least squares over all cells at once, then one exact linear fact about a sum of them."""
    assert table.noisy is not None
    design, values, spread = every_measurement(table.noisy)
    gain = gain_of(design, spread)
    assert gain is not None
    estimate, covariance = gain @ values, gain * spread @ gain.T
    own = cells.reshape(-1).astype(float)
    touched = np.unique(known.groups[cells])
    whole = np.isin(known.groups, touched).reshape(-1).astype(float)
    beta = own @ covariance @ whole / (whole @ covariance @ whole)
    value = own @ estimate + beta * (known.values[touched].sum() - whole @ estimate)
    return float(value), float(own @ covariance @ own - beta * (whole @ covariance @ own))


def by_province(sexes: bool) -> KnownSums:
    """Numbers of provinces (C, A, B in the order of the leaves), by sex or not."""
    province = np.array([0, 1, 1, 2, 2]).reshape(-1, 1, 1)
    groups = np.broadcast_to(province * 2 + np.arange(2) if sexes else province, SHAPE)
    return KnownSums(
        "register", np.ascontiguousarray(groups), np.arange(100.0, 200.0, 10)[: groups.max() + 1]
    )


@pytest.mark.parametrize("sexes", [True, False])
@pytest.mark.parametrize(
    ("where", "holds"),
    [
        ("sex = F", lambda area, age, sex: sex == 0),
        ("area = A1", lambda area, age, sex: area == 1),
        (
            "area = A1 or (area = B and age >= 20)",
            lambda area, age, sex: area == 1 or (area > 2 and age == 1),
        ),
        ("age < 20 and (sex = F or area = C)", lambda area, age, sex: age == 0 and (sex == 0 or area == 0)),
    ],
)
def test_a_part_of_what_is_known_has_the_variance_of_least_squares(
    where: str, holds: object, sexes: bool
) -> None:
    known = by_province(sexes)
    cells = np.array([holds(*cell) for cell in np.ndindex(SHAPE)]).reshape(SHAPE)  # type: ignore[operator]
    table = a_table((known,))
    (row,) = ask(f"count where {where}", [table]).rows
    value, variance = by_matrices(table, cells, known)
    assert row.value == pytest.approx(value)
    assert row.standard_error == pytest.approx(math.sqrt(max(variance, 0)), abs=1e-6)
    (alone,) = ask(f"count where {where}", [a_table(())]).rows
    assert row.standard_error < (alone.standard_error or 0)


def test_what_is_known_is_exact_in_every_row() -> None:
    answer = ask("count by province, sex", [a_table((by_province(sexes=True),))])
    assert [row.value for row in answer.rows] == [120, 130, 140, 150, 100, 110]
    assert all(row.low == row.high == row.value and row.standard_error == 0 for row in answer.rows)
    assert answer.invariants == ("register",)


def test_what_is_known_to_be_nobody_is_nobody_in_every_part() -> None:
    nobody = KnownSums("closed", np.zeros(SHAPE, np.intp), np.zeros(1))
    (row,) = ask("count where area = A1 and sex = F", [a_table((nobody,))]).rows
    assert (row.value, row.low, row.high) == (0, 0, 0)


def test_the_invariant_that_says_most_is_used_and_none_that_says_nothing() -> None:
    total = KnownSums("total", np.zeros(SHAPE, np.intp), np.array([1000.0]))
    answer = ask("count where area = A1", [a_table((total, by_province(sexes=False)))])
    assert answer.invariants == ("register",)
    assert ask("average(age) where age < 20", [a_table((total,))]).invariants == ()


def test_intervals_with_a_known_total_hold_as_often_as_stated() -> None:
    """Two cells of a known total: the noise of one less that of the other, halved."""
    axes, rng, scale = Axes(None, (SEX,)), generator(8), 6.0
    known = KnownSums("total", np.zeros((1, 2), np.intp), np.array([1000.0]))
    decay, held, number = 1 - math.exp(-1 / scale), 0, runs(400, 4000)
    for _ in range(number):
        noise = rng.geometric(decay, (1, 2)) - rng.geometric(decay, (1, 2))
        part = Measurement(np.array([0]), np.array([[400, 600]]) + noise, laplace_variance(scale), scale)
        (row,) = ask(
            "count where sex = F", [QueryTable("t", axes, NoisyTable(axes, (part,)), known=(known,))]
        ).rows
        held += (row.low or 0) <= 400 <= (row.high or 0)
    assert 0.9 - 3 * math.sqrt(0.09 / number) < held / number < 0.93 + 2 * math.sqrt(0.09 / number), (
        held / number
    )


# --- Cells that are exactly zero take part in sums as what they are: against dense least squares, and by hand ---


PROVINCES = TreeAttribute(
    "area",
    ("N", "A", "B", "A1", "A2", "B1", "B2"),
    ("N", "A", "B", "A1", "A2", "B1", "B2"),
    np.array([-1, 0, 0, 1, 1, 2, 2]),
    np.array([0, 1, 1, 2, 2, 2, 2]),
    ("nation", "province", "place"),
)
AXES = Axes(PROVINCES, (SEX,))
PLACES = np.array([3, 4, 5, 6])
#: Of each leaf and sex: nobody of sex M in A at all, nobody of sex F in B1.
EMPTY = np.array([[0, 1], [0, 1], [1, 0], [0, 0]], bool)


def impossible() -> np.ndarray:
    below = leaf_matrix(PROVINCES.parents)
    return np.stack([[EMPTY[row > 0, sex].all() for row in below] for sex in (0, 1)], axis=1)


def table(seed: int = 0) -> QueryTable:
    """Provinces measured with variance 4 and places with 9; nothing at all where nobody can be."""
    rng = np.random.default_rng(seed)
    none, parts = impossible(), []
    for nodes, variance in ((np.array([1, 2]), 4.0), (PLACES, 9.0)):
        values = np.where(none[nodes], 0, rng.integers(100, 200, size=(len(nodes), 2)))
        parts.append(Measurement(nodes, values, variance))
    return QueryTable("t", AXES, NoisyTable(AXES, tuple(parts), none))


def dense(made: QueryTable, chosen: np.ndarray) -> tuple[float, float]:
    """Estimate and variance of the sum of chosen (leaves, sexes), by least squares over possible leaves."""
    assert made.noisy is not None
    design, values, spread = every_measurement(made.noisy)
    kept = ~EMPTY.reshape(-1)
    some = design[:, kept].any(axis=1)
    gain = gain_of(design[some][:, kept], spread[some])
    assert gain is not None
    shares = chosen.reshape(-1)[kept] @ gain
    return float(shares @ values[some]), float(shares**2 @ spread[some])


@pytest.mark.parametrize("seed", range(6))
def test_sums_are_those_of_dense_least_squares(seed: int) -> None:
    made, rng = table(seed), np.random.default_rng(100 + seed)
    sexes, places = ([0], [1], [0, 1])[seed % 3], rng.random(4) < 0.6
    places[seed % 4] = True
    chosen = np.zeros((4, 2), bool)
    chosen[np.ix_(np.flatnonzero(places), sexes)] = True
    area = " or ".join(f"area = {PROVINCES.codes[3 + place]}" for place in np.flatnonzero(places))
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
