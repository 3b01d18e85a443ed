"""Officers' decisions, each without keys, unsigned, by a stranger, by a revoked key, signed, and again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tabularium.ledger import (
    BadValue,
    ChainBroken,
    Conflict,
    Ledger,
    NotApproved,
    Terms,
    UnknownRelease,
    WrongState,
    events,
)
from tabularium.ledger.events import make_entry
from tabularium.ledger.export import append_restore_marker
from tabularium.ledger.keys import key_id, make_key, public_hex, read_private, read_public, statement
from tabularium.ledger.records import Entry, release_keys_of
from tests.ledger.scene import census, enrolled, finish, key, lay_out, reserve, step, verify_entries

OTHER = Ed25519PrivateKey.generate()
WHY = {"reason": "x"}
Act = Callable[[Ledger, Any], object]


def nothing(books: Ledger, by: Any) -> None:
    del books, by


def put_back(books: Ledger, by: Any) -> None:
    del by
    with books._transactions.database.write() as connection:
        append_restore_marker(connection, datetime.now(UTC))


def apart(books: Ledger, by: Any) -> None:
    books.declare_disjoint("census", "wages", by=by, **WHY)


@dataclass(frozen=True)
class Decision:
    """A decision, what comes before it, and whether it is signed where no officer has a key too."""

    kind: str
    decide: Act
    before: Act = nothing
    always: bool = True
    once: bool = True


def attempted(books: Ledger, by: Any) -> None:
    del by
    step(books, "r1", "drawing")
    for _ in range(2):
        books.drawing("r1")


DECISIONS = [
    Decision("account", lambda books, by: census(books, "new", by=by), always=False),
    Decision(
        "terms", lambda books, by: books.change_account("census", cap=Fraction(2), by=by, **WHY), always=False
    ),
    Decision("retired", lambda books, by: books.retire_account("wages", by=by, **WHY), always=False),
    Decision(
        "voided",
        lambda books, by: books.void("r1", "x", by=by),
        lambda books, by: reserve(books),
        always=False,
    ),
    Decision(
        "abandoned",
        lambda books, by: books.abandon("r1", "x", by=by),
        lambda books, by: step(books, "r1", "measured", review=True),
    ),
    Decision("attempts", lambda books, by: books.allow_attempts("r1", by=by, **WHY), attempted, always=False),
    Decision(
        "confirmed",
        lambda books, by: books.confirm([*books.entries()][-1].prev, by=by),
        put_back,
        always=False,
        once=False,
    ),
    Decision("key", lambda books, by: books.enrol_key(public_hex(OTHER), officer="C. Li", by=by)),
    Decision(
        "release_key", lambda books, by: books.enrol_release_key(public_hex(OTHER), agency="Office", by=by)
    ),
    Decision(
        "revocation",
        lambda books, by: books.revoke_release_key(key_id(public_hex(OTHER)), by=by, **WHY),
        lambda books, by: books.enrol_release_key(public_hex(OTHER), agency="Office", by=by),
    ),
    Decision("approval", lambda books, by: books.approve("census", "s", by=by)),
    Decision(
        "unapproval",
        lambda books, by: books.unapprove("census", "s", by=by, **WHY),
        lambda books, by: books.approve("census", "s", by=by),
        once=False,
    ),
    Decision(
        "acceptance",
        lambda books, by: books.accept("r1", draft="d", by=by),
        lambda books, by: lay_out(books),
    ),
    Decision(
        "withheld",
        lambda books, by: books.withhold("r1", draft="d", criterion="implausible", by=by),
        lambda books, by: lay_out(books),
    ),
    Decision(
        "withdrawn",
        lambda books, by: books.withdraw("r1", by=by, **WHY),
        lambda books, by: finish(books, reserve(books).release_id),
    ),
    Decision(
        "evidence",
        lambda books, by: books.ask_for_evidence(books.charge("r1"), by=by, **WHY),  # type: ignore[arg-type]
        lambda books, by: reserve(books),
        once=False,
    ),
    Decision("disjoint", apart),
    Decision(
        "overlapping",
        lambda books, by: books.declare_disjoint("census", "wages", by=by, disjoint=False, **WHY),
        apart,
        once=False,
    ),
]
each = pytest.mark.parametrize("decision", DECISIONS, ids=[decision.kind for decision in DECISIONS])


def test_every_kind_that_can_be_signed_is_a_decision() -> None:
    signed = {kind for kind, event in events.KINDS.items() if "signed" in event.model_fields}
    assert {decision.kind for decision in DECISIONS} == signed


@pytest.fixture
def officers(books: Ledger) -> list[Ed25519PrivateKey]:
    """An officer's key, and one that was revoked; there is a second account, ``wages``."""
    census(books, "wages")
    first = enrolled(books)
    gone = enrolled(books, "B. Ito", first)
    books.revoke_key(key_id(public_hex(gone)), by=first, **WHY)
    return [first, gone]


