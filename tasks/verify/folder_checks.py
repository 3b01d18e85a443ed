"""Checks of the files of the folder against the certificate, and of the signature over them."""

from __future__ import annotations

import stat
from contextlib import suppress
from pathlib import PurePosixPath

from tabularium.mechanisms.errors import TabulariumError
from tabularium.tasks.public_folder import named
from tabularium.tasks.sign.judge_statement import ABSENT, NO_EXPORT, Judgement, judge_statement
from tabularium.tasks.verify.ledger_checks import books_of
from tabularium.tasks.verify.subject import STATEMENT, Check, Failed, Skipped, Subject, failing
from tabularium.validations.certificate import CERTIFICATE
from tabularium.validations.public_files import MIB, open_plain

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
    """Return the names in the certificate; none may lead out of the folder."""
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


_GROUP = "Signature"
_LARGEST = 64 * MIB


def _signed(subject: Subject) -> str:
    judgement = _judged(subject)
    if judgement.failed:
        raise Failed(judgement.failed[0])
    if _open(judgement):
        raise Skipped("; ".join(_open(judgement)))
    return "; ".join(judgement.good)


def _counts(subject: Subject) -> str:
    """The publishing entry comes after the key's enrolment and before its revocation."""
    judgement = _judged(subject)
    if judgement.failed or _open(judgement):
        raise Skipped("a signature that holds")
    if judgement.unchecked:
        raise Skipped("; ".join(judgement.unchecked))
    return f"it was published by entry {books_of(subject).statement.entry}"


def _open(judgement: Judgement) -> list[str]:
    """Return the reasons why the signature itself cannot be checked."""
    return [reason for reason in judgement.unchecked if reason not in (NO_EXPORT, ABSENT)]


def _judged(subject: Subject) -> Judgement:
    return subject.cached("judgement", lambda: _judge(subject))


def _judge(subject: Subject) -> Judgement:
    from tabularium.ledger.keys import read_public

    raw = None
    if (subject.folder / STATEMENT).is_symlink() or (subject.folder / STATEMENT).exists():
        raw = subject.read(STATEMENT, _LARGEST)
    trusted = []
    if subject.key is not None:
        subject.require_outside_folder(subject.key, "a key")
        with failing(), named(str(subject.key)), open_plain(subject.key, MIB, links=True):
            pass
        try:
            trusted = [read_public(subject.key)]
        except TabulariumError as error:
            raise Failed(error.line()) from None
    if raw is None and trusted:
        raise Failed("the release is unsigned, and a key was given")
    ledger = None if subject.export is None else books_of(subject).statement
    of_the_release = [CERTIFICATE, *subject.certificate.files]
    files = {}
    for name in of_the_release:
        with suppress(Failed):  # what is missing, or no plain file, has no digest
            files[name] = subject.sha256(name)
    return judge_statement(raw, files, subject.certificate, subject.digest, trusted=trusted, ledger=ledger)


SIGNATURE_CHECKS = (
    Check(_GROUP, "an agency's key that is believed signed every file of the release", _signed),
    Check(_GROUP, "that key was enrolled, and not revoked, when this was published", _counts),
)
