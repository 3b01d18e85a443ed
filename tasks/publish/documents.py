"""The documents of a release: what is written for people and programs beside the tables, from what is public.

::

    tables ─▶ certificate without the documents ─▶ documents ─▶ their digests go into the certificate

A document is made of the tables and other files that the certificate names so far, the certificate itself and
the last period's folder; it sees neither ledger nor home, nor another document. It may name the time and the
account, so that a lost folder is not given it anew but gets back what was kept beside the measurements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tabularium.tasks.publish.bill_of_materials import bill_of_materials
from tabularium.tasks.report.registry_entry import registry_entry
from tabularium.tasks.report.report import report
from tabularium.validations.certificate import Certificate

Document = Callable[[Path, Certificate, Path | None], bytes]
"""``(aside, told, last) -> content``, as in :func:`write_documents`; slow imports belong inside."""

#: File name -> what makes it, in the order in which they are written.
DOCUMENTS: Mapping[str, Document] = {
    "bill-of-materials.cdx.json": bill_of_materials,
    "registry.yaml": registry_entry,
    "report.html": report,
}


def write_documents(aside: Path, told: Certificate, last: Path | None) -> None:
    """Write every document of a release.

    Parameters
    ----------
    aside
        The folder of the release, in which all tables lie already.
    told
        Its certificate, whose ``files`` lack the documents.
    last
        The folder of the product's newest published release for an earlier period, where there is one.
    """
    for name, make in DOCUMENTS.items():
        (aside / name).write_bytes(make(aside, told, last))


def without_documents(certificate: Certificate) -> Certificate:
    """Return a certificate as the documents are told of it: its ``files`` lack them."""
    files = {name: digest for name, digest in certificate.files.items() if name not in DOCUMENTS}
    return certificate.model_copy(update={"files": files})


def altered_document(folder: Path, certificate: Certificate, last: Path | None) -> str | None:
    """Return the first document of a folder that is not what its certificate gives, or None."""
    told = without_documents(certificate)
    made = ((name, make(folder, told, last)) for name, make in DOCUMENTS.items())
    return next((name for name, content in made if (folder / name).read_bytes() != content), None)