@each
def test_where_no_officer_has_a_key(books: Ledger, decision: Decision) -> None:
    """What favours spending needs no signature then; what is an officer's word does, and nobody can."""
    census(books, "wages")
    if decision.always:
        with pytest.raises(NotApproved, match="is not enrolled"):
            for act in (decision.before, decision.decide):
                act(books, key())
        return
    decision.before(books, None)
    decision.decide(books, None)
    assert "by" not in [*books.entries()][-1].body
    books.verify()


@each
def test_who_decides(books: Ledger, officers: list[Ed25519PrivateKey], decision: Decision) -> None:
    first, gone = officers
    decision.before(books, first)
    head = books.head()
    for by in (key(), gone):
        with pytest.raises(NotApproved, match=r"is not enrolled, or was revoked; sign with an enrolled key"):
            decision.decide(books, by)
    if not decision.always or decision.kind == "abandoned":
        with pytest.raises(NotApproved, match=r"needs an officer's signature; .* … --key FILE"):
            decision.decide(books, None)
    assert books.head() == head
    decision.decide(books, first)
    entries = [*books.entries()]
    assert len(entries) == head.seq + 1
    body = entries[-1].body
    assert (body["kind"], body["by"]) == (decision.kind, key_id(public_hex(first)))
    if decision.once:
        decision.decide(books, first)
        assert books.head().seq == head.seq + 1, "the same again is no entry"
    books.verify()
    _forged_signatures(entries, first, gone)


def _forged_signatures(entries: list[Entry], first: Ed25519PrivateKey, gone: Ed25519PrivateKey) -> None:
    """The last entry, signed by others or otherwise, and once more: verification names each."""
    *before, last = entries
    fields = {
        name: value for name, value in last.body.items() if name not in ("at", "kind", "prev", "seq", "v")
    }
    kind, ledger = last.body["kind"], entries[0].hash

    def signed(by: Ed25519PrivateKey, **change: Any) -> dict[str, Any]:
        said = fields | {"by": key_id(public_hex(by))} | change
        return said | {"signature": by.sign(statement(ledger, kind, said)).hex()}

    stranger = signed(key())
    for forged, named in (
        (signed(first), None),
        (signed(gone), "is signed with a key that is not enrolled"),
        (stranger, "is signed with a key that is not enrolled"),
        (fields | {"signature": stranger["signature"]}, "has a signature that is not its key's"),
        (fields | {"signature": first.sign(statement("0" * 64, kind, fields)).hex()}, "has a signature"),
        (signed(first, turn=fields["turn"] + 1), "is signed for another turn"),
        ({name: value for name, value in fields.items() if name != "by"}, "has a field that is missing"),
    ):
        entry = make_entry(before[-1].head, kind, last.body["at"], forged)[1]
        if named is None:
            assert entry == last
            continue
        with pytest.raises(ChainBroken, match=f"entry {last.seq} {named}"):
            verify_entries([*before, entry])
    replay = make_entry(last.head, kind, last.body["at"], fields)[1]
    with pytest.raises(ChainBroken, match=f"entry {replay.seq} "):
        verify_entries([*entries, replay])


