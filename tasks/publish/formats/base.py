"""The interface of publication formats, and writing a release in all its formats.

Rows are made once, a row group at a time, and every format that has rows takes them before the next are made:
what lies in memory does not grow with a table. Whatever else belongs to a format is written after that, from
all tables at once. No clock and no random name may go into a file: a folder that is lost is written again
byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, wait
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryFile
from typing import ClassVar, cast
from weakref import finalize

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from tabularium.mechanisms.errors import PublicationError
from tabularium.mechanisms.inference import Estimate
from tabularium.tasks.postprocess.table_layout import Layout
from tabularium.tasks.publish.frames import RowWriter, Shape, WriteRows, threads
from tabularium.tasks.publish.published_tables import PublishedTable, histogram_table, published_table
from tabularium.validations.public_files import Unreadable
from tabularium.validations.release_spec.load import Loaded
from tabularium.validations.release_spec.model import ReleaseSpec
from tabularium.validations.release_spec.problems import quoted
from tabularium.validations.release_spec.publication_formats import (
    FORMATS,
    PublicationFormat,
    files_of,
    read_first,
)

Tables = Mapping[str, PublishedTable]
"""Name -> table or histogram, in the order of the spec."""


class TableFormat(PublicationFormat):
    """A format of tables: how it is written, read back and judged.

    A format that has rows overrides `writer` or `finish`, and `read`; one that only describes the others
    overrides `finish`.

    Attributes
    ----------
    exact
        Whether numbers that are not whole keep every digit.
    last
        Whether it is written when the files of all others lie there.
    same, described
        What `tabularium verify` calls the comparison of its rows with those of the first format, and its own
        check (`check_files`); empty where there is none.
    """

    exact: ClassVar[bool] = True
    last: ClassVar[bool] = False
    same: ClassVar[str] = ""
    described: ClassVar[str] = ""

    def writer(self, loaded: Loaded, name: str, table: PublishedTable, folder: Path) -> RowWriter | None:
        """Open the file of a table for its rows; None if it is not written row by row."""
        return None

    def finish(self, loaded: Loaded, tables: Tables, folder: Path) -> None:
        """Write what belongs to all tables, or is not written row by row."""

    def table_file(self, name: str) -> str:
        """Return the name of the file with the rows of a table."""
        kind = self.kinds[0]
        return f"{name if kind.stem is None else kind.stem}{kind.ending}"

    def label(self, name: str) -> str:
        """Return the name of a table's rows in messages."""
        return self.table_file(name)

    def shape(self, shape: Shape) -> Shape:
        """Return the columns of a table that it holds."""
        return shape

    def spelled(self, flags: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return quality flags as it writes them."""
        return flags

    def read(
        self,
        loaded: Loaded,
        folder: Path,
        shape: Shape,
        rows: Mapping[str, int],
        columns: Collection[str] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a table as `shape` names their columns.

        Nobody vouches for the folder: what is in memory must not grow beyond what the rows explain.

        Parameters
        ----------
        rows
            How many each table has, as far as that is known.
        columns
            Those that are wanted; None for all, which a format that is not ``complete`` gives always.

        Raises
        ------
        Unreadable
            The file is not what this format writes.
        """
        raise NotImplementedError

    def as_parquet(
        self, loaded: Loaded, folder: Path, shape: Shape, columns: Collection[str]
    ) -> pa.parquet.ParquetFile:
        """Return columns of a table as a Parquet file, from which any rows can be read; else as `read`."""
        file = TemporaryFile()  # noqa: SIM115 - it lives as long as what reads it
        try:
            batches = self.read(loaded, folder, shape, known_rows(shape), columns)
            first = next(batches, None)
            if first is None:
                raise Unreadable(f"{self.label(shape.name)} has no rows")
            with pa.parquet.ParquetWriter(file, first.schema) as writer:
                for batch in (first, *batches):
                    writer.write_batch(batch)
            file.seek(0)
            opened = pa.parquet.ParquetFile(file)
        except BaseException:
            file.close()
            raise
        finalize(opened, file.close)
        return opened

    def most_rows(self, folder: Path, name: str) -> int | None:
        """Return the largest number of rows for the size of a table's file; None where it cannot be known."""
        return None

    def identities(self, loaded: Loaded) -> Mapping[str, str]:
        """Return file name -> text that it must contain, for files other than those with rows."""
        return {}

    def check_files(
        self, loaded: Loaded, folder: Path, shapes: Sequence[Shape], files: Collection[str]
    ) -> str:
        """Check the files other than those with rows, and return what was checked.

        ``files``: all that the certificate names.

        Raises
        ------
        Unreadable
            It does not speak of these tables.
        """
        raise NotImplementedError


def known_rows(shape: Shape) -> dict[str, int]:
    """Return the number of rows of one table, as `TableFormat.read` takes it."""
    return {} if shape.rows is None else {shape.name: shape.rows}


def formats_of(spec: ReleaseSpec) -> list[TableFormat]:
    """Return the known formats of a release, in the order of their registration."""
    return [cast(TableFormat, FORMATS[name]) for name in FORMATS if name in spec.publication.formats]


def first_format(spec: ReleaseSpec) -> TableFormat:
    """Return the format from which numbers are read, and with which the others are compared."""
    return cast(TableFormat, read_first(spec.publication.formats)[0])


def write_formats(
    loaded: Loaded, tables: Tables, aside: Path, *, meanwhile: Sequence[Callable[[], None]] = ()
) -> None:
    """Write the tables in every format that the spec names.

    Parameters
    ----------
    aside
        The folder that becomes the release; ``codes/`` and ``invariants/`` lie in it already.
    meanwhile
        What else is to be written, and looks at no format.

    Raises
    ------
    PublicationError
        A format is not installed here.
    """
    missing = next((name for name in loaded.spec.publication.formats if name not in FORMATS), None)
    if missing is not None:
        raise PublicationError(
            f"the format {quoted(missing)} is not installed here",
            where="publication.formats",
            hint="install the package that brings it, and run again",
        )
    formats = formats_of(loaded.spec)
    with threads() as pool:
        begun = [pool.submit(task) for task in meanwhile]
        for name, table in tables.items():
            writers = [format_.writer(loaded, name, table, aside) for format_ in formats]
            with ExitStack() as files:
                _hand_over(
                    table, [files.enter_context(writer) for writer in writers if writer is not None], pool
                )
    for task in begun:
        task.result()
    for format_ in sorted(formats, key=lambda format_: format_.last):
        format_.finish(loaded, tables, aside)


def _hand_over(table: PublishedTable, writes: Sequence[WriteRows], pool: Executor) -> None:
    """Give every part of a table to all formats at once; the next part is made while they write."""

    begun: list[Future[None]] = []
    try:
        for part in table.frame.parts() if writes else ():
            for task in begun:
                task.result()
            begun = [pool.submit(write, part) for write in writes]
    finally:
        wait(begun)  # before the files are closed
    for task in begun:
        task.result()


def write_without_rows(loaded: Loaded, folder: Path) -> None:
    """Write the tables of a spec in all its formats without any rows.

    What no writer takes, and files that a format does not name, show before anything is charged.

    Raises
    ------
    PublicationError
        A format writes other files than it names, by which they are read and verified.
    """
    spec = loaded.spec
    tables: dict[str, PublishedTable] = {}
    for table in spec.tables:
        layout = Layout.of(loaded, table)
        nothing = np.broadcast_to(np.inf, (layout.nodes, layout.cells))
        frame = published_table(
            layout,
            Estimate(nothing, nothing),
            nothing,
            whole=spec.postprocessing.rounding,
            quality=spec.publication.quality,
            measures=lambda _nodes: {},  # there are none, and of none nothing is asked
        )
        tables[table.name] = PublishedTable(table, layout, frame, "exact")
    for histogram in spec.histograms:
        frame = histogram_table(np.zeros((0, 2), np.int64))
        layout = Layout.of_histogram(histogram)
        tables[histogram.name] = PublishedTable(histogram, layout, frame, "none")
    write_formats(loaded, tables, folder)
    other = sorted({path.name for path in folder.iterdir()} ^ files_of(spec))
    if other:
        raise PublicationError(
            f"a format writes other files than it names: {quoted(other[0])}",
            where="publication.formats",
            hint="correct `files` or `kinds` of the class, in the package that brings it",
        )
