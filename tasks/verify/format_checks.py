"""Whether every format holds the same rows and numbers as the first of them, read by another program."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tabularium.tasks.publish.formats.base import TableFormat, first_format, formats_of
from tabularium.tasks.verify.findings import Check, CouldNot, Failed
from tabularium.tasks.verify.published_rows import numbers_of, rows_in_parts, see_numbers, see_rows
from tabularium.tasks.verify.subject import Subject, failing
from tabularium.validations.spec.publication_formats import FORMATS

_GROUP = "Formats"


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
    raise CouldNot(f"the format {name}: install the package that brings it")


def checks_of(subject: Subject) -> Iterator[Check]:
    """Yield a check for every format of the release that can be compared with the first one."""
    spec = subject.released.spec
    formats, first = formats_of(spec), first_format(spec)
    for each in formats:
        if each.same and each.name != first.name:
            yield Check(_GROUP, each.same, partial(_see_same, each))
    for each in formats:
        if each.described:
            yield Check(_GROUP, each.described, partial(_see_files, each))
    for name in spec.publication.formats:
        if name not in FORMATS:
            yield Check(_GROUP, f"{name} holds the same as the first format", partial(_unknown, name))
