"""Non-negative tables that agree: every step against quadratic programming, totals unbiased."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize, sparse

from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.inference import (
    Estimate,
    Hierarchy,
    TableSet,
    TableShape,
    joint_consistency,
    joint_nonnegativity,
    joint_rounding,
    nonnegativity,
)
from tabularium.mechanisms.inference.joint import joint_nonnegativity as nonnegative_projection
from tabularium.mechanisms.inference.joint.joint_nonnegativity import project, project_families
from tabularium.mechanisms.inference.joint.projection_schedule import (
    incidence,
    marginal_tables,
    marginal_variances,
    projection_schedule,
)
from tabularium.mechanisms.noise.synthetic import generator

from .dense_tables import breadth_first, equations, measured, random_tables, truth_of

Floats = NDArray[np.float64]


def best_of_all_active_sets(e: Floats, w: Floats, A: Floats, b: Floats) -> Floats:
    """The weighted projection onto {Ax = b, x >= 0} by trying every set of positive numbers."""
    best, least = np.full(len(e), np.nan), np.inf
    for chosen in product((False, True), repeat=len(e)):
        on = np.array(chosen)
        part = A[:, on]
        lam = np.linalg.lstsq((part * w[on]) @ part.T, b - part @ e[on])[0]
        x = np.zeros(len(e))
        x[on] = e[on] + w[on] * (part.T @ lam)
        cost = float(((x - e) ** 2 / w).sum())
        if x.min() >= -1e-10 and np.abs(A @ x - b).max() <= 1e-9 * max(1, np.abs(b).max()) and cost < least:
            best, least = x, cost
    return best


def assert_optimal(x: Floats, e: Floats, w: Floats, A: Floats, b: Floats) -> None:
    """Karush-Kuhn-Tucker: (x - e) / w = A'lam + s with s >= 0, and s = 0 where x > 0, sought by NNLS."""
    size = max(1.0, float(np.abs(b).max(initial=0.0)), float(np.abs(x).max(initial=0.0)))
    assert x.min() >= 0
    assert np.abs(A @ x - b).max() <= 1e-9 * size
    zero = np.eye(len(x))[:, x <= 1e-9 * size]
    _, off = optimize.nnls(np.hstack([A.T, -A.T, zero]) * w[:, None], x - e, maxiter=5000)
    assert off <= 1e-9 * size


def transport(
    rng: np.random.Generator, rows: int, columns: int, sets: int
) -> tuple[sparse.csr_array, list[int]]:
    numbers = rows * columns
    labels = [np.repeat(np.arange(rows), columns), np.tile(np.arange(columns), rows)]
    sizes = [rows, columns]
    if sets == 3:
        labels.append(rng.integers(0, 3, numbers))
        sizes.append(3)
    return incidence(labels, sizes), sizes


def test_a_two_by_two_table_by_hand() -> None:
    # Rows 3 and 5, columns 4 and 4, all estimates 0 but a large negative one in the corner: x11 = 0.
    system, sizes = transport(generator(0), 2, 2, 2)
    disjoint = np.arange(sum(sizes)) < sizes[0]
    x, wrong = project(np.array([-9.0, 2, 2, 2]), np.ones(4), system, np.array([3.0, 5, 4, 4]), disjoint)
    assert not wrong.any()
    assert x == pytest.approx([0, 3, 4, 1], abs=1e-12)


def test_the_projection_agrees_with_trying_all_active_sets() -> None:
    for seed in range(100):
        rng = generator(seed)
        rows, columns, sets = int(rng.integers(1, 4)), int(rng.integers(1, 3)), int(rng.integers(2, 4))
        system, _ = transport(rng, rows, columns, sets)
        numbers = rows * columns
        truth = np.where(rng.random(numbers) < 0.4, 0, rng.geometric(0.1, numbers)).astype(float)
        w = np.exp(rng.uniform(-2, 2, numbers))
        e, b = truth + 4 * np.sqrt(w) * rng.normal(size=numbers), system @ truth
        x, wrong = project(e, w, system, b, np.arange(len(b)) < rows)
        assert not wrong.any()
        best = best_of_all_active_sets(e, w, system.toarray(), b)
        assert np.abs(x - best).max() <= 1e-9 * max(1.0, b.max())


