"""A published folder that was lost, made anew byte for byte from what is stored.

The tables, and all else that follows from the measurements, are computed again; the certificate is the one
that was kept (:mod:`tabularium.tasks.publish.documents`), and names the digest of every file. Only if
all of them come out as they were published does the folder appear.
"""

from __future__ import annotations

import os
import platform
from pathlib import Path

from tabularium.mechanisms.errors import PublicationError
from tabularium.tasks.ledger_stages import ChargeHandle, MeasuredHandle
from tabularium.tasks.publish.certificate import software_versions
from tabularium.tasks.publish.documents import kept_documents
from tabularium.tasks.publish.draft_folder import target_folder
from tabularium.tasks.publish.publish import PublishedHandle, write_files
from tabularium.tasks.publish.release_folder import (
    check_release,
    digest_of,
    files_in,
    new_folder,
)
from tabularium.tasks.published_heads import StampedHead, write_head_marker
from tabularium.tasks.runtime.run import Run
from tabularium.tasks.runtime.stage import stage
from tabularium.tasks.sign.statement import STATEMENT
from tabularium.validations.certificate import CERTIFICATE, Certificate


def is_lost(run: Run, charge: ChargeHandle) -> bool:
    """Whether the folder of a published release, or of a draft, is gone and can be made anew."""
    if charge.state != "published" and not charge.drafted:
        return False
    if os.path.lexists(target_folder(run, charge.release_id, reviewed=charge.drafted)[0]):
        return False
    return _kept(run, charge.release_id) is not None


@stage("rebuild the folder")
def rebuild(run: Run, measured: MeasuredHandle) -> PublishedHandle:
    """Write the folder of a published release, or of a draft, anew, every byte as it was.

    Raises
    ------
    PublicationError
        If a file comes out otherwise, or the folder cannot be written. Nothing stays then.
    """
    kept = _kept(run, measured.release_id) or {}
    certificate = Certificate.read(kept[CERTIFICATE])
    charge = run.ledger.charge(measured.release_id)
    drafted = charge is not None and charge.state == "measured"
    target, access = target_folder(run, measured.release_id, reviewed=drafted)
    what = "the release could not be written again: {reason}"
    hint = "make room or give the right to write there, and run again"
    with new_folder(target, access, what=what, hint=hint) as aside:
        write_files(run, measured, aside)
        for name, content in kept.items():
            (aside / name).write_bytes(content)
        _compare(aside, certificate)
        digest = check_release(aside, measured.release_id, measured.digest)
        write_head_marker(run, measured.release_id, StampedHead.said(certificate.ledger.head))
    return PublishedHandle(str(target), digest, None if charge is None else charge.statement)


def _kept(run: Run, release_id: str) -> dict[str, bytes] | None:
    charge, draft = run.ledger.charge(release_id), run.ledger.draft(release_id)
    if charge is None:
        return None
    laid_out = None if draft is None else draft.digest
    certificate = charge.publication_digest or laid_out
    return kept_documents(run.installation, release_id, certificate, charge.statement)


def _compare(aside: Path, certificate: Certificate) -> None:
    """Refuse a folder of which a file is not what the certificate says, naming the software that differs."""
    there = {str(path.relative_to(aside)): digest_of(path) for path in files_in(aside)}
    for name in (CERTIFICATE, STATEMENT):
        there.pop(name, None)
    published = certificate.files
    names = there.keys() | published.keys()
    different = sorted(name for name in names if there.get(name) != published.get(name))
    if not different:
        return
    now = {"python": platform.python_version(), **software_versions()}
    then = certificate.software
    others = ", ".join(f"{name} {then.get(name)}" for name in sorted(now) if then.get(name) != now[name])
    raise PublicationError(
        f"{different[0]} does not come out as it was published"
        + (f": it was made with {others}" if others else ", though the software is the same"),
        where=f"release {certificate.release_id}",
        hint="restore the folder from a backup" + (", or run with that software" if others else ""),
    )
