"""Judging whether a statement vouches for a release: one function for the publisher and for verifiers.

It is handed bytes, digests, keys and entries of the ledger, and opens nothing. A key is believed because the
reader got it elsewhere, or because an officer enrolled it in a ledger whose export he holds; never because it
lies in the release. A signature counts if the ledger's ``published`` entry, which names the statement's
digest, comes after the key's enrolment and before its revocation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tabularium.ledger.keys import key_id
from tabularium.ledger.records import Entry, ReleaseKey, draft_of, officer_keys_of, release_keys_of
from tabularium.tasks.sign.statement import NotAStatement, SignedStatement, read_statement
from tabularium.validations.certificate import Certificate

_NO_KEY = "the signature: give the agency's public key, or an export of the ledger, that you got elsewhere"
NO_EXPORT = "whether the key was enrolled, and not revoked, when this was published: give a ledger export"
_UNSIGNED = "the signature: this release is unsigned"
ABSENT = "the statement's entry: the export is older than this publication, so give a newer one"


@dataclass(frozen=True)
class PublishedUnder:
    """The ledger's entries about one release's statement, from an export.

    Attributes
    ----------
    keys
        The agency's keys for releases, by their names.
    entry
        Number of the ``published`` entry; ``None`` if the export has none.
    statement
        The digest that it names; ``None`` for an unsigned release.
    accepted
        The acceptance of its draft, as the statement is to say it.
    hashes
        Number of an entry -> its hash, of those that the statement names.
    """

    keys: dict[str, ReleaseKey]
    entry: int | None
    statement: str | None
    accepted: dict[str, Any] | None
    hashes: dict[int, str]


@dataclass(frozen=True)
class Judgement:
    """The findings: sentences on what holds, what could not be checked, and what is wrong."""

    good: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    @property
    def vouches(self) -> bool:
        """Whether a trusted key signed these files, and nothing is wrong or unchecked."""
        return bool(self.good) and not self.unchecked and not self.failed


def published_under(entries: Iterable[Entry], release_id: str, raw: bytes | None = None) -> PublishedUnder:
    """Gather the entries about a release's statement from a verified export.

    ``raw``: the bytes of the statement, if there is one; the hash of the head that it names is gathered too.
    """
    named = _head_named(raw)
    bodies: list[dict[str, Any]] = []
    accepting: list[dict[str, Any]] = []
    number: int | None = None
    statement: str | None = None
    hashes: dict[int, str] = {}
    for entry in entries:
        if entry.seq in {1, named}:
            hashes[entry.seq] = entry.hash
        body = entry.body
        kind = body["kind"]
        if kind in ("key", "release_key", "revocation"):
            bodies.append(body)
        elif kind in ("drafted", "acceptance") and body["release"] == release_id:
            accepting.append(body)
        elif kind == "published" and body["release_id"] == release_id:
            number, statement = entry.seq, body["statement"]
    draft = draft_of(accepting, officer_keys_of(bodies))
    accepted = None if draft is None else draft.acceptance
    return PublishedUnder(release_keys_of(bodies), number, statement, accepted, hashes)


def judge_statement(
    raw: bytes | None,
    files: Mapping[str, str],
    certificate: Certificate,
    certificate_digest: str,
    *,
    trusted: Collection[str] = (),
    ledger: PublishedUnder | None = None,
) -> Judgement:
    """Judge the statement of a release.

    Parameters
    ----------
    raw
        The bytes of the statement; ``None`` if the release has none.
    files
        SHA-256 of every file that lies in the release, the certificate included and the statement not.
    trusted
        Public keys (32 bytes, hexadecimal) that the reader got elsewhere.
    ledger
        What an export that the reader got elsewhere says of this release: :func:`published_under`.
    """
    judgement = Judgement()
    if ledger is not None:
        _compare_entry(raw, ledger, judgement)
    if raw is None:
        if not judgement.failed:
            judgement.unchecked.append(_UNSIGNED)
        return judgement
    try:
        statement = read_statement(raw)
    except NotAStatement as error:
        judgement.failed.append(f"the statement {error}")
        return judgement
    _compare_files(statement, files, judgement)
    _compare_certificate(statement, certificate, certificate_digest, judgement)
    _judge_key(statement, trusted, ledger, judgement)
    if ledger is not None:
        _compare_ledger(statement, ledger, judgement)
    return judgement


def _compare_entry(raw: bytes | None, ledger: PublishedUnder, judgement: Judgement) -> None:
    """The ledger's entry names the digest of this statement, or that there is none."""
    here = None if raw is None else hashlib.sha256(raw).hexdigest()
    if ledger.entry is None:
        judgement.unchecked.append(ABSENT)
    elif ledger.statement == here:
        if here is not None:
            judgement.good.append(f"the statement is the one that entry {ledger.entry} names")
    elif here is None:
        judgement.failed.append(f"the statement that entry {ledger.entry} of the ledger names is missing")
    elif ledger.statement is None:
        judgement.failed.append("a statement lies in a release that the ledger calls unsigned")
    else:
        judgement.failed.append(f"the statement is not the one that entry {ledger.entry} of the ledger names")


