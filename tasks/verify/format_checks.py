"""Whether every format holds the same rows and numbers as the first of them, read by another program."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from tasks.verify.checks import Check
from tasks.verify.findings import Failed
from tasks.verify.published_rows import Shape, numbers_of, parquet_rows, read_rows, see_numbers
from tasks.verify.subject import Subject

_GROUP = "Formats"


def see_same_rows(subject: Subject, name: str, file: str, batches: Iterator[pa.RecordBatch]) -> int:
    """Compare all columns of a file with the first format of its table; return how many rows it has."""
    shape = Shape.of(subject.released, name)
    numbers, flags = read_rows(file, batches, shape)
    expected, expected_flags = numbers_of(subject, name)
    for column in shape.numbers:
        see_numbers(f"{file}: {column}", numbers[column], expected[column], whole=True)
    if flags is not None and not flags.equals(expected_flags):
        raise Failed(f"{file}: the flags are not those of the first format")
    return len(expected[shape.numbers[0]])


def _parquet(subject: Subject) -> str:
    rows = 0
    for name in subject.names:
        file = f"{name}.parquet"
        if subject.rows_of(file) != len(next(iter(numbers_of(subject, name)[0].values()))):
            raise Failed(f"{file} does not have as many rows as the first format")
        rows += see_same_rows(subject, name, file, parquet_rows(subject.folder / file))
    return f"{rows:,} rows"


_READERS: dict[str, tuple[str, Callable[[Subject], str]]] = {
    "parquet": ("Parquet", _parquet),
}


def checks_of(subject: Subject) -> Iterator[Check]:
    """Yield a check for every format of the release but the one that the others are compared with."""
    for name, (title, look) in _READERS.items():
        if name in subject.released.spec.publication.formats and name != subject.base:
            yield Check(_GROUP, f"{title} holds the same as the CSV files", look)
