"""Accounts, charges and their refusals, each by a case worked by hand."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tabularium import ledger
from tabularium.ledger import (
    BadAmount,
    BadValue,
    BudgetExhausted,
    Conflict,
    Head,
    Ledger,
    LedgerError,
    StaleFence,
    UnknownAccount,
    UnknownRelease,
    WrongState,
)
from tests.ledger.scene import both, census, finish, open_books, reserve


def test_the_interface_of_the_design(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    books = Ledger.connect("sqlite:///ledger.db")
    books.open_account("census", unit="person", relation="add-remove", definition="pure", cap=Fraction(1))
    books.reserve(
        "census", release_id="r1", amount=Fraction(1, 1000), product="p", period="2026", spec_digest="…"
    )
    fence = books.drawing("r1")
    books.measured("r1", fence, digest="…")
    books.published("r1", fence, digest="…")
    books.verify()
    assert books.balance("census") == Fraction(999, 1000)
    assert (tmp_path / "ledger.db").exists()
    books.close()


def test_the_public_names_are_there() -> None:
    assert all(hasattr(ledger, name) for name in ledger.__all__)
    assert sorted(ledger.__all__) == list(ledger.__all__)


@both
def test_a_charge_moves_from_reserved_to_spent(books: Ledger) -> None:
    reserved = reserve(books)
    assert (reserved.state, reserved.fence, reserved.amount) == ("reserved", 0, Fraction(1, 10))
    account = books.account("census")
    assert (account.reserved, account.spent, account.left) == (Fraction(1, 10), 0, Fraction(9, 10))
    assert books.drawing("r1") == 1
    account = books.account("census")
    assert (account.reserved, account.spent, account.left) == (0, Fraction(1, 10), Fraction(9, 10))
    assert books.measured("r1", 1, digest="m").measurement_digest == "m"
    done = books.published("r1", 1, digest="p")
    assert (done.state, done.attempts, done.measurement_digest, done.publication_digest) == (
        "published",
        1,
        "m",
        "p",
    )
    assert done.reserved_at == reserved.reserved_at <= done.changed_at
    assert books.charge("r1") == done
    assert books.charges("census") == [done]
    assert [entry.body["kind"] for entry in books.entries()] == [
        "account",
        "reserved",
        "drawing",
        "measured",
        "published",
    ]


def test_an_account_is_opened_once_on_its_terms(books: Ledger) -> None:
    assert census(books) == books.account("census")
    with pytest.raises(Conflict, match="another cap"):
        census(books, cap=Fraction(2))
    assert [account.name for account in books.accounts()] == ["census"]
    assert books.head().seq == 1


@pytest.mark.parametrize(
    ("terms", "named"),
    [
        ({"relation": "neighbours"}, "relation"),
        ({"definition": "approximate"}, "definition"),
        ({"unit": ""}, "unit"),
        ({"unit": "two\nlines"}, "unit"),
        ({"definition": "zcdp"}, "delta"),
        ({"delta": Fraction(1, 10**6)}, "delta"),
        ({"definition": "zcdp", "delta": Fraction(1)}, "delta"),
        ({"cap_per_period": Fraction(0)}, "cap_per_period"),
        ({"cap_per_product": 0.5}, "cap_per_product"),
    ],
)
def test_bad_terms_are_refused_by_name(books: Ledger, terms: dict[str, Any], named: str) -> None:
    with pytest.raises(BadValue) as refused:
        census(books, "other", **terms)
    assert str(refused.value).startswith(f"{named}: ")
    with pytest.raises(UnknownAccount):
        books.balance("other")


def test_a_zcdp_account_keeps_its_delta(books: Ledger) -> None:
    census(books, "other", definition="zcdp", delta=Fraction(1, 10**9))
    assert books.account("other").terms.delta == Fraction(1, 10**9)


def test_reserving_again_is_the_same_charge(books: Ledger) -> None:
    first = reserve(books)
    head = books.head()
    assert reserve(books) == first
    finish(books)
    assert reserve(books).state == "published"
    assert books.balance("census") == Fraction(9, 10)
    assert books.head().seq == head.seq + 3


@pytest.mark.parametrize(
    "other",
    [
        {"amount": Fraction(1, 5)},
        {"product": "q"},
        {"period": "2027"},
        {"spec_digest": "t"},
        {"revises": "late records"},
    ],
    ids=lambda other: next(iter(other)),
)
def test_a_release_id_stands_for_one_content(books: Ledger, other: dict[str, Any]) -> None:
    reserve(books)
    with pytest.raises(Conflict, match=f"another {next(iter(other))}"):
        reserve(books, **other)
    census(books, "second")
    with pytest.raises(Conflict, match="another account"):
        reserve(books, account="second")
    assert books.balance("census") == Fraction(9, 10)


@both
def test_the_cap_is_exact(books: Ledger) -> None:
    for number in range(3):
        reserve(books, f"r{number}", amount=Fraction(1, 3))
    assert books.balance("census") == 0
    with pytest.raises(BudgetExhausted) as refused:
        reserve(books, "more", amount=Fraction(1, 360_360_000_000))
    assert str(refused.value).startswith(
        "account census: budget exhausted: 1/360360000000 was asked and 0 is left"
    )
    assert books.charge("more") is None


def test_periods_and_products_have_caps_of_their_own(books: Ledger) -> None:
    census(books, "capped", cap_per_period=Fraction(1, 2), cap_per_product=Fraction(3, 10))
    reserve(books, "a", "capped", amount=Fraction(3, 10), product="p", period="2026")
    with pytest.raises(BudgetExhausted, match=r"product p: .* 0 is left"):
        reserve(books, "b", "capped", amount=Fraction(1, 10), product="p", period="2027")
    reserve(books, "c", "capped", amount=Fraction(1, 5), product="q", period="2026")
    with pytest.raises(BudgetExhausted, match=r"period 2026: .* 0 is left"):
        reserve(books, "d", "capped", amount=Fraction(1, 10), product="r", period="2026")
    books.void("c", "not needed")
    reserve(books, "d", "capped", amount=Fraction(1, 5), product="r", period="2026")
    reserve(books, "e", "capped", amount=Fraction(3, 10), product="s", period="2027")
    assert books.sums("capped", period="2026").used == Fraction(1, 2)
    assert books.sums("capped", product="p").used == Fraction(3, 10)
    assert books.sums("capped").used == Fraction(4, 5)  # a new period gave nothing back
    with pytest.raises(BudgetExhausted, match=r"account capped: .* 1/5 is left"):
        reserve(books, "f", "capped", amount=Fraction(3, 10), product="t", period="2028")
    books.verify()


def test_voiding_gives_back_and_abandoning_does_not(books: Ledger) -> None:
    reserve(books, "r1")
    assert books.void("r1", "wrong period").reason == "wrong period"
    assert books.balance("census") == 1
    assert books.void("r1", "again").reason == "wrong period"
    reserve(books, "r2")
    books.drawing("r2")
    with pytest.raises(WrongState, match="drawing and cannot become voided"):
        books.void("r2", "too late")
    assert books.abandon("r2", "lost").state == "abandoned"
    assert books.balance("census") == Fraction(9, 10)
    assert reserve(books, "r2").state == "abandoned"
    with pytest.raises(WrongState):
        books.drawing("r2")


def test_a_new_attempt_shuts_out_the_old_fence(books: Ledger) -> None:
    reserve(books)
    assert [books.drawing("r1"), books.drawing("r1")] == [1, 2]
    before = books.head()
    with pytest.raises(StaleFence):
        books.measured("r1", 1, digest="m")
    with pytest.raises(StaleFence):
        books.abandon("r1", "late", fence=1)
    with pytest.raises(StaleFence):
        books.drawing("r1", expected=1)
    with pytest.raises(Conflict, match="never given"):
        books.measured("r1", 3, digest="m")
    assert books.head() == before
    books.measured("r1", 2, digest="m")
    with pytest.raises(StaleFence):
        books.published("r1", 1, digest="p")
    assert books.charge("r1").attempts == 2  # type: ignore[union-attr]
    assert books.balance("census") == Fraction(9, 10)  # two attempts, one charge


def test_repeating_a_step_is_harmless_and_contradicting_it_is_refused(books: Ledger) -> None:
    reserve(books)
    done = finish(books)
    head = books.head()
    assert books.measured("r1", 1, digest="m") == books.published("r1", 1, digest="p") == done
    with pytest.raises(WrongState):
        books.measured("r1", 1, digest="other")
    with pytest.raises(WrongState):
        books.published("r1", 1, digest="other")
    with pytest.raises(WrongState):
        books.abandon("r1", "no")
    assert books.head() == head


@pytest.mark.parametrize("fence", [0, -1, True, 1.0, "1", None])
def test_a_fence_is_a_whole_number_above_zero(books: Ledger, fence: Any) -> None:
    reserve(books)
    books.drawing("r1")
    with pytest.raises(BadValue, match="fence"):
        books.measured("r1", fence, digest="m")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "-a", "é", "a" * 129, "a\n", None, 7])
def test_a_release_id_can_name_a_folder(books: Ledger, name: Any) -> None:
    with pytest.raises(BadValue, match="release_id"):
        reserve(books, name)


@pytest.mark.parametrize(
    "text", ["", " p", "two\nlines", "p\x00", "e\u0301", "\ud800", "p" * 129, None, b"p"]
)
@pytest.mark.parametrize("field", ["product", "period", "spec_digest"])
def test_names_are_one_plain_line(books: Ledger, field: str, text: Any) -> None:
    if field == "spec_digest" and text == "p" * 129:
        return
    with pytest.raises(BadValue, match=field):
        reserve(books, **{field: text})


def test_the_unknown_is_named(books: Ledger) -> None:
    with pytest.raises(UnknownAccount, match="account nobody"):
        reserve(books, account="nobody")
    with pytest.raises(UnknownAccount):
        books.balance("nobody")
    for step in (
        lambda: books.drawing("r9"),
        lambda: books.measured("r9", 1, digest="m"),
        lambda: books.published("r9", 1, digest="m"),
        lambda: books.void("r9", "x"),
        lambda: books.abandon("r9", "x"),
    ):
        with pytest.raises(UnknownRelease, match="release r9"):
            step()
    assert books.charge("r9") is None
    assert books.charges("nobody") == []


def test_what_no_entry_may_say_is_refused_by_name(books: Ledger) -> None:
    with pytest.raises(BadValue, match="entry reserved: has a field that is missing or malformed: exact"):
        reserve(books, exact=1)
    assert books.head().seq == 1


def test_a_reason_is_needed(books: Ledger) -> None:
    reserve(books)
    with pytest.raises(BadValue, match="reason"):
        books.void("r1", "")


def test_a_new_ledger_is_empty(place: Path) -> None:
    with open_books(place) as books:
        assert books.head() == Head(0, "0" * 64)
        assert books.accounts() == list(books.entries()) == []
        assert books.verify().entries == 0


@both
def test_what_was_written_is_there_when_opened_again(books: Ledger, place: Path) -> None:
    reserve(books)
    with open_books(place) as again:
        assert again.charge("r1") == books.charge("r1")
        again.drawing("r1")
    assert books.measured("r1", 1, digest="m").state == "measured"


def test_bad_amounts_are_bad_values_are_ledger_errors() -> None:
    assert issubclass(BadAmount, BadValue) and issubclass(BadValue, LedgerError)
    assert issubclass(WrongState, Conflict)