def _compare_files(statement: SignedStatement, files: Mapping[str, str], judgement: Judgement) -> None:
    names = sorted(statement.subjects.keys() | files.keys())
    wrong = next((name for name in names if statement.subjects.get(name) != files.get(name)), None)
    if wrong is None:
        judgement.good.append(f"the statement names every one of {len(names)} files with its digest")
    elif wrong not in statement.subjects:
        judgement.failed.append(f"the statement does not name {wrong}")
    else:
        judgement.failed.append(f"{wrong} is missing, or not as the statement names it")


def _compare_certificate(
    statement: SignedStatement, certificate: Certificate, digest: str, judgement: Judgement
) -> None:
    statement_values = {
        "release_id": certificate.release_id,
        "product": certificate.product,
        "period": certificate.period,
        "account": certificate.dataset,
        "spec_digest": certificate.spec_digest,
        "certificate": digest,
        "revises": certificate.revises,
    }
    wrong = [name for name, value in statement_values.items() if getattr(statement.predicate, name) != value]
    if wrong:
        judgement.failed.append(f"the statement has another {', '.join(wrong)} than the certificate")


def _judge_key(
    statement: SignedStatement, trusted: Collection[str], ledger: PublishedUnder | None, judgement: Judgement
) -> None:
    """The signing key is trusted: given by the reader, enrolled when the release was published, or both."""
    if not trusted and ledger is None:
        judgement.unchecked.append(_NO_KEY)
        return
    wanted = dict.fromkeys(key_id(public) for public in trusted)
    public_keys = {key_id(public): public for public in trusted}
    if ledger is not None:
        enrolled = {name: key.public_key for name, key in ledger.keys.items()}
        public_keys = enrolled | public_keys
        if statement.key not in enrolled:
            judgement.failed.append("the statement is signed with a key that the ledger does not know")
            return
    if wanted and statement.key not in wanted:
        judgement.failed.append("the statement is not signed with the key that was given")
        return
    if not statement.is_signed_by(public_keys[statement.key]):
        judgement.failed.append("the statement's signature is not that of its key")
        return
    if ledger is None:
        judgement.good.append(f"the statement is signed with the key {statement.key}")
        judgement.unchecked.append(NO_EXPORT)
        return
    key = ledger.keys[statement.key]
    if ledger.entry is None:
        judgement.good.append(f"the statement is signed with the key {key.key} of {key.agency}")
    elif key.vouches_for(ledger.entry):
        judgement.good.append(
            f"the statement is signed with the key {key.key} of {key.agency}, enrolled by entry "
            f"{key.enrolled} and not revoked before it was published by entry {ledger.entry}"
        )
    else:
        when = "before it was enrolled" if ledger.entry < key.enrolled else "after it was revoked"
        judgement.failed.append(f"the statement was published {when}: its key {key.key} does not count")


def _compare_ledger(statement: SignedStatement, ledger: PublishedUnder, judgement: Judgement) -> None:
    """The signed head and acceptance are those of the ledger."""
    predicate, head = statement.predicate, statement.predicate.head
    seq = head.get("seq")
    if ledger.hashes.get(1) != head.get("chain"):
        judgement.failed.append("the statement names another ledger")
    elif seq in ledger.hashes:
        if ledger.hashes[seq] != head.get("hash"):
            judgement.failed.append(f"the statement names another entry {seq} than the ledger has")
    elif ledger.entry is not None:
        judgement.failed.append("the statement names an entry that the ledger does not have")
    if predicate.acceptance != ledger.accepted and not (ledger.accepted is None and ledger.entry is None):
        judgement.failed.append("the statement tells otherwise of the draft's acceptance than the ledger")


def _head_named(raw: bytes | None) -> int | None:
    try:
        seq = read_statement(raw or b"").predicate.head["seq"]
    except (NotAStatement, KeyError):
        return None
    return seq if isinstance(seq, int) else None
