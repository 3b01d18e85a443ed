"""The documents of a release, for people and programs: made from public files, and kept for a lost folder.

::

    tables ─▶ certificate without the documents ─▶ documents ─▶ their digests go into the certificate

    <measurements>/<release id>/certificate.json     the bytes that were published; so are
    <measurements>/<release id>/statement.dsse.json  of each of KEPT that there is
    <measurements>/<release id>/published-in         the publication folder, for backups

A document is made of the tables and other files that the certificate names so far, the certificate itself and
the last period's folder; it sees neither ledger nor home, nor another document. The tables follow from the
measurements. The certificate does not, which names its time, the newest entry of the ledger and the software;
nor do the documents, nor what a key has signed: a lost folder gets back what was kept of them.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

from tabularium.ledger import durable_files
from tabularium.ledger.refusals import StorageFailed
from tabularium.tasks.publish.certificate import software
from tabularium.tasks.publish.release_folder import PLACE
from tabularium.tasks.report.report import report
from tabularium.tasks.runtime.home import Home
from tabularium.tasks.runtime.run import Run
from tabularium.tasks.sign.statement import STATEMENT
from tabularium.validations.certificate import CERTIFICATE, Certificate

Document = Callable[[Path, Certificate, Path | None], bytes]
"""``(folder, certificate, last) -> content``, as in :func:`write_documents`; slow imports belong inside."""

#: File name -> what makes it, in the order in which they are written.
DOCUMENTS: Mapping[str, Document] = {
    "bill-of-materials.cdx.json": software.bill_of_materials,
    "report.html": report,
}


def write_documents(aside: Path, certificate: Certificate, last: Path | None, cache: Path) -> None:
    """Write every document of a release.

    Parameters
    ----------
    aside
        The folder of the release, in which all tables lie already.
    certificate
        Its certificate, whose ``files`` lack the documents.
    last
        The folder of the product's newest published release for an earlier period, where there is one.
    cache
        Folder of what is made once for an installation.
    """
    software.of_this_installation(cache)
    for name, make in DOCUMENTS.items():
        (aside / name).write_bytes(make(aside, certificate, last))


def without_documents(certificate: Certificate) -> Certificate:
    """Return the certificate that the documents are made from: its ``files`` do not name them."""
    files = {name: digest for name, digest in certificate.files.items() if name not in DOCUMENTS}
    return certificate.model_copy(update={"files": files})


def altered_document(folder: Path, certificate: Certificate, last: Path | None) -> str | None:
    """Return the first document of a folder that does not follow from its certificate, or None."""
    text = without_documents(certificate)
    made = ((name, make(folder, text, last)) for name, make in DOCUMENTS.items())
    return next((name for name, content in made if (folder / name).read_bytes() != content), None)


#: Files of a release folder that do not follow from the measurements.
KEPT = (CERTIFICATE, STATEMENT, "report.html", "bill-of-materials.cdx.json")


def keep_documents(run: Run, release_id: str, folder: str | Path) -> None:
    """Keep the documents of the release in ``folder``; those of an earlier attempt are replaced.

    Raises
    ------
    StorageFailed
        If they cannot be kept.
    """
    spec = run.loaded.spec
    base = run.loaded.folder / spec.publication.folder
    contents = {name: (Path(folder) / name).read_bytes() for name in KEPT if (Path(folder) / name).exists()}
    contents[PLACE] = os.fsencode(base.absolute())
    _keep(run.installation, release_id, contents)


def keep_statement(home: Home, release_id: str, folder: Path) -> None:
    """Keep the statement of an accepted draft, whose other documents were kept when the draft was written.

    Raises
    ------
    StorageFailed
        If it cannot be kept.
    """
    if (folder / STATEMENT).exists():
        _keep(home, release_id, {STATEMENT: (folder / STATEMENT).read_bytes()})


def _keep(home: Home, release_id: str, contents: dict[str, bytes]) -> None:
    where = home.measurements / release_id
    try:
        durable_files.make_folder(where)
        for name, content in contents.items():
            if not (where / name).exists() or (where / name).read_bytes() != content:
                draft = where / f".draft-0-{uuid.uuid4().hex}"  # a later attempt sweeps away what is left
                durable_files.create(draft, content)
                draft.replace(where / name)
        durable_files.sync_folder(where)
    except OSError:
        raise StorageFailed(
            "the certificate and its documents could not be kept next to the measurements",
            where=f"release {release_id}",
            hint="check the disk's space and the folder's owner, then run again",
        ) from None


def kept_documents(
    home: Home, release_id: str, certificate: str | None, statement: str | None
) -> dict[str, bytes] | None:
    """Return the documents of a release, if certificate and statement with these SHA-256 are among them.

    Without ``statement`` there is none: one that an attempt has left that was cut off is not returned.
    """
    where = home.measurements / release_id
    documents = {name: (where / name).read_bytes() for name in KEPT if (where / name).is_file()}
    if statement is None:
        documents.pop(STATEMENT, None)
    elif hashlib.sha256(documents.get(STATEMENT, b"")).hexdigest() != statement:
        return None
    if hashlib.sha256(documents.get(CERTIFICATE, b"")).hexdigest() != certificate:
        return None
    named = Certificate.read(documents[CERTIFICATE]).files
    return {name: raw for name, raw in documents.items() if name in named or name in (CERTIFICATE, STATEMENT)}
