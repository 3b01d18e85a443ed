"""Queries: what their names mean, and answers that can be worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tabularium.mechanisms.errors import InputError
from tabularium.mechanisms.inference import laplace_margin, laplace_variance
from tabularium.mechanisms.queries import (
    Attribute,
    Axes,
    Measurement,
    NoisyTable,
    PublishedTable,
    QueryTable,
    TreeAttribute,
    ask,
    describe,
)
from tabularium.mechanisms.queries.grammar import Word
from tests.mechanisms.queries.scene import (
    AGE,
    AREA,
    CODES,
    DEPTH,
    LABELS,
    PARENTS,
    PEOPLE,
    PLACES,
    SEX,
    SIZE,
    flat,
    leaves,
    values,
)

# --- what names mean


@pytest.mark.parametrize(
    ("where", "count"),
    [
        ("age < 20", 161),
        ("20 > age", 161),
        ("age <= 19", 161),
        ("5 <= age < 65", 510),
        ("age >= 65", 32),
        ("age > 200", None),
        ("age < 200", 603),
        ("age = 5-19", 100),
        ("AGE != 5-19", 503),
        ("sex = F", 302),
        ("sex = female", 302),
        ("sex = FEMALE", 302),
        ("F = sex", 302),
        ("sex in (F, male)", 603),
        ("sex not in (F) and age = 0-4", 31),
        ("sex = F and sex = M", None),
    ],
)
def test_counts_under_predicates(where: str, count: int | None) -> None:
    if count is None:
        for measure in ("count", "average(age)", "share by age"):
            with pytest.raises(InputError, match="no cell fits all the tests"):
                ask(f"{measure} where {where}", [PEOPLE])
    else:
        assert values(f"count where {where}", PEOPLE) == [count]


@pytest.mark.parametrize(
    ("where", "place", "words"),
    [
        ("agee < 20", 13, "no attribute `agee`; did you mean `age`\\? known are `age`, `sex`"),
        ("age < 30", 19, "`30` lies inside the bin `20-64`.*write age < 20 or age < 65"),
        ("age >= 30", 20, "write age >= 20 or age >= 65"),
        ("age <= 30", 20, "write age <= 19 or age <= 64"),
        ("age > 30", 19, "write age > 19 or age > 64"),
        ("age = 30", 19, "`30` lies inside the bin `20-64`.*write age = 20-64"),
        ("age = 500", 19, "`age` has no value `500`; known are `0-4`"),
        ("age < young", 19, "`young` is not a number; write it like 20"),
        ("sex < M", 19, "values of `sex` are not numbers; write sex = VALUE"),
        ("sex = femal", 19, "`sex` has no value `femal`; did you mean `female`\\?"),
        ("sex = X", 19, "known are `F \\(female\\)`, `M \\(male\\)`"),
    ],
)
def test_what_is_not_known_is_named_with_its_mend(where: str, place: int, words: str) -> None:
    with pytest.raises(InputError, match=f"query, character {place}: .*{words}"):
        ask(f"count where {where}", [PEOPLE])


def test_cells_without_numbers_are_in_no_range() -> None:
    age = Attribute.bins("age", [0, 5, 10], ["young", "old", "unknown"])
    table = flat([1, 10, 100], age)
    assert values("count where age >= 0", table) == [11]
    assert values("count where age != unknown", table) == [11]
    assert values("count where age != old", table) == [101]
    with pytest.raises(
        InputError, match=r"character 5: `unknown` of `age` is not a number.*age != 'unknown'"
    ):
        ask("sum(age)", [table])
    assert values("sum(age) where age != 'unknown'", table) == [2 + 70]


def test_numbers_in_a_plain_list_of_codes_can_be_calculated_with() -> None:
    table = flat([3, 20, 100, 1000], SIZE)
    assert values("sum(size) where size <= 3", table) == [343]
    assert values("count where size = 2", table) == [20]
    with pytest.raises(InputError, match="values of `sex` are not numbers"):
        ask("average(sex)", [PEOPLE])


def test_nodes_of_a_hierarchy() -> None:
    table = leaves()
    assert values("count", table) == [11111]
    assert values("count where area = A", table) == [110]
    assert values("count where province = Alpha", table) == [110]
    assert values("count where area in (A1, B, A)", table) == [11110]
    assert values("count where area != A", table) == [11001]
    assert values("count where area = A and area != A1", table) == [100]
    assert values("count by province", table) == [110, 11000, 1]
    assert values("count by area", table) == [1, 10, 100, 1000, 10000]
    assert values("count by area.province where area not in (A1, B)", table) == [100, 1]
    assert [row.group for row in ask("count by place where area = A", [table]).rows] == [
        (("A1", "Alpha one"),),
        (("A2", "Alpha two"),),
    ]


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("area = Twin", "`Twin` names several values; write the code: `B1`, `B2`"),
        ("province = A1", "`A1` is not a `province`; write area = A1"),
        ("area = A11", "`A11` lies below what this table is published for; its deepest level is `place`"),
        ("area < B", "values of `area` have no order"),
        ("province = Alfa", "`province` has no value `Alfa`; did you mean `Alpha`"),
    ],
)
def test_nodes_that_are_not_there(where: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        ask(f"count where {where}", [leaves()])


def test_a_level_that_two_hierarchies_have_needs_its_hierarchy() -> None:
    work = TreeAttribute("work", CODES, LABELS, PARENTS, DEPTH, ("nation", "province", "place"))
    axes = Axes(AREA, (work,))
    cells = np.outer(PLACES, [1, 2, 3, 4, 5])
    table = QueryTable("t", axes, NoisyTable(axes, (Measurement(AREA.leaves, cells, 1.0),)))
    with pytest.raises(InputError, match=r"several attributes have a level `province`.*`work.province`"):
        ask("count by province", [table])
    assert values("count by work.province where area = A1", table) == [10 * (2 + 3), 10 * (4 + 5), 10 * 1]
    assert values("count by work.province, area where area in (A1, C)", table) == [5, 50, 9, 90, 1, 10]
    assert values("count where area = A1 and work = B", table) == [90]


def test_rows_come_in_the_order_asked_for() -> None:
    table = leaves(SEX)
    answer = ask("count by sex, province", [table])
    assert answer.headings == ("sex", "province")
    assert [tuple(code for code, _ in row.group) for row in answer.rows] == [
        (s, p) for s in "FM" for p in "ABC"
    ]
    assert values("count by province, sex", table) == [110, 110, 11000, 11000, 1, 1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("average(age) by age", "average of `age` by itself says nothing"),
        ("count by area, province", "`province` is here twice"),
        ("sum(area)", "values of `area` are not numbers"),
    ],
)
def test_what_cannot_be_computed(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        ask(text, [leaves(AGE)])


# --- answers by hand


def test_one_measured_level_has_the_exact_quantile_of_its_noise() -> None:
    row = ask("count where age < 20", [PEOPLE], level=0.9).rows[0]
    half = laplace_margin(10.0, 0.9, terms=4)
    assert (row.value, row.low, row.high) == (161, 161 - half, 161 + half)
    assert row.standard_error == pytest.approx(math.sqrt(4 * laplace_variance(10.0)))
    wider = ask("count where age < 20", [PEOPLE], level=0.99).rows[0]
    assert wider.low == 161 - laplace_margin(10.0, 0.99, terms=4)


def test_no_count_is_below_zero() -> None:
    row = ask("count where size = 1", [flat([-3, 20, 100, 1000], SIZE)]).rows[0]
    assert (row.value, row.low, row.high) == (-3, 0, 23)
    row = ask("count where size = 1", [flat([-30, 20, 100, 1000], SIZE)]).rows[0]
    assert (row.low, row.high) == (0, 23), "however far below: noise says nothing of that"


def test_a_parent_and_two_children_measured_alike() -> None:
    """10 = 4 + 3 is made 9 = 5 + 4; each has the variance 2/3, the difference of the children 2."""
    tree = TreeAttribute(
        "a", ("N", "x", "y"), ("N", "x", "y"), np.array([-1, 0, 0]), np.array([0, 1, 1]), ("n", "p")
    )
    axes = Axes(tree, ())
    parts = (
        Measurement(np.array([0]), np.array([10]), 1.0),
        Measurement(np.array([1, 2]), np.array([4, 3]), 1.0),
    )
    table = QueryTable("t", axes, NoisyTable(axes, parts))
    for text, value in (("count", 9.0), ("count where a = x", 5.0), ("count where a = y", 4.0)):
        answer = ask(text, [table])
        assert answer.method == "least squares"
        assert answer.rows[0].value == pytest.approx(value)
        assert answer.rows[0].standard_error == pytest.approx(math.sqrt(2 / 3))


def test_the_sum_of_bins_holds_whatever_their_spread_makes_of_it() -> None:
    row = ask("sum(age) where age < 20 and sex = F", [PEOPLE]).rows[0]
    assert row.value == 30 * 2 + 52 * 12
    variance = laplace_variance(10.0)
    assert row.standard_error == pytest.approx(math.sqrt(variance * (2**2 + 12**2)))
    normal = 1.6448536269514722

    def half(*weights: int) -> float:
        jump = max(weights)
        return normal * math.sqrt(variance * sum(w * w for w in weights) + jump**2 / 12) + jump / 2

    assert row.low == pytest.approx(max(0, 52 * 5 - half(0, 5)))
    assert row.high == pytest.approx(30 * 4 + 52 * 19 + half(4, 19))
    assert "middle of its bin" in describe(ask("sum(age)", [PEOPLE]))


def test_an_average_has_the_interval_of_fieller() -> None:
    """The roots of |Σ(v - θ)·x| = half-width(θ), by a fine search."""
    counts, numbers = np.array([30.0, 120.0, 60.0]), np.array([1.0, 2.0, 3.0])
    row = ask("average(size) where size != more", [flat([30, 120, 60, 9], SIZE)]).rows[0]
    assert row.value == pytest.approx((counts @ numbers) / 210)
    grid = np.linspace(1, 3, 200_001)
    weights = np.abs(numbers - grid[:, None])
    jump = weights.max(axis=1)
    spread = np.sqrt(laplace_variance(10.0) * (weights**2).sum(axis=1) + jump**2 / 12)
    inside = np.abs((numbers - grid[:, None]) @ counts) <= 1.6448536269514722 * spread + jump / 2
    assert row.low == pytest.approx(grid[inside].min(), abs=2e-5)
    assert row.high == pytest.approx(grid[inside].max(), abs=2e-5)
    assert 1 < row.low < row.value < row.high < 3


def test_an_average_of_hardly_anybody_can_be_anything() -> None:
    row = ask("average(size) where size != more", [flat([2, -1, 3, 0], SIZE)]).rows[0]
    assert (row.low, row.high) == (1, 3)
    row = ask("average(size) where size != more", [flat([-2, -1, 0, 0], SIZE)]).rows[0]
    assert (row.value, row.standard_error, row.low, row.high) == (None, None, 1, 3)


def test_the_extremes_are_what_surely_occurs_and_what_noise_may_hide() -> None:
    """Scale 1: one error is within 2 in 90 % of all cases, a sum of k errors within the quantile of k."""
    sizes = Attribute.categories("n", [str(n) for n in range(1, 7)])
    table = flat([40, 30, 25, 3, -9, -9], sizes, scale=1.0)
    assert [laplace_margin(1.0, 0.9, terms=k) for k in (1, 2, 3)] == [2, 3, 4]
    # tails: 80, 40, 10, -15, -18, -9: the first three are surely there, the last three surely not
    row = ask("max(n)", [table]).rows[0]
    assert (row.value, row.low, row.high) == (3, 3, 3)
    row = ask("max(n)", [flat([40, 30, 25, 3, 0, 0], sizes, scale=1.0)]).rows[0]
    assert (row.value, row.low, row.high) == (3, 3, 6)
    row = ask("min(n)", [flat([0, 4, 25, 3, 0, 0], sizes, scale=1.0)]).rows[0]
    assert (row.value, row.low, row.high) == (2, 1, 2)
    row = ask("max(n)", [flat([0, 1, 0, 1, 0, 0], sizes, scale=1.0)]).rows[0]
    assert (row.value, row.low, row.high) == (None, 1, 6)
    row = ask("max(n)", [flat([-9] * 6, sizes, scale=1.0)]).rows[0]
    assert (row.value, row.low, row.high) == (None, None, None)
    row = ask("max(age)", [PEOPLE]).rows[0]
    assert (row.value, row.low, row.high) == (20, 20, 99)


# --- choosing among tables


def test_the_table_that_knows_best_is_asked() -> None:
    coarse = flat([61, 100, 410, 32], AGE, scale=10.0)
    answer = ask("count where age < 20", [PEOPLE, QueryTable("ages", coarse.axes, coarse.noisy)])
    assert (answer.table, answer.cells) == ("ages", 2)
    assert (
        ask("count where sex = F", [PEOPLE, QueryTable("ages", coarse.axes, coarse.noisy)]).table == "people"
    )


def test_a_query_over_two_tables_is_refused_with_what_each_has() -> None:
    with pytest.raises(InputError, match=r"no table has all.*`people: age, sex`, `people: size`"):
        ask("count where age < 20 and size = 1", [PEOPLE, flat([1, 1, 1, 1], SIZE)])
    with pytest.raises(InputError, match="character 13: there is no attribute `income`"):
        ask("count where income = 1", [PEOPLE, flat([1, 1, 1, 1], SIZE)])


def published(spread: float, margin: float, noise: NoisyTable | None = None) -> PublishedTable:
    axes = Axes(AREA, (SEX,))
    counts = np.zeros((8, 2))
    for node in range(8):
        inside = AREA.mask([Word(CODES[node], 1)])
        counts[node] = PLACES[inside].sum()
    return PublishedTable(
        axes, counts, np.full((8, 2), margin), np.ones(8, bool), np.full(8, spread), 0.9, noise
    )


def test_margins_are_added_up_where_errors_may_go_together() -> None:
    z = 1.6448536269514722
    table = QueryTable("t", Axes(AREA, (SEX,)), None, published(10.0, 10 * z + 2))
    answer = ask("count where area in (A, B1)", [table])
    row = answer.rows[0]
    assert answer.method == "added up"
    assert row.value == row.published == 2 * 1110
    assert row.standard_error == 4 * 10.0  # two cells at A, and two at B1
    assert row.high == pytest.approx(2220 + 4 * (10 * z + 2))
    assert ask("count", [table]).rows[0].high == pytest.approx(22222 + 2 * (10 * z + 2))
    assert "worst case" in describe(answer)


def test_what_was_moved_widens_an_exact_variance() -> None:
    axes = Axes(AREA, (SEX,))
    noise = NoisyTable(axes, (Measurement(AREA.leaves, np.zeros((1, 2)), 100.0),))
    z = 1.6448536269514722
    spreads = np.sqrt([500.0, 200, 200, 100, 100, 100, 100, 100])
    table = published(0.0, 0.0, noise)
    moved = PublishedTable(
        axes, table.values, z * spreads[:, None] + np.ones((8, 2)), table.present, spreads, 0.9, noise
    )
    row = ask("count where area in (A, B1)", [QueryTable("t", axes, None, moved)]).rows[0]
    assert row.standard_error == pytest.approx(math.sqrt(600))  # six cells of 100
    assert row.high == pytest.approx(2220 + z * math.sqrt(600 + 1 / 12) + 0.5 + 4)


def test_where_nothing_is_known_there_is_no_interval() -> None:
    table = QueryTable("t", Axes(AREA, (SEX,)), None, published(math.inf, math.inf))
    answer = ask("count where area = A", [table])
    assert answer.method == "unknown"
    assert (answer.rows[0].value, answer.rows[0].low, answer.rows[0].high) == (220, None, None)
    assert answer.rows[0].standard_error is None


def test_a_wish_that_cannot_be_met() -> None:
    table = QueryTable("t", Axes(AREA, (SEX,)), None, published(1.0, 2.0))
    with pytest.raises(InputError, match=r"--from measurements.*holds no measurements"):
        ask("count", [table], source="measurements")
    with pytest.raises(InputError, match="level"):
        ask("count", [table], level=90)


# --- Sums and averages over a last bin that has no end: left out, or ended by whoever asks -----------


INCOME = Attribute.bins("income", [0, 10, 20, 30, 1000])


@pytest.mark.parametrize(
    ("attribute", "bin"),
    [
        (INCOME, "30-999"),  # wider than all others together
        (Attribute.bins("income", [0, 10, 20, 31], ["low", "middle", "20+"]), "20\\+"),
        (Attribute.bins("income", [0, 10, 20, 31], ["low", "middle", "more than 19"]), "more than 19"),
    ],
)
@pytest.mark.parametrize("measure", ["average", "sum"])
def test_a_bin_without_an_end_is_left_out_or_ended(attribute: Attribute, bin: str, measure: str) -> None:
    table = flat([5] * attribute.cells, attribute)
    with pytest.raises(InputError, match=f"`{bin}` of `income` has no end.*income up to NUMBER.*income < "):
        ask(f"{measure}(income)", [table])
    ask(f"{measure}(income) where income < 10", [table])
    ask("max(income)", [table])


@pytest.mark.parametrize("labels", [None, ["a", "b", "c"], ["0 to 9", "10 to 19", "20 to 30"]])
def test_a_bin_that_ends_is_taken_at_its_middle(labels: list[str] | None) -> None:
    table = flat([0, 0, 5], Attribute.bins("income", [0, 10, 20, 31], labels))
    assert values("average(income)", table) == [25]


def test_an_open_bin_is_closed_by_whoever_asks() -> None:
    """Of 4 records at 5 and 6 in a bin of 30-39: (4·4.5 + 6·34.5)/10 = 22.5; at 30-999 it would be 310.5."""
    table = flat([4, 0, 0, 6], INCOME)
    assert values("average(income up to 39)", table) == [22.5]
    assert values("sum(income up to 39)", table) == [225]
    answer = ask("average(income up to 39)", [table])
    assert answer.rows[0].high is not None
    assert answer.rows[0].high <= 39
    assert describe(answer).endswith("The last bin was taken to end at 39, as the question says.")


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("average(income up to 29)", "character 22: `29` does not end the bin `30-999`; .* from 30 to 999"),
        ("average(income up to 1000)", "does not end the bin"),
        ("average(income up to much)", "does not end the bin"),
        ("average(income up to 39) where income < 30", "does not end the bin"),
        ("average(income up 39)", "write average\\(NAME up to NUMBER\\)"),
        ("max(income up to 39)", "`up` does not fit here"),
    ],
)
def test_what_does_not_end_the_bin(query: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        ask(query, [flat([4, 0, 0, 6], INCOME)])
