"""The sections of a certificate in the order in which they are read; what is exact comes before ε."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tabularium.mechanisms.accounting import Event
from tabularium.tasks.margins.error_model import MEANING
from tabularium.tasks.publish.certificate.account_section import account_section, approval_section
from tabularium.tasks.publish.certificate.certificate_parts import Charged, Contents
from tabularium.tasks.publish.certificate.declared import (
    domains,
    look_ups,
    postprocessing,
    tuning,
    validation,
)
from tabularium.tasks.publish.certificate.draws import audited, measured
from tabularium.tasks.publish.certificate.safeguards import SIDE_CHANNELS, randomness, security
from tabularium.tasks.publish.certificate.spending import (
    allocation,
    composition,
    conversion,
    own_amount,
    rests_on,
    whole,
)
from tabularium.tasks.publish.guarantee import privacy_numbers
from tabularium.tasks.publish.release_folder import CERTIFICATE
from tabularium.validations.domains import prior_tables
from tabularium.validations.domains.sdmx_code_lists import published_name
from tabularium.validations.spec.exact_facts import Neighbours, along_of, facts_of_release
from tabularium.validations.spec.load import published, spec_digest
from tabularium.validations.spec.model import ReleaseSpec
from tabularium.validations.spec.parts.table_parts import Invariant
from tabularium.validations.spec.summary import tally_about

FORMAT = 1
_PUBLIC = ("codes/", "figures/", "invariants/")
_PRIOR = f"{prior_tables.FOLDER}/"


def stated(
    spec: ReleaseSpec, near: Neighbours, contents: Contents, charged: Charged, told: dict[str, Any]
) -> dict[str, Any]:
    """Return every section of a certificate, in the order in which it is read: what is exact comes first.

    :mod:`tabularium.tasks.publish.verify_certificate` makes them again from a certificate and compares.

    Parameters
    ----------
    near
        Which inputs the guarantee compares.
    told
        What nothing else in a certificate implies: the release id, when it was made, the digest of the
        measurements, the software and its code, the version of the post-processing, whether the workspace was
        kept, the digests of public look-ups, and how many numbers each invariant has.
    """
    public = public_digests(contents.files)
    tallies = [attempts for _, _, attempts in charged.tried]
    withheld = [(each.criterion, each.consulted) for each in charged.withheld]
    facts = facts_of_release(spec, charged.attempts, tallies, withheld)
    events, plain, lists = contents.events, published(spec), _code_lists(spec, public)
    return {
        "format": FORMAT,
        "release_id": told["release_id"],
        "product": spec.product,
        "period": spec.period,
        "revises": spec.revises,
        "dataset": spec.dataset,
        "about": spec.about.model_dump(mode="json"),
        "created": told["created"],
        "outside_the_guarantee": [fact.as_dict() for fact in facts],
        "privacy": _privacy(spec, near, events, charged),
        "approval": approval_section(spec, charged.reservation),
        "account": account_section(charged.reservation),
        "allocation": allocation(spec),
        "composition": composition(spec, events),
        "ledger": _ledger(spec, charged, told["measurements"]),
        "measurements": {
            "digest": told["measurements"],
            "withheld": spec.publication.measurements.withhold,
        },
        "measured": measured(spec, events),
        "audits": audited(spec),
        "tallies": [
            {**told_of, **tally_about(spec, tally)}
            for tally, told_of in zip(spec.tallies, contents.tallies, strict=True)
        ],
        "transcript": [event.as_dict() for event in events],
        "spec": plain,
        "spec_digest": spec_digest(spec, {**public, **told["lookups"]}),
        "code_lists": lists,
        "lookups": look_ups(spec, told["lookups"]),
        "domains": domains(spec, lists),
        "validation": validation(spec, len(charged.tried)),
        "tuning": tuning(spec),
        "invariants": [
            {**_invariant(spec, known, public, told["numbers"]), **contents.conflicts[known.name]}
            for known in spec.invariants
        ],
        "impossible": [each.model_dump(mode="json") for each in spec.impossible],
        "tables": contents.tables,
        "agreement": contents.agreement,
        "postprocessing": postprocessing(spec, told["postprocessing"]),
        "confidence": str(spec.publication.confidence),
        "margins": {method: MEANING[method] for method in MEANING if method in _methods(contents.tables)},
        "randomness": randomness(events),
        "side_channels": list(SIDE_CHANNELS),
        "security": security(kept=told["workspace_kept"]),
        "files": contents.files,
        "software": told["software"],
        "code": told["code"],
    }


def public_digests(files: dict[str, str]) -> dict[str, str]:
    """Return the digests of code lists and public numbers by their names, from those of a whole folder.

    And those of the certificates of earlier releases that tables were drawn towards.
    """
    found = {Path(name).name: digest for name, digest in files.items() if name.startswith(_PUBLIC)}
    for name, digest in files.items():
        if name.startswith(_PRIOR) and Path(name).name == CERTIFICATE:
            found[prior_tables.public_prior(Path(name).parent.name)] = digest
    return dict(sorted(found.items()))


def _privacy(spec: ReleaseSpec, near: Neighbours, events: list[Event], charged: Charged) -> dict[str, Any]:
    """Return whose protection is promised, and what the promise is."""
    privacy = spec.privacy
    purposes = {tally.purpose for tally in spec.tallies}
    again = [event for event in events if event.purpose in purposes] * (len(charged.tried) - 1)
    return {
        "definition": privacy.definition,
        "unit": {
            "entity": privacy.unit.entity,
            "population": charged.population,
            "column": privacy.unit.column,
        },
        "relation": privacy.relation,
        "max_contributions": privacy.max_contributions,
        "conversion": conversion(whole(spec, charged)),
        **privacy_numbers(whole(spec, charged), near, events + again, charged.deltas),
    }


def _ledger(spec: ReleaseSpec, charged: Charged, measurements: str) -> dict[str, Any]:
    """Return what the ledger says of the charge, and the newest entry it had."""
    return {
        "account": spec.dataset,
        "amount": str(own_amount(spec)),
        "rests_on": rests_on(spec, measurements),
        "definition": spec.privacy.definition,
        "attempts": charged.attempts,
        "tally_charges": [
            {
                "number": number,
                "release_id": name,
                "amount": str(spec.tally_amount),
                "attempts": attempts,
            }
            for number, name, attempts in charged.tried
        ],
        "withheld": [each.fields() for each in charged.withheld],
        "head": charged.head.fields(),
    }


def _code_lists(spec: ReleaseSpec, public: dict[str, str]) -> dict[str, str]:
    names = {published_name(column.hierarchy) for column in spec.columns.values() if column.hierarchy}
    return {name: digest for name, digest in public.items() if name in names}


def _invariant(
    spec: ReleaseSpec, known: Invariant, public: dict[str, str], numbers: dict[str, int]
) -> dict[str, Any]:
    along, level = along_of(spec, known)
    file = None if known.values is None else Path(known.values).name
    return {
        "name": known.name,
        "dimensions": sorted(known.dimensions, key=lambda name: name != along),
        "level": level,
        "numbers": numbers[known.name],
        "reason": known.reason,
        "file": file,
        "sha256": None if file is None else public[file],
    }


def _methods(tables: dict[str, Any]) -> set[str]:
    said = [each for table in tables.values() for each in (table, *table.get("measures", {}).values())]
    return {each["margins"]["method"] for each in said}
