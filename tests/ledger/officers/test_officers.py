"""What officers decide: terms and their changes, dates, keys, approvals; each refusal by a case."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tabularium.ledger import (
    AccountClosed,
    BadAmount,
    BadValue,
    BudgetExhausted,
    ChainBroken,
    Conflict,
    Entry,
    Ledger,
    NotApproved,
    UnitMismatch,
    UnknownAccount,
)
from tabularium.ledger.keys import key_id, make_key, public_hex, read_private, read_public
from tests.ledger.chain.test_entries import forged
from tests.ledger.scene import AMOUNT, census, finish, open_books, reserve, sqlite, verify_entries


class Clock:
    def __init__(self, year: int = 2030) -> None:
        self.now = datetime(year, 6, 1, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


def key() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.generate()


def enrolled(books: Ledger, officer: str = "A. Ro", by: Ed25519PrivateKey | None = None) -> Ed25519PrivateKey:
    made = key()
    books.enrol_key(public_hex(made), officer=officer, by=by or made)
    return made


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


@sqlite
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


def test_a_spec_is_charged_only_when_an_officer_has_approved_it(books: Ledger) -> None:
    census(books, "strict", needs_approval=True)
    with pytest.raises(NotApproved, match="no disclosure officer has approved this spec"):
        books.precheck("strict", amount=Fraction(1, 10), spec_digest="s")
    with pytest.raises(NotApproved):
        reserve(books, account="strict")
    officer = enrolled(books)
    books.approve("strict", "s", by=officer, amount=Fraction(1, 10))
    head = books.head()
    books.approve("strict", "s", by=officer, amount=Fraction(1, 10))
    assert books.head() == head
    assert books.precheck("strict", amount=Fraction(1, 10), spec_digest="s").name == "strict"
    reserve(books, account="strict")
    with pytest.raises(NotApproved, match="is approved for 1/10 and asks 1/5"):
        reserve(books, "r2", "strict", amount=Fraction(1, 5))
    with pytest.raises(NotApproved, match="no disclosure officer"):
        reserve(books, "r2", "strict", spec_digest="another")
    books.unapprove("strict", "s", by=officer, reason="found an error")
    with pytest.raises(NotApproved, match="was taken back"):
        reserve(books, "r2", "strict")
    books.precheck("strict", amount=Fraction(1, 10), spec_digest="s")  # to finish what is paid for
    finish(books)
    books.approve("strict", "s", by=officer)
    reserve(books, "r2", "strict", amount=Fraction(1, 5))
    reserve(books, "other")  # an account without the need is not concerned
    found = books.verify()
    assert (found.keys, found.approvals) == (1, 1)


def test_an_account_may_ask_for_the_approval_of_exact_facts_alone(books: Ledger) -> None:
    census(books, "open-eyed", approve_exact=True)
    reserve(books, "r0", "open-eyed", spec_digest="another")
    with pytest.raises(NotApproved, match="no disclosure officer has approved this spec"):
        books.precheck("open-eyed", amount=Fraction(1, 10), spec_digest="s", exact=True)
    with pytest.raises(NotApproved):
        reserve(books, "r1", "open-eyed", exact=True)
    with pytest.raises(NotApproved, match="loosening approve_exact"):
        books.change_account("open-eyed", approve_exact=False, reason="in the way")
    books.approve("open-eyed", "s", by=enrolled(books))
    charge = reserve(books, "r1", "open-eyed", exact=True)
    assert charge.exact
    assert books.charge("r1") == charge
    with pytest.raises(Conflict, match="exact"):
        reserve(books, "r1", "open-eyed")
    books.verify()


@sqlite
def test_a_charge_of_exact_facts_without_its_approval_is_named(books: Ledger) -> None:
    census(books, "open-eyed", approve_exact=True)
    reserve(books, "r1", "open-eyed")
    entries = forged(list(books.entries()), 3, lambda body: body | {"exact": True})
    with pytest.raises(ChainBroken, match="entry 3 charges for a spec that no officer has approved"):
        verify_entries(entries)


def test_only_enrolled_keys_count_and_a_revoked_one_no_more(books: Ledger) -> None:
    census(books, "strict", needs_approval=True)
    stranger = key()
    with pytest.raises(NotApproved, match="is not enrolled"):
        books.approve("strict", "s", by=stranger)
    first = enrolled(books)
    with pytest.raises(NotApproved):
        enrolled(books, "stranger")  # nobody vouches for the second but itself
    second = enrolled(books, "B. Ito", by=first)
    name = key_id(public_hex(second))
    assert books.keys()[name].officer == "B. Ito"
    assert books.enrol_key(public_hex(second), officer="B. Ito", by=first).active
    books.approve("strict", "s", by=second)
    with pytest.raises(NotApproved):
        books.revoke_key(name, reason="lost", by=stranger)
    assert not books.revoke_key(name, reason="lost", by=first).active
    with pytest.raises(NotApproved, match="was revoked"):
        reserve(books, account="strict")
    with pytest.raises(NotApproved):
        books.approve("strict", "t", by=second)
    with pytest.raises(Conflict, match="enrolled before"):
        books.enrol_key(public_hex(second), officer="B. Ito", by=first)
    books.approve("strict", "s", by=first)
    reserve(books, account="strict")
    with pytest.raises(BadValue, match="never enrolled"):
        books.revoke_key("0" * 32, reason="x", by=first)
    assert books.verify().keys == 1


def test_keys_are_kept_in_private_files(tmp_path: Path) -> None:
    made = make_key(tmp_path / "a.pem", b"a passphrase")
    assert (tmp_path / "a.pem").stat().st_mode & 0o777 == 0o600
    assert public_hex(read_private(tmp_path / "a.pem", b"a passphrase")) == public_hex(made)
    for bad in (None, b"another"):
        with pytest.raises(BadValue, match="passphrase"):
            read_private(tmp_path / "a.pem", bad)
    with pytest.raises(BadValue, match="there already"):
        make_key(tmp_path / "a.pem")
    (tmp_path / "b.pem").write_text("nothing")
    with pytest.raises(BadValue):
        read_public(tmp_path / "b.pem")


@pytest.fixture
def decided(books: Ledger) -> Ledger:
    """1 account, 2 strict account, 3 key, 4 key, 5 approval, 6 reserved, 7 terms, 8 unapproval, 9 approval."""
    census(books, "strict", needs_approval=True, opens_on="2020-01-01")
    first = enrolled(books)
    second = enrolled(books, "B. Ito", by=first)
    books.approve("strict", "s", by=second, amount=Fraction(1, 5))
    reserve(books, account="strict")
    books.change_account("strict", cap=Fraction(2), reason="decree", by=first)
    books.unapprove("strict", "s", by=first, reason="error")
    books.approve("strict", "s", by=first)
    return books


@sqlite
def test_a_signature_cannot_be_used_twice_or_elsewhere(decided: Ledger) -> None:
    """An old approval is put in again after it was taken back; then one of another ledger."""
    entries = list(decided.entries())[:8]
    again = [*entries, Entry(9, "", "", entries[4].text)]
    stands = {"seq": 9, "at": entries[7].body["at"], "account_reserved": "1/10"}
    changed = forged(again, 9, lambda body: body | stands)
    with pytest.raises(ChainBroken, match="entry 9 is signed for another turn"):
        verify_entries(changed)
    changed = forged(again, 9, lambda body: body | stands | {"turn": 2})
    with pytest.raises(ChainBroken, match="entry 9 has a signature"):
        verify_entries(changed)
    elsewhere = forged(list(decided.entries()), 1, lambda body: body | {"cap": "2/1"})
    with pytest.raises(ChainBroken, match="entry 3 has a signature"):
        verify_entries(elsewhere)


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


@sqlite
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


def test_a_revision_is_always_approved(books: Ledger) -> None:
    """Whatever the account's terms say: that there is a second release of a period is a decision."""
    reserve(books, "r1")
    with pytest.raises(NotApproved, match="which revises a release"):
        reserve(books, "r2", spec_digest="t", revises="late records")
    with pytest.raises(NotApproved):
        books.precheck("census", amount=AMOUNT, spec_digest="t", revises="late records")
    key = enrolled(books)
    books.approve("census", "t", by=key)
    assert reserve(books, "r2", spec_digest="t", revises="late records").revises == "late records"
    assert books.charge("r1").revises is None  # type: ignore[union-attr]
    with pytest.raises(Conflict, match="another revises"):
        reserve(books, "r2", spec_digest="t", revises="other records")
    with pytest.raises(BadValue, match="revises"):
        reserve(books, "r3", spec_digest="t", revises=" ")
    books.verify()
