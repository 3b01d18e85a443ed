"""Counts with public numbers: exactly what they fix, and the variance that any least squares would find."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tabularium.mechanisms.inference import laplace_variance
from tabularium.mechanisms.noise.synthetic import generator
from tabularium.mechanisms.queries import Attribute, Axes, KnownSums, Measurement, NoisyTable, QueryTable, ask
from tests.dense import gain_of, leaf_matrix
from tests.mechanisms.queries.test_queries import AREA
from tests.sizes import runs

SEX = Attribute.categories("sex", ["F", "M"])
AGE = Attribute.bins("age", [0, 20, 65])
AXES = Axes(AREA, (AGE, SEX))
LEAVES = len(AREA.leaves)
SHAPE = (LEAVES, AGE.cells, SEX.cells)
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
    return QueryTable("t", AXES, NoisyTable(AXES, parts), known=known)


def every_measurement(noisy: NoisyTable) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which cells of the leaves each measurement is a sum of, what was measured, and the variances."""
    below, columns = leaf_matrix(AREA.parents), np.eye(math.prod(noisy.axes.shape))
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
