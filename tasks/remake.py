"""A release from the stored measurements of an earlier one: no data are needed.

Only the use of the measurements may differ; everything that decided what was measured, and how, must be as
it was (:func:`tabularium.validations.release_spec.load.measurement_plan`). The plan of the earlier release is
read from the certificate that was kept with its measurements, whose digest the ledger holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tabularium.ledger import Charge
from tabularium.mechanisms.errors import InputError, LedgerError
from tabularium.tasks.ledger_stages import MeasuredHandle, ledger_against_store, revision_of
from tabularium.tasks.publish.certificate.sections import public_digests
from tabularium.tasks.publish.documents import kept_documents
from tabularium.tasks.publish.verify_certificate import differences
from tabularium.tasks.runtime.run import Run
from tabularium.tasks.runtime.stage import stage
from tabularium.tasks.unit_tallies import attempts
from tabularium.validations.certificate import CERTIFICATE, Certificate
from tabularium.validations.release_spec.load import Loaded, measurement_plan
from tabularium.validations.release_spec.model import ReleaseSpec

if TYPE_CHECKING:
    from tabularium.ledger import Ledger


@stage("take the stored measurements")
def take_measurements(run: Run) -> tuple[MeasuredHandle, MeasuredHandle | None]:
    """Begin a release of the measurements and tallies of an earlier one, or find it begun.

    Raises
    ------
    InputError
        If the spec would have measured something else.
    LedgerError
        If the ledger refuses it, or the kept certificate or the measurements are missing or altered.
    """
    loaded, name = run.loaded, run.release_id
    wanted = {"release_id": name, "measurements_of": run.measurements_from, **revision_of(run)}
    with ledger_against_store(run) as ledger:
        source = ledger.precheck_remake(loaded.spec.dataset, **wanted)
        if ledger.charge(name) is None:
            _require_same_plan(run, source)
            run.store.read(source.release_id, source.fence, digest=source.measurement_digest)
        review = loaded.spec.publication.review is not None
        made = ledger.remake(loaded.spec.dataset, **wanted, review=review)
        return _handle(made), _tallies(run, ledger, source)


def _handle(charge: Charge) -> MeasuredHandle:
    assert charge.measurement_digest is not None  # noqa: S101 - what was published was measured
    return MeasuredHandle(charge.release_id, charge.fence, charge.measurement_digest, charge.measured_as)


def _tallies(run: Run, ledger: Ledger, source: Charge) -> MeasuredHandle | None:
    """Return the tallies published with the earlier release, which are of one charge."""
    if not run.loaded.spec.tallies:
        return None
    tried = (charge for _, charge in attempts(run, ledger))
    return next(_handle(charge) for charge in tried if charge.publication_digest == source.publication_digest)


def _require_same_plan(run: Run, source: Charge) -> None:
    """Refuse a spec that would have measured something other than the earlier release."""
    where = f"release {source.release_id}"
    kept = kept_documents(run.installation, source.release_id, source.publication_digest, source.statement)
    if kept is None:
        raise LedgerError(
            "the certificate that was kept with its measurements is missing or altered",
            where=where,
            hint=f"restore {run.installation.measurements} from the backup",
        )
    certificate = Certificate.read(kept[CERTIFICATE])
    impossible = {name: about.impossible for name, about in certificate.tables.items()}
    require_same_cells(run.loaded, impossible, where)
    before = measurement_plan(ReleaseSpec.model_validate(certificate.spec), public_digests(certificate.files))
    different = next(differences(before, measurement_plan(run.loaded.spec, run.loaded.public_files)), None)
    if different is not None:
        raise InputError(
            f"is not as it was when {where} was measured, and decides what is measured",
            where=different,
            hint="leave it as it was, or publish a revision with a charge: without measurements_of",
        )


def require_same_cells(loaded: Loaded, impossible: Mapping[str, int | None], where: str) -> None:
    """Refuse measurements of cells that are exactly zero now and were measured then.

    ``impossible``: how many cells of each table the earlier release left out, as its certificate says.

    Raises
    ------
    InputError
        A table was measured before cells that its spec leaves empty were left out of the draw.
    """
    for table in loaded.spec.tables:
        if loaded.impossible_in(table) is not None and impossible[table.name] is None:
            raise InputError(
                f"was measured by an earlier version, which drew noise for cells of table {table.name} that "
                "are exactly zero now",
                where=where,
                hint="run it again with a charge, without measurements_of",
            )
