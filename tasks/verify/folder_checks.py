"""Whether the folder holds the files that the certificate names, as they were, and nothing besides."""

from __future__ import annotations

import stat
from pathlib import PurePosixPath

from tabularium.tasks.verify.findings import Check, Failed
from tabularium.tasks.verify.subject import STATEMENT, Subject
from tabularium.validations.certificate import CERTIFICATE

_FILES = "Files"


def _plain(subject: Subject) -> str:
    """Every entry is a plain file or a folder of some."""
    files = 0
    for name, about in subject.entries():
        if stat.S_ISLNK(about.st_mode):
            raise Failed(f"{name} is a link")
        if not (stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode)):
            raise Failed(f"{name} is neither a file nor a folder")
        files += stat.S_ISREG(about.st_mode)
    return f"{files} files"


def _nothing_besides(subject: Subject) -> str:
    named = _named(subject)
    folders = {str(parent) for name in named for parent in PurePosixPath(name).parents}
    there = set()
    for name, about in subject.entries():
        if stat.S_ISDIR(about.st_mode):
            if name not in folders:
                raise Failed(f"{name} is no folder of the release")
            continue
        there.add(name)
        if name not in named and name not in (CERTIFICATE, STATEMENT):
            raise Failed(f"{name} is no part of the release")
    missing = sorted(named - there)
    if missing:
        raise Failed(f"{missing[0]} is missing")
    return f"{len(named)} are named by the certificate"


def _digests(subject: Subject) -> str:
    size = 0
    for name in sorted(_named(subject)):
        if subject.sha256(name) != subject.certificate.files[name]:
            raise Failed(f"{name} is not what it was")
        size += (subject.folder / name).lstat().st_size
    return f"SHA-256 of {size / 1e6:,.1f} MB"


def _named(subject: Subject) -> set[str]:
    """Return the names in the certificate, none of which may lead out of the folder."""
    for name in subject.certificate.files:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or str(path) != name or name in (CERTIFICATE, STATEMENT):
            raise Failed(f"the certificate names a file that no release has: {name!a}")
    return set(subject.certificate.files)


CHECKS = (
    Check(_FILES, "the folder holds plain files and folders only", _plain),
    Check(_FILES, "the folder holds what the certificate names, and nothing besides", _nothing_besides),
    Check(_FILES, "every file is what it was when the certificate was written", _digests),
)
