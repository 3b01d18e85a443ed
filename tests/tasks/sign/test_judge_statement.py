"""The judge of statements: what counts, what does not, and that no byte of one can change unseen."""

from __future__ import annotations

import base64
import hashlib
import json
import random
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tabularium.ledger.keys import key_id, public_hex
from tabularium.ledger.records import Acceptance, ReleaseKey
from tabularium.tasks.sign.judge_statement import Judgement, PublishedUnder, judge_statement
from tabularium.tasks.sign.statement import NotAStatement, Predicate, read_statement, signed_statement
from tests.certificates import made_up

KEY, OTHER = (Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32) for n in (1, 2))
PUBLIC = public_hex(KEY)
NAME = key_id(PUBLIC)
FILES = {"certificate.json": "c" * 64, "a.csv": "1" * 64, "measurements/a.parquet": "2" * 64}
CERTIFICATE = made_up(
    release_id="r1", product="p", period="2026", dataset="census", spec_digest="5" * 64, revises=None
)
ACCEPTED = asdict(Acceptance("A. Ro", "k" * 32, "2026-01-01T00:00:00.000000Z", False, 7))
PREDICATE = Predicate(
    *("r1", "p", "2026", "census", "5" * 64, "c" * 64),
    head={"seq": 8, "hash": "8" * 64, "chain": "0" * 64},
    acceptance=None,
    revises=None,
    signed_at="2026-01-01T00:00:00+00:00",
)
RAW = signed_statement(FILES, PREDICATE, KEY)
HASHES = {1: "0" * 64, 8: "8" * 64}


def under(**other: Any) -> PublishedUnder:
    known = {NAME: ReleaseKey(NAME, "Statistics", PUBLIC, enrolled=3, since="2026")}
    digest = hashlib.sha256(other.pop("raw", RAW)).hexdigest()
    return replace(PublishedUnder(known, 9, digest, None, HASHES), **other)


def judged(
    raw: bytes | None = RAW, *, files: Mapping[str, str] = FILES, certificate: Any = CERTIFICATE, **given: Any
) -> Judgement:
    return judge_statement(raw, files, certificate, "c" * 64, **given)


def revoked(at: int) -> dict[str, ReleaseKey]:
    return {NAME: ReleaseKey(NAME, "Statistics", PUBLIC, enrolled=3, since="2026", revoked=at)}


def test_a_statement_vouches_under_the_ledger_and_a_key_that_the_reader_has() -> None:
    assert judged(ledger=under()).vouches
    assert judged(ledger=under(), trusted=[PUBLIC]).vouches
    assert judged(ledger=under(keys=revoked(10))).vouches
    alone = judged(trusted=[PUBLIC])
    assert (alone.failed, len(alone.unchecked)) == ([], 1)
    assert "give a ledger export" in alone.unchecked[0]
    nothing = judged()
    assert (nothing.failed, len(nothing.unchecked)) == ([], 1)


def test_an_unsigned_release_is_left_open_unless_the_ledger_knows_a_statement() -> None:
    assert judged(None).unchecked == ["the signature: this release is unsigned"]
    assert judged(None, ledger=under(statement=None)).failed == []
    assert judged(None, ledger=under()).failed == [
        "the statement that entry 9 of the ledger names is missing"
    ]


@pytest.mark.parametrize(
    ("ledger", "wrong"),
    [
        ({"keys": {}}, "a key that the ledger does not know"),
        ({"keys": revoked(9)}, "published after it was revoked"),
        ({"keys": revoked(5)}, "published after it was revoked"),
        ({"entry": 2}, "published before it was enrolled"),
        ({"statement": None}, "that the ledger calls unsigned"),
        ({"statement": "0" * 64}, "is not the one that entry 9 of the ledger names"),
        ({"hashes": {1: "1" * 64, 8: "8" * 64}}, "names another ledger"),
        ({"hashes": {1: "0" * 64, 8: "9" * 64}}, "names another entry 8"),
        ({"hashes": {1: "0" * 64}}, "an entry that the ledger does not have"),
        ({"accepted": ACCEPTED}, "otherwise of the draft's acceptance"),
    ],
)
def test_what_the_ledger_says_otherwise_is_told(ledger: dict[str, Any], wrong: str) -> None:
    found = judged(ledger=under(**ledger))
    assert not found.vouches
    assert wrong in " ".join(found.failed)


