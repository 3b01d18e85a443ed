"""All checks of a release, in the order in which they are reported, and checks of a series of releases.

A check of a format compares it with the first one, read by another program.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

from tabularium.ledger import Head
from tabularium.mechanisms.errors import TabulariumError
from tabularium.tasks.publish.certificate.sections import public_digests
from tabularium.tasks.publish.formats.base import TableFormat, first_format, formats_of
from tabularium.tasks.publish.verify_certificate import differences, head_in
from tabularium.tasks.runtime.extras import not_installed
from tabularium.tasks.verify import (
    certificate_checks,
    folder_checks,
    ledger_checks,
    number_checks,
)
from tabularium.tasks.verify.number_checks import numbers_of, rows_in_parts, see_numbers, see_rows
from tabularium.tasks.verify.subject import Check, Failed, Finding, NotARelease, Skipped, Subject, failing
from tabularium.validations.certificate import RestsOn
from tabularium.validations.release_spec.load import measurement_plan
from tabularium.validations.release_spec.publication_formats import FORMATS

_FORMATS = "Formats"


def _see_same(format_: TableFormat, subject: Subject) -> str:
    """Compare all columns of each table with its first format."""
    released, total = subject.released, 0
    rows = {name: len(next(iter(numbers_of(subject, name)[0].values()))) for name in subject.names}
    for name in subject.names:
        expected, expected_flags = numbers_of(subject, name)
        file, shape, done = format_.label(name), format_.shape(released.shape(name)), 0
        exact = format_.exact or shape.whole
        with failing():
            batches = format_.read(released.loaded, subject.folder, shape, rows)
            for numbers, flags in rows_in_parts(file, batches, shape):
                here = slice(done, done + len(numbers[shape.numbers[0]]))
                if here.stop > rows[name]:
                    raise Failed(f"{file} has more rows than the first format")
                for column in shape.numbers:
                    what = f"{file}: {column}"
                    see_numbers(what, numbers[column], expected[column][here], whole=exact, after=done)
                for column, found_flags in flags.items():
                    first = expected_flags[column].slice(done, here.stop - done)
                    if format_.spelled(first) != found_flags:
                        raise Failed(f"{file}: {column} is not that of the first format")
                done = here.stop
        see_rows(file, done, rows[name])
        total += done
    return f"{total:,} rows"


def _see_files(format_: TableFormat, subject: Subject) -> str:
    released = subject.released
    shapes = [released.shape(name) for name in subject.names]
    with failing():
        return format_.check_files(released.loaded, subject.folder, shapes, subject.certificate.files)


def _unknown(name: str, subject: Subject) -> str:
    raise Skipped(f"the format {name}: install the package that brings it")


def checks_of(subject: Subject) -> Iterator[Check]:
    """Yield a check for every format of the release that can be compared with the first one."""
    spec = subject.released.spec
    formats, first = formats_of(spec), first_format(spec)
    for format_ in formats:
        if format_.same and format_.name != first.name:
            yield Check(_FORMATS, format_.same, partial(_see_same, format_))
    for format_ in formats:
        if format_.described:
            yield Check(_FORMATS, format_.described, partial(_see_files, format_))
    for name in spec.publication.formats:
        if name not in FORMATS:
            yield Check(_FORMATS, f"{name} holds the same as the first format", partial(_unknown, name))


WITHOUT_TABLES: tuple[Check, ...] = (
    *folder_checks.CHECKS,
    *folder_checks.SIGNATURE_CHECKS,
    *certificate_checks.CHECKS,
    *ledger_checks.CHECKS,
    *certificate_checks.NOISE_CHECKS,
)
"""Checks that open neither a table nor a measurement."""
CHECKS = (*WITHOUT_TABLES, *number_checks.CHECKS)

NOBODY_CAN = (
    "that the noise was random: anyone who drew it could have known it beforehand, and no one can tell "
    "from the numbers",
    "that the counts were true: what was counted never leaves the agency",
)
"""What no check of a release can show."""


def verify_release(
    subject: Subject, *, begins: Callable[[Check], None] = lambda _: None
) -> Iterator[Finding]:
    """Make every check, and yield the findings.

    Raises
    ------
    NotARelease
        There is no certificate that could be read; nothing was checked.
    """
    _ = subject.certificate
    sound = True
    for check in _checks(subject):
        begins(check)
        # What is known to be another file than was published, such as a pipe or a bomb, is not read further.
        findings = looked(
            check if sound or check in WITHOUT_TABLES else replace(check, look=_unsound), subject
        )
        sound = sound and not (check in folder_checks.CHECKS and findings.outcome == "failed")
        yield findings


def _checks(subject: Subject) -> Iterator[Check]:
    yield from CHECKS
    with suppress(Skipped):  # its spec cannot be read, which is reported already
        yield from checks_of(subject)


def _unsound(_: Subject) -> str:
    raise Skipped("files that are what the certificate says")


def looked(check: Check, subject: Any) -> Finding:
    """Make one check; an error it raises becomes its finding."""
    try:
        remark = check.look(subject)
    except Failed as failed:
        return Finding(check.group, check.what, "failed", _line(str(failed)))
    except Skipped as needed:
        return Finding(check.group, check.what, "unchecked", _line(str(needed)))
    except TabulariumError as error:
        return Finding(check.group, check.what, "failed", error.line())
    except NotARelease:
        raise
    except ImportError as error:  # of this installation; it says nothing of the release
        lacking = not_installed(error)
        missing = error.name or "a library"
        hint = f"repair {missing}, which cannot be imported" if lacking is None else lacking.hint
        return Finding(check.group, check.what, "unchecked", hint, not_installed=True)
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}"
        what = f"it cannot be read as what a release holds ({where})"
        return Finding(check.group, check.what, "failed", what)
    return Finding(check.group, check.what, "checked", remark or "")


def _line(text: str) -> str:
    """Return a text of an untrusted folder as one printable line."""
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())


# A series of releases: they follow one another on one ledger, in its order, and the spent budget only grows.


_GROUP = "Series"


def verify_series(subjects: Sequence[Subject], export: Path | None) -> list[Finding]:
    """Compare releases with one another, the oldest first.

    Each is to be verified by itself as well (:func:`tabularium.tasks.verify.verify_release.verify_release`).
    """
    checks = (
        Check(_GROUP, "the releases are given in the order of the ledger's entries, each once", _in_order),
        Check(
            _GROUP, "the heads that they name lie on one chain", lambda these: _on_one_chain(these, export)
        ),
        Check(_GROUP, "what their account had spent does not become less", _grows),
        Check(
            _GROUP, "what is remade has the measurements, and the plan of measuring, of what it names", _rests
        ),
    )
    return [looked(check, subjects) for check in checks]


def _heads(subjects: Sequence[Subject]) -> list[Head]:
    return [head_in(subject.certificate) for subject in subjects]


def _in_order(subjects: Sequence[Subject]) -> str:
    heads, ids = _heads(subjects), [subject.certificate.release_id for subject in subjects]
    for index in range(1, len(heads)):
        if heads[index].seq < heads[index - 1].seq or ids[index] in ids[:index]:
            raise Failed(f"{subjects[index].folder} does not come after {subjects[index - 1].folder}")
    return f"{len(heads)} releases"


def _on_one_chain(subjects: Sequence[Subject], export: Path | None) -> str:
    if export is None:
        raise Skipped("an export of the ledger: give --export")
    from tabularium.ledger.export import verify_export

    return f"{verify_export(export, _heads(subjects)).entries:,} entries"


def _grows(subjects: Sequence[Subject]) -> str:
    """Compare the amounts spent from the account, as each certificate has them, its own charge included."""
    spent: dict[str, Fraction] = {}
    for subject in subjects:
        figure = subject.certificate.account.cumulative.used
        account = subject.certificate.dataset
        if figure < spent.get(account, Fraction()):
            raise Failed(f"{subject.folder}: account {account} had spent less than at the release before")
        spent[account] = figure
    return ", ".join(f"{name}: {sum_}" for name, sum_ in spent.items())


def _rests(subjects: Sequence[Subject]) -> str:
    """Compare each release with the one that paid for its measurements, where that is given too."""
    known = {subject.certificate.release_id: subject for subject in subjects}
    held = []
    for subject in subjects:
        rests = subject.certificate.ledger.rests_on
        earlier = None if rests is None else known.get(rests.release_id)
        if rests is not None and earlier is not None:
            _rests_on(subject, earlier, rests)
            held.append(f"{subject.folder} rests on {earlier.folder}")
    return "; ".join(held) or "none of these is"


def _rests_on(subject: Subject, earlier: Subject, rests: RestsOn) -> None:
    theirs = earlier.certificate.measurements.digest, earlier.certificate.ledger.amount
    one, other = (
        measurement_plan(release.released.spec, public_digests(release.certificate.files))
        for release in (earlier, subject)
    )
    different = next(differences(one, other), None)
    if (rests.measurements, rests.amount) != theirs:
        different = "ledger.rests_on"
    if different is not None:
        raise Failed(f"{subject.folder}: {different} differs from {earlier.folder}")
