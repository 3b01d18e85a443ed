"""What is current in a period: a link to that release, and an index of all that were published.

::

    <folder>/<product>/<period>/current       a link to the newest release that was not withdrawn
    <folder>/<product>/<period>/index.json    each release of the period: current, superseded or withdrawn

Both follow from the ledger and the folders, and nothing else is kept of them. They are made again after every
publication and every withdrawal, when a release is asked for that is published already, and when a backup is
put back: what was cut off in between is mended then. No release is changed.
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

    One process at a time does it, and each after what it has told the ledger, so that the last has seen all.
    Where everything is as it should be nothing is touched.

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
        told = period_index(ledger, period)
        for name in (INDEX, CURRENT):  # what was cut off
            for aside in period.glob(f".{name}.*.partial"):
                aside.unlink()
        _write_index(period, told)
        here = {each["release_id"] for each in told["releases"] if each["whole"]}
        _point_to(period, told["current"] if told["current"] in here else None)
    return told


def period_index(ledger: Ledger, period: Path) -> dict[str, Any]:
    """Return the index of a period's folder, from the ledger and the releases that lie there whole.

    One of which the ledger knows and that is missing or altered is told as well, as not ``whole``: what it
    superseded is not current again. What a release has in its place since says ``ended``: by which release it
    was superseded, or with which key it was withdrawn; when; why; and the number of the entry that says so.
    """
    whole = [*_published(ledger, period)]
    found = sorted([*whole, *_missing(ledger, whole)], key=lambda each: each[0].seq)
    standing = [charge for charge, _, withdrawal in found if withdrawal is None]
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
            for charge, created, withdrawal in found
        ],
    }


def superseding(standing: Sequence[Charge]) -> dict[str, Charge]:
    """Return which release superseded each of a period, by its id.

    Parameters
    ----------
    standing
        Those that were not withdrawn, the oldest first.
    """
    return dict(zip((charge.release_id for charge in standing), standing[1:], strict=False))


def _state(withdrawal: Withdrawal | None, after: Charge | None) -> dict[str, Any]:
    if withdrawal is not None:
        said = (withdrawal.key, withdrawal.at, withdrawal.reason, withdrawal.entry)
    elif after is not None:
        said = (after.release_id, after.changed_at, after.revises or "", after.seq)
    else:
        return {"state": "current", "ended": None}
    ended = dict(zip(("by", "at", "reason", "entry"), said, strict=True))
    return {"state": "superseded" if withdrawal is None else "withdrawn", "ended": ended}


def _missing(ledger: Ledger, whole: list[_Found]) -> Iterator[_Found]:
    """Go through the releases of which the ledger knows beside those that lie there whole."""
    there = {charge.publication_digest for charge, _, _ in whole}
    for each in {charge.account: charge for charge, _, _ in whole}.values():
        for digest, charge in published_like(ledger, each).items():
            if digest not in there:
                yield charge, None, ledger.withdrawal(charge.release_id)


def published_like(ledger: Ledger, charge: Charge) -> dict[str | None, Charge]:
    """Return the published releases of a charge's account, product and period, by their certificate's digest.

    The charges of one release name one certificate, and its own comes after that of its tallies.
    """
    of_period = ledger.published_in(charge.account, charge.product, charge.period)
    return {each.publication_digest: each for each in of_period}


def _published(ledger: Ledger, period: Path) -> Iterator[_Found]:
    """Go through the releases in a folder of which the ledger knows: charge, time, and withdrawal if any."""
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


def _write_index(period: Path, told: dict[str, Any]) -> None:
    path = period / INDEX
    content = (json.dumps(told, indent=2, ensure_ascii=False) + "\n").encode()
    there: bytes | None
    try:
        there = read_plain(path, len(content))
    except Unreadable as error:  # whatever lies there is replaced
        there = b"" if error.kind == "missing" else None
    if there == (content if told["releases"] or there else b""):
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
    """Have the link lead to a release, at once; with none there is no link."""
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
            note(f"no link can be made in {period}: {INDEX} alone says what is current")
        finally:
            aside.unlink(missing_ok=True)
    sync_folder(period)
