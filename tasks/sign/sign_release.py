"""Signing a release that lies complete in a folder, and taking over a statement that lies in one."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ledger import Head, Ledger
from mechanisms.errors import PublicationError
from tasks.publish.release_folder import CERTIFICATE, certificate_in
from tasks.runtime.home import Home
from tasks.runtime.progress import note
from tasks.sign.judge_statement import judge_statement
from tasks.sign.release_key import signing_key
from tasks.sign.statement import STATEMENT, NotAStatement, Predicate, read_statement, signed_statement


def sign_release(home: Home, ledger: Ledger, folder: Path) -> str | None:
    """Write the statement of a release into its folder, whose files are what its certificate says.

    Returns
    -------
    Its SHA-256; ``None``, and a note, if this machine has no key that is enrolled.

    Raises
    ------
    NotApproved, InputError
        As :func:`tasks.sign.release_key.signing_key`.
    """
    key = signing_key(home, ledger)
    if isinstance(key, str):
        note(f"the release is unsigned: {key}")
        return None
    raw_certificate, certificate = certificate_in(folder)
    digest = hashlib.sha256(raw_certificate).hexdigest()
    predicate = Predicate(
        release_id=certificate["release_id"],
        product=certificate["product"],
        period=certificate["period"],
        account=certificate["dataset"],
        spec_digest=certificate["spec_digest"],
        certificate=digest,
        head={**asdict(ledger.head()), "chain": ledger.chain()},
        acceptance=_acceptance(ledger, certificate["release_id"]),
        revises=certificate["revises"],
        signed_at=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
    )
    raw = signed_statement(_subjects(certificate, digest), predicate, key)
    (folder / STATEMENT).write_bytes(raw)
    return hashlib.sha256(raw).hexdigest()


def adopted_statement(home: Home, ledger: Ledger, folder: Path) -> str | None:
    """Return the SHA-256 of the statement in a folder that was renamed before its charge was closed.

    Until then the ledger does not know the statement's digest, so that one may be forged. It is taken over if
    a key signed it that is enrolled now, and it says of these files what the ledger says.

    Raises
    ------
    PublicationError
        If it is another one, or there is none though this machine signs.
    """
    path = folder / STATEMENT
    if not path.exists():
        why = signing_key(home, ledger)
        if isinstance(why, str):
            note(f"the release is unsigned: {why}")
            return None
        raise _not_ours(folder, "this folder has no signed statement, and this machine signs")
    raw = path.read_bytes()
    raw_certificate, certificate = certificate_in(folder)
    digest = hashlib.sha256(raw_certificate).hexdigest()
    keys = [key.public_key for key in ledger.release_keys().values() if key.active]
    found = judge_statement(raw, _subjects(certificate, digest), certificate, digest, trusted=keys)
    if not keys or found.failed:
        what = found.failed[0] if found.failed else "no key for releases is enrolled"
        raise _not_ours(folder, f"this folder's signed statement does not count: {what}")
    try:
        said = read_statement(raw).predicate
        ours = (
            ledger.holds(Head(said.head["seq"], said.head["hash"]))
            and said.head["chain"] == ledger.chain()
            and said.acceptance == _acceptance(ledger, certificate["release_id"])
        )
    except NotAStatement:
        ours = False
    if not ours:
        raise _not_ours(folder, "this folder's signed statement tells otherwise than the ledger")
    return hashlib.sha256(raw).hexdigest()


def _subjects(certificate: Mapping[str, Any], digest: str) -> dict[str, str]:
    return {**certificate["files"], CERTIFICATE: digest}


def _acceptance(ledger: Ledger, release_id: str) -> dict[str, Any] | None:
    draft = ledger.draft(release_id)
    return None if draft is None or draft.acceptance is None else asdict(draft.acceptance)


def _not_ours(folder: Path, what: str) -> PublicationError:
    return PublicationError(
        what,
        where=str(folder),
        mend="move the folder away and run again: it is written anew, with the noise that is drawn",
    )
