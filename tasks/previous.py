"""What the last period published, for rules that compare with it.

The comparison uses the published total, which is private already: an exact row count of last year would be
one more confidential number to keep.
"""

from __future__ import annotations

import json

from tasks.books import open_books
from tasks.publish import CERTIFICATE
from tasks.run import Run
from validations.spec import RowCountRule


def last_total(run: Run) -> int | None:
    """Return the total that this product last published for another period; None when there is none."""
    spec = run.loaded.spec
    if not any(isinstance(rule, RowCountRule) and rule.change_from_last is not None for rule in spec.rules):
        return None
    with open_books(run) as books:
        others = [
            charge
            for charge in books.charges(spec.dataset)
            if charge.product == spec.product and charge.period != spec.period and charge.state == "published"
        ]
    product = run.loaded.folder / spec.publication.folder / spec.product
    for charge in reversed(others):
        path = product / charge.period / charge.release_id / CERTIFICATE
        try:
            tables = json.loads(path.read_bytes())["tables"]
            return int(next(iter(tables.values()))["total"])
        except (OSError, ValueError, KeyError, StopIteration):
            continue  # moved away by the operator: look further back
    return None
