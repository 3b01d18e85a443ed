"""The cells of a published table for the report: from its file, a part at a time, or in SQL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet
from numpy.typing import NDArray

from tabularium.mechanisms.errors import PublicationError
from tabularium.mechanisms.inference.margins_of_error.simulated_releases import SIZES
from tabularium.tasks.postprocess.table_layout import Layout
from tabularium.tasks.publish.frames import ROWS
from tabularium.tasks.publish.read_release import Released
from tabularium.tasks.publish.release_folder import readable
from tabularium.validations.certificate import Certificate

FLAGGED = ("unreliable", "suppressed", "unknown")
Floats = NDArray[np.float64]


def ask(sql: str, parts: Iterable[Mapping[str, NDArray[Any]]]) -> list[tuple[Any, ...]]:
    """Return the rows of a query over the table ``cells``, whose columns come in parts.

    There, what is not a finite number is null. One thread asks, so that sums come out the same each time.
    What does not fit into memory goes to a temporary folder that nobody else may read.

    Raises
    ------
    PublicationError
        There is not enough memory, or not enough room in that folder.
    """
    raised: list[Exception] = []

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            for part in parts:
                columns = {
                    name: pa.array(array, mask=~np.isfinite(array) if array.dtype.kind == "f" else None)
                    for name, array in part.items()
                }
                yield pa.RecordBatch.from_pydict(columns)
        except Exception as error:  # goes through C, which forgets it
            raised.append(error)
            raise

    stream = batches()
    first = next(stream)
    with (
        TemporaryDirectory() as aside,
        duckdb.connect(config={"threads": 1, "temp_directory": aside}) as connection,
    ):
        connection.register("cells", pa.RecordBatchReader.from_batches(first.schema, chain([first], stream)))
        try:
            return list(connection.execute(sql).fetchall())
        except duckdb.OutOfMemoryException:
            raise PublicationError(
                "there is not enough memory to summarise the cells of a table",
                hint=f"free memory, or room in {gettempdir()}, and run again",
            ) from None
        except duckdb.Error:
            if not raised:
                raise
    raise raised[0]


class ReleasedCells:
    """A published table, or a measure of it, read from its file.

    Attributes
    ----------
    layout
        How the table lies in memory.
    present
        (nodes,) which nodes are published: all, unless consistency is off.
    levels
        Those that are published, the root first.
    """

    def __init__(
        self, released: Released, name: str, measure: str | None = None, *, flags: bool = False
    ) -> None:
        """Open the file of a table.

        ``flags``: with those of the measure; those of counts are always there.

        Raises
        ------
        PublicationError
            It cannot be read, or does not hold the cells that the spec declares.
        """
        self.layout: Layout = released.layouts[name]
        self.present = released.present(name)
        self.levels = levels_of(self.layout, self.present)
        flagged = released.spec.publication.quality is not None and (flags or measure is None)
        columns = ["count", "margin"] if measure is None else [measure, f"{measure}_margin"]
        column = "quality" if measure is None else f"{measure}_quality"
        shown = [column] if flagged else []
        released.bounded()
        path = released.folder / released.format.table_file(name)
        try:
            with readable(released.folder):
                file = released.format.as_parquet(
                    released.loaded, released.folder, released.shape(name), [*columns, *shown]
                )
        except (OSError, pa.ArrowException, KeyError):
            file = None
        if file is None:
            raise misfit(path)
        self._columns = Columns(path, file, columns, shown)
        self.flags = self._columns.flags
        if self._columns.rows != self.rows:
            raise misfit(self._columns.path)

    def flagged(self, nodes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return the mask of flagged numbers of nodes, (nodes, cells); False where none can be."""
        flags = np.zeros((len(nodes), self.layout.cells), bool)
        if not self._columns.flags:
            return flags
        for at, position in enumerate(self._places[nodes].tolist()):
            if position >= 0:
                first = position * self.layout.cells
                flags[at] = self._columns.read(first, first + self.layout.cells)[2] > 0
        return flags

    @property
    def rows(self) -> int:
        """The number of published rows."""
        return int(self.present.sum()) * self.layout.cells

    @cached_property
    def _places(self) -> NDArray[np.int64]:
        """(nodes,) the number of published nodes before each; -1 for one that is not published."""
        return np.where(self.present, np.cumsum(self.present) - 1, -1)

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query over the published cells, as the table ``cells``.

        It has ``level`` (its place among the levels), ``row``, ``number`` (null where it was left blank),
        ``size`` (the class of a count, -1 of a blank one), ``margin`` (null where none is given), and
        ``flagged`` where there are quality rules.
        """
        return ask(sql, self._parts())

    def _parts(self) -> Iterator[dict[str, NDArray[Any]]]:
        for index, level in enumerate(self.levels):
            first = int(self.present[: level.nodes.start].sum()) * self.layout.cells
            last = first + int(self.present[level.nodes].sum()) * self.layout.cells
            edges = [first, *range((first // ROWS + 1) * ROWS, last, ROWS), last]
            for start, stop in pairwise(edges):
                numbers, margins, *flags = self._columns.read(start, stop)
                yield {
                    "level": np.full(stop - start, index),
                    "row": np.arange(start, stop),
                    "number": numbers,
                    "size": size_class(numbers),
                    "margin": margins,
                    **({"flagged": flags[0] > 0} if flags else {}),
                }

    def at(self, nodes: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Return counts and margins of some nodes, (nodes, cells).

        Zero and infinite at those that are not published.
        """
        cells, places = self.layout.cells, self._places[nodes]
        counts, margins = np.zeros((len(nodes), cells)), np.full((len(nodes), cells), np.inf)
        there = places >= 0
        breaks = np.flatnonzero((np.diff(places) != 1) | (np.diff(there) != 0)) + 1
        for start, stop in pairwise([0, *breaks.tolist(), len(nodes)]):
            if start < stop and places[start] >= 0:
                first = int(places[start]) * cells
                both = self._columns.read(first, first + (stop - start) * cells)
                counts[start:stop], margins[start:stop] = (array.reshape(-1, cells) for array in both[:2])
        margins[np.isnan(margins)] = np.inf
        return counts, margins

    def cell_of(self, row: int) -> tuple[int, int]:
        """Return node and cell of a row."""
        node, cell = divmod(row, self.layout.cells)
        return int(np.searchsorted(np.cumsum(self.present), node + 1)), cell


