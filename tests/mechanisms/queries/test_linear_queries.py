"""Queries to tables of which sums were measured: ranges, boxes, groups of cells, and levels of a hierarchy."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tabularium.mechanisms import build
from tabularium.mechanisms.channel import SeededChannel
from tabularium.mechanisms.errors import InputError
from tabularium.mechanisms.linear_measurements.linear_measurement import NoisyCells, Sums
from tabularium.mechanisms.queries import (
    Attribute,
    Axes,
    KnownSums,
    Measurement,
    NoisyTable,
    PublishedTable,
    QueryTable,
    ask,
)
from tabularium.mechanisms.queries.answers import _bound, describe
from tabularium.mechanisms.queries.grammar import parse
from tabularium.mechanisms.queries.sources import LinearTable, MeasuredLevel, noisy_cells, table_of
from tests.mechanisms.queries.scene import CUTS, FLAT, REGION, TREE, counts_of, flat_sums, level

Floats = NDArray[np.float64]
MECHANISMS: list[tuple[str, dict[str, Any]]] = [
    ("boost", {}),
    ("privelet", {"axes": [0, 2]}),
    ("denoise", {"workload": "ranges", "categorical": [1]}),
]


QUERIES = (
    "count",
    "count by sex where 5 <= age < 45",
    "count by age, size where sex = F or age >= 20",
    "count where age < 5 or (sex = M and size in (2, 3))",
    "sum(size) by sex where age >= 18",
    "sum(size) where age < 5 or (sex = M and size in (2, 3))",
)


@pytest.mark.parametrize(("name", "given"), MECHANISMS)
def test_answers_are_least_squares_over_all_that_was_measured(name: str, given: dict[str, Any]) -> None:
    """Against the covariances of all cells with each other."""
    table = flat_sums(name, given)
    measured = table.levels[0].measured
    number = measured.cells
    covariances = measured.covariances(Sums(np.arange(number), 1, number))[0]
    estimates = measured.estimates()
    leaves = table.cells
    for text in QUERIES:
        answer = ask(text, [QueryTable("t", FLAT, table)], source="measurements")
        exact = np.eye(number).reshape(number, *FLAT.shape)
        rows = []
        for cell in exact:  # every cell's weight in every row: the answer where it alone is 1
            known = NoisyTable(FLAT, (Measurement(np.array([0]), cell[None], 1.0),))
            rows.append([row.value for row in ask(text, [QueryTable("t", FLAT, known)]).rows])
        weights = np.array(rows, float).T
        assert [row.value for row in answer.rows] == pytest.approx((weights @ estimates).tolist())
        variances = np.einsum("ri,ij,rj->r", weights, covariances, weights)
        found = [row.standard_error for row in answer.rows]
        assert found == pytest.approx(np.sqrt(variances).tolist(), rel=1e-6)
        if leaves is not None:
            alone = ask(text, [QueryTable("t", FLAT, leaves)])
            for row, other in zip(answer.rows, alone.rows, strict=True):
                assert row.standard_error <= other.standard_error + 1e-9  # type: ignore[operator]


@pytest.mark.parametrize(("name", "given"), MECHANISMS)
def test_weighted_sums_have_the_covariances_of_their_cells(name: str, given: dict[str, Any]) -> None:
    table = flat_sums(name, given)
    (put,) = _bound(parse("sum(size) by sex where age >= 5"), [QueryTable("t", FLAT, table)])
    cells = put.cells(table)
    assert cells is not None
    assert cells.covariances is not None
    weights, order = np.array([2.0, -1, 0, 3]), np.array([2, 0, 3, 1])

    def variances(factors: Floats) -> Floats:
        return np.einsum("i,rij,j->r", factors, cells.covariances, factors)

    assert cells.weighted(weights, 0.9).standard_error ** 2 == pytest.approx(variances(weights))
    tails, excess = cells.tails(order, 0.9), cells.excess(order, 0.3, 0.9)
    for place in range(4):
        last, first = np.zeros(4), np.full(4, -0.3)
        last[order[place:]] = 1
        first[order[: place + 1]] = 0.7
        assert tails.standard_error[:, place] ** 2 == pytest.approx(variances(last))
        assert excess.standard_error[:, place] ** 2 == pytest.approx(variances(first))


def test_too_many_covariances_are_bounded_as_if_all_errors_went_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = QueryTable("t", FLAT, flat_sums("boost", {}))
    exact = ask("sum(size) by sex", [table]).rows
    monkeypatch.setattr("tabularium.mechanisms.queries.sources.MOST_COVARIANCES", 1)
    for row, known in zip(ask("sum(size) by sex", [table]).rows, exact, strict=True):
        assert row.value == pytest.approx(known.value)
        assert row.standard_error is not None
        assert known.standard_error is not None
        assert row.standard_error > known.standard_error


# --- levels of a hierarchy


def tree_table(seed: int, names: tuple[str, str, str]) -> LinearTable:
    counts = counts_of((6, *TREE.shape))
    province = np.array([0, 1, 1, 1, 2, 2])  # C, then those of A and B
    sums = np.zeros((3, *TREE.shape), np.int64)
    np.add.at(sums, np.array([2, 0, 0, 0, 1, 1]), counts)
    tables = (sums.sum(axis=0, keepdims=True), sums, counts)
    assert province.size == len(counts)
    levels = [
        level(name, {}, table, nodes, 10 * seed + place)
        for place, (name, table, nodes) in enumerate(zip(names, tables, CUTS.values(), strict=True))
    ]
    found = table_of(TREE, levels, None, TREE.shape)
    assert isinstance(found, LinearTable)
    return found


@pytest.mark.parametrize("names", [("boost",) * 3, ("identity", "privelet", "boost")])
def test_levels_of_a_hierarchy_are_averaged(names: tuple[str, str, str]) -> None:
    """Without bias, at the standard deviation that is stated, and none above that of the lowest level."""
    counts = counts_of((6, *TREE.shape)).reshape(6, -1)
    draws = 150
    texts = (
        "count",
        "count by province where age >= 20",
        "count by place where sex = F",
        "count where area in (A1, B)",
    )
    exact = NoisyTable(TREE, (Measurement(REGION.leaves, counts.reshape(6, *TREE.shape), 1.0),))
    errors: dict[str, list[list[float]]] = {text: [] for text in texts}
    for seed in range(draws):
        table = tree_table(seed, names)
        lowest = LinearTable(TREE, table.levels[-1:])
        for text in texts:
            true = [row.value for row in ask(text, [QueryTable("t", TREE, exact)]).rows]
            rows = ask(text, [QueryTable("t", TREE, table)]).rows
            errors[text].append(
                [(row.value - t) / row.standard_error for row, t in zip(rows, true, strict=True)]  # type: ignore[operator]
            )
            if not seed:
                below = ask(text, [QueryTable("t", TREE, lowest)]).rows
                for row, other in zip(rows, below, strict=True):
                    assert row.standard_error <= other.standard_error + 1e-9  # type: ignore[operator]
    for text in texts:
        found = np.array(errors[text])
        # 150 draws: means within 4 standard errors; mean squares within a third, where 30 % more would be 1.69.
        assert abs(found.mean(axis=0)).max() < 4 / math.sqrt(draws), text
        assert found.var() == pytest.approx(1, abs=0.33), text


# --- groups that noise chose


def test_rows_that_cut_what_was_measured_are_answered_by_the_published_cells() -> None:
    axes = Axes(None, (Attribute.categories("place", [f"p{i}" for i in range(64)]),))
    counts = np.repeat([200, 3, 50, 0], 16)
    mechanism = build("dawa")
    measured = mechanism.measure(counts, SeededChannel(Fraction(1), seed=3))
    released = mechanism.finish(measured).values
    linear = mechanism.linear_measurements(measured)
    assert linear is not None
    noisy = table_of(axes, [MeasuredLevel(np.array([0]), linear)], None, axes.shape)
    margin = np.full((1, 64), 9.0)
    published = PublishedTable(axes, released[None], margin, np.ones(1, bool), np.full((1, 64), 5.0), 0.9)
    table = QueryTable("t", axes, noisy, published)
    known = ask("count where place in (" + ", ".join(f"p{i}" for i in range(16)) + ")", [table])
    assert known.method == "least squares"
    cut = ask("count where place = p3", [table])
    assert (cut.method, cut.spread) == ("added up", True)
    assert "spread evenly" in describe(cut)
    assert cut.rows[0].value == pytest.approx(released[3])
    with pytest.raises(InputError, match="cuts groups of cells"):
        ask("count where place = p3", [table], source="measurements")


def test_boxes_that_noise_chose_are_not_averaged_with_the_noise_that_chose_them() -> None:
    """Whole boxes from their own sums; what cuts them from the cells, at the standard deviation of these."""
    mechanism = build("kd_tree", cells="1/5")
    counts = np.zeros((16, 16), np.int64)
    counts[:8, 4:12] = 90
    axes = Axes(None, tuple(Attribute.categories(name, [str(i) for i in range(16)]) for name in "xy"))
    whole = cutting = 0.0
    draws = 60
    cut = np.zeros((16, 16), bool)
    cut[3:9, 1:14] = True
    for seed in range(draws):
        measured = mechanism.measure(counts, SeededChannel(Fraction(1, 2), seed=seed))
        linear = mechanism.linear_measurements(measured)
        assert linear is not None
        assert linear.chosen_by is not None
        value, variance = linear.estimate(np.ones((16, 16), bool))
        boxes = len(measured.arrays["sums"])
        assert variance == pytest.approx(boxes * linear.noise[0].variance)
        whole += (value - counts.sum()) ** 2 / variance
        table = table_of(axes, [MeasuredLevel(np.array([0]), linear)], None, axes.shape)
        text = "count where x in (3, 4, 5, 6, 7, 8) and y in (" + ", ".join(map(str, range(1, 14))) + ")"
        answer = ask(text, [QueryTable("t", axes, table)])
        assert answer.method == "chosen sums"
        (row,) = answer.rows
        cutting += ((row.value - counts[cut].sum()) / row.standard_error) ** 2  # type: ignore[operator]
        cells = mechanism.noisy_cells(measured)
        assert cells is not None
        assert row.standard_error <= math.sqrt(cut.sum() * cells.noise[0].variance) + 1e-9  # type: ignore[operator]
    assert whole / draws == pytest.approx(1, abs=0.6)
    assert cutting / draws == pytest.approx(1, abs=0.6)


def test_invariants_narrow_ranges_too() -> None:
    table = flat_sums("boost", {})
    counts = counts_of((7, 2, 4))
    groups = np.broadcast_to(np.arange(2)[:, None], (7, 2, 4))[None]
    known = KnownSums("sexes", groups, counts.sum(axis=(0, 2)).astype(float))
    without = QueryTable("t", FLAT, table)
    with_sums = QueryTable("t", FLAT, table, known=(known,))
    for text, exact in (("count by sex", True), ("count by sex where age < 45", False)):
        before, after = ask(text, [without]).rows, ask(text, [with_sums])
        assert after.invariants == ("sexes",)
        for row, narrower, true in zip(before, after.rows, counts.sum(axis=(0, 2)), strict=True):
            assert narrower.standard_error < row.standard_error  # type: ignore[operator]
            if exact:
                assert (narrower.value, narrower.standard_error) == (true, 0)


# --- noise that is always 0


@pytest.mark.parametrize("budget", [28, 400, 745, 750, 10**6])
@pytest.mark.parametrize("name", ["identity", "gaussian", "boost", "privelet", "kd_tree", "dawa"])
def test_a_vast_budget_is_answered_exactly(name: str, budget: int) -> None:
    counts = counts_of((7, 2, 4))
    mechanism = build(name)
    channel = SeededChannel(Fraction(budget), seed=1, definition="zcdp" if name == "gaussian" else "pure")
    measured = mechanism.measure(counts, channel)
    linear = mechanism.linear_measurements(measured)
    assert linear is not None
    table = table_of(FLAT, [MeasuredLevel(np.array([0]), linear)], None, FLAT.shape)
    groups = np.zeros((1, *FLAT.shape), np.intp)
    known = KnownSums("all", groups, np.array([counts.sum()], float))
    asked = QueryTable("t", FLAT, table, known=(known,))
    for text in (
        "count",
        "count by sex",
        "sum(size)",
        "average(size) by sex",
        "count where sex = F or size = 2",
    ):
        exact = NoisyTable(FLAT, (Measurement(np.array([0]), counts[None], 0.0),))
        true = ask(text, [QueryTable("t", FLAT, exact)])
        answer = ask(text, [asked])
        for row, right in zip(answer.rows, true.rows, strict=True):
            assert right.standard_error == 0
            if budget == 10**6 or (budget >= 745 and name in {"identity", "gaussian"}):
                assert row.value == pytest.approx(right.value)
                assert row.standard_error == 0
                assert (row.low, row.high) == pytest.approx((right.low, right.high))
    if name == "identity":
        assert isinstance(linear, NoisyCells)
        assert noisy_cells(measured, np.array([0]), FLAT.shape) is not None
