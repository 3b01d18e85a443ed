"""What the last period published, for rules and documents that compare with it.

A noisy rule compares like with like: the noisy number that the rule of that name had then, or the published
total where records were counted then as now.

The comparison uses the published total, which is private already: an exact row count of last year would be
one more confidential number to keep.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tabularium.mechanisms.errors import PublicationError
from tabularium.tasks.publish.release_folder import check_release
from tabularium.tasks.publish.verify_certificate import verify_certificate
from tabularium.tasks.runtime.run import Run
from tabularium.validations.certificate import CERTIFICATE, Certificate
from tabularium.validations.release_spec.model import ReleaseSpec
from tabularium.validations.release_spec.privacy import RowCountRule

if TYPE_CHECKING:
    from tabularium.ledger import Ledger


def last_total(run: Run) -> int | None:
    """Return the total that exact rules compare with; None when there is none, or no such rule.

    Periods are compared as text: "2025" is before "2026", "2026-Q1" before "2026-Q2".

    Raises
    ------
    PublicationError
        If any rule compares, a noisy one too, and the release to compare with is missing or altered.
    """
    rules = [rule for rule in run.loaded.spec.rules if isinstance(rule, RowCountRule)]
    rules = [rule for rule in rules if rule.change_from_last is not None]
    found = _last_certificate(run) if rules else None
    if found is None or all(rule.noisy is not None for rule in rules):
        return None
    return _total(found)


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
    for tally in found.tallies:
        if (tally.of, tally.counts) == (rule, counts):
            return tally.number
    # With one record for each unit, and only then, a total of records is a number of units.
    return _total(found) if found.privacy.max_contributions == 1 else None


def last_release(run: Run, ledger: Ledger) -> Path | None:
    """Return the folder of the product's newest release for an earlier period, for those who only show it.

    The ledger calls it published, and it lies whole in the publication folder; one that does not is passed
    over, and then the newest before it is returned.
    """
    spec = run.loaded.spec
    product = run.loaded.folder / spec.publication.folder / spec.product
    for charge in ledger.published_before(spec.dataset, spec.product, spec.period):
        folder = product / charge.period / charge.release_id
        with contextlib.suppress(PublicationError):
            if folder.is_dir() and check_release(folder, charge.release_id) == charge.publication_digest:
                return folder
    return None


def total_of(tables: Mapping[str, str | None], totals: Mapping[str, int]) -> int | None:
    """Return the total of the first table of all records; None where there was none to compare with.

    Parameters
    ----------
    tables
        Name -> which records it counts; None for all.
    totals
        Name -> published total.
    """
    return next((totals[name] for name, where in tables.items() if where is None), None)


def _total(certificate: Certificate) -> int | None:
    tables = {each.name: each.where for each in ReleaseSpec.model_validate(certificate.spec).tables}
    return total_of(tables, {name: about.total for name, about in certificate.tables.items()})


def _last_certificate(run: Run) -> Certificate | None:
    """Return the certificate of the last release before this period; None where the ledger knows of none.

    Its folder has to be there as it was published: a rule that compared with nothing, or with an older
    period, would hold without saying what the certificate says that it says.
    """
    spec = run.loaded.spec
    before = run.ledger.published_before(spec.dataset, spec.product, spec.period)
    product = run.loaded.folder / spec.publication.folder / spec.product
    # The charges of one release, its tallies' too, name one certificate; one of them names its folder.
    own = [charge for charge in before if charge.publication_digest == before[0].publication_digest]
    for charge in own:
        folder = product / charge.period / charge.release_id
        if folder.is_dir():
            with contextlib.suppress(PublicationError):
                check_release(folder, charge.release_id)
                return verify_certificate(folder / CERTIFICATE, charge)
    if not own:
        return None
    raise PublicationError(
        f"change_from_last compares with what was published for {own[0].period}, and that release is missing "
        "or altered",
        where=str(product / own[0].period),
        hint="put its folder back as it was published, or leave change_from_last out of the spec",
    )
