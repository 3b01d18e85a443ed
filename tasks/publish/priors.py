"""Earlier releases that tables are drawn towards: the ledger published them, and what is needed is copied."""

from __future__ import annotations

import hashlib
from pathlib import Path

from ledger import Ledger
from mechanisms.errors import LedgerError, PublicationError
from tasks.publish.release_folder import CERTIFICATE, check_release
from validations.domains.prior_tables import FOLDER, PriorTable
from validations.spec.load import Loaded


def require_published(loaded: Loaded, ledger: Ledger) -> None:
    """See, before anything is charged, that what tables are drawn towards is what the ledger published.

    Raises
    ------
    LedgerError
        The ledger does not hold the certificate as published, or an officer withdrew the release.
    PublicationError
        A file of it is missing or altered.
    """
    for table, prior in loaded.priors.items():
        where = f"table {table}, prior {prior.release}"
        charge = ledger.charge(prior.release)
        if charge is None or charge.state != "published" or charge.publication_digest != prior.certificate:
            raise LedgerError(
                "the ledger has not published a release of this certificate",
                where=where,
                mend="name a release that this ledger published, its folder as it was; nothing was charged",
            )
        withdrawn = ledger.withdrawal(prior.release)
        if withdrawn is not None:
            raise LedgerError(
                f"this release was withdrawn on {withdrawn.at[:10]}: {withdrawn.reason}",
                where=where,
                mend="name the release that stands for it now, or remove prior; nothing was charged",
            )
        check_release(prior.folder, prior.release)


def copy_prior(prior: PriorTable, aside: Path) -> None:
    """Copy the certificate and the file of a table into a release: with them alone it can be made again.

    Raises
    ------
    PublicationError
        One of them is not what it was when the spec was read.
    """
    folder = aside / FOLDER / prior.release
    folder.mkdir(parents=True, exist_ok=True)
    for name, digest in ((CERTIFICATE, prior.certificate), (prior.file, prior.digest)):
        content = (prior.folder / name).read_bytes()
        if hashlib.sha256(content).hexdigest() != digest:
            raise PublicationError(
                "it changed during the run",
                where=f"release {prior.release}, {name}",
                mend="put its folder back as it was, and run again: the noise drawn is kept",
            )
        (folder / name).write_bytes(content)
