"""Entries that continue the chain and that the program itself would never have written: ``verify`` names each."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tabularium.ledger import BadValue, ChainBroken, Ledger, NotApproved
from tabularium.ledger.events import latest, make_entry
from tabularium.ledger.keys import can_sign, is_signed, key_id, public_hex, statement
from tabularium.ledger.records import EMPTY, GENESIS, Entry, Head
from tabularium.ledger.verify import Verification
from tests.ledger.chain.test_entries import forged
from tests.ledger.scene import behind_the_triggers, census, open_books, reserve, sqlite, verify_entries

Step = tuple[str, dict[str, Any]]
AT = "2026-01-01T00:00:00.000000Z"
TERMS: dict[str, Any] = {
    **dict.fromkeys(("cap_per_period", "cap_per_product", "closes_on", "delta", "opens_on")),
    **{"account": "census", "unit": "person", "population": "census", "relation": "add-remove"},
    **{"definition": "pure", "cap": "10/1", "quantum": "1/1000000"},
    **{"needs_approval": False, "approve_exact": False},
    **{"account_reserved": "0/1", "account_spent": "0/1"},
}
SUMS = [f"{scope}_{kind}" for scope in ("account", "period", "product") for kind in ("reserved", "spent")]
RESERVED: dict[str, Any] = {
    **dict.fromkeys(("measurement_digest", "publication_digest", "reason", "revises", "statement")),
    **{name: "1/10" if name.endswith("_reserved") else "0/1" for name in SUMS},
    **{"account": "census", "amount": "1/10", "exact": False, "fence": 0, "period": "2026", "review": False},
    **{"product": "p", "release_id": "r1", "reserved_at": AT, "spec_digest": "s"},
}
SWAPPED = {name: "0/1" if name.endswith("_reserved") else "1/10" for name in SUMS}
DRAWING = RESERVED | SWAPPED | {"fence": 1}
MEASURED = DRAWING | {"measurement_digest": "m"}
VOIDED = RESERVED | dict.fromkeys(SUMS, "0/1") | {"reason": "mistake"}
IN_PART = (
    RESERVED
    | {"group": "zones 2026", "part": "north", "contributions": 1}
    | {
        **{"part_reserved": "1/10", "part_spent": "0/1"},
    }
)


def chain(*steps: Step, at: str = AT) -> list[Entry]:
    head, made = EMPTY, []
    for kind, fields in steps:
        _body, entry = make_entry(head, kind, at, fields)
        head = Head(entry.seq, entry.hash)
        made.append(entry)
    return made


OPENED: Step = ("account", TERMS)
CHARGED: Step = ("reserved", RESERVED)
DRAWN: Step = ("drawing", DRAWING)
DONE: Step = ("measured", MEASURED)


@pytest.mark.parametrize("name", ["Région \u0378", "日本 \U0001fae9", "a\u200bb"])
def test_a_character_that_this_python_does_not_know_is_no_forgery(name: str) -> None:
    """Whoever wrote it may have had a later edition of Unicode, in which it is printable."""
    verify_entries(chain(("account", TERMS | {"account": name, "unit": name})))


def test_what_the_cases_are_made_of_is_in_order() -> None:
    verify_entries(chain(OPENED, CHARGED, DRAWN, DONE, ("published", MEASURED | {"publication_digest": "x"})))
    verify_entries(chain(OPENED, CHARGED, ("voided", VOIDED)))
    verify_entries(chain(OPENED, ("reserved", IN_PART)))
    verify_entries(chain(("account", TERMS | {"definition": "zcdp", "delta": "1/1000000"})))


@pytest.mark.parametrize(
    "lie",
    [
        *[{"cap": text} for text in ("20/2", "1/3000000", "0/1", "1" + 300 * "0" + "/1", "-1/1", "")],
        *[{"cap_per_period": "4/2"}, {"cap_per_product": "1/7"}, {"quantum": "2/2000000"}],
        *[{"definition": "zcdp", "delta": text} for text in ("5/1", "1/1", "0/1", "2/4")],
        *[{"opens_on": "2027-01-01", "closes_on": "2026-01-01"}, {"opens_on": "2026-02-30"}],
        *[{"account": name} for name in ("", " census", "cen\nsus", "a" * 129, "e\u0301", "\ud800")],
        *[{"unit": ""}, {"unit": "\x00"}, {"needs_approval": 1}],
    ],
)
def test_terms_that_no_account_can_have(lie: dict[str, Any]) -> None:
    with pytest.raises(ChainBroken, match="entry 1 has a field that is missing or malformed"):
        verify_entries(chain(("account", TERMS | lie)))


@pytest.mark.parametrize(
    "lie",
    [
        {"reason": "x"},  # which changes nothing
        {"reason": None, "cap": "20/1"},
        {"reason": " \n", "cap": "20/1"},
        {"reason": "x", "opens_on": "2030-01-01", "closes_on": "2029-01-01"},
        {"reason": "x", "unit": "household", "cap": "20/1"},
    ],
)
def test_changes_of_terms_that_nobody_can_make(lie: dict[str, Any]) -> None:
    with pytest.raises(ChainBroken, match=r"entry 2 (has a field|changes what)"):
        verify_entries(chain(OPENED, ("terms", TERMS | lie)))


def test_steps_that_cannot_follow_what_there_is() -> None:
    two = {"release_id": "r2", "period": "2027", "product": "q"}
    more = {name: "1/5" for name in SUMS if name == "account_reserved"}
    for cap, wrong in (("cap_per_period", "period"), ("cap_per_product", "product")):
        tight = ("account", TERMS | {cap: "1/20"})
        with pytest.raises(ChainBroken, match=f"entry 2 passes the cap of its {wrong}"):
            verify_entries(chain(tight, CHARGED))
        verify_entries(
            chain(("account", TERMS | {cap: "1/10"}), CHARGED, ("reserved", RESERVED | two | more))
        )
    with pytest.raises(ChainBroken, match="entry 2 opens an account that is open"):
        verify_entries(chain(OPENED, OPENED))
    first = chain(OPENED)[0].hash
    gone = {"by": NAME, "key": NAME, "reason": "left", "turn": 0}
    enrolled = by_officer(first, "key", enrolment())
    for number, steps, wrong in [
        (2, [by_officer(first, "revocation", gone)], "revokes a key that is not enrolled"),
        (3, [enrolled, by_officer(first, "key", enrolment() | {"turn": 1})], "enrols a key that is known"),
        (
            3,
            [enrolled, decision("unapproval", first, reason="x")],
            "takes back an approval that does not stand",
        ),
    ]:
        with pytest.raises(ChainBroken, match=f"entry {number} {wrong}"):
            verify_entries(chain(OPENED, *steps))


@pytest.mark.parametrize(
    "lie",
    [
        *[{"part": ""}, {"group": " 2026"}, {"group": "é! 2026"}, {"group": "zones 2025"}],
        *[{"contributions": number} for number in (0, 10**6 + 1, 10**30)],
    ],
)
def test_partitions_that_nobody_can_charge_for(lie: dict[str, Any]) -> None:
    with pytest.raises(ChainBroken, match=r"entry 2 (has a field|composes in parallel over periods)"):
        verify_entries(chain(OPENED, ("reserved", IN_PART | lie)))


@pytest.mark.parametrize(
    "at", ["9999-99-99T99:99:99.999999Z", "2026-02-30T00:00:00.000000Z", "2026-01-01T24:00:00.000000Z"]
)
def test_times_that_there_are_not(at: str) -> None:
    with pytest.raises(ChainBroken, match="entry 1 has a field that is missing or malformed"):
        verify_entries(chain(OPENED, at=at))


@sqlite
def test_an_entry_of_a_time_that_has_not_come_is_named(books: Ledger) -> None:
    """It would refuse every honest charge that follows, or charge an account before its day."""
    soon = datetime.now(UTC) + timedelta(hours=23)
    with open_books_at(books, soon) as fast:
        reserve(fast, "r1")
    books.verify()
    early = soon - timedelta(hours=25)
    with (
        open_books_at(books, early) as slow,
        pytest.raises(
            ChainBroken, match="its 2 entries are in order, but entry 2 is dated after this clock's day"
        ),
    ):
        slow.verify()
    head = Head(9, "0" * 64)
    with open_books_at(books, early) as slow, pytest.raises(ChainBroken, match="it lacks entry 9"):
        slow.verify([head])  # which is worse than a clock
    verification = Verification(latest=latest(early))
    for entry in forged(list(books.entries()), 2, lambda body: body | {"account_reserved": "1/20"}):
        row = (entry.seq, entry.prev, entry.hash, entry.text)
        if entry.seq == 2:
            with pytest.raises(ChainBroken, match="entry 2 has a wrong running sum"):
                verification.take(*row)
        else:
            verification.take(*row)


def open_books_at(books: Ledger, now: datetime) -> Ledger:
    return Ledger.connect(books._transactions.database.backend.engine.url, clock=lambda: now)


# Officers

KEY = Ed25519PrivateKey.generate()
PUBLIC = public_hex(KEY)
NAME = key_id(PUBLIC)
SPACED = " ".join(PUBLIC[place : place + 2] for place in range(0, 64, 2))
#: RFC 8032's curve has eight points whose order divides 8, and some have a second way of being written.
SMALL = [
    *["00" * 32, "01" + 31 * "00", "ec" + 30 * "ff" + "7f", "ed" + 30 * "ff" + "7f", "ee" + 30 * "ff" + "7f"],
    *["00" * 31 + "80", "01" + 30 * "00" + "80", "ec" + 31 * "ff"],
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
]


def by_officer(head: str, kind: str, fields: dict[str, Any], signature: str = "") -> Step:
    signed = KEY.sign(statement(head, kind, fields)).hex()
    return kind, fields | {"signature": signature or signed}


def enrolment(public: str = PUBLIC, officer: str = "A. Ro") -> dict[str, Any]:
    return {"by": NAME, "key": NAME, "officer": officer, "public_key": public, "turn": 0}


def decision(kind: str, first: str, **fields: Any) -> Step:
    sums = {"account_reserved": "0/1", "account_spent": "0/1"}
    said = {"account": "census", "amount": None, "by": NAME, "reason": None, "spec_digest": "s", "turn": 0}
    return by_officer(first, kind, said | sums | fields)


def after_enrolment(*made: Callable[[str], Step]) -> list[Entry]:
    first = chain(OPENED)[0].hash
    return chain(OPENED, by_officer(first, "key", enrolment()), *(make(first) for make in made))


def test_decisions_that_no_officer_can_make() -> None:
    verify_entries(after_enrolment(lambda first: decision("approval", first)))
    for number, made in [
        (2, chain(OPENED, by_officer(chain(OPENED)[0].hash, "key", enrolment(officer="")))),
        (2, chain(OPENED, by_officer(chain(OPENED)[0].hash, "key", enrolment(SPACED)))),
        (3, after_enrolment(lambda first: decision("approval", first, spec_digest=""))),
        (3, after_enrolment(lambda first: decision("approval", first, amount="2/4"))),
        (3, after_enrolment(lambda first: decision("approval", first, amount="1/17"))),
    ]:
        with pytest.raises(ChainBroken, match=f"entry {number} (has a field|has an amount|enrols a key)"):
            verify_entries(made)
    for fields in ({"amount": "1/1", "reason": "x"}, {"reason": None}, {"reason": ""}):
        taken_back = after_enrolment(
            lambda first: decision("approval", first),
            lambda first, fields=fields: decision("unapproval", first, turn=1, **fields),  # type: ignore[misc]
        )
        with pytest.raises(ChainBroken, match=r"entry 4 has a field"):
            verify_entries(taken_back)


def test_a_signature_is_written_in_one_way() -> None:
    fields = enrolment()
    signature = KEY.sign(statement(GENESIS, "key", fields)).hex()
    assert is_signed(PUBLIC, signature, GENESIS, "key", fields)
    for other in (signature.upper(), f"{signature[:64]} {signature[64:]}", signature + "00", ""):
        assert not is_signed(PUBLIC, other, GENESIS, "key", fields)
    assert not is_signed(SPACED, signature, GENESIS, "key", fields)


@sqlite
def test_keys_for_which_anybody_can_sign_are_not_enrolled(books: Ledger) -> None:
    """For the point 1 the signature (1, 0) fits every statement whatever."""
    forgery = "01" + 63 * "00"
    assert is_signed(SMALL[1], forgery, GENESIS, "key", enrolment(SMALL[1])), "which is why it is refused"
    for public in SMALL:
        with pytest.raises(BadValue, match="no point of small order"):
            books.enrol_key(public, officer="B. Ito", by=KEY)
        fields = enrolment(public) | {"key": key_id(public), "by": key_id(public)}
        with pytest.raises(ChainBroken, match="entry 2 enrols a key for which anybody can sign"):
            verify_entries(chain(OPENED, ("key", fields | {"signature": forgery})))
    assert all(can_sign(public_hex(Ed25519PrivateKey.generate())) for _ in range(20))


def test_a_planted_step_of_a_charge_is_not_taken_for_a_revocation(place: Path) -> None:
    """An entry without account stands where the keys' entries are; only those of their kind are theirs."""
    with open_books(place) as books:
        census(books)
        books.enrol_key(PUBLIC, officer="A. Ro", by=KEY)
        at = list(books.entries())[-1].body["at"]
        _body, entry = make_entry(books.head(), "drawing", at, RESERVED | {"account": "", "key": NAME})
        behind_the_triggers(
            place,
            "INSERT INTO entries (seq, kind, account, body, prev, hash, subject) VALUES"
            f" ({entry.seq}, 'drawing', '', '{entry.text}', '{entry.prev}', '{entry.hash}', '{NAME}')",
        )
        assert books.keys()[NAME].active
        with pytest.raises(NotApproved, match="loosening cap needs an officer's signature"):
            books.change_account("census", cap=Fraction(50), reason="more")
        with pytest.raises(ChainBroken, match="entry 3"):
            books.verify()