LOOSER: list[tuple[dict[str, Any], str]] = [
    ({"cap": Fraction(2)}, "cap"),
    *(({f"cap_per_{scope}": cap}, f"cap_per_{scope}") for scope in ("period", "product") for cap in (None, Fraction(3, 5))),
    *(({"opens_on": day}, "opens_on") for day in ("2019-12-31", None)),
    *(({"closes_on": day}, "closes_on") for day in ("2100-01-02", None)),
    ({"needs_approval": False}, "needs_approval"),
    ({"approve_exact": False}, "approve_exact"),
    ({"cap": Fraction(1, 2), "closes_on": None}, "closes_on"),  # tighter in one thing does not pay for another
]  # fmt: skip
TIGHTER: list[dict[str, Any]] = [
    *({name: Fraction(2, 5)} for name in ("cap", "cap_per_period", "cap_per_product")),
    *[{"opens_on": "2020-01-02"}, {"closes_on": "2099-12-31"}, {"approvals": 2}],
]
FULL: dict[str, Any] = {
    **{"cap_per_period": Fraction(1, 2), "cap_per_product": Fraction(1, 2)},
    **{"opens_on": "2020-01-01", "closes_on": "2100-01-01", "needs_approval": True},
    **{"approve_exact": True},
}


def test_what_loosens_is_signed_and_what_tightens_need_not_be(books: Ledger) -> None:
    census(books, "full", **FULL)
    officer = enrolled(books)
    for change, named in LOOSER:
        with pytest.raises(
            NotApproved, match=f"account full: loosening {named} needs an officer's signature"
        ):
            books.change_account("full", reason="x", **change)
        changed = books.change_account("full", reason="decree", by=officer, **change)
        assert {name: getattr(changed.terms, name) for name in change} == change
        books.change_account("full", reason="back", by=officer, cap=Fraction(1), **FULL)
    for change in TIGHTER:
        books.change_account("full", reason="less", **change)
    assert books.verify().entries == 3 + 2 * len(LOOSER) + len(TIGHTER)
    fixed = {"name", "unit", "population", "relation", "definition", "quantum", "delta"}
    raised = {"approvals", "approvals_by_product"}  # and never lowered
    assert set(Terms.__dataclass_fields__) == fixed | raised | {named for _change, named in LOOSER}


def test_without_keys_the_need_of_approval_alone_asks_for_a_signature(books: Ledger) -> None:
    books.change_account("census", needs_approval=True, reason="from now on")
    for ask in (
        lambda: books.change_account("census", needs_approval=False, reason="x"),
        lambda: books.change_account("census", cap=Fraction(3), reason="x"),
        lambda: books.retire_account("census", reason="x"),
    ):
        with pytest.raises(NotApproved, match="needs an officer's signature"):
            ask()
    books.change_account("census", cap=Fraction(1, 2), reason="less")
    officer = enrolled(books)
    books.change_account("census", needs_approval=False, cap=Fraction(3), reason="decree", by=officer)
    books.revoke_key(key_id(public_hex(officer)), reason="left", by=officer)
    books.change_account("census", cap=Fraction(4), reason="no key is active")
    books.verify()


def test_the_first_key_vouches_for_itself_and_a_revoked_one_never_comes_back(books: Ledger) -> None:
    first = enrolled(books)
    with pytest.raises(NotApproved):
        enrolled(books, "stranger")  # nobody vouches for the second but itself
    second = enrolled(books, "B. Ito", by=first)
    name = key_id(public_hex(second))
    assert not books.revoke_key(name, reason="lost", by=first).active
    with pytest.raises(Conflict, match="enrolled before"):
        books.enrol_key(public_hex(second), officer="B. Ito", by=first)
    with pytest.raises(BadValue, match="never enrolled"):
        books.revoke_key("0" * 32, reason="x", by=first)
    with pytest.raises(BadValue, match="no point of small order"):
        books.enrol_key("01" + 31 * "00", officer="B. Ito", by=first)
    books.revoke_key(key_id(public_hex(first)), reason="left", by=first)
    enrolled(books, "C. Li")
    assert books.verify().keys == 1


