"""The certificate: what was published, what it cost, and what a reviewer can check without the data."""

from __future__ import annotations

import datetime as dt
import platform
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from ledger import Account, Charge, Head, Ledger
from mechanisms.accounting import Event
from mechanisms.errors import PublicationError
from tasks.ledger_stages import MeasuredHandle
from tasks.margins.error_model import MEANING
from tasks.publish.guarantee import privacy_numbers
from tasks.runtime.run import Run
from validations.domains.known_marginals import KnownMarginal
from validations.spec.exact_facts import facts_of_release, neighbours
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
    """

    tables: dict[str, Any]
    events: list[Event]
    files: dict[str, str]
    agreement: dict[str, Any]


def certificate(run: Run, measured: MeasuredHandle, contents: Contents, ledger: Ledger) -> dict[str, Any]:
    """Return the certificate as plain values.

    The input is named by its keyed digest alone: a bare digest would let whoever knows all records but one
    confirm the last.

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
    outside = facts_of_release(spec, charge.fence)
    return {
        "format": FORMAT,
        "release_id": measured.release_id,
        "product": spec.product,
        "period": spec.period,
        "dataset": spec.dataset,
        "created": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "outside_the_guarantee": [fact.as_dict() for fact in outside],
        "privacy": _privacy(loaded, account, contents),
        "ledger": _ledger(charge, account, head),
        "input": {
            "keyed_digest": charge.input_digest,
            "digest_kind": "HMAC-SHA-256 under the agency's secret",
        },
        "measurements": {"digest": measured.digest, "withheld": spec.publication.measurements.withhold},
        "transcript": [event.as_dict() for event in contents.events],
        "spec": loaded.published_spec,
        "spec_digest": loaded.digest,
        "code_lists": _code_lists(loaded),
        "invariants": [_invariant(loaded, known) for known in loaded.known],
        "tables": contents.tables,
        "agreement": contents.agreement,
        "confidence": str(spec.publication.confidence),
        "margins": {method: MEANING[method] for method in MEANING if method in _methods(contents.tables)},
        "files": contents.files,
        "software": {"python": platform.python_version(), **software_versions()},
    }


def _privacy(loaded: Loaded, account: Account, contents: Contents) -> dict[str, Any]:
    """Return whose protection is promised, and what the promise is."""
    privacy = loaded.spec.privacy
    deltas = [delta for delta in (privacy.delta, account.terms.delta) if delta is not None]
    return {
        "definition": account.terms.definition,
        "unit": account.terms.unit,
        "relation": account.terms.relation,
        "max_contributions": privacy.max_contributions,
        **privacy_numbers(loaded.spec, neighbours(loaded.spec, loaded.domains), contents.events, deltas),
    }


def _ledger(charge: Charge, account: Account, head: Head) -> dict[str, Any]:
    """Return what the ledger says of the charge, and the newest entry it had."""
    return {
        "account": charge.account,
        "amount": str(charge.amount),
        "definition": account.terms.definition,
        "attempts": charge.fence,
        "head": {"seq": head.seq, "hash": head.hash},
    }


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
