"""The language of queries: what is read, and how slips are named."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabularium.mechanisms.errors import InputError
from tabularium.mechanisms.inference import laplace_margin, laplace_variance
from tabularium.mechanisms.queries import Attribute, Axes, Measurement, NoisyTable, QueryTable, ask, parse
from tabularium.mechanisms.queries.grammar import Comparison, Member, Word, parse_tests
from tabularium.mechanisms.queries.selection import CellClasses, conditions, passed
from tests.mechanisms.queries.scene import AREA, leaves
from tests.sizes import runs


@pytest.mark.parametrize(
    ("text", "test"),
    [
        ("age < 30", [("age", "<", "30", True)]),
        ("30 ≥ age", [("30", ">=", "age", True)]),
        ("20 <= age < 30", [("age", ">=", "20", False), ("age", "<", "30", False)]),
        ("30 > age >= 20", [("age", "<", "30", False), ("age", ">=", "20", False)]),
        ("age between 20 and 29", [("age", ">=", "20", False), ("age", "<=", "29", False)]),
        ("status = 'child or student'", [("status", "=", "child or student", True)]),
        ('"odd name" <> 85+', [("odd name", "!=", "85+", True)]),
    ],
)
def test_comparisons(text: str, test: list[tuple[str, str, str, bool]]) -> None:
    found = parse(f"COUNT Where {text}").where
    assert [(t.left.text, t.op, t.right.text, t.either) for t in found if isinstance(t, Comparison)] == test


def test_the_parts_of_a_query_and_their_places() -> None:
    query = parse("avg(income) group by region, sex where sex not in (F, 'x y') and age=20-24")
    assert (query.measure, query.of) == ("average", Word("income", 5))
    assert [word.text for word in query.by] == ["region", "sex"]
    member, test = query.where
    assert member == Member(Word("sex", 40), (Word("F", 52), Word("x y", 55)), negated=True)
    assert isinstance(test, Comparison)
    assert test.right == Word("20-24", 70)
    assert parse("count where a = 1 by b") == parse("count where a = 1 BY b")


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("", 1, "the query ends too early; begin with count"),
        ("counts", 1, "`counts` does not fit here; begin with count"),
        ("count(*)", 6, "what is counted stands behind `where`"),
        ("sum income", 5, "`income` does not fit here; write sum\\(NAME\\)"),
        ("count were a = 1", 7, "go on with `by NAME`, `where TEST`"),
        ("count where a = 1 or", 21, "the query ends too early; write a test"),
        ("count where a", 14, "ends too early; write =, !=, <"),
        ("count where a is not", 21, "write is null or is not null"),
        ("count where a is none", 18, "write is null or is not null"),
        ("count where a = 'x", 17, "quotes are not closed; add a '"),
        ("count where a ! 3", 15, "`!` has no meaning here; write !="),
        ("count where 1 < a > 0", 17, "opposite directions"),
        ("count where 1 = a < 2", 19, "both signs say less"),
        ("count where a in F", 18, "write in \\(A, B\\)"),
        ("count where a in (F", 20, "close the list"),
        ("count where a not = F", 19, "write not in"),
        ("count where a between 1 or 2", 25, "write between A and B"),
        ("count by", 9, "name an attribute or a level"),
        ("count by a by b", 12, "go on with"),
        ("entropy(a) where b = 1", 12, "end here: entropy is of a whole histogram"),
        ("distance(a, 0)", 13, "`0` is no number of values"),
        ("distance(a, 2.5)", 13, "`2.5` is no number of values"),
    ],
)
def test_slips_are_named_with_their_place(text: str, place: int, words: str) -> None:
    with pytest.raises(InputError, match=f"query, character {place}: .*{words}"):
        parse(text)


def test_a_query_of_any_length_is_refused_in_one_short_line() -> None:
    with pytest.raises(InputError, match="too long"):
        parse("count where a in (" + "x," * 10_000)
    with pytest.raises(InputError) as caught:
        parse("count where a = 1 " + "x\u202e" * 200)
    assert len(str(caught.value)) < 200
    assert str(caught.value).isprintable()


@given(st.text(max_size=60))
def test_any_text_is_a_query_or_an_error_of_ours(text: str) -> None:
    with contextlib.suppress(InputError):
        parse(text)


WORD_AXES = Axes(None, (Attribute.bins("age", [0, 20, 65, 100]), Attribute.categories("n", ["1", "2"])))
TABLE = QueryTable(
    "t", WORD_AXES, NoisyTable(WORD_AXES, (Measurement(np.array([0]), np.ones((1, 3, 2)), 2.0, 1.0),))
)
WORDS = "count sum average min max ( ) age n by where and in not between < <= > >= = != 1 2 20 65 100 20-64 ,"


@given(st.sampled_from(["count", "sum(age)", "average(n)", "max(age)", "min(n) by age"]), st.data())
def test_any_words_are_answered_or_refused(start: str, data: st.DataObject) -> None:
    rest = data.draw(st.lists(st.sampled_from(WORDS.split()), max_size=12))
    with contextlib.suppress(InputError):
        for row in ask(f"{start} where {' '.join(rest)}", [TABLE]).rows:
            assert row.low is None or row.high is None or row.low <= row.high


# --- ``or`` and brackets: which cells they choose, and that errors of what they choose add up --------


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
def test_slips_in_tests_are_named(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        parse_tests(text)
