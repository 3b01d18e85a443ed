"""The certificate: what was published, its cost, and what a reviewer can check without the data.

Its sections are made by the modules of this folder from the spec, the transcript, the ledger and the files of
the release, and nothing else: :func:`build_certificate` puts them together, and again from a certificate, to
see that it fits itself. What each of them holds: :mod:`tabularium.validations.certificate`.
"""

from tabularium.tasks.publish.certificate.sections import build_certificate, certificate, public_digests
from tabularium.tasks.publish.certificate.software import NAMED, own_version, software_versions
from tabularium.tasks.publish.certificate.spending import (
    Charged,
    Contents,
    Outcome,
    Stated,
    with_total_budget,
)

__all__ = [
    "NAMED",
    "Charged",
    "Contents",
    "Outcome",
    "Stated",
    "build_certificate",
    "certificate",
    "own_version",
    "public_digests",
    "software_versions",
    "with_total_budget",
]
