"""Signing a release that is complete in its folder, with the agency's private key for releases.

A statement that is there already and counts is left as it is. The key is read when a release is signed and
handed to nobody. It is looked for here, and the first that is set wins:

- ``TABULARIUM_RELEASE_KEY_COMMAND``: a command of a key store that prints it (PEM), run without a shell;
- ``TABULARIUM_RELEASE_KEY``: the path of a file (PEM, mode 0600);
- ``release-key`` in the home.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import os
import shlex
import stat
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tabularium.ledger import Head, NotApproved
from tabularium.ledger.durable_files import create, sync_folder
from tabularium.ledger.keys import key_id, private_from, public_hex
from tabularium.mechanisms.errors import InputError
from tabularium.tasks.publish.release_folder import aside_of, certificate_in, statement_in
from tabularium.tasks.runtime.home import Home, printed_by
from tabularium.tasks.runtime.progress import note
from tabularium.tasks.sign.judge_statement import judge_statement
from tabularium.tasks.sign.statement import (
    STATEMENT,
    NotAStatement,
    Predicate,
    read_statement,
    signed_statement,
)
from tabularium.validations.certificate import CERTIFICATE, Certificate
from tabularium.validations.redaction import bare_errors, os_errors_as

if TYPE_CHECKING:
    from tabularium.ledger import Ledger

COMMAND, PATH = "TABULARIUM_RELEASE_KEY_COMMAND", "TABULARIUM_RELEASE_KEY"
PASSPHRASE = "TABULARIUM_RELEASE_KEY_PASSPHRASE"  # noqa: S105 - the name of a variable
FILE = "release-key"


@bare_errors
def release_key(home: Home) -> Ed25519PrivateKey | None:
    """Return the key with which this machine signs releases; ``None`` if it has none.

    Raises
    ------
    InputError
        If it is named and cannot be read, other users can read it, or it is no Ed25519 key.
    """
    command = os.environ.get(COMMAND)
    if command:
        printed = printed_by(command)
        if isinstance(printed, str):
            raise InputError(
                f"the command for the key for releases {printed}",
                where=COMMAND,
                hint="let it print the key (PEM), and exit with 0",
            )
        return _read(printed, COMMAND)
    path = release_key_file(home)
    if not path.exists() and not os.environ.get(PATH):
        return None
    with os_errors_as(
        InputError,
        "the key for releases cannot be read ({reason})",
        where=path,
        hint="correct its path or its owner",
    ):
        if path.stat().st_mode & 0o077:
            raise InputError(
                "other users may read the key for releases",
                where=str(path),
                hint=f"chmod 600 {shlex.quote(str(path))}, and if anybody could have read it, revoke it",
            )
        return _read(path.read_bytes(), str(path))


def _read(pem: bytes, where: str) -> Ed25519PrivateKey:
    key = private_from(pem, passphrase())
    if key is None:
        raise InputError(
            "is no Ed25519 private key, or needs another passphrase",
            where=where,
            hint="give the PEM file that `tabularium ledger release-key new` made, and its passphrase in "
            f"{PASSPHRASE}",
        )
    return key


def release_key_file(home: Home) -> Path:
    """Return the file of the key, unless a command prints it."""
    named = os.environ.get(PATH)
    return Path(named) if named else home.path / FILE


def passphrase() -> bytes | None:
    """Return the passphrase of the key for releases, which only the environment may have."""
    return os.environ.get(PASSPHRASE, "").encode() or None


def signing_key(home: Home, ledger: Ledger) -> Ed25519PrivateKey | str:
    """Return the key that can sign a release now, or the reason for publishing unsigned.

    What is published unsigned stays so, and readers who have the agency's key refuse it. So while a key is
    enrolled a machine that has none, or one that was revoked, publishes nothing.

    Raises
    ------
    NotApproved
        If this machine has a key that no officer ever enrolled, or cannot sign though the agency does.
    InputError
        As :func:`release_key`.
    """
    key, enrolled = release_key(home), ledger.release_keys()
    signs = any(known.active for known in enrolled.values())
    if key is None:
        if not signs:
            return "no key for releases is enrolled"
        raise NotApproved(
            "a key for releases is enrolled, and this machine has none",
            where=PATH,
            hint=f"name its file there, or have {COMMAND} print it; or let an officer revoke it",
        )
    name = key_id(public_hex(key))
    if name not in enrolled:
        raise NotApproved(
            "no officer has enrolled this machine's key for releases",
            where=f"key {name}",
            hint="let an officer run: tabularium ledger release-key enrol FILE --agency NAME --key FILE"
            f"{home.option}; or take the key away, and releases are unsigned",
        )
    if not enrolled[name].active:
        if not signs:
            return f"this machine's key for releases, {name}, was revoked"
        raise NotApproved(
            "this machine's key for releases was revoked, and another one is enrolled",
            where=f"key {name}",
            hint="put the new key in its place",
        )
    return key


@dataclass(frozen=True)
class Signed:
    """The SHA-256 of a statement, and the key for releases that signed it."""

    statement: str
    key: str


def sign_release(home: Home, ledger: Ledger, folder: Path) -> Signed | None:
    """Write the statement of a release into its folder, whose files are those of its certificate.

    Returns ``None``, and notes it, if no key for releases is enrolled.

    Raises
    ------
    NotApproved, InputError
        As :func:`tabularium.tasks.sign.sign_release.signing_key`.
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
    """Keep or write a valid statement in a folder that was renamed before its charge was closed.

    Until then the ledger does not know the statement's digest, so that one may be forged, or its key revoked
    meanwhile. It stays if a key signed it that is enrolled now, and it says of these files what the ledger
    says. Otherwise it is written again: nothing else in a release depends on it.

    Raises
    ------
    NotApproved, InputError
        As :func:`tabularium.tasks.sign.sign_release.signing_key`.
    """
    raw = _counting(ledger, folder)
    if raw is not None:
        return raw
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
    """Return the statement in a folder if it is valid."""
    raw = statement_in(folder)
    if raw is None:
        return None
    raw_certificate, certificate = certificate_in(folder)
    digest = hashlib.sha256(raw_certificate).hexdigest()
    keys = [key.public_key for key in ledger.release_keys().values() if key.active]
    judgement = judge_statement(raw, _subjects(certificate, digest), certificate, digest, trusted=keys)
    if not keys or judgement.failed:
        return None
    try:
        statement = read_statement(raw)
    except NotAStatement:
        return None
    head = statement.predicate.head
    ours = (
        ledger.holds(Head(head["seq"], head["hash"]))
        and head["chain"] == ledger.chain()
        and statement.predicate.acceptance == _acceptance(ledger, certificate.release_id)
    )
    return Signed(hashlib.sha256(raw).hexdigest(), statement.key) if ours else None


def _subjects(certificate: Certificate, digest: str) -> dict[str, str]:
    return {**certificate.files, CERTIFICATE: digest}


def _acceptance(ledger: Ledger, release_id: str) -> dict[str, Any] | None:
    draft = ledger.draft(release_id)
    return None if draft is None else draft.acceptance
