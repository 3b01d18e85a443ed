"""The errors of queries: variances against dense least squares, coverage over drawn noise, bounds beforehand."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from tabularium.mechanisms import build
from tabularium.mechanisms.channel import SeededChannel
from tabularium.mechanisms.inference import (
    Hierarchy,
    consistency,
    laplace_variance,
    margins,
    nonnegativity,
    rounding,
)
from tabularium.mechanisms.mechanism import Mechanism
from tabularium.mechanisms.noise.synthetic import generator
from tabularium.mechanisms.queries import (
    Attribute,
    Axes,
    Measurement,
    NoisyTable,
    PublishedTable,
    QueryTable,
    TreeAttribute,
    ask,
    parse,
)
from tabularium.mechanisms.queries.estimators import SelectedCells
from tabularium.mechanisms.queries.selection import Rows, bind
from tabularium.mechanisms.queries.sources import noisy_cells
from tests.dense import dense_weights
from tests.mechanisms.queries.scene import CUTS, REGION


def test_the_fewest_nodes_that_make_up_a_set_of_leaves() -> None:
    parents, depth = np.array([-1, 0, 0, 0, 1, 1, 2, 2]), np.array([0, 1, 1, 1, 2, 2, 2, 2])
    codes = tuple("NABCabcd")
    axes = Axes(TreeAttribute("area", codes, codes, parents, depth, ("nation", "province", "place")), ())
    everywhere = np.ones(8, bool)

    def found(leaves: list[int], present: NDArray[np.bool_] = everywhere, by: str = "") -> list[int]:
        names = ", ".join(codes[leaf] for leaf in leaves)
        text = "count" + (f" by {by}" if by else "") + (f" where area in ({names})" if names else "")
        rows = Rows.laid(bind(parse(text), axes.attributes), axes)
        return rows.at_nodes(present)[0].tolist()

    assert found([]) == [0]
    assert found([3, 4, 5, 6, 7]) == [0]
    assert found([3, 4, 5, 6, 7], by="province") == [1, 2, 3]
    assert found([3, 4, 5, 6, 7], by="place") == [3, 4, 5, 6, 7]
    assert found([4, 5, 6]) == [1, 6]
    assert found([4, 5, 6], by="province") == [1, 6]
    assert found([3]) == [3]
    without = everywhere.copy()
    without[[0, 1]] = False
    assert found([3, 4, 5, 6, 7], without) == [2, 3, 4, 5]


# --- whole queries against dense least squares over every cell

AXES = Axes(
    REGION,
    (
        Attribute.bins("age", [0, 5, 20, 65, 100]),
        Attribute.categories("sex", ["F", "M"]),
        Attribute.categories("size", ["1", "2", "3"]),
    ),
)


def test_any_box_under_any_grouping_is_weighted_as_it_should_be() -> None:
    """Values and standard errors of grouped sums, cell by cell with dense weights along the tree."""
    rng = generator(5)
    drawn = {level: rng.integers(-5, 60, (len(nodes), *AXES.shape)) for level, nodes in CUTS.items()}
    spread = {"nation": 90.0, "province": 30.0, "place": 8.0}
    table = QueryTable(
        "t", AXES, NoisyTable(AXES, tuple(Measurement(CUTS[k], drawn[k], spread[k]) for k in CUTS))
    )
    answer = ask("sum(size) by sex, province where area not in (A2, B) and age >= 5 and size != 2", [table])
    precision, weighted = np.zeros(9), np.zeros((9, *AXES.shape))
    for level, nodes in CUTS.items():  # C, a leaf above the deepest level, is measured twice
        precision[nodes] += 1 / spread[level]
        weighted[nodes] += drawn[level] / spread[level]
    with np.errstate(divide="ignore"):
        variances = 1 / precision
    expected = []
    for sex, province in product(range(2), ("A", "C")):
        leaves = {"A": [4, 6], "C": [3]}[province]
        chosen = np.isin(np.arange(9), leaves)
        weights = dense_weights(REGION.parents, variances, chosen)
        total = spread_of = 0.0
        for age, size in product((1, 2, 3), (0, 2)):
            total += (size + 1) * float(weights @ (weighted[:, age, sex, size] * variances))
            spread_of += (size + 1) ** 2 * float(weights**2 @ variances)
        expected.append((total, math.sqrt(spread_of)))
    assert [(row.value, row.standard_error) for row in answer.rows] == [pytest.approx(e) for e in expected]
    assert [tuple(code for code, _ in row.group) for row in answer.rows] == list(product("FM", "AC"))


# --- coverage

QUERIES = (
    "count",
    "count by province",
    "count by place where sex = F",
    "count where area in (A1, B1, C) and age < 20",
    "count by age, size where area = A2",
    "sum(size) by province",
    "average(size) by province where age >= 5",
    "max(size) by place where age < 5",
)


def truth_and_tables(
    mechanism: Mechanism, budget: Fraction, draws: int, definition: str = "pure"
) -> tuple[QueryTable, list[QueryTable]]:
    """Sparse counts on the tree: exactly, and measured on three levels with seeded noise."""
    rng = generator(11)
    counts = np.zeros((9, *AXES.shape), np.int64)
    counts[REGION.leaves] = rng.poisson(rng.choice([0.05, 1.0, 20.0], (6, *AXES.shape)))
    for depth in (2, 1):
        nodes = np.flatnonzero(depth == REGION.depth)
        np.add.at(counts, REGION.parents[nodes], counts[nodes])
    exact = NoisyTable(AXES, (Measurement(REGION.leaves, counts[REGION.leaves], 1e-18),))
    tables = []
    for draw in range(draws):
        parts = []
        for number, nodes in enumerate(CUTS.values(), start=1):
            channel = SeededChannel(budget * number / 6, seed=1000 * draw + number, definition=definition)
            part = noisy_cells(mechanism.measure(counts[nodes], channel), nodes, AXES.shape)
            assert part is not None
            parts.append(part)
        tables.append(QueryTable("t", AXES, NoisyTable(AXES, tuple(parts))))
    return QueryTable("t", AXES, exact), tables


@pytest.mark.parametrize(
    ("name", "budget", "definition", "draws"),
    [
        ("identity", Fraction(1, 2), "pure", 100),
        ("identity", Fraction(6), "pure", 40),
        ("gaussian", Fraction(1, 10), "zcdp", 40),
    ],
)
def test_intervals_hold_the_truth_as_often_as_they_say(
    name: str, budget: Fraction, definition: str, draws: int
) -> None:
    """Nominal 90 %, after least squares over three levels. The noise is seeded: the numbers are always the same.

    With 100 draws the standard error of one row's share is 3 %, less where rows are pooled. Had intervals
    0.7 times their width, they would hold 75 %: that must be noticed.
    """
    exact, tables = truth_and_tables(build(name), budget, draws, definition)
    everything = []
    for text in QUERIES:
        true = np.array([row.value for row in ask(text, [exact]).rows], float)
        answers = [ask(text, [table]).rows for table in tables]
        low, high = (
            np.array([[getattr(row, end) for row in rows] for rows in answers], float)
            for end in ("low", "high")
        )
        known = ~np.isnan(true) & ~np.isnan(low)
        inside = ((low <= true + 1e-6) & (true - 1e-6 <= high))[known]
        assert inside.mean() >= 0.88, text
        everything.append(inside.reshape(-1))
        if draws >= 100 and text.startswith("count"):
            assert inside.mean() <= 0.96, text
            middle = np.array([[row.value for row in rows] for rows in answers])
            narrow = np.abs(middle - true) <= 0.35 * (high - np.where(low > 0, low, 2 * middle - high))
            assert narrow.mean() < 0.85, text
    assert np.concatenate(everything).mean() >= 0.9


def test_standard_errors_are_those_of_the_draws() -> None:
    exact, tables = truth_and_tables(build("identity"), Fraction(1, 2), 150)
    for text in ("count", "count by province", "sum(size) by province where sex = F"):
        true = np.array([row.value for row in ask(text, [exact]).rows])
        rows = [ask(text, [table]).rows for table in tables]
        errors = np.array([[row.value for row in each] for each in rows]) - true
        stated = np.array([row.standard_error for row in rows[0]])
        # 150 squares of errors: a standard deviation of about 13 % of the ratio, 6.5 % of its root
        assert np.sqrt((errors**2).mean(axis=0)) / stated == pytest.approx(1.0, abs=0.2)


def exact_chance(weights: NDArray[np.int64], scales: NDArray[np.float64], half: float) -> float:
    """P(|Σ weight·Z| <= half) of independent discrete Laplace Z, by convolution; weights in twelfths."""
    chances = np.ones(1)
    for weight, scale in zip(weights, scales, strict=True):
        reach = int(25 * scale) + 3
        one = np.zeros(2 * reach * weight + 1)
        one[::weight] = math.tanh(0.5 / scale) * np.exp(-np.abs(np.arange(-reach, reach + 1)) / scale)
        chances = np.convolve(chances, one)
    places = np.arange(len(chances)) - len(chances) // 2
    return float(chances[np.abs(places) <= 12 * half + 1e-9].sum())


@pytest.mark.parametrize("level", [0.8, 0.9, 0.95, 0.99])
def test_half_widths_hold_what_they_say_for_sums_of_whole_numbers_exactly(level: float) -> None:
    """Weighted sums of one to four errors, computed exactly. Without the allowance for jumps a fifth fails."""
    rng = generator(1)
    short = 0
    for _ in range(150):
        terms = int(rng.integers(1, 5))
        weights, scales = rng.integers(1, 13, terms), np.exp(rng.uniform(math.log(0.15), math.log(8), terms))
        variance = sum((w / 12) ** 2 * laplace_variance(s) for w, s in zip(weights, scales, strict=True))
        one = np.ones((1, 1))
        selected = SelectedCells(one, one * variance, one * (weights.max() / 12), 0 * one, 0 * one)
        half = float(selected.weighted(np.ones(1), level).half[0])
        assert exact_chance(weights, scales, half) >= level
        short += exact_chance(weights, scales, float(margins(variance, level))) < level
    assert short >= 10


def test_intervals_around_published_cells_hold_the_truth() -> None:
    """Made consistent, non-negative and whole, published with margins as a release has them."""
    exact, tables = truth_and_tables(build("identity"), Fraction(1, 2), 40)
    tree = Hierarchy(REGION.parents)
    texts = (
        "count by province",
        "count by place, sex where age >= 5",
        "sum(size)",
        "average(size) by province",
    )
    true = {text: np.array([row.value for row in ask(text, [exact]).rows]) for text in texts}
    inside: dict[str, list[NDArray[np.bool_]]] = {text: [] for text in texts}
    for table in tables:
        assert table.noisy is not None
        noisy, variances = np.zeros((9, 24)), table.noisy.measured_variances
        for part in table.noisy.measurements:
            noisy[part.nodes] += part.values.reshape(-1, 24) / part.variance
        linear = consistency(tree, noisy * variances[:, None], variances)
        whole = rounding(tree, nonnegativity(tree, linear))
        margin = np.ceil(margins(linear.variances, 0.9) + np.abs(whole - linear.values) - 1e-9)
        cells = PublishedTable(
            AXES,
            whole.reshape(9, *AXES.shape),
            margin.reshape(9, *AXES.shape),
            np.ones(9, bool),
            np.sqrt(linear.variances[:, 0]),
            0.9,
            table.noisy,
        )
        for text in texts:
            answer = ask(text, [QueryTable("t", AXES, None, cells)])
            assert answer.method == "published"
            assert [row.value for row in answer.rows] == [row.published for row in answer.rows]
            ends = np.array([[row.low, row.high] for row in answer.rows]).T
            inside[text].append((ends[0] <= true[text] + 1e-6) & (true[text] - 1e-6 <= ends[1]))
    for text in texts:
        assert np.mean(inside[text]) >= 0.9, text


# --- what measurements hold the counts themselves


NOISY_CELLS = (
    *("identity", "gaussian", "bounded_sums", "noise_first", "denoise", "per_region", "kd_tree", "ahp"),
    "sreb_gca",
)


@pytest.mark.parametrize("name", NOISY_CELLS)
def test_noisy_cells_have_the_stated_variance(name: str) -> None:
    counts = np.full((40, 50), 7)
    zcdp = name == "gaussian"
    channel = SeededChannel(Fraction(1, 3), seed=4, definition="zcdp" if zcdp else "pure")
    of_each = {"mechanism": "noise_first"} if name == "per_region" else {}
    part = noisy_cells(build(name, **of_each).measure(counts, channel), np.arange(40), (50,))
    assert part is not None
    # Shares of ε = 1/3 that go into the cells; σ² = 3/2 of Gaussian noise has no scale.
    share = {"sreb_gca": 0.9, "ahp": 0.9, "kd_tree": 0.2}.get(name, 1.0)
    assert part.scale == (None if zcdp else pytest.approx(3 / share))
    assert np.mean((part.values - 7.0) ** 2) == pytest.approx(float(part.variance), rel=0.15)
    assert abs(np.mean(part.values - 7.0)) < 4 * math.sqrt(float(part.variance) / 2000)


def test_other_measurements_are_left_alone() -> None:
    counts = np.arange(64)
    for name in ("p_hpartition", "efpa"):
        assert name not in NOISY_CELLS
        measured = build(name).measure(counts, SeededChannel(Fraction(1), seed=1))
        assert noisy_cells(measured, np.array([0]), (64,)) is None
    measured = build("identity").measure(counts, SeededChannel(Fraction(1), seed=1))
    assert noisy_cells(measured, np.array([0]), (63,)) is None
