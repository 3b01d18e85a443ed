"""Composition: cases worked by hand, and random lives of parallel charges against plain arithmetic."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tabularium.ledger import BadValue, BudgetExhausted, Conflict, Ledger, Partition
from tabularium.ledger.composition import group_change, top_k_sum
from tests.ledger.scene import census, finish, open_books, reserve

TENTH = Fraction(1, 10)


def part(name: str, contributions: int = 1, assignment: str = "regions") -> dict[str, Any]:
    return {"partition": Partition(assignment, name, contributions)}


def used(books: Ledger, account: str = "census") -> Fraction:
    found = books.account(account)
    return found.reserved + found.spent


def test_parts_of_one_assignment_cost_the_dearest(books: Ledger) -> None:
    reserve(books, "north", amount=3 * TENTH, **part("north"))
    reserve(books, "south", amount=2 * TENTH, **part("south"))
    assert used(books) == 3 * TENTH
    reserve(books, "south-2", **part("south"))
    assert used(books) == 3 * TENTH  # south has now spent as much as north
    reserve(books, "south-3", **part("south"))
    assert used(books) == 4 * TENTH
    reserve(books, "plain", amount=TENTH)
    assert used(books) == 5 * TENTH  # beside the group, in sequence
    assert books.sums("census", period="2026").used == 5 * TENTH
    assert books.sums("census", product="p").used == 8 * TENTH  # a product's cap counts plainly
    books.void("south-3", "mistake")
    assert used(books) == 4 * TENTH
    finish(books, "north")
    found = books.account("census")
    assert (found.reserved, found.spent) == (TENTH, 3 * TENTH)
    books.verify()


def test_a_bound_on_contributions_counts_as_many_parts(books: Ledger) -> None:
    for name, amount in [("a", 1), ("b", 2), ("c", 3), ("d", 1)]:
        reserve(books, name, amount=amount * TENTH, **part(name, 2))
    assert used(books) == 5 * TENTH  # the two dearest
    with pytest.raises(Conflict, match="2 contributions"):
        reserve(books, "e", **part("e", 3))
    books.verify()


def test_under_replace_the_two_dearest_count(books: Ledger) -> None:
    census(books, "other", relation="replace")
    for name, amount in [("a", 1), ("b", 2), ("c", 3)]:
        reserve(books, name, "other", amount=amount * TENTH, **part(name))
    assert used(books, "other") == 5 * TENTH
    books.verify()


def test_periods_never_compose_in_parallel_for_a_person(books: Ledger) -> None:
    reserve(books, "a", amount=2 * TENTH, period="2026", **part("2026"))
    reserve(books, "b", amount=3 * TENTH, period="2027", **part("2027"))
    assert used(books) == 5 * TENTH
    census(books, "yearly", unit="person-period")
    reserve(books, "c", "yearly", amount=2 * TENTH, period="2026", **part("2026"))
    reserve(books, "d", "yearly", amount=3 * TENTH, period="2027", **part("2027"))
    assert used(books, "yearly") == 3 * TENTH
    assert books.sums("yearly", period="2027").used == 3 * TENTH
    books.verify()


def test_another_assignment_is_in_sequence(books: Ledger) -> None:
    reserve(books, "a", **part("north"))
    reserve(books, "b", **part("young", assignment="ages"))
    assert used(books) == 2 * TENTH


def test_a_cap_is_held_against_what_the_group_costs(books: Ledger) -> None:
    for number in range(12):
        reserve(books, f"r{number}", amount=Fraction(1), **part(f"part-{number}"))
    assert books.balance("census") == 0
    with pytest.raises(BudgetExhausted, match="1/10 was asked and 0 is left"):
        reserve(books, "more", **part("part-0"))
    with pytest.raises(BudgetExhausted):
        reserve(books, "plain")
    assert reserve(books, "r3", amount=Fraction(1), **part("part-3")).part == "part-3"
    with pytest.raises(Conflict, match="another part"):
        reserve(books, "r3", amount=Fraction(1), **part("part-4"))
    with pytest.raises(Conflict, match="another group"):
        reserve(books, "r3", amount=Fraction(1))
    books.verify()


@pytest.mark.parametrize(
    "bad",
    [
        Partition("", "a"),
        Partition("a b", "a"),
        Partition("a", ""),
        Partition("a", "b", 0),
        Partition("a", "b", True),
    ],
)
def test_a_bad_partition_is_refused(books: Ledger, bad: Partition) -> None:
    with pytest.raises(BadValue):
        reserve(books, partition=bad)


@given(st.lists(st.integers(0, 50), max_size=8), st.integers(1, 10))
def test_together_is_the_sum_of_the_largest(amounts: list[int], fold: int) -> None:
    assert top_k_sum(amounts, fold) == sum(sorted(amounts, reverse=True)[:fold])


moves = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 9)), min_size=1, max_size=20)


@given(moves, st.integers(1, 5), st.data())
def test_changes_add_up_to_the_cost_of_the_group(
    moves: list[tuple[str, int]], fold: int, data: st.DataObject
) -> None:
    """Reserve all, then draw or void each: the running change is always the cost worked out afresh."""
    parts: dict[str, tuple[int, int]] = {}
    total = (0, 0)

    def move(name: str, added: tuple[int, int]) -> None:
        nonlocal total
        change = group_change(parts, name, added, fold)
        before = parts.get(name, (0, 0))
        parts[name] = before[0] + added[0], before[1] + added[1]
        total = total[0] + change[0], total[1] + change[1]
        everything = sorted((sum(pair) for pair in parts.values()), reverse=True)
        spent = sorted((pair[1] for pair in parts.values()), reverse=True)
        assert total == (sum(everything[:fold]) - sum(spent[:fold]), sum(spent[:fold]))
        assert min(total) >= 0

    for name, amount in moves:
        move(name, (amount, 0))
    for name, amount in moves:
        move(name, data.draw(st.sampled_from([(-amount, amount), (-amount, 0)])))


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_random_lives_of_parallel_charges_verify(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    with open_books(tmp_path_factory.mktemp("lives")) as books:
        relation = data.draw(st.sampled_from(["add-remove", "replace"]))
        census(books, relation=relation, cap=Fraction(100))
        parts: dict[str, Fraction] = {}
        bound = data.draw(st.integers(1, 3))
        for number in range(data.draw(st.integers(1, 8))):
            name, amount = data.draw(st.sampled_from("abcd")), data.draw(st.integers(1, 9)) * TENTH
            reserve(books, f"r{number}", amount=amount, **part(name, bound))
            end = data.draw(st.sampled_from(["stay", "void", "draw"]))
            if end == "void":
                books.void(f"r{number}", "x")
                continue
            parts[name] = parts.get(name, Fraction(0)) + amount
            if end == "draw":
                books.drawing(f"r{number}")
        fold = bound * (2 if relation == "replace" else 1)
        assert used(books) == sum(sorted(parts.values(), reverse=True)[:fold])
        books.verify()
