"""Whether the certificate fits its schema, itself, and the spec, code lists and measurements beside it."""

from __future__ import annotations

import json
from importlib import metadata
from importlib.resources import files
from typing import Any

from mechanisms.errors import TabulariumError
from tasks.publish.documents.making import DOCUMENTS
from tasks.publish.formats.format_files import files_of
from tasks.publish.measurement_files import FOLDER, INDEX
from tasks.publish.read_release import read_spec
from tasks.publish.release_folder import CERTIFICATE
from tasks.publish.verify_certificate import verify_certificate
from tasks.verify.findings import Check, CouldNot, Failed
from tasks.verify.subject import Subject
from validations.spec.load import spec_digest

_GROUP = "Certificate"
EXCEPTIONS = "rounding_exceptions.txt"
_PROGRAM = "tabularium-dp"
_SCHEMA = "certificate.schema.json"


def _schema(subject: Subject) -> None:
    package = files("tasks.publish")
    places = (package / _SCHEMA, package / "certificate" / _SCHEMA)
    place = next((each for each in places if each.is_file()), None)
    if place is None:
        raise CouldNot(f"{_SCHEMA}, which this version does not bring")
    from jsonschema import Draft202012Validator

    validator = Draft202012Validator(json.loads(place.read_text(encoding="utf-8")))
    wrong = next(validator.iter_errors(subject.certificate), None)
    if wrong is not None:
        where = ".".join(map(str, wrong.absolute_path)) or "the certificate"
        raise Failed(f"{where} is not what the schema wants ({wrong.validator})")


def _spec(subject: Subject) -> None:
    try:
        read_spec(subject.folder, subject.certificate)
    except TabulariumError as error:
        raise Failed(error.what) from None


def _lists(subject: Subject) -> str:
    released, named = subject.released, subject.certificate["code_lists"]
    public = released.loaded.public_files
    lists = [column.hierarchy for column in released.spec.columns.values() if column.hierarchy]
    for name in dict.fromkeys(lists):
        if public.get(name) != named.get(name):
            raise Failed(f"the code list {name} is not the one that the certificate names")
    if spec_digest(released.spec, public) != subject.certificate["spec_digest"]:
        raise Failed("spec, code lists and invariants do not have the digest that the certificate names")
    return f"{len(set(lists))} code lists, {len(released.spec.invariants)} invariants"


def _names(subject: Subject) -> str:
    """Every file that it names has a place in a release of its spec, and none of these is missing."""
    spec, named = subject.released.spec, subject.certificate["files"]
    wanted = files_of(spec)
    wanted |= {f"codes/{column.hierarchy}" for column in spec.columns.values() if column.hierarchy}
    wanted |= {f"invariants/{known.values}" for known in spec.invariants if known.values}
    if spec.publication.measurements.withhold is None:
        arrays = [each["arrays"].values() for each in subject.index["measurements"]]
        wanted |= {f"{FOLDER}/{INDEX}", *(f"{FOLDER}/{one['file']}" for each in arrays for one in each)}
    if subject.certificate["software"].get(_PROGRAM) == metadata.version(_PROGRAM):
        wanted |= DOCUMENTS.keys()
    missing = sorted(wanted - named.keys())
    if missing:
        raise Failed(f"it does not name {missing[0]}")
    foreign = sorted(named.keys() - wanted - DOCUMENTS.keys() - {EXCEPTIONS})
    if foreign:
        raise Failed(f"it names {foreign[0]!a}, which has no place in a release")
    return f"{len(named)} files"


def _itself(subject: Subject) -> None:
    try:
        verify_certificate(subject.folder / CERTIFICATE, domains=subject.released.domains)
    except TabulariumError as error:
        raise Failed(error.what) from None


def text_of(value: Any) -> str:
    """Return a value in the one way of writing it, to compare it with another."""
    return json.dumps(value, sort_keys=True, allow_nan=False)


CHECKS = (
    Check(_GROUP, "it fits the published schema", _schema),
    Check(_GROUP, "its spec can be read, with the code lists and invariants beside it", _spec),
    Check(_GROUP, "spec, code lists and invariants are the ones that it names", _lists),
    Check(_GROUP, "it names the files that such a release has, and no others", _names),
    Check(_GROUP, "it fits itself: what follows from spec, transcript and digests is what it says", _itself),
)