class Columns:
    """Columns of numbers, and of flags, of a table's file: any rows of them, a row group in memory."""

    def __init__(
        self, path: Path, file: pa.parquet.ParquetFile, numbers: Sequence[str], flags: Sequence[str] = ()
    ) -> None:
        """Read from an open file, named ``path`` in errors.

        Raises
        ------
        PublicationError
            It lacks one of them.
        """
        self.path, self._file, self._wanted, self.flags = path, file, [*numbers, *flags], bool(flags)
        if not set(self._wanted) <= set(file.schema_arrow.names):
            raise misfit(path)
        about = file.metadata
        sizes = [about.row_group(index).num_rows for index in range(about.num_row_groups)]
        self._ends = np.cumsum([0, *sizes])
        self._held: tuple[int, list[Floats]] = (-1, [])

    @property
    def rows(self) -> int:
        """The number of rows of the file."""
        return int(self._ends[-1])

    def read(self, first: int, last: int) -> list[Floats]:
        """Return the columns of rows; nulls become NaN, and a flag of 1 speaks against a cell."""
        groups = range(
            int(np.searchsorted(self._ends, first, side="right")) - 1,
            int(np.searchsorted(self._ends, last, side="left")),
        )
        pieces = []
        for group in groups:
            start, columns = int(self._ends[group]), self._group(group)
            pieces.append([column[max(first - start, 0) : last - start] for column in columns])
        if len(pieces) == 1:
            return pieces[0]
        return [np.concatenate([np.zeros(0), *column]) for column in zip(*pieces, strict=True)] or [
            np.zeros(0) for _ in self._wanted
        ]

    def _group(self, group: int) -> list[Floats]:
        if self._held[0] != group:
            try:
                table = self._file.read_row_group(group, columns=self._wanted)
                self._held = group, [_as_numbers(table[column]) for column in self._wanted]
                return self._held[1]
            except (OSError, pa.ArrowException, KeyError):
                pass
            raise misfit(self.path)
        return self._held[1]


def _as_numbers(column: pa.ChunkedArray) -> Floats:
    if pa.types.is_dictionary(column.type) or pa.types.is_string(column.type):
        column = pa.compute.is_in(column.cast(pa.string()), pa.array(FLAGGED))
    if column.null_count:
        column = column.cast(pa.float64()).fill_null(np.nan)
    return np.asarray(column.to_numpy(), np.float64)


def misfit(path: Path) -> PublicationError:
    """Return the error for a file that does not hold what it should."""
    return PublicationError(
        f"the file of table {path.stem} does not hold the cells that the spec declares",
        where=str(path.parent),
        hint="restore the folder from a copy",
    )


# --- a release as the report reads it: its levels, sizes of counts, and names of cells

MOST_TABLES = 24
"""Tables that are described at length; a page of more would be too large to read."""

_FIRSTS = [low for low, _ in SIZES[1:]]


@dataclass(frozen=True)
class Level:
    """The nodes of one level of a table, which lie together: the layout is breadth-first.

    ``name``: of the level; empty where a table has no hierarchy.
    """

    name: str
    nodes: slice


def opened(folder: Path, certificate: Certificate) -> Released:
    """Read the folder of a certificate; the certificate itself may be missing yet.

    Raises
    ------
    PublicationError
        Its spec or a code list cannot be read.
    """
    return Released.read(folder, certificate, "")


def levels_of(layout: Layout, present: NDArray[np.bool_]) -> list[Level]:
    """Return the levels of a table that are published, the root first.

    ``present``: (nodes,) which nodes are published.
    """
    if layout.along is None:
        return [Level("", slice(0, 1))]
    depth = layout.along.depth[: layout.nodes]
    ends = np.searchsorted(depth, np.arange(int(depth.max()) + 2))
    spans = [slice(int(first), int(last)) for first, last in pairwise(ends)]
    return [
        Level(layout.along.levels[index], span) for index, span in enumerate(spans) if present[span].any()
    ]


def size_class(counts: NDArray[np.float64]) -> NDArray[np.int8]:
    """Return the class in ``SIZES`` of every count, -1 where it was left blank."""
    rounded, classes = np.rint(counts), np.zeros(len(counts), np.int8)
    for first in _FIRSTS:
        classes += rounded >= first
    classes[np.isnan(counts)] = -1
    return classes


def names_of(layout: Layout, node: int, cell: int) -> Iterator[tuple[str, str, str]]:
    """Yield dimension, code and label of a cell, in the order of the spec."""
    sizes = [domain.size for domain in layout.others]
    places = (
        dict(zip((d.name for d in layout.others), np.unravel_index(cell, sizes), strict=True))
        if sizes
        else {}
    )
    for name in layout.table.dimensions:
        if layout.along is not None and name == layout.table.along:
            yield name, layout.along.node_codes[node], layout.along.node_labels[node]
        else:
            domain = next(other for other in layout.others if other.name == name)
            at = int(places[name])
            yield name, domain.codes[at], domain.labels[at]


def in_words(layout: Layout, node: int, cell: int) -> str:
    """Return the labels of a cell as one line."""
    return ", ".join(label for _, _, label in names_of(layout, node, cell))