@pytest.mark.parametrize("dense", [0, 20_000])
def test_larger_projections_are_optimal(dense: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With plain arrays and with sparse ones."""
    monkeypatch.setattr(nonnegative_projection, "DENSE", dense)
    for seed in range(40):
        rng = generator(500 + seed)
        rows, columns = (int(each) for each in rng.integers(2, 8, size=2))
        system, _ = transport(rng, rows, columns, 2 + seed % 2)
        numbers = rows * columns
        # Nine cells in ten are empty, some are a million times as large: degenerate and badly scaled.
        truth = np.where(rng.random(numbers) < 0.8, 0, rng.geometric(0.1, numbers)).astype(float)
        truth *= 10.0 ** rng.integers(0, 6) if rng.random() < 0.3 else 1.0
        w = np.exp(rng.uniform(-3, 3, numbers))
        e, b = truth + 10 * np.sqrt(w) * rng.normal(size=numbers), system @ truth
        x, wrong = project(e, w, system, b, np.arange(len(b)) < rows)
        assert not wrong.any()
        assert_optimal(x, e, w, system.toarray(), b)


def test_the_search_does_not_go_round_in_circles() -> None:
    """Mehrotra's corrector alone cycles on this table: rows 39 and 3, six steps to and fro."""
    e = np.array(
        [
            37.04613114,
            -32.30316326,
            4.98387688,
            41.33769954,
            15.26800422,
            20.10561044,
            46.66787166,
            10.47448004,
        ]
    )
    w = np.array(
        [1.87081343, 12.75042438, 0.42587107, 1.7338212, 2.57020668, 1.28586634, 14.75775421, 0.32310901]
    )
    system, _ = transport(generator(0), 2, 4, 2)
    b = np.array([39.0, 3, 14, 4, 4, 20])
    x, wrong = project(e, w, system, b, np.arange(6) < 2)
    assert not wrong.any()
    assert_optimal(x, e, w, system.toarray(), b)


def test_a_part_without_a_solution_is_named_and_the_others_are_solved() -> None:
    # Rows 1 and 1 with columns 2 and 1 do not add up; the second part does.
    labels = [np.array([0, 0, 1, 1, 2, 2]), np.array([0, 1, 0, 1, 2, 3])]
    b = np.array([1.0, 1, 3, 2, 1, 1, 2])
    x, wrong = project(np.ones(6), np.ones(6), incidence(labels, [3, 4]), b, np.arange(7) < 3)
    assert wrong.tolist() == [True, True, False, True, True, False, False]
    assert x[4:] == pytest.approx([1, 2])


def test_disjoint_conditions_are_families() -> None:
    values, weights = np.array([8.0, -1, 3, 5, -2]), np.ones(5)
    x, wrong = project_families(values, weights, np.array([0, 0, 0, 1, -1]), np.array([10.0, 4.0, 1.0]))
    assert x.tolist() == [7.5, 0, 2.5, 4, 0]
    assert wrong.tolist() == [False, False, True]


@pytest.mark.parametrize("kind", ["equal", "cells", "leaves unmeasured", "exact nodes", "exact cells"])
def test_everything_holds_on_random_tables(kind: str) -> None:
    for seed in range(16):
        rng = generator(3000 + seed)
        table_set = random_tables(rng, hierarchies=1 + seed % 2)
        truth = truth_of(table_set, rng, mean=1.0)
        values, variances = measured(table_set, truth, kind, rng)
        try:
            linear = joint_consistency(table_set, values, variances)
        except MechanismError:
            continue
        made = joint_nonnegativity(table_set, linear.estimates)
        assert_sound(table_set, {name: each.values for name, each in made.estimates.items()})
        for name, table in truth.items():
            exact = np.broadcast_to(variances[name] == 0, table.shape)
            assert np.abs(made.estimates[name].values - table)[exact].max(initial=0) <= 1e-6
            assert (made.estimates[name].variances == linear.estimates[name].variances).all()
        if kind in ("equal", "cells") and not made.families and len(table_set.tables) > 1:
            assert_every_step_optimal(table_set, linear.estimates, made.estimates)


def assert_sound(table_set: TableSet, tables: dict[str, Floats]) -> None:
    joined = np.concatenate([tables[name].ravel() for name in table_set.tables])
    assert joined.min() >= 0
    assert np.abs(equations(table_set)[0] @ joined).max(initial=0) <= 1e-9 * max(1.0, joined.max())


def assert_every_step_optimal(
    table_set: TableSet, before: dict[str, Estimate], after: dict[str, Estimate]
) -> None:
    """Each marginal, at each depth, is the nearest one under what was settled before."""
    e = marginal_tables(table_set, {name: each.values for name, each in before.items()})
    w = marginal_variances(table_set, {name: each.variances for name, each in before.items()})
    x = marginal_tables(table_set, {name: each.values for name, each in after.items()})
    for steps in projection_schedule(table_set):
        for step in steps:
            found, given, weight = (each[step.marginal][step.rows].ravel() for each in (x, e, w))
            if not step.conditions:
                assert found == pytest.approx(np.maximum(given, 0), abs=1e-9 * max(1, np.abs(given).max()))
                continue
            sums = [condition.sums(x) for condition in step.conditions]
            system = incidence([c.labels for c in step.conditions], [len(each) for each in sums])
            assert_optimal(found, given, weight, system.toarray(), np.concatenate(sums))


def triangle(rng: np.random.Generator, deep: bool) -> TableSet:
    """Three tables, each pair of which shares a marginal: a step with three sets of sums."""
    sizes = {name: int(rng.integers(2, 4)) for name in "abc"}
    tree = breadth_first(rng, 4)
    pairs = ("ab", "ac", "bc")
    if deep:
        return TableSet({pair: TableShape({name: sizes[name] for name in pair}, "h", tree) for pair in pairs})
    return TableSet({pair: TableShape({name: sizes[name] for name in pair}) for pair in pairs})


def test_margins_move_with_their_cells_where_nothing_else_is_possible() -> None:
    families = 0
    for seed in (4, 6, 7):
        rng = generator(70 + seed)
        table_set = triangle(rng, deep=True)
        values, variances = measured(table_set, truth_of(table_set, rng, mean=0.5), "equal", rng)
        made = joint_nonnegativity(table_set, joint_consistency(table_set, values, variances).estimates)
        assert_sound(table_set, {name: each.values for name, each in made.estimates.items()})
        families += made.families
    assert families >= 3


def test_scattered_exact_cells_can_make_everything_move_at_once() -> None:
    # The nearest marginal leaves no room for the exact cells of both tables; all at once there is.
    table_set = triangle(generator(1), deep=False)
    everything = 0
    for seed in range(8):
        rng = generator(seed)
        truth = truth_of(table_set, rng, mean=0.3)
        values, variances = measured(table_set, truth, "exact cells", rng)
        linear = joint_consistency(table_set, values, variances)
        made = joint_nonnegativity(table_set, linear.estimates)
        assert_sound(table_set, {name: each.values for name, each in made.estimates.items()})
        everything += made.diagnostics()["families_at_once"] != 0
    assert everything > 0


def test_one_table_is_the_single_table_answer() -> None:
    rng = generator(6)
    tree = Hierarchy([-1, 0, 0, 1, 1])
    values = rng.normal(0, 9, size=(5, 4))
    linear = joint_consistency(TableSet({"t": TableShape({"x": 4}, "h", tree)}), {"t": values}, {"t": 2.0})
    made = joint_nonnegativity(linear.table_set, linear.estimates)
    assert (made.estimates["t"].values == nonnegativity(tree, linear.estimates["t"]).values).all()


def test_impossible_exact_values_are_refused() -> None:
    table_set = TableSet({"a": TableShape({"x": 2}), "b": TableShape()})
    bad = {
        "a": Estimate(np.array([[-3.0, 5.0]]), np.array([[0.0, 1.0]])),
        "b": Estimate(np.array([[2.0]]), np.array([[1.0]])),
    }
    with pytest.raises(MechanismError, match="an exact value of the marginal x is negative"):
        joint_nonnegativity(table_set, bad)
    short = {
        "a": Estimate(np.array([[3.0, -1.0]]), np.array([[0.0, 1.0]])),
        "b": Estimate(np.array([[2.0]]), np.array([[0.0]])),
    }
    with pytest.raises(MechanismError, match="exact values leave no non-negative tables"):
        joint_nonnegativity(table_set, short)
    with pytest.raises(MechanismError, match=re.escape("table b has no estimate")):
        joint_nonnegativity(table_set, {"a": bad["a"]})
    with pytest.raises(MechanismError, match="table a: node 0 has a value that is not finite"):
        joint_nonnegativity(table_set, {**bad, "a": Estimate(np.array([[np.nan, 1.0]]), np.ones((1, 1)))})


def test_totals_stay_unbiased_on_sparse_tables() -> None:
    """Nine cells in ten empty: totals within three standard errors, and not worse than table by table."""
    runs, rng = 50, generator(2027)
    tree = Hierarchy(np.r_[-1, np.zeros(12, int)])
    table_set = TableSet(
        {"a": TableShape({"x": 6, "s": 2}, "h", tree), "b": TableShape({"y": 8, "s": 2}, "h", tree)}
    )
    leaves = np.flatnonzero(tree.leaf)
    cells = np.where(
        rng.random((len(leaves), 6, 8, 2)) < 0.9, 0, rng.geometric(0.1, size=(len(leaves), 6, 8, 2))
    )
    cells[..., 3:, :, :] = 0
    truth = {"a": np.zeros((tree.nodes, 12)), "b": np.zeros((tree.nodes, 16))}
    truth["a"][leaves] = cells.sum(axis=2).reshape(len(leaves), -1)
    truth["b"][leaves] = cells.sum(axis=1).reshape(len(leaves), -1)
    for table in truth.values():
        for block in tree.up():
            table[block.parents] = block.total(table[block.children])
    together, alone, far = [], [], 0
    for _ in range(runs):
        noisy = {
            name: table + np.rint(rng.laplace(scale=20, size=table.shape)) for name, table in truth.items()
        }
        linear = joint_consistency(table_set, noisy, {"a": 800.0, "b": 800.0})
        final = joint_rounding(table_set, joint_nonnegativity(table_set, linear.estimates).estimates)
        # A number may have to go further than 1, but everything adds up and agrees.
        assert all(violation.kind == "cell" for violation in final.violations)
        far += len(final.violations)
        together.append(final.tables["a"][:1].sum(axis=1) - truth["a"][:1].sum(axis=1))
        single = TableSet({"a": table_set.tables["a"]})
        one = joint_consistency(single, noisy, {"a": 800.0})
        table = joint_nonnegativity(single, one.estimates).estimates["a"].values
        alone.append(table[:1].sum(axis=1) - truth["a"][:1].sum(axis=1))
    assert far <= 0.001 * runs * (truth["a"].size + truth["b"].size)
    error, before = np.array(together), np.array(alone)
    score = error.mean(axis=0) / (error.std(axis=0, ddof=1) / np.sqrt(runs))
    assert (np.abs(score) < 4).all()
    slack = 3 * error.std(axis=0).mean() / np.sqrt(runs)
    assert np.abs(error.mean(axis=0)).mean() <= np.abs(before.mean(axis=0)).mean() + slack


@pytest.mark.parametrize("largest", [10**5, 3 * 10**8, 10**11])
def test_known_cells_of_any_size_leave_themselves(largest: int) -> None:
    """Every cell is known: what is left for the noise is rounding, and rounding is no contradiction."""
    rng = generator(largest)
    tree = Hierarchy([-1, 0, 0, 0, 1, 1, 2, 2])
    cells = np.zeros((8, 6))
    cells[tree.leaf] = rng.integers(0, largest, (int(tree.leaf.sum()), 6))
    for node in (2, 1, 0):
        cells[node] = cells[tree.parents == node].sum(axis=0)
    sizes = {"x": 3, "y": 2}
    tables = TableSet({"noisy": TableShape(sizes, "h", tree), "known": TableShape(sizes, "h", tree)})
    noisy = np.rint(cells + rng.laplace(scale=2, size=cells.shape))
    made = joint_consistency(tables, {"noisy": noisy, "known": cells}, {"noisy": 10.0, "known": 0.0})
    found = joint_nonnegativity(tables, made.estimates).estimates["noisy"].values
    assert np.abs(found - cells).max() <= 1e-9 * largest