def test_the_acceptance_of_a_draft_is_compared() -> None:
    raw = signed_statement(FILES, replace(PREDICATE, acceptance=ACCEPTED), KEY)
    assert judged(raw, ledger=under(raw=raw, accepted=ACCEPTED)).vouches
    other = {**ACCEPTED, "officer": "B. Ito"}
    assert judged(raw, ledger=under(raw=raw, accepted=other)).failed
    assert judged(raw, ledger=under(raw=raw)).failed


def test_an_export_from_before_the_publication_leaves_the_revocation_open() -> None:
    found = judged(ledger=under(entry=None, statement=None, hashes={1: "0" * 64}))
    assert (found.failed, len(found.unchecked)) == ([], 1)


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({"files": {**FILES, "b.csv": "3" * 64}}, "does not name b.csv"),
        ({"files": {**FILES, "a.csv": "3" * 64}}, "a.csv is missing, or not as"),
        ({"files": {"certificate.json": "c" * 64, "a.csv": "1" * 64}}, "measurements/a.parquet is missing"),
        *(
            ({"certificate": CERTIFICATE.model_copy(update={name: "x"})}, f"another {told}")
            for name, told in [("release_id", "release_id"), ("dataset", "account"), ("revises", "revises")]
        ),
        ({"trusted": [public_hex(OTHER)]}, "not signed with the key that was given"),
    ],
)
def test_a_statement_of_other_things_fails(given: dict[str, Any], wrong: str) -> None:
    found = judged(**({"trusted": [PUBLIC]} | given))
    assert wrong in " ".join(found.failed)


def test_a_key_that_signs_under_anothers_name_does_not_count() -> None:
    """Whoever writes a statement writes the key's name, too."""
    foreign = json.loads(signed_statement(FILES, PREDICATE, OTHER))
    foreign["signatures"][0]["keyid"] = NAME
    raw = (json.dumps(foreign, sort_keys=True, indent=2) + "\n").encode()
    for given in ({"trusted": [PUBLIC]}, {"ledger": under(raw=raw)}):
        found = judged(raw, **given)
        assert found.failed == ["the statement's signature is not that of its key"]


@pytest.mark.parametrize("given", [{"trusted": [PUBLIC]}, {"ledger": under()}])
def test_no_byte_of_a_statement_changes_unseen(given: dict[str, Any]) -> None:
    chance = random.Random(5)
    for _ in range(300):
        raw = bytearray(RAW)
        place = chance.randrange(len(raw))
        how = chance.randrange(3)
        if how == 0:
            raw[place] ^= 1 << chance.randrange(8)
        elif how == 1:
            del raw[place]
        else:
            raw.insert(place, chance.choice(b" \nA0"))
        if bytes(raw) != RAW:
            assert judged(bytes(raw), **given).failed, bytes(raw)


@pytest.mark.parametrize(
    "raw",
    [
        *(b"", b"[]", b"{}", b"null", b"\xff", b"[" * 100_000, b'{"payload": 1}'),
        RAW.rstrip(b"\n"),
        RAW.replace(b"\n", b""),
        RAW.replace(b'"signatures"', b'"signatures": [], "signatures"'),
        b" " * (1 << 24) + RAW,
    ],
)
def test_what_is_no_statement_is_said_to_be_none(raw: bytes) -> None:
    with pytest.raises(NotAStatement):
        read_statement(raw)
    assert judged(raw, trusted=[PUBLIC]).failed


@pytest.mark.parametrize(
    "lie",
    [
        {"head": None},
        {"head": {"seq": 8}},
        {"head": []},
        {"more": 1},
    ],
)
def test_a_payload_of_another_shape_is_none(lie: dict[str, Any]) -> None:
    envelope = json.loads(RAW)
    payload = json.loads(base64.b64decode(envelope["payload"]))
    payload["predicate"] |= lie
    text = json.dumps(payload, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()
    envelope["payload"] = base64.b64encode(text).decode()
    with pytest.raises(NotAStatement):
        read_statement((json.dumps(envelope, sort_keys=True, indent=2) + "\n").encode())
