"""The rows of a published table, read part by part and held against what the spec says of them.

Which cell stands in which row, with which codes and labels, follows from the spec and the code lists. So a
table is read once, from the first of its formats, into bare numbers; every other format is compared with
these, and the measurements are as well.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tabularium.tasks.public_tables import longest_text
from tabularium.tasks.publish.formats.base import first_format, known_rows
from tabularium.tasks.publish.frames import Shape
from tabularium.tasks.verify.subject import Failed, Subject, failing

_LONGEST_FLAG = 100  # bytes

Numbers = dict[str, NDArray[np.float64]]
"""Column of numbers -> its values row by row; not a number where it is blank."""
Flags = dict[str, pa.ChunkedArray]
"""Column of flags -> its flags row by row; none without quality rules."""
Read = tuple[Numbers, Flags]
"""Numbers and flags."""


class Rows:
    """Batches of rows, taken in other portions than they come in."""

    def __init__(self, file: str, batches: Iterator[pa.RecordBatch], columns: list[str]) -> None:
        self._file, self._batches, self._columns = file, batches, columns
        self._held: list[pa.RecordBatch] = []

    def take(self, rows: int | None) -> pa.Table:
        """Return the next rows, all that are left if ``rows`` is None."""
        held = sum(batch.num_rows for batch in self._held)
        while rows is None or held < rows:
            batch = next(self._batches, None)
            if batch is None:
                break
            if batch.schema.names != self._columns:
                raise Failed(f"{self._file} does not have the columns that it should have")
            self._held.append(batch)
            held += batch.num_rows
        if rows is not None and held < rows:
            raise Failed(f"{self._file} has fewer rows than the spec declares")
        if not self._held:
            return pa.table({name: [] for name in self._columns})
        table = pa.Table.from_batches(self._held)
        rows = held if rows is None else rows
        self._held = table.slice(rows).to_batches()
        return table.slice(0, rows)

    def end(self) -> None:
        """See that nothing is left."""
        if any(batch.num_rows for batch in self._held) or next(self._batches, None) is not None:
            raise Failed(f"{self._file} has more rows than the spec declares")


def numbers_of(subject: Subject, name: str) -> Read:
    """Return the numbers and the flags of a table as its first format has them, read once."""

    def read() -> Read:
        subject.bounded()
        released = subject.released
        shape, first = released.shape(name), first_format(released.spec)
        with failing():
            batches = first.read(released.loaded, subject.folder, shape, known_rows(shape))
            return read_rows(first.label(name), batches, shape)

    return subject.once(f"numbers of {name}", read)


def read_rows(file: str, batches: Iterator[pa.RecordBatch], shape: Shape) -> Read:
    """Hold the codes and labels of a table against the spec, and return its numbers and its flags.

    Raises
    ------
    Failed
        Naming the file and the first row that is not what it should be.
    """
    parts = list(rows_in_parts(file, batches, shape))
    numbers = {name: np.concatenate([each[name] for each, _ in parts]) for name in shape.numbers}
    flags = {
        name: pa.chunked_array([chunk for _, each in parts for chunk in each[name].chunks], pa.string())
        for name in shape.flags
    }
    return numbers, flags


def rows_in_parts(file: str, batches: Iterator[pa.RecordBatch], shape: Shape) -> Iterator[Read]:
    """Yield numbers and flags, some rows after others, held against the spec as in :func:`read_rows`."""
    rows, done = Rows(file, batches, shape.columns), 0
    for count, labels in shape.parts() if shape.layout is not None else [(None, {})]:
        part = rows.take(count)
        for name, expected in labels.items():
            _see_same(f"{file}: {name}", part[name], expected, done)
        numbers = {name: _as_numbers(part[name]) for name in shape.numbers}
        for name in shape.flags:
            if longest_text(part[name]) > _LONGEST_FLAG:
                raise Failed(f"{file}: {name} holds what is no flag")
        yield numbers, {name: part[name].cast(pa.string()) for name in shape.flags}
        done += part.num_rows
    rows.end()


def _as_numbers(column: pa.ChunkedArray) -> NDArray[np.float64]:
    return np.asarray(column.cast(pa.float64()).fill_null(np.nan).to_numpy())


def _see_same(what: str, found: pa.ChunkedArray, expected: pa.Array, done: int) -> None:
    """Compare texts row by row; a row that is blank is none of them."""
    if longest_text(found) > longest_text(expected):
        raise Failed(f"{what} holds a text that is longer than any that should be there")
    texts = found.cast(pa.string())
    same = pc.fill_null(pc.equal(texts, expected.cast(pa.string())), fill_value=False)
    if not pc.all(same).as_py():
        place = pc.index(same, value=False).as_py()
        raise Failed(f"{what} is not what it should be in row {done + place + 1}")


def see_rows(what: str, found: int, expected: int) -> None:
    """See that there are as many rows as there should be."""
    if found != expected:
        raise Failed(f"{what} has {found:,} rows and not {expected:,}")


def see_numbers(
    what: str, found: NDArray[np.float64], expected: NDArray[np.float64], *, whole: bool, after: int = 0
) -> None:
    """Compare numbers row by row: whole ones exactly, others to 1e-9; blanks stand where blanks should.

    ``after``: how many rows come before these.

    Raises
    ------
    Failed
        Naming the first row that differs.
    """
    see_rows(what, len(found), len(expected))
    same = found == expected
    if not same.all():
        blank = np.isnan(found) & np.isnan(expected)
        near = np.zeros(len(found), bool) if whole else np.isclose(found, expected, rtol=1e-9, atol=1e-9)
        same = same | blank | near
    if not same.all():
        raise Failed(f"{what} is not what it should be in row {after + int(np.argmin(same)) + 1}")