def test_a_key_for_releases_is_rotated_and_never_an_officers(books: Ledger) -> None:
    officer, made, other = enrolled(books), key(), key()
    first = books.enrol_release_key(public_hex(made).upper(), agency="Statistics", by=officer)
    assert (first.key, first.agency, first.active) == (key_id(public_hex(made)), "Statistics", True)
    books.enrol_release_key(public_hex(other), agency="Statistics", by=officer)
    for of_releases in (made, other):
        with pytest.raises(Conflict, match="can never be an officer's"):
            books.enrol_key(public_hex(of_releases), officer="B. Ito", by=officer)
        with pytest.raises(NotApproved):
            books.approve("census", "s", by=of_releases)
    revoked = books.revoke_release_key(first.key, reason="replaced", by=officer)
    assert (revoked.enrolled, revoked.revoked) == (first.enrolled, books.head().seq)
    assert [found.active for found in books.release_keys().values()] == [False, True]
    assert [revoked.vouches_for(first.enrolled + n) for n in (0, 1)] == [False, True]
    assert not revoked.vouches_for(books.head().seq + 1)
    with pytest.raises(Conflict, match="enrolled before"):
        books.enrol_release_key(public_hex(made), agency="Statistics", by=officer)
    for call, stranger in ((books.revoke_release_key, officer), (books.revoke_key, made)):
        with pytest.raises(BadValue, match="never enrolled"):
            call(key_id(public_hex(stranger)), reason="x", by=officer)
    with pytest.raises(Conflict, match="is an officer's"):
        books.enrol_release_key(public_hex(officer), agency="Statistics", by=officer)
    books.revoke_key(key_id(public_hex(officer)), reason="left", by=officer)
    with pytest.raises(NotApproved):  # and it lets nobody enrol himself, once no officer is left
        books.revoke_release_key(key_id(public_hex(other)), reason="x", by=other)
    assert books.release_keys() == release_keys_of(entry.body for entry in books.entries())
    assert books.verify().release_keys == 1


def test_what_is_published_names_its_statement_and_a_key_that_still_signs(books: Ledger) -> None:
    officer, made, good = enrolled(books), key(), "5" * 64
    name = books.enrol_release_key(public_hex(made), agency="Statistics", by=officer).key
    step(books, "r1", "measured")
    with pytest.raises(BadValue, match=r"^statement: is no SHA-256"):
        books.published("r1", 1, digest="p", statement="5" * 63 + "F")
    charge = books.published("r1", 1, digest="p", statement=good, signed_by=name)
    assert charge.statement == good == books.published("r1", 1, digest="p", statement=good).statement
    for other in (None, "6" * 64):
        with pytest.raises(Conflict, match="with another statement"):
            books.published("r1", 1, digest="p", statement=other)
    step(books, "r2", "measured")
    books.revoke_release_key(name, reason="lost", by=officer)
    with pytest.raises(NotApproved, match="the key for releases that signed it was revoked meanwhile"):
        books.published("r2", 1, digest="p", statement=good, signed_by=name)
    books.verify()


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


# Attempts, questions, withdrawals


