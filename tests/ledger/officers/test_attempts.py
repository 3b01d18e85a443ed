"""More than three attempts to draw: who may allow them, and what ``verify`` says where nobody did."""

from __future__ import annotations

from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tabularium.ledger import AccountClosed, ChainBroken, Ledger, NotApproved, UnknownRelease, WrongState
from tabularium.ledger.keys import public_hex
from tests.ledger.chain.test_verify_forged import CHARGED, DRAWING, OPENED, TERMS, Step, chain
from tests.ledger.scene import reserve, verify_entries

ALLOWED: dict[str, Any] = {
    **{"account": "census", "account_reserved": "0/1", "account_spent": "1/10"},
    **{"allowed": 6, "reason": "the disk was full", "release": "r1"},
}
OTHER: Step = ("account", TERMS | {"account": "other"})


def drawn(times: int) -> list[Step]:
    return [OPENED, CHARGED, *(("drawing", DRAWING | {"fence": 1 + time}) for time in range(times))]


def draw(books: Ledger, times: int) -> int:
    return [books.drawing("r1") for _ in range(times)][-1]


def test_a_fourth_attempt_is_asked_for_and_three_more_are_allowed(books: Ledger) -> None:
    reserve(books)
    reserve(books, "r2")
    draw(books, 3)
    before = books.head()
    for _ in range(2):
        books.drawing("r2")
        with pytest.raises(NotApproved, match="release r1: its drawing was cut off 3 times, and an officer"):
            books.drawing("r1")
        with pytest.raises(NotApproved, match="tabularium ledger allow-attempts r1"):
            books.precheck_drawing("r1")
    assert books.head().seq == before.seq + 2
    assert books.allow_attempts("r1", reason="the disk was full") == 6
    assert books.allow_attempts("r1", reason="once more, which nobody needs") == 6
    books.precheck_drawing("r1")
    assert draw(books, 3) == 6
    with pytest.raises(NotApproved, match="6 times"):
        books.drawing("r1")
    assert books.allow_attempts("r1", reason="again") == 9
    fence = books.drawing("r1")
    books.measured("r1", fence, digest="m")
    assert [e.body["allowed"] for e in books.entries() if e.body["kind"] == "attempts"] == [6, 9]
    account = books.account("census")
    assert (account.reserved, account.spent) == (0, account.cap - account.left)
    assert books.verify().charges == 2


def test_a_hint_names_the_key_once_one_is_enrolled(books: Ledger) -> None:
    reserve(books)
    draw(books, 3)
    with pytest.raises(NotApproved) as before:
        books.drawing("r1")
    key = Ed25519PrivateKey.generate()
    books.enrol_key(public_hex(key), officer="A. Ro", by=key)
    with pytest.raises(NotApproved) as after:
        books.drawing("r1")
    assert "--key" not in before.value.hint and after.value.hint == f"{before.value.hint} --key FILE"
    books.close_account("census", reason="over")
    with pytest.raises(AccountClosed, match=r"tabularium ledger change census --reason … --key FILE"):
        reserve(books, "r2")


def test_only_what_is_being_drawn_is_allowed_more(books: Ledger) -> None:
    for release in ("r1", "r0"):
        with pytest.raises((WrongState, UnknownRelease), match=r"is not being drawn|was never reserved"):
            books.allow_attempts(release, reason="x")
        reserve(books)
    books.measured("r1", books.drawing("r1"), digest="m")
    with pytest.raises(WrongState, match="is not being drawn"):
        books.allow_attempts("r1", reason="x")


@pytest.mark.parametrize("guard", ["key", "approval"])
def test_where_officers_have_keys_or_approve_it_is_signed(books: Ledger, guard: str) -> None:
    officer, stranger = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    reserve(books)
    draw(books, 3)
    if guard == "key":
        books.enrol_key(public_hex(officer), officer="A. Reyes", by=officer)
    else:
        books.change_account("census", reason="new rule", needs_approval=True)
    with pytest.raises(NotApproved, match="needs an officer's signature"):
        books.allow_attempts("r1", reason="x")
    with pytest.raises(NotApproved, match="is not enrolled"):
        books.allow_attempts("r1", reason="x", by=stranger)
    if guard == "approval":
        books.enrol_key(public_hex(officer), officer="A. Reyes", by=officer)
    assert books.allow_attempts("r1", reason="x", by=officer) == 6
    assert "signature" in list(books.entries())[-1].body
    books.drawing("r1")
    books.verify()


def test_attempts_that_were_allowed_are_in_order() -> None:
    six = [*drawn(3), ("attempts", ALLOWED), *drawn(6)[5:]]
    verify_entries(chain(*six, ("attempts", ALLOWED | {"allowed": 9}), *drawn(7)[8:]))


@pytest.mark.parametrize(
    ("steps", "wrong"),
    [
        (drawn(4), "entry 6 begins to draw more often than is allowed"),
        ([*drawn(3), ("attempts", ALLOWED), *drawn(7)[5:]], "entry 10 begins to draw more often"),
        ([*drawn(2), ("attempts", ALLOWED | {"allowed": 5})], "entry 5 allows attempts before"),
        ([*drawn(3), ("attempts", ALLOWED | {"allowed": 7})], "entry 6 allows attempts before"),
        ([*drawn(3), ("attempts", ALLOWED), ("attempts", ALLOWED)], "entry 7 allows attempts before"),
        ([*drawn(3), ("attempts", ALLOWED | {"release": "r2"})], "entry 6 allows attempts for what"),
        ([OPENED, CHARGED, ("attempts", ALLOWED)], "entry 3 allows attempts for what"),
        ([*drawn(3), ("attempts", ALLOWED | {"account_spent": "0/1"})], "entry 6 has a wrong running sum"),
        ([*drawn(3), ("attempts", ALLOWED | {"reason": ""})], "entry 6 has a field"),
        ([OTHER, *drawn(3), ("attempts", ALLOWED | {"account": "other"})], "entry 7 allows attempts for"),
    ],
)
def test_attempts_that_nobody_allowed_are_named(steps: list[Step], wrong: str) -> None:
    with pytest.raises(ChainBroken, match=wrong):
        verify_entries(chain(*steps))


def test_a_permission_without_the_signature_that_it_needs_is_named() -> None:
    tightened = ("terms", {**TERMS, "account_spent": "1/10", "needs_approval": True, "reason": "x"})
    with pytest.raises(ChainBroken, match="entry 7 allows attempts without an officer's signature"):
        verify_entries(chain(*drawn(3), tightened, ("attempts", ALLOWED)))
