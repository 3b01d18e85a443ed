"""Composition: cases worked by hand, and random lives of parallel charges against plain arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tabularium.ledger import BadValue, BudgetExhausted, Conflict, Ledger, Partition
from tabularium.ledger.composition import group_change, top_k_sum
from tabularium.ledger.review import Reviewer
from tests.ledger.scene import census, finish, open_books, reserve, sqlite

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


@sqlite
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


# The reviewer's view


def test_the_view_of_pure_charges_is_tighter_than_their_sum(books: Ledger) -> None:
    census(books, "long", cap=Fraction(100))
    for number in range(100):
        reserve(books, f"r{number}", "long", period=f"{2020 + number % 10}")
    view = Reviewer(books).account("long", Fraction(1, 10**6))
    assert (view.plain, view.charges) == (10, 100)
    # Advanced composition (Dwork, Rothblum, Vadhan 2010) at δ = 10^-6 is a bound that the tightest must meet,
    # and 100 randomised responses at ε = 0.1 are worth at least what their mean log-odds are.
    advanced = 0.1 * math.sqrt(2 * 100 * math.log(1e6)) + 100 * 0.1 * (math.exp(0.1) - 1)
    assert 100 * 0.1 * math.tanh(0.05) < view.epsilon < advanced < 10
    assert view.periods["2021"].used == 1


def test_the_view_of_rho_is_converted_at_the_accounts_delta(books: Ledger) -> None:
    census(books, "other", definition="zcdp", delta=Fraction(1, 10**6), unit="household")
    reserve(books, "r1", "other", amount=TENTH)
    reserve(books, "r2", "other", amount=TENTH)
    reserve(books, "r3", "other", amount=TENTH)
    books.void("r3", "mistake")
    view = Reviewer(books).account("other")
    # Bun and Steinke 2016, Proposition 1.3: ρ + 2√(ρ ln 1/δ); the conversion used is tighter, but not below
    # what Gaussian noise of that ρ truly loses.
    assert view.plain == 2 * TENTH
    assert 2.4 < view.epsilon < 0.2 + 2 * math.sqrt(0.2 * math.log(1e6))


def test_the_view_of_a_unit_covers_all_accounts(books: Ledger) -> None:
    census(books, "other", definition="zcdp", delta=Fraction(1, 10**6))
    census(books, "houses", unit="household")
    reserve(books, "r1", amount=2 * TENTH, product="p")
    reserve(books, "r2", "other", product="q")
    reserve(books, "r3", "houses")
    person, household = Reviewer(books).units(Fraction(1, 10**6))
    assert (person.unit, person.accounts, person.plain) == ("person", ["census", "other"], None)
    assert person.rho == TENTH + Fraction(1, 50)
    assert person.products == {"p": 2 * TENTH, "q": TENTH}
    assert sum(person.years.values()) == 3 * TENTH
    assert (household.unit, household.plain) == ("household", TENTH)
    assert 0.0999 < household.epsilon <= 0.1


def test_a_units_total_counts_every_account_under_replace(books: Ledger) -> None:
    """To replace a person is to remove one and add one: twice the ε, four times the ρ."""
    delta = Fraction(1, 10**6)
    census(books, "survey", relation="replace")
    census(books, "wages", definition="zcdp", delta=delta)
    for account, amount in (("census", TENTH), ("survey", 3 * TENTH), ("wages", Fraction(1, 50))):
        reserve(books, account, account, amount=amount)
    part_of_it, total = Reviewer(books).units(delta)
    assert (part_of_it.relation, part_of_it.accounts) == ("add-remove", ["census", "wages"])
    assert not part_of_it.whole and part_of_it.rho == TENTH**2 / 2 + Fraction(1, 50)
    assert (total.relation, total.accounts, total.whole) == ("replace", ["census", "survey", "wages"], True)
    assert total.rho == (2 * TENTH) ** 2 / 2 + (3 * TENTH) ** 2 / 2 + 4 * Fraction(1, 50)
    assert total.plain is None
    assert total.products == {"p": 2 * TENTH + 3 * TENTH + 4 * Fraction(1, 50)}
    assert total.epsilon > part_of_it.epsilon


def test_a_total_of_pure_accounts_doubles_what_parallel_parts_cost(books: Ledger) -> None:
    for name in "abc":
        reserve(books, name, **part(name, 2))
    census(books, "survey", relation="replace")
    reserve(books, "s", "survey")
    _part, total = Reviewer(books).units(Fraction(1, 10**9))
    assert (total.plain, total.whole) == (2 * 2 * TENTH + TENTH, True)
    assert 0.4 < total.epsilon <= 0.5


def test_a_group_counts_in_the_view_as_its_dearest_parts(books: Ledger) -> None:
    for name in "abc":
        reserve(books, name, **part(name))
    view = Reviewer(books).account("census", Fraction(1, 10**9))
    assert (view.plain, view.charges) == (TENTH, 3)
    assert view.epsilon == pytest.approx(0.1)


@sqlite
def test_many_different_amounts_are_still_bounded(books: Ledger, place: Path) -> None:
    del place
    census(books, "fine", cap=Fraction(1000))
    for number in range(230):
        reserve(books, f"r{number}", "fine", amount=Fraction(number + 1, 10000))
    view = Reviewer(books).account("fine")
    assert view.plain == Fraction(230 * 231, 2 * 10000)
    assert 0 < view.epsilon <= float(view.plain) * (1 + 1e-12)
