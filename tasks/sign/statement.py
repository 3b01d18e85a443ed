"""The statement of a release: an in-toto statement over all its files, in an envelope signed by the agency.

::

    statement.dsse.json      DSSE envelope, one Ed25519 signature
      payload                in-toto Statement v1
        subject              every file of the release, the certificate included, with its SHA-256
        predicate            about them: see :class:`Predicate`

The bytes have one canonical form, so that any change is detected, be it a blank. The
formats: https://in-toto.io/Statement/v1, https://github.com/secure-systems-lab/dsse.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tabularium.ledger.keys import key_id, public_hex
from tabularium.validations.imported_later import Later

if TYPE_CHECKING:
    from securesystemslib import dsse, exceptions, signer
else:  # which imports the clients of all clouds
    dsse, exceptions, signer = (
        Later(f"securesystemslib.{name}") for name in ("dsse", "exceptions", "signer")
    )

STATEMENT = "statement.dsse.json"
PAYLOAD = "application/vnd.in-toto+json"
TYPE = "https://in-toto.io/Statement/v1"
PREDICATE = "urn:tabularium:release:1"
LARGEST = 1 << 24  # bytes; whatever is larger, this program has not written


class NotAStatement(ValueError):
    """Bytes are no statement of a release; the message continues the words "the statement …"."""


@dataclass(frozen=True)
class Predicate:
    """The predicate of a statement about its files.

    Attributes
    ----------
    certificate
        SHA-256 of the certificate, which stands in the ledger's entry as well.
    head
        The ledger's newest entry when it was signed: ``seq``, ``hash``, and ``chain``, which is the hash of
        the first entry.
    acceptance
        Who accepted the draft, where there was one: ``officer``, ``key``, ``at``, ``consulted`` (whether
        confidential figures were) and ``entry``, its number in the ledger. Where several officers had to, it
        is the last of them, and ``with`` has the others.
    revises
        Why what was published before is published again.
    signed_at
        When it was signed (UTC).
    """

    release_id: str
    product: str
    period: str
    account: str
    spec_digest: str
    certificate: str
    head: dict[str, Any]
    acceptance: dict[str, Any] | None
    revises: str | None
    signed_at: str


@dataclass(frozen=True)
class SignedStatement:
    """A statement as it was read; :mod:`tabularium.tasks.sign.judge_statement` checks its signature.

    Attributes
    ----------
    subjects
        File -> SHA-256.
    key
        Name of the key that is stated to have signed.
    """

    subjects: dict[str, str]
    predicate: Predicate
    key: str
    envelope: dsse.Envelope

    def is_signed_by(self, public_key: str) -> bool:
        """Whether the signature is that of a public key (32 bytes, hexadecimal)."""
        if key_id(public_key) != self.key:
            return False
        try:
            self.envelope.verify([_named(public_key)], 1)
        except exceptions.VerificationError:
            return False
        return True


def signed_statement(subjects: Mapping[str, str], predicate: Predicate, key: Ed25519PrivateKey) -> bytes:
    """Return the bytes of a statement, signed.

    ``subjects``: each file of the release, with its SHA-256.
    """
    envelope = dsse.Envelope(_payload(subjects, predicate), PAYLOAD, {})
    envelope.sign(signer.CryptoSigner(key, _named(public_hex(key))))
    return _written(envelope)


def read_statement(raw: bytes) -> SignedStatement:
    """Read a statement from its bytes.

    Raises
    ------
    NotAStatement
        If they are not those of a statement, or the same statement would be written otherwise.
    """
    if len(raw) > LARGEST:
        raise NotAStatement("is larger than any that Tabularium writes")
    try:
        envelope = dsse.Envelope.from_dict(json.loads(raw))
        payload = json.loads(envelope.payload)
        subjects = {subject["name"]: subject["digest"]["sha256"] for subject in payload["subject"]}
        predicate = Predicate(**payload["predicate"])
        (key,) = envelope.signatures
        _head = predicate.head["seq"], predicate.head["hash"], predicate.head["chain"]
        again = _written(dsse.Envelope(_payload(subjects, predicate), PAYLOAD, envelope.signatures))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, exceptions.FormatError):
        pass
    else:
        if again == raw:
            return SignedStatement(subjects, predicate, key, envelope)
    raise NotAStatement("is damaged, or not one of Tabularium's")


def _payload(subjects: Mapping[str, str], predicate: Predicate) -> bytes:
    statement = {
        "_type": TYPE,
        "subject": [{"name": name, "digest": {"sha256": subjects[name]}} for name in sorted(subjects)],
        "predicateType": PREDICATE,
        "predicate": asdict(predicate),
    }
    return json.dumps(statement, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()


def _written(envelope: dsse.Envelope) -> bytes:
    return (json.dumps(envelope.to_dict(), sort_keys=True, indent=2) + "\n").encode()


def _named(public_key: str) -> signer.SSlibKey:
    return signer.SSlibKey(key_id(public_key), "ed25519", "ed25519", {"public": public_key})
