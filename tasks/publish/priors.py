"""Earlier releases that tables are drawn towards: published by the ledger, and copied as far as needed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tabularium.mechanisms.errors import PublicationError
from tabularium.tasks.public_folder import largest_file, sha256_of
from tabularium.tasks.publish.release_folder import certificate_in, check_release, readable
from tabularium.validations.certificate import CERTIFICATE
from tabularium.validations.domains.known_marginals import FOLDER, PriorTable
from tabularium.validations.release_spec.load import Loaded

if TYPE_CHECKING:
    from tabularium.ledger import Ledger


def certificates(loaded: Loaded) -> dict[str, str]:
    """Return the releases that tables are drawn towards, for the ledger: id -> SHA-256 of the certificate."""
    return {prior.release: prior.certificate for prior in loaded.priors.values()}


def require_published(loaded: Loaded, ledger: Ledger) -> None:
    """Check, before anything is charged, that tables are drawn towards releases that the ledger published.

    Raises
    ------
    PriorUnavailable
        The ledger does not hold the certificate as published, or an officer withdrew the release.
    PublicationError
        A file of it is missing or altered.
    """
    ledger.precheck_priors(certificates(loaded))
    for prior in loaded.priors.values():
        check_release(prior.folder, prior.release)


def copy_prior(prior: PriorTable, aside: Path) -> None:
    """Copy the certificate and the file of a table into a release: with only them it can be made again.

    Raises
    ------
    PublicationError
        One of them is not what it was when the spec was read.
    """
    folder = aside / FOLDER / prior.release
    folder.mkdir(parents=True, exist_ok=True)
    largest = largest_file(certificate_in(prior.folder)[1])
    for name, digest in ((CERTIFICATE, prior.certificate), (prior.file, prior.digest)):
        with readable(prior.folder):
            same = sha256_of(prior.folder, name, largest, to=folder / name) == digest
        if not same:
            raise PublicationError(
                "it changed during the run",
                where=f"release {prior.release}, {name}",
                hint="put its folder back as it was, and run again: the noise drawn is kept",
            )
