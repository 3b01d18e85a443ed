"""Sums and averages over a last bin that has no end: left out, or ended by whoever asks."""

from __future__ import annotations

import pytest

from tabularium.mechanisms.errors import InputError
from tabularium.mechanisms.queries import Attribute, ask, describe
from tests.mechanisms.queries.test_queries import flat, values

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
