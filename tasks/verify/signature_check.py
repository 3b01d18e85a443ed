"""Whether the statement of a release is signed by a key that is believed; one that lies beside it is not."""

from __future__ import annotations

from contextlib import suppress

from tabularium.mechanisms.errors import TabulariumError
from tabularium.tasks.public_folder import named
from tabularium.tasks.sign.judge_statement import ABSENT, NO_EXPORT, Judgement, judge_statement
from tabularium.tasks.verify.books import books_of
from tabularium.tasks.verify.findings import Check, CouldNot, Failed
from tabularium.tasks.verify.subject import STATEMENT, Subject, failing
from tabularium.validations.certificate import CERTIFICATE
from tabularium.validations.public_files import MIB, open_plain

_GROUP = "Signature"
_LARGEST = 64 * MIB


def _signed(subject: Subject) -> str:
    found = _judged(subject)
    if found.failed:
        raise Failed(found.failed[0])
    if _open(found):
        raise CouldNot("; ".join(_open(found)))
    return "; ".join(found.good)


def _counts(subject: Subject) -> str:
    """The entry that published it comes after the key's enrolment and before its revocation."""
    found = _judged(subject)
    if found.failed or _open(found):
        raise CouldNot("a signature that holds")
    if found.unchecked:
        raise CouldNot("; ".join(found.unchecked))
    return f"it was published by entry {books_of(subject).statement.entry}"


def _open(found: Judgement) -> list[str]:
    """Return what keeps the signature itself from being checked."""
    return [each for each in found.unchecked if each not in (NO_EXPORT, ABSENT)]


def _judged(subject: Subject) -> Judgement:
    return subject.once("judgement", lambda: _judge(subject))


def _judge(subject: Subject) -> Judgement:
    from tabularium.ledger.keys import read_public

    raw = None
    if (subject.folder / STATEMENT).is_symlink() or (subject.folder / STATEMENT).exists():
        raw = subject.read(STATEMENT, _LARGEST)
    trusted = []
    if subject.key is not None:
        subject.see_got_elsewhere(subject.key, "a key")
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


CHECKS = (
    Check(_GROUP, "an agency's key that is believed signed every file of the release", _signed),
    Check(_GROUP, "that key was enrolled, and not revoked, when this was published", _counts),
)
