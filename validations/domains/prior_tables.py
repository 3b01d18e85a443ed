"""Published tables of earlier releases, towards which the counts of new ones are drawn.

What names them is the certificate of their release, whose digest is a part of the spec's; the certificate
names the digest of the file that holds the numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FOLDER = "prior-releases"
"""Folder of a release that holds, by release id, what its tables were drawn towards."""


@dataclass(frozen=True)
class PriorTable:
    """The published file of one table of an earlier release.

    Attributes
    ----------
    release
        Its id.
    folder
        Where it lies, or a copy of its certificate and of this file.
    certificate
        SHA-256 of its certificate.
    format, file, digest
        The format that the numbers are read from, name of the file of the table, and its SHA-256.
    """

    release: str
    folder: Path
    certificate: str
    format: str
    file: str
    digest: str


def public_prior(release: str) -> str:
    """Return what the digest of a release's certificate goes by, beside those of code lists."""
    return f"{FOLDER}.{release}"
