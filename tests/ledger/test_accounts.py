"""Accounts: their caps and dates, what a charge must be about, and how they end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tabularium.ledger import (
    AccountClosed,
    BadAmount,
    BadValue,
    BudgetExhausted,
    Conflict,
    Ledger,
    NotApproved,
    UnitMismatch,
    UnknownAccount,
)
from tabularium.ledger.review import Reviewer
from tests.ledger.scene import AMOUNT, CAP, census, enrolled, finish, open_books, reserve


class Clock:
    def __init__(self, year: int = 2030) -> None:
        self.now = datetime(year, 6, 1, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


def test_a_cap_is_changed_by_an_entry_and_holds_from_then_on(books: Ledger) -> None:
    reserve(books, "r1", amount=Fraction(1))
    with pytest.raises(BudgetExhausted):
        reserve(books, "r2")
    changed = books.change_account("census", cap=Fraction(11, 10), reason="decree 7")
    assert (changed.cap, changed.left, changed.opened_at) == (
        Fraction(11, 10),
        Fraction(1, 10),
        books.account("census").opened_at,
    )
    reserve(books, "r2")
    with pytest.raises(BadAmount, match="cap: is below the 11/10 that is reserved and spent"):
        books.change_account("census", cap=Fraction(1), reason="back")
    books.void("r1", "mistake")
    assert books.change_account("census", cap=Fraction(1, 10), reason="back").left == 0
    entry = list(books.entries())[-1]
    assert (entry.body["kind"], entry.body["reason"], entry.body["cap"]) == ("terms", "back", "1/10")
    head = books.head()
    books.change_account("census", cap=Fraction(1, 10), reason="once more")
    assert books.head() == head, "what changes nothing is no entry"
    books.verify()


def test_caps_of_periods_and_products_can_be_set_and_lifted(books: Ledger) -> None:
    reserve(books, "r1", amount=Fraction(3, 10))
    books.change_account("census", cap_per_period=Fraction(3, 10), reason="limit")
    with pytest.raises(BudgetExhausted, match="period 2026"):
        reserve(books, "r2")
    reserve(books, "r2", period="2027")
    books.change_account("census", cap_per_period=None, cap_per_product=Fraction(2, 5), reason="other")
    with pytest.raises(BudgetExhausted, match="product p"):
        reserve(books, "r3")
    reserve(books, "r3", product="q")
    books.verify()
    assert books.periods("census")["2026"].used == Fraction(2, 5)
    assert {name: sums.used for name, sums in books.products("census").items()} == {
        "p": Fraction(2, 5),
        "q": Fraction(1, 10),
    }


def test_an_account_takes_charges_between_its_dates_only(place: Path) -> None:
    clock = Clock()
    with open_books(place, clock=clock) as books:
        census(books, opens_on="2030-07-01", closes_on="2031-01-01")
        with pytest.raises(AccountClosed, match="only from 2030-07-01 on"):
            reserve(books)
        with pytest.raises(AccountClosed):
            books.precheck("census", amount=Fraction(1, 10), spec_digest="s")
        clock.now = datetime(2030, 7, 1, tzinfo=UTC)
        reserve(books)
        clock.now = datetime(2030, 12, 31, 23, 59, 50, tzinfo=UTC)
        reserve(books, "r2")
        clock.now = datetime(2031, 1, 1, tzinfo=UTC)
        with pytest.raises(AccountClosed, match="is closed since 2031-01-01"):
            reserve(books, "r3")
        assert reserve(books).state == "reserved", "what was charged before is found"
        finish(books, "r1")
        books.change_account("census", closes_on=None, reason="goes on")
        reserve(books, "r3")
        assert books.close_account("census", reason="over").terms.closes_on == "2031-01-01"
        with pytest.raises(AccountClosed):
            reserve(books, "r4")
        books.verify()


def test_closing_an_account_again_does_not_open_it_meanwhile(
    books: Ledger,
) -> None:
    books.change_account("census", closes_on="2020-02-01", reason="over")
    head = books.head()
    assert books.close_account("census", reason="over").terms.closes_on == "2020-02-01"
    assert books.head() == head


@pytest.mark.parametrize(
    ("terms", "named"),
    [
        ({"opens_on": "2030-13-01"}, "opens_on"),
        ({"opens_on": 20300101}, "opens_on"),
        ({"opens_on": "20300101"}, "opens_on"),
        ({"closes_on": "2030-1-1"}, "closes_on"),
        ({"opens_on": "2031-01-01", "closes_on": "2030-01-01"}, "closes_on"),
        ({"needs_approval": 1}, "needs_approval"),
        ({"approve_exact": 1}, "approve_exact"),
    ],
)
def test_bad_dates_are_refused_by_name(books: Ledger, terms: dict[str, Any], named: str) -> None:
    with pytest.raises(BadValue, match=f"^{named}: "):
        census(books, "other", **terms)
    with pytest.raises(BadValue, match=f"^{named}: "):
        books.change_account("census", reason="x", **terms)
    with pytest.raises(UnknownAccount):
        books.change_account("nobody", reason="x", cap=Fraction(1))


FIT: list[tuple[dict[str, Any], dict[str, Any], str | None]] = [
    ({}, {"unit": "person", "relation": "add-remove", "definition": "pure"}, None),
    ({}, {"population": "other"}, None),
    ({}, {"population": "others"}, "charge an account of that population"),
    ({}, {"definition": "zcdp"}, "no ρ implies a pure ε"),
    ({}, {"relation": "replace"}, "implies none under add-remove"),
    ({}, {"unit": "record"}, "charge c times ε = 0.1, where one person has at most c of the unit record"),
    ({"definition": "zcdp", "delta": Fraction(1, 10**9)}, {"definition": "pure"}, "charge ρ = 0.005,"),
    ({"definition": "zcdp", "delta": Fraction(1, 10**9)}, {"definition": "zcdp"}, None),
    ({"relation": "replace"}, {"relation": "add-remove"}, "charge ε = 0.2,"),
    (
        {"relation": "replace", "definition": "zcdp", "delta": Fraction(1, 10**9)},
        {"relation": "add-remove"},
        "charge ρ = 0.4,",
    ),
    (
        {"relation": "replace", "definition": "zcdp", "delta": Fraction(1, 10**9)},
        {"relation": "add-remove", "definition": "pure"},
        "charge ρ = 0.02,",
    ),
    (
        {"definition": "zcdp", "delta": Fraction(1, 10**9)},
        {"unit": "record", "definition": "pure"},
        "charge c² times ρ = 0.005, where one person",
    ),
]


@pytest.mark.parametrize(("terms", "asked", "hint"), FIT)
def test_a_charge_that_does_not_fit_is_refused_with_what_would(
    books: Ledger, terms: dict[str, Any], asked: dict[str, Any], hint: str | None
) -> None:
    census(books, "other", **terms)
    if hint is None:
        assert reserve(books, account="other", **asked).amount == Fraction(1, 10)
        return
    with pytest.raises(UnitMismatch) as refused:
        reserve(books, account="other", **asked)
    assert hint in str(refused.value)
    assert "\n" not in str(refused.value)
    with pytest.raises(UnitMismatch):
        books.precheck("other", amount=Fraction(1, 10), spec_digest="s", **asked)
    assert books.charge("r1") is None


def test_a_misnamed_account_is_retired_and_takes_nothing(books: Ledger) -> None:
    census(books, "homes", unit="person")
    found = books.retire_account("homes", reason="its unit is the household")
    assert (found.retired, found.left) == (True, 1)
    head = books.head()
    assert books.retire_account("homes", reason="again").retired and books.head() == head
    key = enrolled(books)
    for step in (
        lambda: reserve(books, "r1", "homes"),
        lambda: books.precheck("homes", amount=AMOUNT, spec_digest="s"),
        lambda: books.change_account("homes", cap=Fraction(2), reason="more", by=key),
        lambda: books.close_account("homes", reason="over"),
        lambda: books.approve("homes", "s", by=key),
    ):
        with pytest.raises(Conflict, match=r"account homes: is retired; open it again, on other terms"):
            step()
    assert [view.accounts for view in Reviewer(books).units()] == [["census"]]
    assert books.verify().accounts == 2


def test_a_retired_account_opens_again_on_other_terms(books: Ledger) -> None:
    census(books, "homes", unit="person", quantum=Fraction(1, 10))
    books.change_account("homes", cap=Fraction(2), reason="more")
    books.retire_account("homes", reason="its unit is the household")
    key = enrolled(books)
    terms = {"unit": "household", "cap": Fraction(3), "definition": "zcdp", "delta": Fraction(1, 1000)}
    with pytest.raises(NotApproved, match=r"opening an account needs .* tabularium ledger open … --key"):
        census(books, "homes", **terms)
    found = census(books, "homes", **terms, by=key)
    assert (found.retired, found.terms.unit, found.left) == (False, "household", 3)
    head = books.head()
    assert census(books, "homes", **terms) == found and books.head() == head
    books.retire_account("homes", reason="its unit is the household", by=key)
    assert census(books, "homes", unit="dwelling", by=key).terms.definition == "pure"
    reserve(books, "r1", "homes")
    assert books.account("homes").left == CAP - AMOUNT
    with pytest.raises(Conflict, match="was charged"):
        books.retire_account("homes", reason="misnamed", by=key)
    assert books.verify().accounts == 2


def test_an_account_for_which_specs_were_approved_does_not_open_again(books: Ledger) -> None:
    key = enrolled(books)
    books.approve("census", "s", by=key)
    books.unapprove("census", "s", by=key, reason="a slip")
    books.retire_account("census", reason="misnamed", by=key)
    with pytest.raises(Conflict, match="specs were approved for it, so that its name is not used again"):
        census(books, unit="household", by=key)


@pytest.mark.parametrize("ended", ["reserved", "voided", "published"])
def test_an_account_that_was_ever_charged_is_not_retired(books: Ledger, ended: str) -> None:
    reserve(books)
    if ended == "voided":
        books.void("r1", "mistake")
    elif ended == "published":
        finish(books)
    with pytest.raises(Conflict, match=r"was charged, and only .* tabularium ledger close census"):
        books.retire_account("census", reason="misnamed")
    with pytest.raises(UnknownAccount):
        books.retire_account("nowhere", reason="misnamed")


def test_an_account_of_more_officers_is_another(books: Ledger) -> None:
    """Asked for on either terms, where it stands on the other."""
    census(books, "two", approvals=2)
    with pytest.raises(Conflict, match="is in the ledger with another approvals"):
        census(books, "two")
    with pytest.raises(Conflict, match="is in the ledger with another approvals"):
        census(books, approvals=2)
