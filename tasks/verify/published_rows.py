"""The rows of a published table, read part by part and held against what the spec says of them.

Which cell stands in which row, with which codes and labels, follows from the spec and the code lists. So a
table is read once, from the first of its formats, into bare numbers; every other format is compared with
these, and the measurements are as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from tabularium.tasks.postprocess.table_layout import Layout
from tabularium.tasks.public_folder import named
from tabularium.tasks.public_tables import longest_text, open_parquet
from tabularium.tasks.publish.frames import Labels
from tabularium.tasks.publish.read_release import Released
from tabularium.tasks.verify.findings import Failed
from tabularium.tasks.verify.subject import Subject, failing

_ROWS_AT_ONCE = 1 << 20
_LONGEST_FLAG = 100  # bytes
_BLOCK = 1 << 24  # bytes of a CSV file that are read at once
QUALITY = "quality"

Numbers = dict[str, NDArray[np.float64]]
"""Column of numbers -> its values row by row; not a number where it is blank."""
Flags = dict[str, pa.ChunkedArray]
"""Column of flags -> its flags row by row; none without quality rules."""
Read = tuple[Numbers, Flags]
"""Numbers and flags."""


@dataclass(frozen=True, eq=False)
class Shape:
    """What the spec says of the rows of one table or histogram.

    Attributes
    ----------
    layout
        None for a histogram, whose rows have no codes.
    nodes
        The nodes that are published, in the order of the rows.
    labels
        Columns of codes and labels, in their order.
    flagged
        Whether a column of quality flags stands before the numbers.
    numbers
        Columns of numbers.
    whole
        Whether they are whole.
    measures
        Columns of numbers behind them, of measures; they need not be whole.
    possible
        Which of the cells have a row, in any shape; None for all.
    """

    name: str
    layout: Layout | None
    nodes: NDArray[np.int64]
    labels: tuple[str, ...]
    flagged: bool
    numbers: tuple[str, ...]
    whole: bool
    measures: tuple[str, ...] = ()
    possible: NDArray[np.bool_] | None = None

    @classmethod
    def of(cls, released: Released, name: str) -> Shape:
        """Work it out for a table or histogram of a release."""
        layout = released.layouts.get(name)
        if layout is None:
            return cls(name, None, np.arange(0), (), False, ("size", "number"), whole=True)
        nodes = np.arange(layout.nodes)
        if not released.spec.postprocessing.consistency:
            nodes = np.unique(np.concatenate(list(layout.cuts.values())))
        labels = Labels(layout, nodes[:1]).names
        flagged = released.spec.publication.quality is not None
        whole = released.spec.postprocessing.rounding
        own = tuple(column for each in layout.table.measures for column in (each, f"{each}_margin"))
        return cls(name, layout, nodes, labels, flagged, ("count", "margin", *own), whole=whole, measures=own)

    @property
    def columns(self) -> list[str]:
        """Names of all columns, in their order."""
        numbers = [name for each in self.numbers for name in (each, *self._flags_behind(each))]
        return [*self.labels, *([QUALITY] if self.flagged else []), *numbers]

    @property
    def flags(self) -> list[str]:
        """Names of the columns of flags."""
        behind = [name for each in self.numbers for name in self._flags_behind(each)]
        return [QUALITY, *behind] if self.flagged else []

    def _flags_behind(self, column: str) -> list[str]:
        """Return the column of flags that stands behind the margins of a measure."""
        place = self.measures.index(column) if self.flagged and column in self.measures else 0
        return [f"{self.measures[place - 1]}_{QUALITY}"] if place % 2 else []

    @property
    def texts(self) -> list[str]:
        """Names of the columns that are texts."""
        return [*self.labels, *self.flags]

    def parts(self) -> Iterator[tuple[int, dict[str, pa.Array]]]:
        """Yield rows a million at a time: how many, and the codes and labels that stand there."""
        if self.layout is None:
            return
        labels = Labels(self.layout, self.nodes)
        for start, stop in pairwise([*range(0, labels.rows, _ROWS_AT_ONCE), labels.rows]):
            some = labels.of(start, stop)
            shown = {name: column for name, column in some.items() if name in self.labels}
            if self.possible is None:
                yield stop - start, shown
                continue
            some_rows = self.possible.reshape(-1)[start:stop]
            yield (
                int(some_rows.sum()),
                {name: each.filter(pa.array(some_rows)) for name, each in shown.items()},
            )


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


def csv_rows(subject: Subject, shape: Shape) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the CSV file of a table; numbers that should be whole are read as whole ones."""
    number = pa.int64() if shape.whole else pa.float64()
    types = {**dict.fromkeys(shape.texts, pa.string()), **dict.fromkeys(shape.numbers, number)}
    types |= dict.fromkeys(shape.measures, pa.float64())
    try:
        with (
            failing(),
            subject.released.open_csv(shape.name) as file,
            pa.csv.open_csv(
                file,
                read_options=pa.csv.ReadOptions(block_size=_BLOCK),
                parse_options=pa.csv.ParseOptions(newlines_in_values=_has_lines(shape)),
                convert_options=pa.csv.ConvertOptions(column_types=types, null_values=[""]),
            ) as reader,
        ):
            yield from reader
    except pa.ArrowException:
        raise Failed(f"{shape.name}.csv is not CSV with the columns of its table") from None


def _has_lines(shape: Shape) -> bool:
    """Whether a label breaks over lines, so that a row may as well."""
    if shape.layout is None:
        return False
    domains = [*shape.layout.others, *([shape.layout.along] if shape.layout.along else [])]
    return any("\n" in label or "\r" in label for domain in domains for label in domain.labels)


def parquet_rows(path: Path, rows: int | None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a Parquet file, which must have so many; of a histogram (None) nobody knows."""
    try:
        with failing(), named(path.name), open_parquet(path, rows=rows) as file:
            yield from file.iter_batches(batch_size=_ROWS_AT_ONCE // 4)
    except pa.ArrowException:
        raise Failed(f"{path.name} is not Parquet") from None


def numbers_of(subject: Subject, name: str) -> Read:
    """Return the numbers and the flags of a table as its first format has them, read once."""

    def read() -> Read:
        subject.bounded()
        shape, file = Shape.of(subject.released, name), subject.folder / f"{name}.{subject.base}"
        if subject.base == "csv":
            return read_rows(file.name, csv_rows(subject, shape), shape)
        return read_rows(file.name, parquet_rows(file, subject.released.rows(name)), shape)

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
