"""From a run and its ledger to a certificate."""

from __future__ import annotations

import datetime as dt
import platform
from typing import TYPE_CHECKING

from tabularium.mechanisms.errors import PublicationError
from tabularium.tasks.postprocess.postprocessing import VERSION
from tabularium.tasks.publish.certificate.certificate_parts import Charged, Contents, Told
from tabularium.tasks.publish.certificate.installed_code import code_provenance, software_versions
from tabularium.tasks.publish.certificate.sections import build_certificate
from tabularium.tasks.publish.certificate.spending import with_total_budget
from tabularium.tasks.published_heads import stamped_head
from tabularium.tasks.runtime.run import Run
from tabularium.validations.certificate import Certificate
from tabularium.validations.release_spec.exact_facts import neighbours
from tabularium.validations.release_spec.source import public_name

if TYPE_CHECKING:
    from tabularium.ledger import Ledger
    from tabularium.tasks.ledger_stages import MeasuredHandle


def certificate(
    run: Run,
    measured: MeasuredHandle,
    contents: Contents,
    ledger: Ledger,
    tried: list[tuple[int, str, int]],
) -> Certificate:
    """Return the certificate of a run; ``tried`` is as in ``Charged``.

    Nothing in it is made from the input but the release itself: even a keyed digest would tell, by being the
    same as another's, that nobody was added in between.

    Raises
    ------
    PublicationError
        If the ledger does not know the release.
    """
    charge, reservation = ledger.charge(measured.release_id), ledger.reservation(measured.release_id)
    if charge is None or reservation is None:
        raise PublicationError(
            "the ledger does not know this release",
            where=f"release {measured.release_id}",
            hint="run the whole flow",
        )
    loaded, account = run.loaded, ledger.account(charge.account)
    deltas = [delta for delta in (loaded.spec.privacy.delta, account.terms.delta) if delta is not None]
    withheld = ledger.withheld(charge.account)
    head = stamped_head(run, ledger, measured.release_id)
    charged = Charged(
        *(account.population, charge.fence, head, list(dict.fromkeys(deltas)), tried, withheld, reservation)
    )
    near = neighbours(with_total_budget(loaded.spec, charged), loaded.domains)
    told = Told(
        release_id=measured.release_id,
        created=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        measurements=measured.digest,
        software={"python": platform.python_version(), **software_versions()},
        code=code_provenance(),
        postprocessing=VERSION,
        workspace_kept=loaded.spec.workspace.keep,
        numbers={known.name: known.values.size for known in loaded.known},
        lookups={
            name: digest
            for name, digest in loaded.public_files.items()
            if name in map(public_name, loaded.spec.lookups)
        },
    )
    return build_certificate(loaded.spec, near, contents, charged, told)
