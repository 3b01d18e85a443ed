"""Every check of a release, in the order in which they are reported, and what they come to.

Those of formats compare every other format with the first one, read by another program.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tabularium.mechanisms.errors import TabulariumError
from tabularium.tasks.publish.formats.base import TableFormat, first_format, formats_of
from tabularium.tasks.runtime.extras import not_installed
from tabularium.tasks.verify import (
    certificate_checks,
    folder_checks,
    ledger_checks,
    noise_checks,
    number_checks,
)
from tabularium.tasks.verify.number_checks import numbers_of, rows_in_parts, see_numbers, see_rows
from tabularium.tasks.verify.subject import Check, Failed, Finding, NotARelease, Skipped, Subject, failing
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
                    found = f"{file}: {column}"
                    see_numbers(found, numbers[column], expected[column][here], whole=exact, after=done)
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
    for each in formats:
        if each.same and each.name != first.name:
            yield Check(_FORMATS, each.same, partial(_see_same, each))
    for each in formats:
        if each.described:
            yield Check(_FORMATS, each.described, partial(_see_files, each))
    for name in spec.publication.formats:
        if name not in FORMATS:
            yield Check(_FORMATS, f"{name} holds the same as the first format", partial(_unknown, name))


WITHOUT_TABLES: tuple[Check, ...] = (
    *folder_checks.CHECKS,
    *folder_checks.SIGNATURE_CHECKS,
    *certificate_checks.CHECKS,
    *ledger_checks.CHECKS,
    *noise_checks.CHECKS,
)
"""Checks that open neither a table nor a measurement."""
CHECKS = (*WITHOUT_TABLES, *number_checks.CHECKS)

NOBODY_CAN = (
    "that the noise was random: whoever drew it could have known it beforehand, and no one can tell from the "
    "numbers",
    "that the counts were true: what was counted never leaves the agency",
)
"""What no check of a release can show."""


def verify_release(
    subject: Subject, *, begins: Callable[[Check], None] = lambda _: None
) -> Iterator[Finding]:
    """Make every check, and yield what each comes to.

    Parameters
    ----------
    begins
        Called before each check.

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
        found = looked(check if sound or check in WITHOUT_TABLES else replace(check, look=_unsound), subject)
        sound = sound and not (check in folder_checks.CHECKS and found.outcome == "failed")
        yield found


def _checks(subject: Subject) -> Iterator[Check]:
    yield from CHECKS
    with suppress(Skipped):  # its spec cannot be read, which has been told
        yield from checks_of(subject)


def _unsound(_: Subject) -> str:
    raise Skipped("files that are what the certificate says")


def looked(check: Check, subject: Any) -> Finding:
    """Make one check; whatever it raises is what it comes to."""
    try:
        said = check.look(subject)
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
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}"
        what = f"it cannot be read as what a release holds ({where})"
        return Finding(check.group, check.what, "failed", what)
    return Finding(check.group, check.what, "checked", said or "")


def _line(text: str) -> str:
    """Return a text of a folder that nobody vouches for as one line that a terminal shows as it is."""
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())
