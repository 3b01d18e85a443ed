"""What the last period published, for rules that compare with it.

The comparison uses the published total, which is private already: an exact row count of last year would be
one more confidential number to keep.
"""

from __future__ import annotations

import contextlib

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
    if not any(isinstance(rule, RowCountRule) and rule.change_from_last is not None for rule in spec.rules):
        return None
    with open_ledger(run) as ledger:
        before = ledger.published_before(spec.dataset, spec.product, spec.period)
    product = run.loaded.folder / spec.publication.folder / spec.product
    for charge in before:
        folder = product / charge.period / charge.release_id
        with contextlib.suppress(PublicationError):  # moved away by the operator: look further back
            check_release(folder, charge.release_id)
            tables = verify_certificate(folder / CERTIFICATE, charge)["tables"]
            return int(next(iter(tables.values()))["total"])
    return None
