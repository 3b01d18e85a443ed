"""Whether the certificate fits its schema, itself, and the spec, code lists and measurements beside it.

And whether the documents that are made of it are of this release.
"""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import PurePath
from typing import Any

from tabularium.mechanisms.errors import TabulariumError
from tabularium.tasks.publish.documents import DOCUMENTS
from tabularium.tasks.publish.formats.base import formats_of
from tabularium.tasks.publish.measurement_files import FOLDER, INDEX
from tabularium.tasks.publish.verify_certificate import verify_certificate
from tabularium.tasks.verify.subject import Check, Failed, Skipped, Subject
from tabularium.validations.certificate import CERTIFICATE
from tabularium.validations.domains.known_marginals import FOLDER as FOLDER_OF_PRIORS
from tabularium.validations.release_spec.load import spec_digest
from tabularium.validations.release_spec.publication_formats import FORMATS, files_of

_GROUP, _DOCUMENTS = "Certificate", "Documents"
EXCEPTIONS = "rounding_exceptions.txt"
_PROGRAM = "tabularium-dp"
_BEGINS = {".html": b"<!doctype html>", ".xml": b"<?xml "}
"""Ending of a document -> how it begins; every other is JSON."""


def _spec(subject: Subject) -> None:
    try:
        subject.read_spec()
    except TabulariumError as error:
        raise Failed(error.what) from None


def _lists(subject: Subject) -> str:
    released, named = subject.released, subject.certificate.code_lists
    public = released.loaded.public_files
    lists = [column.code_list for column in released.spec.columns.values() if column.code_list]
    for name in dict.fromkeys(lists):
        if public.get(name) != named.get(name):
            raise Failed(f"the code list {name} is not the one that the certificate names")
    if spec_digest(released.spec, public) != subject.certificate.spec_digest:
        raise Failed("spec, code lists and invariants do not have the digest that the certificate names")
    return f"{len(set(lists))} code lists, {len(released.spec.invariants)} invariants"


def _names(subject: Subject) -> str:
    """Every file that it names has a place in a release of its spec, and none of these is missing."""
    spec, named = subject.released.spec, subject.certificate.files
    wanted = files_of(spec)
    wanted |= {f"codes/{column.code_list}" for column in spec.columns.values() if column.code_list}
    wanted |= {f"invariants/{known.values}" for known in spec.invariants if known.values}
    wanted |= {f"figures/{each.values}" for each in spec.figures if each.values}
    for prior in subject.released.loaded.priors.values():
        wanted |= {f"{FOLDER_OF_PRIORS}/{prior.release}/{name}" for name in (CERTIFICATE, prior.file)}
    if spec.publication.measurements.withhold is None:
        arrays = [each["arrays"].values() for each in subject.index["measurements"]]
        wanted |= {f"{FOLDER}/{INDEX}", *(f"{FOLDER}/{one['file']}" for each in arrays for one in each)}
    if subject.certificate.software.get(_PROGRAM) == metadata.version(_PROGRAM):
        wanted |= DOCUMENTS.keys()
    missing = sorted(wanted - named.keys())
    if missing:
        raise Failed(f"it does not name {missing[0]}")
    unknown = [name for name in spec.publication.formats if name not in FORMATS]
    if unknown:
        raise Skipped(f"the format {unknown[0]}: install the package that brings it")
    foreign = sorted(named.keys() - wanted - DOCUMENTS.keys() - {EXCEPTIONS})
    if foreign:
        raise Failed(f"it names {foreign[0]!a}, which has no place in a release")
    return f"{len(named)} files"


def _itself(subject: Subject) -> None:
    try:
        verify_certificate(subject.folder / CERTIFICATE, domains=subject.released.domains)
    except TabulariumError as error:
        raise Failed(error.what) from None


def _of_this_release(subject: Subject) -> str:
    """Each document is of the kind that its name says, and names what it is about."""
    spec, release = subject.released.spec, subject.certificate.release_id
    wanted = dict.fromkeys(("bill-of-materials.cdx.json", "report.html"), release)
    for each in formats_of(spec):
        wanted |= each.identities(subject.released.loaded)
    there = [name for name in wanted if name in subject.certificate.files]
    for name in there:
        begin = _BEGINS.get(PurePath(name).suffix)
        if begin is None:
            subject.document(name)
        elif not subject.read(name).startswith(begin):
            raise Failed(f"{name} is not what its name says")
        if wanted[name].encode() not in subject.read(name):
            raise Failed(f"{name} is not of this release")
    return f"{len(there)} documents"


def text_of(value: Any) -> str:
    """Return a value in the one way of writing it, to compare it with another."""
    return json.dumps(value, sort_keys=True, allow_nan=False)


CHECKS = (
    Check(_GROUP, "its spec can be read, with the code lists and invariants beside it", _spec),
    Check(_GROUP, "spec, code lists and invariants are the ones that it names", _lists),
    Check(_GROUP, "it names the files that such a release has, and no others", _names),
    Check(_GROUP, "it fits itself: what follows from spec, transcript and digests is what it says", _itself),
    Check(_DOCUMENTS, "they are of the kinds that their names say, and of this release", _of_this_release),
)
