"""The certificate: what was published, what it cost, and what a reviewer can check without the data."""

from __future__ import annotations

import datetime as dt
import platform
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from ledger import Ledger
from mechanisms.errors import PublicationError
from tasks.release import MeasuredHandle
from tasks.run import Run

FORMAT = 1
_PACKAGES = (
    "tabularium",
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
    "That this release was made at all, and when, is not covered by the guarantee.",
)


@dataclass(frozen=True)
class Contents:
    """What lies in a release folder beside its certificate.

    Attributes
    ----------
    tables
        What is said of each table.
    transcript
        The events of the noise channel, one per measured array.
    files
        Name -> plain SHA-256; public files only.
    """

    tables: dict[str, Any]
    transcript: list[dict[str, Any]]
    files: dict[str, str]


def certificate(run: Run, measured: MeasuredHandle, contents: Contents, books: Ledger) -> dict[str, Any]:
    """Return the certificate as plain values.

    The input is named by its keyed digest alone: a bare digest would let whoever knows all records but one
    confirm the last.

    Raises
    ------
    PublicationError
        If the ledger does not know the release.
    """
    charge = books.charge(measured.release_id)
    if charge is None:
        raise PublicationError(
            "the ledger does not know this release",
            where=f"release {measured.release_id}",
            mend="run the whole flow",
        )
    account, head = books.account(charge.account), books.head()
    loaded = run.loaded
    spec = loaded.spec
    return {
        "format": FORMAT,
        "release_id": measured.release_id,
        "product": spec.product,
        "period": spec.period,
        "dataset": spec.dataset,
        "created": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "privacy": {
            "definition": account.terms.definition,
            "unit": account.terms.unit,
            "relation": account.terms.relation,
            "max_contributions": spec.privacy.max_contributions,
            "epsilon": str(charge.amount),
            "epsilon_per_record": str(spec.privacy.record_budget),
        },
        "ledger": {
            "account": charge.account,
            "amount": str(charge.amount),
            "attempts": charge.fence,
            "head": {"seq": head.seq, "hash": head.hash},
        },
        "input": {
            "keyed_digest": charge.input_digest,
            "digest_kind": "HMAC-SHA-256 under the agency's secret",
        },
        "measurements": {"digest": measured.digest, "withheld": spec.publication.measurements.withhold},
        "transcript": contents.transcript,
        "spec": loaded.published_spec,
        "spec_digest": loaded.digest,
        "code_lists": loaded.public_files,
        "tables": contents.tables,
        "confidence": str(spec.publication.confidence),
        "margins": (
            "Analytic, from the variance of the noise and of weighted least squares, widened by what "
            "non-negativity and rounding moved the cell: count ± margin holds the true count at least as "
            "often as stated, over the noise of many such releases and for each cell by itself."
        ),
        "outside_the_guarantee": list(OUTSIDE),
        "files": contents.files,
        "software": {"python": platform.python_version(), **_versions()},
    }


def _versions() -> dict[str, str]:
    return {name: metadata.version(name) for name in _PACKAGES}
