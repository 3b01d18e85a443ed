"""The certificate: what was published, what it cost, and what a reviewer can check without the data."""

from __future__ import annotations

import datetime as dt
import platform
from dataclasses import dataclass
from fractions import Fraction
from importlib import metadata
from pathlib import Path
from typing import Any

from ledger import Account, Ledger
from mechanisms.accounting import Event
from mechanisms.errors import PublicationError
from tasks.ledger_stages import MeasuredHandle
from tasks.margins.error_model import MEANING
from tasks.publish.guarantee import privacy_numbers
from tasks.runtime.run import Run
from tasks.unit_tallies import attempts, described, drawn
from validations.domains.known_marginals import KnownMarginal
from validations.spec.load import Loaded

FORMAT = 1
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

OUTSIDE = (
    "Exact row counts, the limit on rejected records and the pass or fail of rules on the microdata are "
    "seen by the operators, and by nobody else; they are not covered by the guarantee.",
    "How long a run took and how much memory it used depend on the data; the operators see both.",
    "That this release was made at all, and when, is not covered by the guarantee.",
)

INVARIANTS = (
    "The numbers of the invariants are shown exactly. They are as public as their sources, which the spec "
    "names; the guarantee does not cover what they say of anybody."
)

ATTEMPTS = (
    "Noisy rules were judged more than once, each time on another input: that the input was changed in "
    "between is not covered by the guarantee. What every attempt cost is part of the price above."
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
    tallied
        The charge of the tallies, if there are any.
    """

    tables: dict[str, Any]
    events: list[Event]
    files: dict[str, str]
    agreement: dict[str, Any]
    conflicts: dict[str, dict[str, int]]
    tallied: MeasuredHandle | None


def certificate(run: Run, measured: MeasuredHandle, contents: Contents, ledger: Ledger) -> dict[str, Any]:
    """Return the certificate as plain values.

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
    account, head = ledger.account(charge.account), ledger.head()
    loaded = run.loaded
    spec = loaded.spec
    attempted = attempts(run, ledger)
    tallies = [] if contents.tallied is None else [each.event for each in drawn(run, contents.tallied)]
    # What all charges of the release cost one unit: the budget of the spec, and every further attempt.
    spent = sum((each.amount for _, each in attempted), charge.amount)
    whole = spec.model_copy(update={"privacy": spec.privacy.model_copy(update={"budget": spent})})
    return {
        "format": FORMAT,
        "release_id": measured.release_id,
        "product": spec.product,
        "period": spec.period,
        "revises": spec.revises,
        "dataset": spec.dataset,
        "created": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "privacy": {
            "definition": account.terms.definition,
            "unit": {
                "entity": account.unit,
                "population": account.population,
                "column": spec.privacy.unit.column,
            },
            "relation": account.terms.relation,
            "max_contributions": spec.privacy.max_contributions,
            **privacy_numbers(whole, [*contents.events, *tallies * len(attempted)], _deltas(run, account)),
        },
        "ledger": {
            "account": charge.account,
            "amount": str(charge.amount),
            "definition": account.terms.definition,
            "attempts": charge.fence,
            "tally_charges": [
                {"number": number, "release_id": each.release_id, "amount": str(each.amount)}
                for number, each in attempted
            ],
            "head": {"seq": head.seq, "hash": head.hash},
        },
        "measurements": {"digest": measured.digest, "withheld": spec.publication.measurements.withhold},
        "tallies": described(run, contents.tallied),
        "transcript": [event.as_dict() for event in (*tallies, *contents.events)],
        "spec": loaded.published_spec,
        "spec_digest": loaded.digest,
        "code_lists": _code_lists(loaded),
        "invariants": [
            {**_invariant(loaded, known), **contents.conflicts[known.name]} for known in loaded.known
        ],
        "tables": contents.tables,
        "agreement": contents.agreement,
        "confidence": str(spec.publication.confidence),
        "margins": {method: MEANING[method] for method in MEANING if method in _methods(contents)},
        "outside_the_guarantee": [
            *OUTSIDE,
            *([INVARIANTS] if loaded.known else []),
            *([ATTEMPTS] if len(attempted) > 1 else []),
        ],
        "files": contents.files,
        "software": {"python": platform.python_version(), **software_versions()},
    }


def _deltas(run: Run, account: Account) -> list[Fraction]:
    """Return the δ of the spec and that of the account, which may be another."""
    return [delta for delta in (run.loaded.spec.privacy.delta, account.terms.delta) if delta is not None]


def _code_lists(loaded: Loaded) -> dict[str, str]:
    names = {Path(column.hierarchy).name for column in loaded.spec.columns.values() if column.hierarchy}
    return {name: digest for name, digest in loaded.public_files.items() if name in names}


def _invariant(loaded: Loaded, known: KnownMarginal) -> dict[str, Any]:
    file = None if known.file is None else Path(known.file).name
    return {
        "name": known.name,
        "dimensions": [*([known.along] if known.along else []), *known.flat],
        "level": known.level,
        "numbers": known.values.size,
        "reason": known.reason,
        "file": file,
        "sha256": None if file is None else loaded.public_files[file],
    }


def _methods(contents: Contents) -> set[str]:
    return {table["margins"]["method"] for table in contents.tables.values()}


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
