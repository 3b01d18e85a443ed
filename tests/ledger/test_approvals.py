"""Approvals: which charge wants one, who counts where several officers must sign, and what they were of."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tabularium.ledger import BadValue, Conflict, Ledger, NotApproved, WrongState
from tabularium.ledger.keys import key_id, public_hex
from tests.ledger.scene import AMOUNT, CRITERIA, census, enrolled, finish, lay_out, reserve

TENTH = Fraction(1, 10)


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


@pytest.fixture
def officers(books: Ledger) -> list[Ed25519PrivateKey]:
    """Keys of A. Ro, of B. Ito, and another one of A. Ro; the account ``two`` asks for two officers."""
    first = enrolled(books)
    census(books, "two", approvals=2, by=first)
    return [first, enrolled(books, "B. Ito", first), enrolled(books, "A. Ro", first)]


def names(books: Ledger, account: str = "two", spec: str = "s") -> list[str]:
    found = books.approval(account, spec)
    return [] if found is None else [each.officer for each in found.signers]


def test_who_counts_where_two_must_approve(books: Ledger, officers: list[Ed25519PrivateKey]) -> None:
    """Different officers, of the same amount, since it was taken back, by keys that still count."""
    first, second, again = officers
    third = enrolled(books, "C. Li", first)

    def approve(by: Ed25519PrivateKey, amount: Fraction | None = None) -> Callable[[], object]:
        return lambda: books.approve("two", "s", by=by, amount=amount)

    few = r"1 of 2 officers have approved this spec.*ledger approve SPEC"
    course: list[tuple[Callable[[], object], list[str], str | None]] = [
        (books.head, [], "0 of 2 officers have approved this spec"),
        (approve(first), ["A. Ro"], few),
        (approve(again), ["A. Ro"], few),
        (approve(second), ["A. Ro", "B. Ito"], None),
        (approve(second, TENTH), ["B. Ito"], few),
        (approve(first, TENTH), ["B. Ito", "A. Ro"], None),
        (lambda: books.revoke_key(key_id(public_hex(second)), reason="left", by=first), ["A. Ro"], few),
        (approve(third, TENTH), ["A. Ro", "C. Li"], None),
        (lambda: books.unapprove("two", "s", by=third, reason="an error"), [], "was taken back"),
        (approve(third, TENTH), ["C. Li"], few),
        (approve(first, TENTH), ["C. Li", "A. Ro"], None),
    ]
    for number, (decide, signers, refusal) in enumerate(course):
        decide()
        assert names(books) == signers
        if refusal is None:
            reserve(books, f"r{number}", "two", amount=Fraction(1, 100))
            continue
        with pytest.raises(NotApproved, match=refusal):
            reserve(books, f"r{number}", "two", amount=Fraction(1, 100))
        if number < 3:  # what is paid for may be finished
            with pytest.raises(NotApproved, match=refusal):
                books.precheck("two", amount=TENTH, spec_digest="s", product="p", period="2026")
    with pytest.raises(NotApproved, match="is approved for 1/10 and asks 1/5"):
        reserve(books, "more", "two", amount=2 * TENTH)
    assert [len(each.signers) for each in books.approvals()] == [1, 1, 1, 0, 1, 2, 0, 1, 2]
    found = books.reservation("r3")
    assert found is not None and found.approved is not None
    assert found.approved.key == key_id(public_hex(second)), "as it was then"
    assert [each.key for each in found.approved.others] == [key_id(public_hex(again))]
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
    with pytest.raises(BadValue, match=r"product: is needed.*--product"):
        books.approve("two", "s", by=third)
    books.approve("two", "s", by=first, amount=TENTH, product="q")  # another decision starts the count again
    assert names(books) == ["A. Ro"]
    books.approve("census", "s", by=first)
    with pytest.raises(Conflict, match=r"by A\. Ro, and"):
        books.approve("census", "s", by=second)
    books.revoke_key(key_id(public_hex(first)), reason="left", by=second)
    books.approve("census", "s", by=second)
    assert names(books, "census") == ["B. Ito"]
    books.verify()


def test_one_product_may_ask_for_more_than_its_account(
    books: Ledger, officers: list[Ed25519PrivateKey]
) -> None:
    first, second, _ = officers
    books.change_account("census", approvals_by_product={"p": 2}, reason="by decree")
    reserve(books, "other", product="q")
    books.approve("census", "s", by=first, product="p")
    with pytest.raises(NotApproved, match="1 of 2"):
        reserve(books)
    books.approve("census", "s", by=second, product="p")
    reserve(books)
    assert books.account("census").terms.approvals_for("p") == 2
    books.verify()


def test_an_approval_is_for_one_product(books: Ledger, officers: list[Ed25519PrivateKey]) -> None:
    """A charge of the same spec in another product's name does not avoid the second officer."""
    first, second, _ = officers
    census(books, "strict", needs_approval=True, by=first)
    books.approve("strict", "of any", by=first)
    books.approve("strict", "s", by=first, product="p")
    with pytest.raises(NotApproved, match="is approved for p, and is charged for q"):
        reserve(books, "other", "strict", product="q")
    books.change_account("strict", approvals_by_product={"p": 2}, reason="by decree", by=first)
    with pytest.raises(NotApproved, match="is approved for p, and is charged for q"):
        reserve(books, "other", "strict", product="q")
    with pytest.raises(NotApproved, match="is approved for no product, and is charged for q"):
        reserve(books, "other", "strict", product="q", spec_digest="of any")
    books.approve("strict", "s", by=second, product="q")  # the count starts again
    with pytest.raises(NotApproved, match="is approved for q, and is charged for p"):
        reserve(books, "r", "strict")
    reserve(books, "other", "strict", product="q")
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


def test_a_draft_is_published_when_two_officers_have_accepted_it(
    books: Ledger, officers: list[Ed25519PrivateKey]
) -> None:
    first, second, again = officers
    books.change_account("census", approvals_by_product={"p": 2}, reason="by decree")
    for by in (first, second):
        books.approve("census", "s", by=by, product="p")
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


def test_a_spec_of_one_officer_is_written_as_ever(books: Ledger) -> None:
    """Whoever asks for no more than one officer finds the entries that there were before."""
    census(books, "plain", approvals=1, approvals_by_product={})
    officer = enrolled(books)
    lay_out(books, account="plain")
    books.accept("r1", draft="d", by=officer)
    for entry in books.entries():
        assert not {"approvals", "approvals_by_product", "officers_left"} & entry.body.keys()
    assert books.draft("r1").criteria == CRITERIA  # type: ignore[union-attr]


@pytest.mark.parametrize("undone", ["nothing", "withdrawn", "revoked", "later"])
def test_an_approval_counts_that_held_then(books: Ledger, undone: str) -> None:
    key = enrolled(books)
    name, other = key_id(public_hex(key)), enrolled(books, by=key)
    spec = "5" * 64
    if undone != "later":
        books.approve("census", spec, by=key, amount=Fraction(1, 10))
    if undone == "withdrawn":
        books.unapprove("census", spec, by=key, reason="a test")
    if undone == "revoked":
        books.revoke_key(name, reason="a test", by=other)
    reserve(books, "r1", spec_digest=spec)
    if undone == "later":
        books.approve("census", spec, by=key)
    else:
        books.unapprove("census", spec, by=other, reason="too late for r1") if undone == "nothing" else None
    found = books.reservation("r1")
    assert found is not None
    if undone != "nothing":
        assert found.approved is None
        return
    assert found.approved is not None
    assert (found.approved.key, found.approved.most) == (name, Fraction(1, 10))
    assert found.approved.entry < found.entry
