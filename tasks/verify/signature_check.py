"""Whether the statement of a release is signed by a key that is believed; one that lies beside it is not."""

from __future__ import annotations

from mechanisms.errors import TabulariumError
from tasks.publish.release_folder import CERTIFICATE, digest_of
from tasks.sign.judge_statement import judge_statement
from tasks.verify.books import books_of
from tasks.verify.findings import Check, CouldNot, Failed
from tasks.verify.subject import MIB, STATEMENT, Subject

_GROUP = "Signature"
_LARGEST = 64 * MIB


def _signed(subject: Subject) -> str:
    from ledger.officers.keys import read_public

    raw = None
    if (subject.folder / STATEMENT).is_symlink() or (subject.folder / STATEMENT).exists():
        raw = subject.read(STATEMENT, _LARGEST)
    trusted = []
    if subject.key is not None:
        try:
            trusted = [read_public(subject.key)]
        except TabulariumError as error:
            raise Failed(error.line()) from None
        if subject.key.resolve().is_relative_to(subject.folder.resolve()):
            raise CouldNot("a key got elsewhere: one that lies in the release is no reason to believe it")
    if raw is None and trusted:
        raise Failed("the release is unsigned, and a key was given")
    ledger = None
    if subject.export is not None:
        ledger = books_of(subject).statement
    named = [CERTIFICATE, *subject.certificate["files"]]
    files = {
        name: digest_of(subject.folder / name)
        for name in named
        if (subject.folder / name).is_file() and not (subject.folder / name).is_symlink()
    }
    found = judge_statement(raw, files, subject.certificate, subject.digest, trusted=trusted, ledger=ledger)
    if found.failed:
        raise Failed(found.failed[0])
    if found.unchecked:
        raise CouldNot("; ".join(found.unchecked))
    return "; ".join(found.good)


CHECKS = (Check(_GROUP, "an agency's key that is believed signed every file of the release", _signed),)
