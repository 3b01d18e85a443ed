"""The certificate: what was published, what it cost, and what a reviewer can check without the data."""

from __future__ import annotations

import datetime as dt
import platform
from dataclasses import dataclass
from fractions import Fraction
from importlib import metadata
from pathlib import Path
from typing import Any

from ledger import Ledger, Withheld
from mechanisms.accounting import Event
from mechanisms.errors import PublicationError
from tasks.ledger_stages import MeasuredHandle
from tasks.margins.error_model import MEANING
from tasks.postprocess.postprocessing import VERSION
from tasks.publish.guarantee import privacy_numbers
from tasks.published_heads import StampedHead, stamped_head
from tasks.runtime.run import Run
from validations.domains.sdmx_code_lists import published_name
from validations.spec.exact_facts import Neighbours, along_of, facts_of_release, neighbours
from validations.spec.load import published, spec_digest
from validations.spec.model import Invariant, ReleaseSpec
from validations.spec.summary import tally_about

FORMAT = 1
_PUBLIC = ("codes/", "invariants/")
_PACKAGES = (
    "tabularium-dp",
    "numpy",
    "cryptography",
    "duckdb",
    "ibis-framework",
    "pyarrow",
    "prefect",
    "great-expectations",
)


@dataclass(frozen=True)
class Contents:
    """What lies in a release folder beside its certificate.

    Attributes
    ----------
    tables
        What is said of each table.
    events
        Of the noise channel, in the order of the tables.
    files
        Name -> plain SHA-256; public files only.
    agreement
        How several tables were made to agree, step by step; empty for one.
    conflicts
        Invariant -> how it and the measurements go together.
    tallies
        Of each tally of the spec, in their order: its noisy ``number``, and of a rule what is ``broken``.
    """

    tables: dict[str, Any]
    events: list[Event]
    files: dict[str, str]
    agreement: dict[str, Any]
    conflicts: dict[str, dict[str, int]]
    tallies: list[dict[str, Any]]


@dataclass(frozen=True)
class Charged:
    """What a certificate says of the charge and of its account.

    Attributes
    ----------
    population
        To which the protected units belong, as the account says.
    attempts
        How many times drawing began.
    deltas
        At which ε is reported under zcdp: the spec's, and the account's, which may be another.
    tried
        Number, release id and attempts of every charge that was made for tallies, each for another input.
    withheld
        The drafts of the account that officers withheld before, with what each cost.
    """

    population: str
    attempts: int
    head: StampedHead
    deltas: list[Fraction]
    tried: list[tuple[int, str, int]]
    withheld: list[Withheld]


def certificate(
    run: Run,
    measured: MeasuredHandle,
    contents: Contents,
    ledger: Ledger,
    tried: list[tuple[int, str, int]],
) -> dict[str, Any]:
    """Return the certificate as plain values; ``tried`` is as in ``Charged``.

    Nothing in it is made from the input but the release itself: even a keyed digest would tell, by being the
    same as another's, that nobody was added in between.

    Raises
    ------
    PublicationError
        If the ledger does not know the release.
    """
    charge = ledger.charge(measured.release_id)
    if charge is None:
        raise PublicationError(
            "the ledger does not know this release",
            where=f"release {measured.release_id}",
            mend="run the whole flow",
        )
    loaded, account = run.loaded, ledger.account(charge.account)
    deltas = [delta for delta in (loaded.spec.privacy.delta, account.terms.delta) if delta is not None]
    withheld = ledger.withheld(charge.account)
    head = stamped_head(run, ledger, measured.release_id)
    charged = Charged(account.population, charge.fence, head, list(dict.fromkeys(deltas)), tried, withheld)
    near = neighbours(whole(loaded.spec, charged), loaded.domains)
    told = {
        "release_id": measured.release_id,
        "created": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "measurements": measured.digest,
        "software": {"python": platform.python_version(), **software_versions()},
        "numbers": {known.name: known.values.size for known in loaded.known},
        "postprocessing": VERSION,
    }
    return stated(loaded.spec, near, contents, charged, told)


def stated(
    spec: ReleaseSpec, near: Neighbours, contents: Contents, charged: Charged, told: dict[str, Any]
) -> dict[str, Any]:
    """Return every section of a certificate, in the order in which it is read: what is exact comes first.

    :mod:`tasks.publish.verify_certificate` makes them again from a certificate and compares.

    Parameters
    ----------
    near
        Which inputs the guarantee compares.
    told
        What nothing else in a certificate implies: the release id, when it was made, the digest of the
        measurements, the software, the version of the post-processing, and how many numbers each invariant
        has.
    """
    public = public_digests(contents.files)
    tallies = [attempts for _, _, attempts in charged.tried]
    withheld = [(each.criterion, each.consulted) for each in charged.withheld]
    facts = facts_of_release(spec, charged.attempts, tallies, withheld)
    return {
        "format": FORMAT,
        "release_id": told["release_id"],
        "product": spec.product,
        "period": spec.period,
        "revises": spec.revises,
        "dataset": spec.dataset,
        "created": told["created"],
        "outside_the_guarantee": [fact.as_dict() for fact in facts],
        "privacy": _privacy(spec, near, contents.events, charged),
        "ledger": _ledger(spec, charged),
        "measurements": {
            "digest": told["measurements"],
            "withheld": spec.publication.measurements.withhold,
        },
        "tallies": [
            {**told_of, **tally_about(spec, tally)}
            for tally, told_of in zip(spec.tallies, contents.tallies, strict=True)
        ],
        "transcript": [event.as_dict() for event in contents.events],
        "spec": published(spec),
        "spec_digest": spec_digest(spec, public),
        "code_lists": _code_lists(spec, public),
        "invariants": [
            {**_invariant(spec, known, public, told["numbers"]), **contents.conflicts[known.name]}
            for known in spec.invariants
        ],
        "tables": contents.tables,
        "agreement": contents.agreement,
        "postprocessing": {"version": told["postprocessing"]},
        "confidence": str(spec.publication.confidence),
        "margins": {method: MEANING[method] for method in MEANING if method in _methods(contents.tables)},
        "files": contents.files,
        "software": told["software"],
    }


def public_digests(files: dict[str, str]) -> dict[str, str]:
    """Return the digests of code lists and invariants by their names, from those of all files of a folder."""
    found = {Path(name).name: digest for name, digest in files.items() if name.startswith(_PUBLIC)}
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
        **privacy_numbers(whole(spec, charged), near, events + again, charged.deltas),
    }


def whole(spec: ReleaseSpec, charged: Charged) -> ReleaseSpec:
    """Return the spec with the budget that all charges of the release cost: every further try adds to it."""
    more = spec.tally_amount * max(len(charged.tried) - 1, 0)
    privacy = spec.privacy.model_copy(update={"budget": spec.privacy.budget + more})
    return spec.model_copy(update={"privacy": privacy})


def _ledger(spec: ReleaseSpec, charged: Charged) -> dict[str, Any]:
    """Return what the ledger says of the charge, and the newest entry it had."""
    return {
        "account": spec.dataset,
        "amount": str(spec.main_amount),
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
    return {table["margins"]["method"] for table in tables.values()}


def software_versions() -> dict[str, str]:
    """Return the versions of what makes a release.

    Raises
    ------
    PublicationError
        If one of them was not installed as a package: nobody could tell later what it was.
    """
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            raise PublicationError(
                f"{name} is not installed as a package",
                where="software",
                mend="install Tabularium anew with pip",
            ) from None
    return found
