"""Signing a release that lies complete in a folder; a statement there that counts is left as it is."""

from __future__ import annotations

import datetime as dt
import hashlib
import stat
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabularium.ledger import Head
from tabularium.ledger.durable_files import create, sync_folder
from tabularium.ledger.keys import key_id, public_hex
from tabularium.tasks.publish.release_folder import aside_of, certificate_in, statement_in
from tabularium.tasks.runtime.home import Home
from tabularium.tasks.runtime.progress import note
from tabularium.tasks.sign.judge_statement import judge_statement
from tabularium.tasks.sign.release_key import signing_key
from tabularium.tasks.sign.statement import (
    STATEMENT,
    NotAStatement,
    Predicate,
    read_statement,
    signed_statement,
)
from tabularium.validations.certificate import CERTIFICATE, Certificate

if TYPE_CHECKING:
    from tabularium.ledger import Ledger


@dataclass(frozen=True)
class Signed:
    """The SHA-256 of a statement, and the key for releases that signed it."""

    statement: str
    key: str


def sign_release(home: Home, ledger: Ledger, folder: Path) -> Signed | None:
    """Write the statement of a release into its folder, whose files are what its certificate says.

    Returns
    -------
    What was written; ``None``, and a note, if no key for releases is enrolled.

    Raises
    ------
    NotApproved, InputError
        As :func:`tabularium.tasks.sign.release_key.signing_key`.
    """
    made = _sign(home, ledger, folder)
    if made is None:
        return None
    raw, signed = made
    (folder / STATEMENT).write_bytes(raw)
    return signed


def _sign(home: Home, ledger: Ledger, folder: Path) -> tuple[bytes, Signed] | None:
    key = signing_key(home, ledger)
    if isinstance(key, str):
        note(f"the release is unsigned: {key}")
        return None
    raw_certificate, certificate = certificate_in(folder)
    digest = hashlib.sha256(raw_certificate).hexdigest()
    predicate = Predicate(
        release_id=certificate.release_id,
        product=certificate.product,
        period=certificate.period,
        account=certificate.dataset,
        spec_digest=certificate.spec_digest,
        certificate=digest,
        head={**asdict(ledger.head()), "chain": ledger.chain()},
        acceptance=_acceptance(ledger, certificate.release_id),
        revises=certificate.revises,
        signed_at=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
    )
    raw = signed_statement(_subjects(certificate, digest), predicate, key)
    return raw, Signed(hashlib.sha256(raw).hexdigest(), key_id(public_hex(key)))


def settled_statement(home: Home, ledger: Ledger, folder: Path) -> Signed | None:
    """Have a statement that counts in a folder that was renamed before its charge was closed.

    Until then the ledger does not know the statement's digest, so that one may be forged, or its key revoked
    meanwhile. It stays if a key signed it that is enrolled now, and it says of these files what the ledger
    says. Otherwise it is written anew: nothing else in a release depends on it.

    Raises
    ------
    NotApproved, InputError
        As :func:`tabularium.tasks.sign.release_key.signing_key`.
    """
    found = _counting(ledger, folder)
    if found is not None:
        return found
    made = _sign(home, ledger, folder)
    if made is None:
        (folder / STATEMENT).unlink(missing_ok=True)
    else:
        aside = aside_of(folder)
        create(aside, made[0])
        aside.chmod(stat.S_IMODE((folder / CERTIFICATE).stat().st_mode))
        aside.replace(folder / STATEMENT)
    sync_folder(folder)
    return None if made is None else made[1]


def _counting(ledger: Ledger, folder: Path) -> Signed | None:
    """Return the statement in a folder if it counts."""
    raw = statement_in(folder)
    if raw is None:
        return None
    raw_certificate, certificate = certificate_in(folder)
    digest = hashlib.sha256(raw_certificate).hexdigest()
    keys = [key.public_key for key in ledger.release_keys().values() if key.active]
    found = judge_statement(raw, _subjects(certificate, digest), certificate, digest, trusted=keys)
    if not keys or found.failed:
        return None
    try:
        said = read_statement(raw)
    except NotAStatement:
        return None
    head = said.predicate.head
    ours = (
        ledger.holds(Head(head["seq"], head["hash"]))
        and head["chain"] == ledger.chain()
        and said.predicate.acceptance == _acceptance(ledger, certificate.release_id)
    )
    return Signed(hashlib.sha256(raw).hexdigest(), said.key) if ours else None


def _subjects(certificate: Certificate, digest: str) -> dict[str, str]:
    return {**certificate.files, CERTIFICATE: digest}


def _acceptance(ledger: Ledger, release_id: str) -> dict[str, Any] | None:
    draft = ledger.draft(release_id)
    return None if draft is None else draft.acceptance
