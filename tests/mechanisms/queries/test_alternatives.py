"""``or`` and brackets: which cells they choose, and that errors of what they choose add up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabularium.mechanisms.errors import InputError
from tabularium.mechanisms.inference import laplace_margin, laplace_variance
from tabularium.mechanisms.queries import Attribute, Axes, Measurement, NoisyTable, QueryTable, ask
from tabularium.mechanisms.queries.grammar import parse_tests
from tabularium.mechanisms.queries.selection import CellClasses, conditions, passed
from tests.mechanisms.queries.test_queries import AREA, leaves
from tests.sizes import runs

AGE = Attribute.bins("age", [0, 20, 65, 100])
SEX = Attribute.categories("sex", ["F", "M"])
SIZE = Attribute.categories("size", ["1", "2", "3"])
AXES = Axes(AREA, (AGE, SEX))
PLACES = [AREA.codes[leaf] for leaf in AREA.leaves]

#: Each test with what it says of a leaf, an age group and a sex, worked out without the code under test.
TESTS = {
    "age < 20": lambda area, age, sex: age == 0,
    "age >= 20": lambda area, age, sex: age > 0,
    "sex = F": lambda area, age, sex: sex == 0,
    "sex != F": lambda area, age, sex: sex == 1,
    "area = A": lambda area, age, sex: PLACES[area].startswith("A"),
    "province in (B, C)": lambda area, age, sex: PLACES[area][0] in "BC",
    "area != C": lambda area, age, sex: PLACES[area] != "C",
}

SAID = st.recursive(
    st.sampled_from(sorted(TESTS)),
    lambda inner: st.tuples(st.sampled_from(["and", "or"]), inner, inner),
    max_leaves=6,
)


def text_of(said: Any) -> str:
    return said if isinstance(said, str) else f"({text_of(said[1])} {said[0]} {text_of(said[2])})"


def holds(said: Any, *cell: int) -> bool:
    if isinstance(said, str):
        return bool(TESTS[said](*cell))
    one, two = (holds(each, *cell) for each in said[1:])
    return one and two if said[0] == "and" else one or two


@settings(max_examples=runs(150, 1000), deadline=None)
@given(SAID)
def test_the_cells_and_their_errors_are_those_that_a_look_at_each_cell_finds(said: Any) -> None:
    shape = (len(PLACES), AGE.cells, SEX.cells)
    expected = np.array([holds(said, *cell) for cell in np.ndindex(shape)]).reshape(shape)
    tests = conditions(parse_tests(text_of(said)), AXES.attributes)
    found = passed(tests, [CellClasses.single(cells) for cells in shape])
    assert (np.broadcast_to(found, shape) == expected).all()

    values = 2.0 ** np.arange(expected.size).reshape(shape)
    table = QueryTable("t", AXES, NoisyTable(AXES, (Measurement(AREA.leaves, values, 3.0),)))
    if not expected.any():
        with pytest.raises(InputError, match="no cell fits"):
            ask(f"count where {text_of(said)}", [table])
        return
    answer = ask(f"count where {text_of(said)}", [table])
    assert answer.rows[0].value == values[expected].sum()
    assert answer.cells == expected.sum()
    # Besides the noise: steps of whole numbers.
    assert answer.rows[0].standard_error == pytest.approx(np.sqrt(3.0 * expected.sum()), rel=0.05)


def test_and_binds_closer_and_brackets_change_that() -> None:
    table = leaves(AGE, SEX)
    all_of = 11111
    assert [r.value for r in ask("count where age < 20 or sex = F and age < 65", [table]).rows] == [
        3 * all_of
    ]
    assert [r.value for r in ask("count where (age < 20 or sex = F) and age < 65", [table]).rows] == [
        3 * all_of
    ]
    assert [r.value for r in ask("count where (age < 20 or sex = F) and sex = M", [table]).rows] == [all_of]
    assert [r.value for r in ask("count where age < 20 or sex = F and sex = M", [table]).rows] == [2 * all_of]


def test_rows_sums_and_averages_over_alternatives() -> None:
    axes = Axes(None, (SIZE, SEX))
    cells = np.array([[[3, 5], [20, 40], [100, 200]]])
    noisy = NoisyTable(axes, (Measurement(np.array([0]), cells, laplace_variance(10.0), 10.0),))
    table = [QueryTable("t", axes, noisy)]
    found = ask("sum(size) by sex where size = 3 or sex = F", table).rows
    assert [(row.group[0][0], row.value) for row in found] == [("F", 3 + 40 + 300), ("M", 600)]
    average = ask("average(size) where size = 3 or sex = F", table)
    assert average.rows[0].value == pytest.approx((3 + 40 + 300 + 600) / 323)
    assert average.cells == 4
    row = ask("count where size = 3 or sex = F", table).rows[0]
    assert row.high is not None and row.value is not None
    assert row.high - row.value == laplace_margin(10.0, 0.9, 4), "four equal errors: their own distribution"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("(age < 20", "close the bracket with \\)"),
        ("age < 20)", "`\\)` does not fit here; go on with"),
        ("age < 20 or", "the query ends too early; write a test"),
        ("(" * 30 + "age < 20" + ")" * 30, "at most 20 brackets"),
        ("age < 20 sex = F", "`sex` does not fit here; go on with `and TEST`"),
        ("", "ends too early"),
    ],
)
def test_slips_are_named(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        parse_tests(text)
