"""Sums, means, medians and quantiles from the arrays of measures: by hand, refused, and how often they hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from tabularium.mechanisms.errors import InputError
from tabularium.mechanisms.inference import laplace_margin, laplace_variance
from tabularium.mechanisms.noise.synthetic import generator
from tabularium.mechanisms.queries import (
    Attribute,
    Axes,
    MeasuredAttribute,
    Measurement,
    NoisyTable,
    PublishedCells,
    QueryTable,
    ask,
)
from tests.mechanisms.queries.scene import AREA
from tests.sizes import runs

AGE = Attribute.bins("age", [0, 20, 65, 100])
SEX = Attribute.categories("sex", ["F", "M"])
Z = 1.6448536269514722
#: From 0 to 1000 in steps of 10.
SUM = MeasuredAttribute("income", ("1",), ("1",), np.ones(1), np.ones(1), column="PINCP", unit=10.0)
MEAN = MeasuredAttribute(
    "mean_income",
    ("1000", "0"),
    ("1000", "0"),
    np.array([1000.0, 0.0]),
    np.array([1000.0, 0.0]),
    column="PINCP",
    answers=("average", "sum"),
    unit=1 / 100,
    shown=("average", 0.5),
)
GRID = np.arange(0.0, 501.0, 100.0)
TYPICAL = MeasuredAttribute(
    "typical",
    tuple(map(str, GRID)),
    tuple(map(str, GRID)),
    GRID,
    GRID,
    column="RENT",
    answers=("quantile", "average", "sum"),
    shown=("quantile", 0.5),
)


def array(measure: MeasuredAttribute, values: object, scale: float, name: str = "pay") -> QueryTable:
    """The array of a measure by age and sex, with one draw of Laplace noise on every number."""
    axes = Axes(None, (AGE, SEX, measure))
    cells = np.asarray(values, float).reshape(1, 3, 2, measure.cells)
    noise = Measurement(np.array([0]), cells, laplace_variance(scale), scale)
    return QueryTable(name, axes, NoisyTable(axes, (noise,)))


SUMS = array(SUM, [10, 20, 300, 400, 5, 6], 50.0)
COUNTS = QueryTable("pay", Axes(None, (AGE, SEX)))


def test_a_sum_is_that_of_the_cells_with_their_exact_quantile() -> None:
    answer = ask("sum(income) where age < 20 or (age >= 65 and sex = M)", [COUNTS, SUMS])
    (row,) = answer.rows
    assert row.value == 10 * (10 + 20 + 6)
    half = 10 * laplace_margin(50.0, 0.9, terms=3)
    assert (row.low, row.high) == (max(0, row.value - half), row.value + half)
    assert row.standard_error == pytest.approx(10 * math.sqrt(3 * laplace_variance(50.0)))
    assert (answer.table, answer.method, answer.cells) == ("pay", "noise", 3)


def test_sums_of_what_may_be_negative_are_not_cut_at_zero() -> None:
    from dataclasses import replace

    signed = array(replace(SUM, signed=True), [10, 20, 300, 400, 5, 6], 50.0)
    half = 10 * laplace_margin(50.0, 0.9)
    assert [row.low for row in ask("sum(income) by sex where age < 20", [signed]).rows] == [
        100 - half,
        200 - half,
    ]


def test_a_mean_is_the_ratio_of_what_lies_above_and_below() -> None:
    """A = 600 and B = 200 steps, so that (A + B)/100 records have the mean 1000·A/(A + B)."""
    means = array(MEAN, [[100, 0], [200, 100], [0, 0], [300, 100], [0, 0], [0, 0]], 4.0)
    (row,) = ask("mean(mean_income) where age < 65", [COUNTS, means]).rows
    assert row.value == 750
    # Of 8 numbers: the ends of the interval are where the test just does not reject (Fieller).
    variance = 4 * laplace_variance(4.0)
    for end in (row.low, row.high):
        assert end is not None
        share = end / 1000
        jump = max(share, 1 - share)
        spread = variance * ((1 - share) ** 2 + share**2) + jump**2 / 12
        assert abs((1 - share) * 600 - share * 200) == pytest.approx(
            Z * math.sqrt(spread) + jump / 2, rel=0.02
        )
    total = ask("sum(mean_income) where age < 65", [COUNTS, means]).rows[0]
    assert total.value == pytest.approx(8 * 750)


def test_a_mean_of_hardly_anybody_may_be_anything() -> None:
    means = array(MEAN, [[1, 1]] * 6, 40.0)
    (row,) = ask("average(mean_income) where age < 20 and sex = F", [means]).rows
    assert (row.low, row.high) == (0, 1000)


@pytest.mark.parametrize(
    ("share", "value"), [("0.1", 100), ("0.5", 300), ("0.6", 300), ("0.61", 400), ("0.99", 500)]
)
def test_a_quantile_is_the_smallest_value_up_to_which_lies_that_share(share: str, value: float) -> None:
    """Of 2000 records in all: 0, 200, 200, 800, 400 and 400 at 0, 100, ..., 500."""
    bins = np.zeros((6, 6))
    bins[:2] = [0, 100, 100, 400, 200, 200]
    (row,) = ask(f"quantile(typical, {share}) where age < 20", [array(TYPICAL, bins, 0.2)]).rows
    assert row.value == value
    assert row.low is not None and row.high is not None
    assert row.low <= value <= row.high
    if share == "0.5":
        assert ask("median(typical) where age < 20", [array(TYPICAL, bins, 0.2)]).rows[0] == row
        assert (row.low, row.high) == (300, 300)


def test_the_interval_of_a_median_by_hand() -> None:
    """L(v) = ±half of six numbers with variance 2·400 each: what it cannot rule out on either side is left."""
    bins = np.zeros((6, 6))
    bins[0] = [10, 40, 20, 60, 50, 40]
    spread = 6 * laplace_variance(20.0) / 4
    half = Z * math.sqrt(spread + 0.25 / 12) + 0.25
    excess = np.cumsum(bins[0]) - 110
    possible = GRID[(excess >= -half) & (np.append(-110, excess[:-1]) < half)]
    (row,) = ask("median(typical) where age < 20 and sex = F", [array(TYPICAL, bins, 20.0)]).rows
    assert (row.low, row.value, row.high) == (possible[0], 300, possible[-1])
    assert 0 < possible[0] < 300 < possible[-1] < 500


def test_a_median_of_bins_ends_on_them() -> None:
    counts = Measurement(np.array([0]), np.array([[[30, 31], [520, 480], [20, 12]]]), 2.0, 1.0)
    axes = Axes(None, (AGE, SEX))
    (row,) = ask("median(age)", [QueryTable("t", axes, NoisyTable(axes, (counts,)))]).rows
    assert (row.low, row.value, row.high) == (20, 42, 64)


def test_published_means_answer_for_themselves_alone() -> None:
    axes = Axes(None, (AGE, SEX, Attribute("", ("",), ("",))))
    values = np.array([500.0, np.nan, 510.0, 520.0, 530.0, 540.0]).reshape(1, 3, 2, 1)
    single = PublishedCells(axes, values, np.full(values.shape, 7.0), np.ones(1, bool), 0.9)
    table = QueryTable("pay", Axes(None, (AGE, SEX, MEAN)), single=single)
    answer = ask("average(mean_income) by sex where age >= 65", [table])
    assert answer.method == "single cell"
    assert [(row.value, row.low, row.high, row.published) for row in answer.rows] == [
        (530, 523, 537, 530),
        (540, 533, 547, 540),
    ]
    for text in (
        "average(mean_income)",
        "average(mean_income) by sex where age < 20",
        "sum(mean_income) by age, sex",
    ):
        with pytest.raises(
            InputError, match="published numbers of this measure do not make those of several cells"
        ):
            ask(text, [table])


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("average(income)", "no average of `income` was measured; ask for sum(income)"),
        ("median(PINCP)", "no median of `PINCP` was measured; ask for sum(income)"),
        (
            "sum(incme)",
            "no measure or attribute `incme`; did you mean `income`? known are `age`, `sex`, `income`",
        ),
        (
            "sum(income) where income > 5",
            "`income` is a measure, and the release does not separate records by its values",
        ),
        ("sum(income up to 5)", "the bounds of a measure are known; leave `up to` out"),
        ("sum(income) by income", "sum of `income` by itself says nothing"),
        ("quantile(income, 2)", "`2` is not between 0 and 1; 0.25 is the lower quartile"),
        ("quantile(income)", "write quantile(NAME, 0.25)"),
        ("sum(income) from ages", "there is no table `ages`; known are `pay`"),
        ("sum(PINCP)", ""),
        ("SUM(Income) FROM pay", ""),
    ],
)
def test_what_a_measure_cannot_tell_is_one_line(text: str, line: str) -> None:
    if not line:
        assert ask(text, [COUNTS, SUMS]).rows[0].value == 7410
        return
    with pytest.raises(InputError) as caught:
        ask(text, [COUNTS, SUMS])
    assert line in str(caught.value)


def test_a_column_of_several_measures_is_not_guessed() -> None:
    from dataclasses import replace

    means = array(replace(MEAN, alike=2), np.ones((6, 2)), 4.0)
    line = "`PINCP` could be several measures, with other bounds, steps or weights; name one"
    with pytest.raises(InputError, match=line):
        ask("sum(PINCP)", [array(replace(SUM, alike=1), np.ones(6), 50.0), means])
    assert ask("average(PINCP)", [SUMS, means]).rows[0].value == 500


def draws(rng: np.random.Generator, scale: float, shape: tuple[int, ...]) -> NDArray[np.int64]:
    decay = 1 - math.exp(-1 / scale)
    return np.asarray(rng.geometric(decay, shape) - rng.geometric(decay, shape))


def test_intervals_hold_as_often_as_stated() -> None:
    """Sums, means and medians of unions of cells of a small hierarchy, at 90 %, less three standard errors."""
    rng, releases = generator(5), runs(80, 2000)
    leaves = len(AREA.leaves)
    known = {
        "sum(income)": (SUM, rng.integers(0, 400, (leaves, 3, 2, 1))),
        "average(mean_income)": (MEAN, rng.integers(0, 900, (leaves, 3, 2, 2))),
        "median(typical)": (TYPICAL, rng.integers(0, 9, (leaves, 3, 2, 6))),
    }
    region = "age < 20 or (sex = F and area != C)"
    chosen = np.zeros((leaves, 3, 2), bool)
    chosen[:, 0] = True
    for place, leaf in enumerate(AREA.leaves):
        chosen[place, :, 0] |= not AREA.codes[leaf].startswith("C")
    for text, (measure, true) in known.items():
        axes = Axes(AREA, (AGE, SEX, measure))
        sums = true[chosen].sum(axis=0)
        if measure is SUM:
            truth = 10.0 * sums[0]
        elif measure is MEAN:
            truth = 1000 * sums[0] / sums.sum()
        else:
            truth = GRID[np.argmax(np.cumsum(sums) >= sums.sum() / 2)]
        nodes = np.zeros((len(AREA.codes), *true.shape[1:]), np.int64)
        nodes[AREA.leaves] = true
        for node in range(len(nodes) - 1, 0, -1):
            nodes[AREA.parents[node]] += nodes[node]
        held = 0
        for _ in range(releases):
            parts = tuple(
                Measurement(
                    np.flatnonzero(AREA.depth == depth),
                    nodes[AREA.depth == depth] + draws(rng, 30.0, nodes[AREA.depth == depth].shape),
                    laplace_variance(30.0),
                    30.0,
                )
                for depth in range(int(AREA.depth.max()) + 1)
            )
            (row,) = ask(f"{text} where {region}", [QueryTable("t", axes, NoisyTable(axes, parts))]).rows
            held += (row.low or 0) <= truth <= (row.high or 0)
        error = math.sqrt(0.9 * 0.1 / releases)
        assert held / releases > 0.9 - 3 * error, text
        if measure is not TYPICAL:  # which stands on a coarse grid
            assert held / releases < 0.9 + 3.5 * error, text
        print(text, held / releases)
