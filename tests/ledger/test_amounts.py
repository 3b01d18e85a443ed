from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabularium.ledger import BadAmount, Ledger
from tabularium.ledger.amounts import multiple, parse_amount, text
from tests.ledger.scene import census, reserve

BAD: list[tuple[Any, str]] = [
    (0.1, "float"),
    (1.0, "float"),
    (float("nan"), "float"),
    (float("inf"), "float"),
    (np.float64(0.5), "float"),
    (True, "truth value"),
    (Decimal("0.1"), "Decimal"),
    (None, "NoneType"),
    (0, "zero"),
    (Fraction(0), "zero"),
    (-1, "negative"),
    (Fraction(-1, 10), "negative"),
    ("-1", "plain positive"),
    ("1e-1", "plain positive"),
    ("nan", "plain positive"),
    ("١", "plain positive"),
    (" 1", "plain positive"),
    ("1/0", "divides by zero"),
    ("0.1" + "0" * 100, "too long"),
    (Fraction(1, 10**400), "too long"),
    (10**400, "too long"),
    (Fraction(1, 17), "multiple"),
    (Fraction(1, 10**13), "multiple"),
]


@pytest.mark.parametrize(("value", "named"), BAD, ids=lambda value: repr(value)[:24])
def test_a_bad_amount_is_refused_in_one_line_and_charges_nothing(
    books: Ledger, value: Any, named: str
) -> None:
    before = books.head()
    with pytest.raises(BadAmount, match=named) as refused:
        reserve(books, amount=value)
    assert str(refused.value).startswith("amount: ")
    assert "\n" not in str(refused.value)
    assert books.head() == before


@pytest.mark.parametrize(("value", "named"), BAD, ids=lambda value: repr(value)[:24])
def test_a_bad_cap_is_refused(books: Ledger, value: Any, named: str) -> None:
    with pytest.raises(BadAmount, match=named):
        census(books, "other", cap=value)


@pytest.mark.parametrize(
    ("given", "exact"),
    [(Fraction(1, 3), "1/3"), (1, "1/1"), ("0.1", "1/10"), ("1/3", "1/3"), (np.int64(1), "1/1")],
)
def test_exact_amounts_are_kept_exactly(books: Ledger, given: Any, exact: str) -> None:
    reserve(books, amount=given)
    assert books.balance("census") == 1 - Fraction(exact)
    assert list(books.entries())[-1].body["amount"] == exact


@pytest.mark.parametrize("value", [Fraction(2, 3), Fraction(1, 10**12 + 1), 0.5, 2, Fraction(-1, 2)])
def test_a_bad_quantum_is_refused(books: Ledger, value: Any) -> None:
    with pytest.raises(BadAmount, match="quantum"):
        census(books, "other", quantum=value)


def test_the_finest_quantum_holds_its_own_multiples_and_no_others(books: Ledger) -> None:
    finest = Fraction(1, 10**12)
    census(books, "fine", quantum=finest, cap=3 * finest)
    for number in range(3):
        reserve(books, f"f{number}", "fine", amount=finest)
    assert books.balance("fine") == 0
    with pytest.raises(BadAmount):
        reserve(books, "third", "fine", amount=Fraction(1, 3))


@given(st.fractions(min_value=0, max_value=10**6))
def test_text_is_read_back(amount: Fraction) -> None:
    assert parse_amount(text(amount)) == amount


@given(st.integers(1, 10**12), st.integers(1, 10**15))
def test_exactly_the_multiples_pass(denominator: int, count: int) -> None:
    quantum = Fraction(1, denominator)
    assert multiple(count * quantum, quantum, field="amount") == Fraction(count, denominator)
    with pytest.raises(BadAmount):
        multiple(count * quantum + quantum / 2, quantum, field="amount")
