"""What the last period published, for rules that compare with it.

A noisy rule compares like with like: the noisy number that the rule of that name had then, or the published
total where records were counted then as now.

The comparison uses the published total, which is private already: an exact row count of last year would be
one more confidential number to keep.
"""

from __future__ import annotations

import contextlib
from typing import Any

from mechanisms.errors import PublicationError
from tasks.ledger_stages import open_ledger
from tasks.publish.release_folder import CERTIFICATE, check_release
from tasks.publish.verify_certificate import verify_certificate
from tasks.runtime.run import Run
from validations.spec.rules import RowCountRule


def last_total(run: Run) -> int | None:
    """Return the total that this product published for the period before; None when there is none.

    Periods are compared as text: "2025" is before "2026", "2026-Q1" before "2026-Q2".
    """
    spec = run.loaded.spec
    exact = (rule for rule in spec.rules if isinstance(rule, RowCountRule) and rule.noisy is None)
    if all(rule.change_from_last is None for rule in exact):
        return None
    found = _last_certificate(run)
    return None if found is None else _total(found)


def last_number(run: Run, rule: str, counts: str) -> int | None:
    """Return what a noisy rule is compared with; None when nothing like it was published before.

    Parameters
    ----------
    rule
        Its name.
    counts
        ``units`` or ``records``: what it counts.
    """
    found = _last_certificate(run)
    if found is None:
        return None
    for tally in found["tallies"]:
        if (tally["of"], tally["counts"]) == (rule, counts):
            return int(tally["number"])
    # With one record for each unit, and only then, a total of records is a number of units.
    return _total(found) if found["privacy"]["max_contributions"] == 1 else None


def _total(certificate: dict[str, Any]) -> int:
    return int(next(iter(certificate["tables"].values()))["total"])


def _last_certificate(run: Run) -> dict[str, Any] | None:
    """Return the certificate of the last period before this one whose folder is where it was published."""
    spec = run.loaded.spec
    with open_ledger(run) as ledger:
        before = ledger.published_before(spec.dataset, spec.product, spec.period)
    product = run.loaded.folder / spec.publication.folder / spec.product
    for charge in before:
        folder = product / charge.period / charge.release_id
        with contextlib.suppress(PublicationError):  # moved away by the operator: look further back
            check_release(folder, charge.release_id)
            return verify_certificate(folder / CERTIFICATE, charge)
    return None
