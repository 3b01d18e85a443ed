"""How a charge was reserved: read from its entry, whatever came later."""

from __future__ import annotations

from fractions import Fraction

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tabularium.ledger import Ledger
from tabularium.ledger.keys import public_hex
from tests.ledger.scene import finish, reserve


def enrolled(books: Ledger, by: Ed25519PrivateKey | None = None) -> tuple[Ed25519PrivateKey, str]:
    key = Ed25519PrivateKey.generate()
    return key, books.enrol_key(public_hex(key), officer="A. Ro", by=by or key).key


def test_what_was_never_reserved_has_none(books: Ledger) -> None:
    assert books.reservation("r1") is None


def test_the_figures_are_those_of_the_entry_and_never_change(books: Ledger) -> None:
    cap = books.account("census").cap
    amount = reserve(books, "r1").amount
    finish(books, "r1")
    reserve(books, "gone")
    books.void("gone", reason="a test")
    reserve(books, "r2")
    found = books.reservation("r2")
    assert found is not None
    body = {entry.seq: entry.body for entry in books.entries()}[found.entry]
    assert (body["kind"], body["release_id"], body["at"]) == ("reserved", "r2", found.at)
    assert (found.before.used, found.after.used) == (amount, 2 * amount)
    assert (found.charges, found.releases, found.terms.cap) == (2, 1, cap)
    finish(books, "r2")
    reserve(books, "r3")
    books.change_account("census", cap=cap - Fraction(1, 1000), reason="a test")
    assert books.reservation("r2") == found
    assert books.reservation("r1") != found


@pytest.mark.parametrize("undone", ["nothing", "withdrawn", "revoked", "later"])
def test_an_approval_counts_that_held_then(books: Ledger, undone: str) -> None:
    key, name = enrolled(books)
    other, _ = enrolled(books, by=key)
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
