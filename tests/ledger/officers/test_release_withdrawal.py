"""A published release is withdrawn by an officer, once, and nothing of its budget comes back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tabularium.ledger import (
    BadValue,
    ChainBroken,
    Ledger,
    NotApproved,
    StorageFailed,
    UnknownRelease,
    WrongState,
)
from tabularium.ledger.export import export, restore, verify_export
from tabularium.ledger.keys import key_id, public_hex
from tests.ledger.chain.test_verify_forged import CHARGED, DONE, DRAWN, MEASURED, OPENED, chain
from tests.ledger.officers.test_officers import enrolled, key
from tests.ledger.scene import finish, new_place, open_books, postgresql, reserve, url, verify_entries
from tests.ledger.storage.logins import LogIn

REASON = "a region was coded twice"


@pytest.fixture
def officer(books: Ledger) -> Ed25519PrivateKey:
    return enrolled(books)


def test_a_withdrawal_is_signed_and_said_once_and_gives_nothing_back(
    books: Ledger, officer: Ed25519PrivateKey
) -> None:
    reserve(books)
    for early in ("reserved", "drawing"):
        with pytest.raises(WrongState, match=f"is {early}, and only what is published is withdrawn"):
            books.withdraw("r1", reason=REASON, by=officer)
        if early == "reserved":
            books.drawing("r1")
    books.measured("r1", 1, digest="m")
    books.published("r1", 1, digest="c")
    before, charge = books.balance("census"), books.charge("r1")
    assert books.withdrawal("r1") is None
    for refused, reason, by, named in (
        (NotApproved, REASON, key(), "is not enrolled"),
        (BadValue, "two\nlines", officer, "reason"),
        (UnknownRelease, REASON, officer, "release r2: was never reserved"),
    ):
        with pytest.raises(refused, match=named):
            books.withdraw("r2" if refused is UnknownRelease else "r1", reason=reason, by=by)
    said = books.withdraw("r1", reason=REASON, by=officer)
    assert (said.release_id, said.reason, said.key) == ("r1", REASON, key_id(public_hex(officer)))
    assert said.entry == books.head().seq
    assert books.withdraw("r1", reason="other words", by=officer) == said == books.withdrawal("r1")
    assert (books.head().seq, books.balance("census"), books.charge("r1")) == (said.entry, before, charge)
    books.verify()


def test_what_was_withdrawn_is_compared_with_no_more(books: Ledger, officer: Ed25519PrivateKey) -> None:
    """Nor are the tallies that were published with it; a release that it revised is, again."""
    for release, digest in (("first", "a"), ("tallies", "b"), ("second", "b")):
        reserve(books, release)
        fence = books.drawing(release)
        books.measured(release, fence, digest="m")
        books.published(release, fence, digest=digest)
    before = [charge.release_id for charge in books.published_before("census", "p", "2027")]
    assert before == ["second", "tallies", "first"]
    books.withdraw("second", reason=REASON, by=officer)
    assert [charge.release_id for charge in books.published_before("census", "p", "2027")] == ["first"]


def test_a_withdrawal_goes_through_an_export(place: Path, books: Ledger, officer: Ed25519PrivateKey) -> None:
    finish(books, reserve(books).release_id)
    said = books.withdraw("r1", reason=REASON, by=officer)
    export(books, place / "books.txt")
    assert verify_export(place / "books.txt") == books.verify()
    again = new_place(place, "again")
    restore(place / "books.txt", url(again))
    with open_books(again) as restored:
        assert restored.withdrawal("r1") == said


def test_a_withdrawal_that_the_program_would_not_write_is_named() -> None:
    said: dict[str, Any] = {
        **{"account": "census", "account_reserved": "0/1", "account_spent": "1/10", "reason": "x"},
        **{"release": "r1", "by": "0" * 32, "signature": "0" * 128, "turn": 0},
    }
    drawn = [OPENED, CHARGED, DRAWN, DONE]
    published = ("published", MEASURED | {"publication_digest": "c"})
    unsigned = {name: value for name, value in said.items() if name not in ("by", "signature", "turn")}
    for steps, wrong in (
        ([*drawn, ("withdrawn", said)], "entry 5 withdraws what is not published"),
        ([*drawn, published, ("withdrawn", unsigned)], "entry 6 has a field that is missing"),
        ([*drawn, published, ("withdrawn", said)], "entry 6 is signed with a key that is not enrolled"),
    ):
        with pytest.raises(ChainBroken, match=wrong):
            verify_entries(chain(*steps))


@postgresql
def test_a_writer_withdraws_nothing(log_in: LogIn, books: Ledger, officer: Ed25519PrivateKey) -> None:
    with Ledger.connect(log_in("writer")) as writer:
        finish(writer, reserve(writer).release_id)
        with pytest.raises(StorageFailed, match="lets only a disclosure officer write"):
            writer.withdraw("r1", reason=REASON, by=officer)
        with Ledger.connect(log_in("officer")) as deciding:
            said = deciding.withdraw("r1", reason=REASON, by=officer)
        assert writer.withdrawal("r1") == said
    books.verify()
