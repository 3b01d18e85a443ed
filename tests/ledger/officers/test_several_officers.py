"""Where several officers must sign: who counts, what an account may ask, and what verification finds."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import psycopg
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tabularium.ledger import BadValue, ChainBroken, Conflict, Entry, Ledger, NotApproved, WrongState
from tabularium.ledger.events import make_entry
from tabularium.ledger.export import export, migrate, restore, verify_export
from tabularium.ledger.keys import key_id, public_hex, statement
from tabularium.ledger.records import EMPTY, GENESIS, Head
from tests.ledger.chain.test_entries import forged
from tests.ledger.chain.test_verify_forged import AT, DRAWING, MEASURED, RESERVED, TERMS
from tests.ledger.officers.test_draft_review import CRITERIA, LAID_OUT, lay_out
from tests.ledger.officers.test_officers import enrolled, key
from tests.ledger.scene import census, new_place, open_books, postgresql, reserve, sqlite, url, verify_entries

TENTH = Fraction(1, 10)


@pytest.fixture
def officers(books: Ledger) -> list[Ed25519PrivateKey]:
    """Keys of A. Ro, of B. Ito, and another one of A. Ro; the account ``two`` asks for two officers."""
    first = enrolled(books)
    census(books, "two", approvals=2, by=first)
    return [first, enrolled(books, "B. Ito", first), enrolled(books, "A. Ro", first)]


def names(books: Ledger, account: str = "two", spec: str = "s") -> list[str]:
    found = books.approval(account, spec)
    assert found is not None
    return [each.officer for each in found.signers]


def test_a_spec_is_charged_when_two_officers_have_approved_it(
    books: Ledger, officers: list[Ed25519PrivateKey]
) -> None:
    first, second, again = officers
    with pytest.raises(NotApproved, match="0 of 2 officers have approved this spec"):
        reserve(books, account="two")
    for by in (first, again, first):
        books.approve("two", "s", by=by)
        with pytest.raises(
            NotApproved, match=r"1 of 2 officers have approved this spec.*ledger approve SPEC"
        ):
            reserve(books, account="two")
        with pytest.raises(NotApproved, match="1 of 2"):
            books.precheck("two", amount=TENTH, spec_digest="s", product="p", period="2026")
    books.approve("two", "s", by=second)
    assert names(books) == ["A. Ro", "B. Ito"]
    reserve(books, account="two")
    found = books.reservation("r1")
    assert found is not None and found.approved is not None
    assert found.approved.key == key_id(public_hex(second))
    assert [each.key for each in found.approved.others] == [key_id(public_hex(first))]
    books.verify()


def test_who_has_approved_it_already_signs_nothing_again(
    books: Ledger, officers: list[Ed25519PrivateKey]
) -> None:
    first, second, _ = officers
    for by in (first, second):
        books.approve("two", "s", by=by)
    before = books.head()
    for by in (first, second):
        books.approve("two", "s", by=by)
    assert books.head() == before
    books.revoke_key(key_id(public_hex(second)), reason="lost", by=first)
    assert names(books) == ["A. Ro"]
    before = books.head()
    books.approve("two", "s", by=first)
    assert books.head() != before, "the last word was that of a key that is revoked"


def test_all_must_have_signed_the_same_since_it_was_taken_back(
    books: Ledger, officers: list[Ed25519PrivateKey]
) -> None:
    first, second, _ = officers
    books.approve("two", "s", by=first, amount=Fraction(1, 5))
    books.approve("two", "s", by=second, amount=TENTH)
    assert names(books) == ["B. Ito"]
    with pytest.raises(NotApproved, match="1 of 2"):
        reserve(books, account="two")
    books.approve("two", "s", by=first, amount=TENTH)
    assert names(books) == ["B. Ito", "A. Ro"]
    with pytest.raises(NotApproved, match="is approved for 1/10 and asks 1/5"):
        reserve(books, account="two", amount=Fraction(1, 5))
    books.unapprove("two", "s", by=second, reason="an error")
    assert names(books) == []
    books.approve("two", "s", by=second, amount=TENTH)
    with pytest.raises(NotApproved, match="1 of 2"):
        reserve(books, account="two")
    assert [len(each.signers) for each in books.approvals()] == [1, 1, 2, 0, 1]
    books.verify()


def test_nobody_signs_what_as_many_as_must_have_approved(
    books: Ledger, officers: list[Ed25519PrivateKey]
) -> None:
    first, second, _ = officers
    third = enrolled(books, "C. Li", first)
    books.change_account("two", approvals_by_product={"p": 3}, reason="by decree")
    for by in (first, second):
        books.approve("two", "s", by=by, product="q")
    before = books.head().seq
    for by in (first, second):
        books.approve("two", "s", by=by, product="q")
    with pytest.raises(Conflict, match=r"spec s: is approved already by A\. Ro, B\. Ito, and nobody else"):
        books.approve("two", "s", by=third, product="q")
    assert books.head().seq == before
    books.approve("two", "s", by=third)  # it may be of the product that asks for three
    with pytest.raises(Conflict, match=r"C\. Li"):
        books.approve("two", "s", by=enrolled(books, "D. Oz", first))
    books.approve("two", "s", by=first, amount=TENTH)  # another decision, which begins anew
    assert names(books) == ["A. Ro"]
    books.approve("census", "s", by=first)
    with pytest.raises(Conflict, match=r"by A\. Ro, and"):
        books.approve("census", "s", by=second)
    books.revoke_key(key_id(public_hex(first)), reason="left", by=second)
    books.approve("census", "s", by=second)
    assert names(books, "census") == ["B. Ito"]
    books.verify()


def test_the_approval_of_a_revoked_key_counts_no_more(
    books: Ledger, officers: list[Ed25519PrivateKey]
) -> None:
    first, second, _ = officers
    third = enrolled(books, "C. Li", first)
    for by in (first, third):
        books.approve("two", "s", by=by)
    books.revoke_key(key_id(public_hex(third)), reason="left", by=first)
    with pytest.raises(NotApproved, match="1 of 2"):
        reserve(books, account="two")
    books.approve("two", "s", by=second)
    reserve(books, account="two")
    books.revoke_key(key_id(public_hex(second)), reason="left", by=first)
    assert names(books) == ["A. Ro"]
    with pytest.raises(NotApproved, match="1 of 2"):
        reserve(books, "r2", "two")
    found = books.reservation("r1")
    assert found is not None and found.approved is not None and len(found.approved.others) == 1
    books.verify()


def test_one_product_may_ask_for_more_than_its_account(
    books: Ledger, officers: list[Ed25519PrivateKey]
) -> None:
    first, second, _ = officers
    books.change_account("census", approvals_by_product={"p": 2}, reason="by decree")
    reserve(books, "other", product="q")
    books.approve("census", "s", by=first)
    with pytest.raises(NotApproved, match="1 of 2"):
        reserve(books)
    books.approve("census", "s", by=second)
    reserve(books)
    assert books.account("census").terms.approvals_for("p") == 2
    books.verify()


def test_the_number_is_raised_and_never_lowered(books: Ledger, officers: list[Ed25519PrivateKey]) -> None:
    first = officers[0]
    books.change_account("two", approvals=3, approvals_by_product={"p": 4}, reason="tighter")  # unsigned
    for lower in ({"approvals": 2}, {"approvals": 1}, {"approvals_by_product": {"p": 2}}):
        with pytest.raises(BadValue, match=r"can be raised, not lowered.*open another account"):
            books.change_account("two", reason="in the way", by=first, **lower)
    with pytest.raises(BadValue, match="from 4 to 9"):
        books.change_account(
            "two", approvals_by_product={"q": 3}, reason="no more than the account", by=first
        )
    terms = books.change_account("two", approvals=5, reason="tighter still").terms
    assert (terms.approvals, terms.approvals_by_product) == (5, ())
    head = books.head()
    books.change_account("two", approvals=5, reason="again")
    assert books.head() == head
    for bad in ({"approvals": 0}, {"approvals": 10}, {"approvals": True}, {"approvals_by_product": {"p": 1}}):
        with pytest.raises(BadValue, match="is not a whole number from"):
            census(books, "bad", by=first, **bad)
    books.verify()


def test_an_account_that_opens_again_asks_no_fewer_officers(
    books: Ledger, officers: list[Ed25519PrivateKey]
) -> None:
    first = officers[0]
    books.retire_account("two", reason="its unit is the household", by=first)
    with pytest.raises(BadValue, match="approvals: can be raised, not lowered"):
        census(books, "two", by=first)
    census(books, "two", approvals=2, unit="household", by=first)
    books.verify()


def test_a_draft_is_published_when_two_officers_have_accepted_it(
    books: Ledger, officers: list[Ed25519PrivateKey]
) -> None:
    first, second, again = officers
    books.change_account("census", approvals_by_product={"p": 2}, reason="by decree")
    for by in (first, second):
        books.approve("census", "s", by=by)
    fence = lay_out(books)
    assert books.draft("r1").signed == "0 of 2"  # type: ignore[union-attr]
    half = books.accept("r1", draft="d", by=first)
    assert half == books.draft("r1")
    assert (half.accepted, half.acceptance, half.signed) == (False, None, "1 of 2")
    assert [each.officer for each in half.acceptances] == ["A. Ro"]
    head = books.head()
    for by in (first, again):
        assert books.accept("r1", draft="d", by=by) == half
    assert books.head() == head
    with pytest.raises(WrongState, match="unless 2 officers accept it; 1 of 2 have"):
        books.published("r1", fence, digest="d")
    done = books.accept("r1", draft="d", by=second, consulted_confidential=True)
    assert done == books.draft("r1") and done.accepted
    assert done.acceptance is not None
    assert (done.acceptance["officer"], done.acceptance["consulted"]) == ("B. Ito", True)
    assert [(each["officer"], each["consulted"]) for each in done.acceptance["with"]] == [("A. Ro", False)]
    with pytest.raises(WrongState, match="was accepted, which is not taken back"):
        books.withhold("r1", draft="d", criterion="implausible", by=first)
    # What is accepted stays so, whatever is asked later and whoever leaves.
    books.change_account("census", approvals=3, reason="later")
    books.revoke_key(key_id(public_hex(second)), reason="left", by=first)
    assert books.draft("r1") == done
    assert books.published("r1", fence, digest="d").state == "published"
    books.verify()


def test_a_draft_that_one_of_two_has_accepted_may_be_withheld(
    books: Ledger, officers: list[Ed25519PrivateKey]
) -> None:
    first, second, _ = officers
    lay_out(books)
    books.change_account("census", approvals=2, reason="while it waits")
    books.accept("r1", draft="d", by=first)
    assert books.withhold("r1", draft="d", criterion="implausible", by=second).state == "withheld"
    books.verify()


def test_an_acceptance_counts_no_more_when_its_key_was_revoked_before_the_last(
    books: Ledger, officers: list[Ed25519PrivateKey]
) -> None:
    first, second, again = officers
    lay_out(books)
    books.change_account("census", approvals=2, reason="while it waits")
    books.accept("r1", draft="d", by=first)
    books.revoke_key(key_id(public_hex(first)), reason="lost", by=second)
    assert books.draft("r1").signed == "0 of 2"  # type: ignore[union-attr]
    assert books.accept("r1", draft="d", by=second).signed == "1 of 2"
    assert books.accept("r1", draft="d", by=again).accepted
    assert books.published("r1", 1, digest="d").state == "published"
    books.verify()


def test_it_goes_through_an_export_and_a_migration(
    books: Ledger, officers: list[Ed25519PrivateKey], place: Path
) -> None:
    first, second, _ = officers
    census(books, "mixed", approvals=2, approvals_by_product={"p": 3, "Ä q": 9}, by=first)
    for by in (first, second):
        books.approve("two", "s", by=by)
    lay_out(books, account="two")
    books.accept("r1", draft="d", by=first)
    export(books, place / "books.txt")
    assert verify_export(place / "books.txt") == books.verify()
    again = new_place(place, "again")
    restore(place / "books.txt", url(again))
    assert migrate(url(again)).fault is None
    with open_books(again) as restored:
        restored.confirm(books.head().hash, by=first)
        assert restored.draft("r1") == books.draft("r1")
        assert restored.account("mixed").terms == books.account("mixed").terms
        assert restored.approvals() == books.approvals()
        assert restored.accept("r1", draft="d", by=second).accepted
        restored.verify()


@sqlite
def test_the_signature_of_an_account_covers_how_many_must_sign(
    books: Ledger, officers: list[Ed25519PrivateKey]
) -> None:
    assert len(officers) == 3
    lived = [*books.entries()]
    number = next(entry.seq for entry in lived if entry.body.get("approvals") == 2)
    for other in ({"approvals": 3}, {"approvals_by_product": {"p": 3}}):
        with pytest.raises(ChainBroken, match=f"entry {number} has a signature that is not its key's"):
            verify_entries(forged(lived, number, lambda body, other=other: body | other))  # type: ignore[misc]


# What the program would not write

A, B, A_AGAIN = key(), key(), key()


class Chain:
    """Entries that are signed and sealed by hand."""

    def __init__(self, **terms: Any) -> None:
        self.entries: list[Entry] = []
        self.put("account", TERMS | terms)
        for turn, (each, officer) in enumerate(((A, "A. Ro"), (B, "B. Ito"), (A_AGAIN, "A. Ro"))):
            public = public_hex(each)
            self.signed("key", A, key=key_id(public), officer=officer, public_key=public, turn=turn)

    def put(self, kind: str, fields: dict[str, Any]) -> None:
        head = Head(self.entries[-1].seq, self.entries[-1].hash) if self.entries else EMPTY
        self.entries.append(make_entry(head, kind, AT, fields)[1])

    def signed(self, kind: str, by: Ed25519PrivateKey, **fields: Any) -> Chain:
        fields["by"] = key_id(public_hex(by))
        first = self.entries[0].hash if self.entries else GENESIS
        self.put(kind, {**fields, "signature": by.sign(statement(first, kind, fields)).hex()})
        return self

    def approve(self, *by: Ed25519PrivateKey, amount: str | None = None, kind: str = "approval") -> Chain:
        for each in by:
            turn = sum(entry.body["kind"] in ("approval", "unapproval") for entry in self.entries)
            about = {"account": "census", "account_reserved": "0/1", "account_spent": "0/1"}
            reason = "x" if kind == "unapproval" else None
            self.signed(kind, each, **about, amount=amount, reason=reason, spec_digest="s", turn=turn)
        return self

    def revoke(self, whose: Ed25519PrivateKey, by: Ed25519PrivateKey) -> Chain:
        return self.signed("revocation", by, key=key_id(public_hex(whose)), reason="left", turn=3)

    def charge(self) -> Chain:
        self.put("reserved", RESERVED)
        return self

    def draft(self) -> Chain:
        self.approve(A, B).charge()
        for kind, fields in (("drawing", DRAWING), ("measured", MEASURED), ("drafted", LAID_OUT)):
            self.put(kind, fields)
        return self

    def accept(self, by: Ed25519PrivateKey, left: int | None, turn: int = 0) -> Chain:
        still = {} if left is None else {"officers_left": left}
        return self.signed("acceptance", by, **LAID_OUT, **still, consulted=False, turn=turn)

    def publish(self) -> Chain:
        self.put("published", MEASURED | {"publication_digest": "d"})
        return self

    def retire(self) -> Chain:
        about = {"account": "census", "account_reserved": "0/1", "account_spent": "0/1"}
        return self.signed("retired", A, **about, reason="x", turn=0)

    def agree(self, **terms: Any) -> Chain:
        turn = sum(entry.body["kind"] == "terms" for entry in self.entries)
        return self.signed("terms", A, **TERMS, **terms, reason="x", turn=turn)


TWO: dict[str, Any] = {"approvals": 2, "approvals_by_product": {}}
FOR_P: dict[str, Any] = {"approvals": 1, "approvals_by_product": {"p": 2, "q": 3}}
RIGHT: list[Callable[[Chain], Chain]] = [
    lambda chain: chain.approve(A, B).charge(),
    lambda chain: chain.approve(A, amount="1/5").approve(B, A_AGAIN, amount="1/10").charge(),
    lambda chain: chain.approve(A, A_AGAIN, B).revoke(A, B).charge(),
    lambda chain: chain.draft().accept(A, 1).accept(B, None, 1).publish(),
    lambda chain: chain.draft().accept(A, 1).revoke(A, B).accept(B, 1, 1).accept(A_AGAIN, None, 2).publish(),
    lambda chain: chain.draft().accept(A, 1).accept(B, None, 1).revoke(B, A).publish(),
    lambda chain: chain.agree(approvals=3, approvals_by_product={}),
    lambda chain: chain.retire().agree(approvals=3, approvals_by_product={}),
    lambda chain: chain.agree(approvals=2, approvals_by_product={"p": 4, "q": 3}),
]
FEWER, LEFT, ENDS = (
    "charges for a spec that fewer officers",
    "tells another number of",
    "ends a draft without",
)
TERMS_WRONG = r"(has a field that is missing|asks for a number of officers)"
WRONG: list[tuple[Callable[[Chain], Chain], str]] = [
    (lambda chain: chain.approve(A).charge(), FEWER),
    (lambda chain: chain.approve(A, A_AGAIN, A).charge(), FEWER),
    (lambda chain: chain.approve(A, B).revoke(B, A).charge(), FEWER),
    (lambda chain: chain.approve(A, amount="1/5").approve(B, amount="1/10").charge(), FEWER),
    (
        lambda chain: (
            chain.approve(A, amount="1/5").approve(B, amount="1/10").approve(B, amount="1/5").charge()
        ),
        FEWER,
    ),
    (lambda chain: chain.approve(A, B).approve(B, kind="unapproval").approve(B).charge(), FEWER),
    (lambda chain: chain.approve(A, B).approve(B, kind="unapproval").charge(), "charges for a spec that"),
    (lambda chain: chain.draft().accept(A, 1).publish(), ENDS),
    (lambda chain: chain.draft().accept(A, None), LEFT),
    (lambda chain: chain.draft().accept(A, 2), LEFT),
    (lambda chain: chain.draft().accept(A, 1).accept(B, 0, 1), LEFT),
    (
        lambda chain: chain.draft().accept(A, 1).accept(A, None, 1),
        "accepts a draft a second time for one officer",
    ),
    (
        lambda chain: chain.draft().accept(A, 1).accept(A_AGAIN, None, 1),
        "accepts a draft a second time for one officer",
    ),
    (lambda chain: chain.draft().accept(A, 1).revoke(A, B).accept(B, None, 1), LEFT),
    (
        lambda chain: chain.draft().accept(A, 1).accept(B, None, 1).accept(A, None, 2),
        "accepts what waits for",
    ),
    (lambda chain: chain.agree(), "lowers how many"),
    (lambda chain: chain.agree(approvals=1, approvals_by_product={"q": 3}), "lowers how many"),
    (lambda chain: chain.retire().agree(), "lowers how many"),
    (lambda chain: chain.agree(approvals=10, approvals_by_product={}), TERMS_WRONG),
    (lambda chain: chain.agree(approvals=1, approvals_by_product={}), TERMS_WRONG),
    (lambda chain: chain.agree(approvals=4, approvals_by_product={"p": 4}), TERMS_WRONG),
]
both = pytest.mark.parametrize("terms", [TWO, FOR_P], ids=["account", "product"])


@both
@pytest.mark.parametrize("live", RIGHT)
def test_what_the_broken_twins_are_made_of_is_in_order(
    live: Callable[[Chain], Chain], terms: dict[str, Any]
) -> None:
    verify_entries(live(Chain(**terms)).entries)


@both
@pytest.mark.parametrize(("live", "wrong"), WRONG)
def test_a_broken_twin_is_named(live: Callable[[Chain], Chain], wrong: str, terms: dict[str, Any]) -> None:
    entries = live(Chain(**terms)).entries
    verify_entries(entries[:-1])
    with pytest.raises(ChainBroken, match=f"entry {len(entries)} {wrong}"):
        verify_entries(entries)


@postgresql
@both
def test_the_server_takes_what_is_in_order_and_refuses_the_rest(place: Path, terms: dict[str, Any]) -> None:
    open_books(place).close()
    with psycopg.connect(url(place).replace("+psycopg", ""), autocommit=True) as connection:

        def append(entries: list[Entry]) -> None:
            for entry in entries:
                connection.execute("SELECT ledger_append(%s, %s)", (entry.text, entry.hash))

        for live in RIGHT:
            with connection.transaction(force_rollback=True):
                append(live(Chain(**terms)).entries)
        for live, wrong in WRONG:
            with connection.transaction(force_rollback=True):
                *right, last = live(Chain(**terms)).entries
                append(right)
                with pytest.raises(psycopg.Error, match=wrong) as refused:
                    append([last])
                assert refused.value.sqlstate == "TB005"


def test_a_spec_of_one_officer_is_written_as_ever(books: Ledger) -> None:
    """Whoever asks for no more than one officer finds the entries that there were before."""
    census(books, "plain", approvals=1, approvals_by_product={})
    officer = enrolled(books)
    lay_out(books, account="plain")
    books.accept("r1", draft="d", by=officer)
    for entry in books.entries():
        assert not {"approvals", "approvals_by_product", "officers_left"} & entry.body.keys()
    assert books.draft("r1").criteria == CRITERIA  # type: ignore[union-attr]
