"""The agency's keys for releases: who enrols them, what they are kept apart from, and what is published."""

from __future__ import annotations

from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tabularium.ledger import BadValue, ChainBroken, Conflict, Ledger, NotApproved
from tabularium.ledger.keys import key_id, public_hex
from tabularium.ledger.records import release_keys_of
from tests.ledger.officers.test_officers import enrolled, key
from tests.ledger.scene import finish, reserve, sqlite, verify_entries

STATEMENT = "5" * 64


def for_releases(books: Ledger, by: Ed25519PrivateKey, agency: str = "Statistics") -> Ed25519PrivateKey:
    made = key()
    books.enrol_release_key(public_hex(made), agency=agency, by=by)
    return made


def test_a_key_for_releases_is_enrolled_rotated_and_revoked_by_officers(books: Ledger) -> None:
    stranger, made = key(), key()
    with pytest.raises(NotApproved, match="is not enrolled"):
        books.enrol_release_key(public_hex(made), agency="Statistics", by=stranger)
    officer = enrolled(books)
    first = books.enrol_release_key(public_hex(made), agency="Statistics", by=officer)
    assert (first.key, first.agency, first.active) == (key_id(public_hex(made)), "Statistics", True)
    head = books.head()
    assert books.enrol_release_key(public_hex(made).upper(), agency="Statistics", by=officer) == first
    assert books.head() == head, "the same again is no entry"
    second = key_id(public_hex(for_releases(books, officer)))
    with pytest.raises(NotApproved):
        books.revoke_release_key(first.key, reason="replaced", by=made)
    revoked = books.revoke_release_key(first.key, reason="replaced", by=officer)
    assert (revoked.enrolled, revoked.revoked) == (first.enrolled, books.head().seq)
    assert books.revoke_release_key(first.key, reason="again", by=officer) == revoked
    assert [found.active for found in books.release_keys().values()] == [False, True]
    assert not revoked.vouches_for(first.enrolled)
    assert revoked.vouches_for(first.enrolled + 1)
    assert not revoked.vouches_for(books.head().seq + 1)
    with pytest.raises(Conflict, match="enrolled before"):
        books.enrol_release_key(public_hex(made), agency="Statistics", by=officer)
    with pytest.raises(BadValue, match="never enrolled for releases"):
        books.revoke_release_key("0" * 32, reason="x", by=officer)
    assert books.release_keys() == release_keys_of(entry.body for entry in books.entries())
    found = books.verify()
    assert (found.keys, found.release_keys) == (1, 1)
    assert second in books.release_keys()


def test_a_key_is_never_both_an_officers_and_one_for_releases(books: Ledger) -> None:
    officer = enrolled(books)
    for publisher in (officer, key()):
        if publisher is not officer:
            books.enrol_key(public_hex(publisher), officer="B. Ito", by=officer)
            books.revoke_key(key_id(public_hex(publisher)), reason="left", by=officer)
        with pytest.raises(Conflict, match="is an officer's"):
            books.enrol_release_key(public_hex(publisher), agency="Statistics", by=officer)
    of_releases = for_releases(books, officer)
    with pytest.raises(Conflict, match="can never be an officer's"):
        books.enrol_key(public_hex(of_releases), officer="B. Ito", by=officer)
    with pytest.raises(NotApproved):
        books.approve("census", "s", by=of_releases)
    with pytest.raises(BadValue, match="never enrolled"):
        books.revoke_key(key_id(public_hex(of_releases)), reason="x", by=officer)
    with pytest.raises(BadValue, match="never enrolled for releases"):
        books.revoke_release_key(key_id(public_hex(officer)), reason="x", by=officer)
    books.verify()


def test_a_key_for_releases_alone_lets_nobody_enrol_himself(books: Ledger) -> None:
    """Once no officer is left, the next one vouches for himself, and not with a key for releases."""
    officer = enrolled(books)
    of_releases = for_releases(books, officer)
    books.revoke_key(key_id(public_hex(officer)), reason="left", by=officer)
    with pytest.raises(NotApproved):
        books.revoke_release_key(key_id(public_hex(of_releases)), reason="x", by=of_releases)
    enrolled(books, "B. Ito")
    books.verify()


def test_what_is_published_names_its_statement(books: Ledger) -> None:
    reserve(books)
    fence = books.drawing("r1")
    books.measured("r1", fence, digest="m")
    with pytest.raises(BadValue, match=r"^statement: is no SHA-256"):
        books.published("r1", fence, digest="p", statement="5" * 63 + "F")
    charge = books.published("r1", fence, digest="p", statement=STATEMENT)
    assert charge.statement == STATEMENT
    assert books.published("r1", fence, digest="p", statement=STATEMENT) == charge
    for other in (None, "6" * 64):
        with pytest.raises(Conflict, match="with another statement"):
            books.published("r1", fence, digest="p", statement=other)
    reserve(books, "r2")
    assert finish(books, "r2").statement is None
    books.verify()


@sqlite
def test_forged_entries_cannot_make_one_key_both(books: Ledger) -> None:
    """As the very officer would write them who has both private halves."""
    from tabularium.ledger.events import make_entry
    from tabularium.ledger.keys import statement
    from tabularium.ledger.records import Entry

    officer = enrolled(books)
    name = {"key": key_id(public_hex(officer)), "public_key": public_hex(officer)}
    first = books.chain()

    def next_entry(kind: str, fields: dict[str, Any]) -> Entry:
        signature = officer.sign(statement(first, kind, fields)).hex()
        return make_entry(
            books.head(), kind, "2999-01-01T00:00:00.000000Z", {**fields, "signature": signature}
        )[1]

    turn = {"by": name["key"], "turn": 1}
    for kind, fields in (
        ("release_key", {**name, **turn, "agency": "Statistics"}),
        ("key", {**name, **turn, "officer": "B. Ito"}),
    ):
        with pytest.raises(ChainBroken, match="entry 3 enrols a key that is known"):
            verify_entries([*books.entries(), next_entry(kind, fields)])


def test_an_export_carries_keys_and_statements(books: Ledger, place: Any) -> None:
    from tabularium.ledger.export import export, restore, verify_export
    from tests.ledger.scene import forget_witnesses

    for_releases(books, enrolled(books))
    reserve(books)
    fence = books.drawing("r1")
    books.measured("r1", fence, digest="m")
    books.published("r1", fence, digest="p", statement=STATEMENT)
    told: list[dict[str, Any]] = []
    export(books, place / "books.txt")
    assert verify_export(place / "books.txt", see=lambda entry: told.append(entry.body)).release_keys == 1
    assert release_keys_of(told) == books.release_keys()
    assert told[-1]["statement"] == STATEMENT
    forget_witnesses(place)
    restore(place / "books.txt", f"sqlite:///{place / 'again.db'}")
    with Ledger.connect(f"sqlite:///{place / 'again.db'}") as again:
        assert again.release_keys() == books.release_keys()
        found = again.charge("r1")
        assert found is not None and found.statement == STATEMENT
