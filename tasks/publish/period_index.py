"""The current release of a period: a link to it, and an index of all releases of the period.

::

    <folder>/<product>/<period>/current       a link to the newest release that was not withdrawn
    <folder>/<product>/<period>/index.json    each release of the period: current, superseded or withdrawn

Both follow from the ledger and the folders, and nothing else is kept of them. They are made again after every
publication and every withdrawal, when a release is asked for that is published already, and when a backup is
restored: an interruption in between is repaired then. No release is changed.
"""

from __future__ import annotations

import errno
import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabularium.ledger import BadValue, Charge, Withdrawal
from tabularium.ledger.durable_files import create, sync_folder
from tabularium.ledger.measurement.release_lock import hold
from tabularium.mechanisms.errors import PlaceClosed, PublicationError
from tabularium.tasks.publish.release_folder import PUBLIC, aside_of, certificate_in
from tabularium.tasks.runtime.progress import note
from tabularium.validations.public_files import Unreadable, read_plain
from tabularium.validations.redaction import os_errors_as

if TYPE_CHECKING:
    from tabularium.ledger import Ledger

CURRENT, INDEX = "current", "index.json"
FORMAT = 1
_WAIT_SECONDS = 60.0
_Found = tuple[Charge, str | None, Withdrawal | None]
#: What a file system says that has no links.
_NO_LINKS = (errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP)


def renew_index(ledger: Ledger, period: Path) -> dict[str, Any]:
    """Write link and index of a period's folder as the ledger has it now; return the index.

    One process at a time does it, and each after its ledger entries, so that the last one has seen all of
    them. Where link and index are right already nothing is written.

    Raises
    ------
    PublicationError
        If they cannot be written.
    LockTimeout
        If another process has been at it for a minute.
    """
    named = hashlib.sha256(f"{period.parent.name}\0{period.name}".encode()).hexdigest()
    failing = os_errors_as(
        PlaceClosed,
        "what is current in this period could not be written: {reason}",
        where=period,
        hint="make room or give the right to write there, and give the command again; the ledger has it",
    )
    with failing, hold(ledger, f"index-{named[:32]}", wait=_WAIT_SECONDS):
        index = period_index(ledger, period)
        for name in (INDEX, CURRENT):  # what was cut off
            for aside in period.glob(f".{name}.*.partial"):
                aside.unlink()
        _write_index(period, index)
        here = {release["release_id"] for release in index["releases"] if release["whole"]}
        _point_to(period, index["current"] if index["current"] in here else None)
    return index


def period_index(ledger: Ledger, period: Path) -> dict[str, Any]:
    """Return the index of a period's folder, from the ledger and the complete releases in it.

    A release in the ledger that is missing or altered is listed too, as not ``whole``: the one that it
    superseded does not become current again. ``ended`` describes the end of a release: the release that
    superseded it, or the key that withdrew it; when; why; and the number of the entry.
    """
    present = [*_published(ledger, period)]
    entries = sorted([*present, *_missing(ledger, present)], key=lambda entry: entry[0].seq)
    standing = [charge for charge, _, withdrawal in entries if withdrawal is None]
    after = superseding(standing)
    return {
        "format": FORMAT,
        "product": period.parent.name,
        "period": period.name,
        "current": standing[-1].release_id if standing else None,
        "releases": [
            {
                "release_id": charge.release_id,
                "entry": charge.seq,
                "whole": created is not None,
                "created": created,
                "certificate": charge.publication_digest,
                "revises": charge.revises,
                **_state(withdrawal, after.get(charge.release_id)),
            }
            for charge, created, withdrawal in entries
        ],
    }


def superseding(standing: Sequence[Charge]) -> dict[str, Charge]:
    """Return release id -> release that superseded it, within a period.

    ``standing``: those that were not withdrawn, the oldest first.
    """
    return dict(zip((charge.release_id for charge in standing), standing[1:], strict=False))


def _state(withdrawal: Withdrawal | None, after: Charge | None) -> dict[str, Any]:
    if withdrawal is not None:
        details = (withdrawal.key, withdrawal.at, withdrawal.reason, withdrawal.entry)
    elif after is not None:
        details = (after.release_id, after.changed_at, after.revises or "", after.seq)
    else:
        return {"state": "current", "ended": None}
    ended = dict(zip(("by", "at", "reason", "entry"), details, strict=True))
    return {"state": "superseded" if withdrawal is None else "withdrawn", "ended": ended}


def _missing(ledger: Ledger, present: list[_Found]) -> Iterator[_Found]:
    """Yield the releases that the ledger knows and that are not complete in the folder."""
    there = {charge.publication_digest for charge, _, _ in present}
    for last in {charge.account: charge for charge, _, _ in present}.values():
        for digest, charge in published_like(ledger, last).items():
            if digest not in there:
                yield charge, None, ledger.withdrawal(charge.release_id)


def published_like(ledger: Ledger, charge: Charge) -> dict[str | None, Charge]:
    """Return the published releases of a charge's account, product and period, by their certificate's digest.

    The charges of one release name one certificate, and its own comes after that of its tallies.
    """
    of_period = ledger.published_in(charge.account, charge.product, charge.period)
    return {charge.publication_digest: charge for charge in of_period}


def _published(ledger: Ledger, period: Path) -> Iterator[_Found]:
    """Yield the releases of a folder that the ledger knows: charge, time, and withdrawal if any."""
    for folder in period.iterdir() if period.is_dir() else ():
        if folder.name.startswith(".") or folder.is_symlink() or not folder.is_dir():
            continue
        with suppress(PublicationError, BadValue):  # no release, or one that was altered
            raw, certificate = certificate_in(folder)
            charge = ledger.charge(folder.name)
            if charge is None or charge.publication_digest != hashlib.sha256(raw).hexdigest():
                continue
            if (charge.product, charge.period) == (period.parent.name, period.name):
                yield charge, str(certificate.created), ledger.withdrawal(charge.release_id)


def _write_index(period: Path, index: dict[str, Any]) -> None:
    path = period / INDEX
    content = (json.dumps(index, indent=2, ensure_ascii=False) + "\n").encode()
    there: bytes | None
    try:
        there = read_plain(path, len(content))
    except Unreadable as error:  # whatever lies there is replaced
        there = b"" if error.kind == "missing" else None
    if there == (content if index["releases"] or there else b""):
        return
    aside = aside_of(path)
    try:
        create(aside, content)
        PUBLIC.give(aside, PUBLIC.files)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)
    sync_folder(period)


def _point_to(period: Path, release_id: str | None) -> None:
    """Point the link to a release, atomically; remove it if there is none."""
    path = period / CURRENT
    there = str(path.readlink()) if path.is_symlink() else None
    if there == release_id:
        return
    if release_id is None:
        path.unlink(missing_ok=True)
    else:
        aside = aside_of(path)
        try:
            aside.symlink_to(release_id, target_is_directory=True)
            aside.replace(path)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            note(f"no link can be made in {period}: only {INDEX} says what is current")
        finally:
            aside.unlink(missing_ok=True)
    sync_folder(period)
