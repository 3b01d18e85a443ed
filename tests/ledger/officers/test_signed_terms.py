"""Accounts opened, terms loosened, charges voided: while officers have keys, each is signed."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tabularium.ledger import ChainBroken, Entry, Head, Ledger, NotApproved, StorageFailed, Terms
from tabularium.ledger.events import canonical, columns, digest, make_entry
from tabularium.ledger.keys import key_id, public_hex, statement
from tests.ledger.chain.test_entries import forged
from tests.ledger.scene import census, open_books, reserve, sqlite, verify_entries

LOOSER: list[tuple[dict[str, Any], str]] = [
    ({"cap": Fraction(2)}, "cap"),
    ({"cap_per_period": Fraction(3, 5)}, "cap_per_period"),
    ({"cap_per_period": None}, "cap_per_period"),
    ({"cap_per_product": Fraction(3, 5)}, "cap_per_product"),
    ({"cap_per_product": None}, "cap_per_product"),
    ({"opens_on": "2019-12-31"}, "opens_on"),
    ({"opens_on": None}, "opens_on"),
    ({"closes_on": "2100-01-02"}, "closes_on"),
    ({"closes_on": None}, "closes_on"),
    ({"needs_approval": False}, "needs_approval"),
    ({"approve_exact": False}, "approve_exact"),
    (
        {"cap": Fraction(1, 2), "closes_on": None},
        "closes_on",
    ),  # tighter in one thing does not pay for another
]
TIGHTER: list[dict[str, Any]] = [
    {"cap": Fraction(9, 10)},
    {"cap_per_period": Fraction(2, 5)},
    {"cap_per_product": Fraction(2, 5)},
    {"opens_on": "2020-01-02"},
    {"closes_on": "2099-12-31"},
]
FULL: dict[str, Any] = {
    **{"cap_per_period": Fraction(1, 2), "cap_per_product": Fraction(1, 2)},
    **{"opens_on": "2020-01-01", "closes_on": "2100-01-01", "needs_approval": True},
    **{"approve_exact": True},
}


def key() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.generate()


@pytest.fixture
def officer(books: Ledger) -> Ed25519PrivateKey:
    """An enrolled key, in a ledger with the accounts ``census`` (plain) and ``full`` (every term set)."""
    made = key()
    census(books, "full", **FULL)
    books.enrol_key(public_hex(made), officer="A. Ro", by=made)
    return made


def test_what_loosens_is_signed_and_what_tightens_need_not_be(
    books: Ledger, officer: Ed25519PrivateKey
) -> None:
    for change, named in LOOSER:
        head = books.head()
        with pytest.raises(
            NotApproved, match=f"account full: loosening {named} needs an officer's signature"
        ):
            books.change_account("full", reason="x", **change)
        with pytest.raises(NotApproved, match="is not enrolled"):
            books.change_account("full", reason="x", by=key(), **change)
        assert books.head() == head
        changed = books.change_account("full", reason="decree", by=officer, **change)
        assert {name: getattr(changed.terms, name) for name in change} == change
        books.change_account("full", reason="back", by=officer, cap=Fraction(1), **FULL)
    for change in TIGHTER:
        books.change_account("full", reason="less", **change)
    assert books.verify().entries == 3 + 2 * len(LOOSER) + len(TIGHTER)
    with pytest.raises(NotApproved):
        books.change_account("census", cap=Fraction(2), reason="a key is enrolled, so here too")
    books.change_account("census", needs_approval=True, reason="from now on")


def test_without_keys_the_need_of_approval_alone_asks_for_a_signature(books: Ledger) -> None:
    books.change_account("census", cap=Fraction(2), reason="nobody has a key")
    books.change_account("census", needs_approval=True, reason="from now on")
    for change in ({"needs_approval": False}, {"cap": Fraction(3)}):
        with pytest.raises(NotApproved, match="needs an officer's signature"):
            books.change_account("census", reason="x", **change)  # type: ignore[arg-type]
    books.change_account("census", cap=Fraction(1), reason="less")
    made = key()
    books.enrol_key(public_hex(made), officer="A. Ro", by=made)
    books.change_account("census", needs_approval=False, cap=Fraction(3), reason="decree", by=made)
    books.revoke_key(key_id(public_hex(made)), reason="left", by=made)
    with pytest.raises(NotApproved, match="was revoked"):
        books.change_account("census", cap=Fraction(4), reason="x", by=made)
    books.change_account("census", cap=Fraction(4), reason="no key is active")
    books.verify()


@sqlite
def test_a_cap_below_what_is_used_is_named(books: Ledger) -> None:
    reserve(books, amount=Fraction(1, 2))
    books.change_account("census", cap=Fraction(1, 2), reason="less")
    with pytest.raises(ChainBroken, match="entry 3 sets a cap below what is used"):
        verify_entries(forged(list(books.entries()), 3, lambda body: body | {"cap": "1/4"}))


def test_closing_an_account_again_does_not_open_it_meanwhile(
    books: Ledger, officer: Ed25519PrivateKey
) -> None:
    del officer
    books.change_account("census", closes_on="2020-02-01", reason="over")
    head = books.head()
    assert books.close_account("census", reason="over").terms.closes_on == "2020-02-01"
    assert books.head() == head


def appended(books: Ledger, kind: str, fields: dict[str, Any], **more: Any) -> int:
    """Append an entry as somebody does who has the database and writes to it with his own program."""
    database = books._transactions.database
    with database.write() as connection:
        head, at = books.head(), list(books.entries())[-1].body["at"]
        body, entry = make_entry(head, kind, at, fields)
        if more:
            body |= more
            text = canonical(body)
            entry = Entry(entry.seq, entry.prev, digest(text), text)
        database.backend.append(connection, entry, columns(body))
    books._transactions.witness.advance(Head(entry.seq, entry.hash))
    return entry.seq


def relaxed_terms(books: Ledger, account: str = "full") -> dict[str, Any]:
    """The fields of an unsigned entry that takes the need of approval away."""
    found = books.account(account)
    return {**found.terms.fields(), **{"account_reserved": "0/1", "account_spent": "0/1"}} | {
        **{"needs_approval": False, "reason": "it was in the way"},
    }


def test_an_unsigned_loosening_put_into_the_database_is_named(
    books: Ledger, officer: Ed25519PrivateKey
) -> None:
    del officer
    seq = appended(books, "terms", relaxed_terms(books))
    assert not books.account("full").terms.needs_approval
    with pytest.raises(ChainBroken, match=f"entry {seq} loosens an account's terms without an officer's"):
        books.verify()


def test_a_loosening_signed_by_a_stranger_or_an_old_one_again_is_named(
    place: Path, books: Ledger, officer: Ed25519PrivateKey
) -> None:
    del place
    books.change_account("full", needs_approval=False, reason="decree", by=officer)
    signed = {
        name: value
        for name, value in list(books.entries())[-1].body.items()
        if name not in ("at", "kind", "prev", "seq", "v")
    }
    assert signed["turn"] == 0
    books.change_account("full", needs_approval=True, reason="it was wrong")  # tightens: unsigned
    entries = list(books.entries())
    ledger, stranger = entries[0].hash, key()
    fake = {**signed, "turn": 2, "by": key_id(public_hex(stranger))}
    forgeries: list[tuple[dict[str, Any], str]] = [
        (signed, "is signed for another turn"),
        ({**signed, "turn": 2}, "has a signature that is not its key's"),
        (
            {**fake, "signature": stranger.sign(statement(ledger, "terms", fake)).hex()},
            "is signed with a key that is not enrolled",
        ),
        ({name: value for name, value in signed.items() if name != "by"}, "has a field that is missing"),
    ]
    for fields, named in forgeries:
        _body, entry = make_entry(books.head(), "terms", entries[-1].body["at"], fields)
        with pytest.raises(ChainBroken, match=f"entry {entry.seq} {named}"):
            verify_entries([*entries, entry])
    other = {**signed, "turn": 2, "cap": "2/1"}
    other["signature"] = officer.sign(statement("0" * 64, "terms", other)).hex()  # of another ledger
    _body, entry = make_entry(books.head(), "terms", entries[-1].body["at"], other)
    with pytest.raises(ChainBroken, match="has a signature"):
        verify_entries([*entries, entry])
    other["signature"] = officer.sign(statement(ledger, "terms", other)).hex()
    _body, entry = make_entry(books.head(), "terms", entries[-1].body["at"], other)
    assert verify_entries([*entries, entry]).entries == len(entries) + 1


def test_on_a_server_no_other_format_is_appended_at_all(place: Path, engine: str, books: Ledger) -> None:
    if engine == "sqlite":
        pytest.skip("SQLite has no function that appends; verify sees it")
    with pytest.raises(StorageFailed, match="does not continue the chain"):
        appended(books, "terms", relaxed_terms(books, "census"), v=2)
    with open_books(place) as again:
        assert again.verify().entries == 1


def test_accounts_are_opened_and_charges_voided_with_a_signature(
    books: Ledger, officer: Ed25519PrivateKey
) -> None:
    head = books.head()
    assert census(books).cap == 1, "what is open is found, and needs no signature"
    with pytest.raises(NotApproved, match="account third: opening an account needs an officer's signature"):
        census(books, "third")
    with pytest.raises(NotApproved, match="is not enrolled"):
        census(books, "third", by=key())
    assert books.head() == head
    census(books, "third", by=officer)
    for release, account in (("r1", "census"), ("r2", "third"), ("r3", "third")):
        reserve(books, release, account)
    head = books.head()
    with pytest.raises(NotApproved, match="release r1: voiding a charge needs an officer's signature"):
        books.void("r1", "mistake")
    with pytest.raises(NotApproved, match="is not enrolled"):
        books.void("r1", "mistake", by=key())
    assert books.head() == head
    assert books.void("r1", "mistake", by=officer).state == "voided"
    assert books.void("r1", "again").reason == "mistake"
    books.drawing("r2")
    books.abandon("r2", "spent for ever, so nobody need sign")
    books.revoke_key(key_id(public_hex(officer)), reason="left", by=officer)
    books.void("r3", "nobody has a key")
    census(books, "fourth")
    assert books.verify().entries == 13


def put(books: Ledger, kind: str, fields: dict[str, Any]) -> list[Entry]:
    """The chain of the ledger, with one more entry."""
    entries = list(books.entries())
    return [*entries, make_entry(books.head(), kind, entries[-1].body["at"], fields)[1]]


def test_an_unsigned_or_wrongly_signed_opening_is_named(books: Ledger, officer: Ed25519PrivateKey) -> None:
    sums = {"account_reserved": "0/1", "account_spent": "0/1"}
    unsigned = {**books.account("census").terms.fields(), **sums, "account": "third"}
    entries, ledger = list(books.entries()), next(iter(books.entries())).hash
    seq = len(entries) + 1
    fields = {**unsigned, "by": key_id(public_hex(officer)), "turn": 0}
    signature = officer.sign(statement(ledger, "account", fields)).hex()
    signed = {**fields, "signature": signature}
    assert verify_entries(put(books, "account", signed)).accounts == 3
    for wrong, named in (
        (unsigned, "opens an account without an officer's signature"),
        ({**signed, "cap": "2/1"}, "has a signature that is not its key's"),
        ({**signed, "turn": 1}, "is signed for another turn"),
        ({**signed, "by": "0" * 32}, "is signed with a key that is not enrolled"),
        ({**fields}, "has a field that is missing"),
    ):
        with pytest.raises(ChainBroken, match=f"entry {seq} {named}"):
            verify_entries(put(books, "account", wrong))


def test_an_unsigned_or_wrongly_signed_voiding_is_named(books: Ledger, officer: Ed25519PrivateKey) -> None:
    reserve(books, "r1")
    reserve(books, "r2")
    before = list(books.entries())
    books.void("r2", "mistake", by=officer)
    entries = list(books.entries())
    signed = entries[-1].body
    assert verify_entries(entries).entries == len(entries)
    bare = {name: value for name, value in signed.items() if name not in ("by", "signature", "turn")}
    for wrong, named in (
        (bare, "voids a charge without an officer's signature"),
        ({**signed, "release_id": "r1"}, "has a signature that is not its key's"),
        ({**signed, "reason": "another"}, "has a signature that is not its key's"),
        ({**signed, "turn": 1}, "is signed for another turn"),
        ({**bare, "signature": signed["signature"]}, "has a field that is missing"),
    ):
        fields = {name: wrong[name] for name in wrong if name not in ("at", "kind", "prev", "seq", "v")}
        _body, entry = make_entry(Head(before[-1].seq, before[-1].hash), "voided", signed["at"], fields)
        with pytest.raises(ChainBroken, match=f"entry {entry.seq} {named}"):
            verify_entries([*before, entry])


def test_every_term_is_loosened_or_not() -> None:
    """Each term of an account is compared, or never changes."""
    fixed = {"name", "unit", "population", "relation", "definition", "quantum", "delta"}
    raised = {"approvals", "approvals_by_product"}  # and never lowered
    assert set(Terms.__dataclass_fields__) == fixed | raised | {named for _change, named in LOOSER}