def test_a_fourth_attempt_is_asked_for_and_three_more_are_allowed(books: Ledger) -> None:
    attempted(books, None)
    before = books.head()
    with pytest.raises(NotApproved, match="release r1: its drawing was cut off 3 times") as asked:
        books.drawing("r1")
    with pytest.raises(NotApproved, match="tabularium ledger allow-attempts r1"):
        books.precheck_drawing("r1")
    assert books.head() == before
    assert books.allow_attempts("r1", reason="the disk was full") == 6
    assert books.allow_attempts("r1", reason="once more, which nobody needs") == 6
    assert [books.drawing("r1") for _ in range(3)][-1] == 6
    officer = enrolled(books)
    with pytest.raises(NotApproved, match="6 times") as again:
        books.drawing("r1")
    assert again.value.hint == f"{asked.value.hint} --key FILE", "once a key is enrolled"
    assert books.allow_attempts("r1", reason="again", by=officer) == 9
    books.measured("r1", books.drawing("r1"), digest="m")
    with pytest.raises(WrongState, match="is not being drawn"):
        books.allow_attempts("r1", reason="x", by=officer)
    with pytest.raises(UnknownRelease, match="was never reserved"):
        books.allow_attempts("r0", reason="x", by=officer)
    assert [e.body["allowed"] for e in books.entries() if e.body["kind"] == "attempts"] == [6, 9]
    account = books.account("census")
    assert (account.reserved, account.spent) == (0, account.cap - account.left)
    books.verify()


def test_a_question_changes_nothing_and_says_who_asked_what(books: Ledger) -> None:
    officer, charge = enrolled(books), reserve(books)
    books.ask_for_evidence(charge, by=officer, reason="a complaint")
    books.ask_for_evidence(charge, by=officer)
    entry = list(books.entries())[-2]
    signature, framing = {"by", "signature", "turn"}, {"at", "kind", "prev", "seq", "v"}
    sums = {"account_reserved", "account_spent"}
    assert set(entry.body) == {"account", "of_release", "reason", *signature, *framing, *sums}
    assert (entry.body["of_release"], entry.body["reason"]) == ("r1", "a complaint")
    assert books.charge("r1") == charge


def test_a_withdrawal_gives_nothing_back_and_ends_comparisons(books: Ledger) -> None:
    officer = enrolled(books)
    for release, digest in (("first", "a"), ("tallies", "b"), ("second", "b")):
        step(books, release, "measured")
        with pytest.raises(WrongState, match="is measured, and only what is published is withdrawn"):
            books.withdraw(release, reason="x", by=officer)
        books.published(release, 1, digest=digest)
    before, charge = books.balance("census"), books.charge("second")
    assert [each.release_id for each in books.published_before("census", "p", "2027")] == [
        *("second", "tallies", "first"),
    ]
    for reason, release in (("two\nlines", "first"), ("x", "none")):
        with pytest.raises((BadValue, UnknownRelease)):
            books.withdraw(release, reason=reason, by=officer)
    said = books.withdraw("second", reason="coded twice", by=officer)
    assert (said.entry, said.key) == (books.head().seq, key_id(public_hex(officer)))
    assert books.withdraw("second", reason="other words", by=officer) == said == books.withdrawal("second")
    assert books.withdrawal("first") is None
    assert (books.balance("census"), books.charge("second")) == (before, charge)
    assert [each.release_id for each in books.published_before("census", "p", "2027")] == ["first"]
    books.verify()


def test_a_planted_step_of_a_charge_is_not_taken_for_a_revocation(books: Ledger) -> None:
    """An entry without account stands where the keys' entries are; only those of their kind are theirs."""
    from tabularium.ledger.storage import queries

    officer = enrolled(books)
    name, last = key_id(public_hex(officer)), list(books.entries())[-1]
    reserve(books)
    body = list(books.entries())[-1].body
    fields = {field: body[field] for field in body if field not in ("at", "kind", "prev", "seq", "v")}
    _body, entry = make_entry(books.head(), "drawing", last.body["at"], fields | {"account": "", "key": name})
    with books._transactions.database.write() as connection:
        queries.insert(connection, [(entry, ("drawing", "", None, None, None, name, None))])
    assert books.keys()[name].active
    with pytest.raises(ChainBroken, match=f"entry {entry.seq}"):
        books.verify()
