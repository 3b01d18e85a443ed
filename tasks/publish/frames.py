"""The rows of a table, made when they are wanted, with the digits that every processor gives.

Sums, logarithms and matrix products differ in their last bits between processors, by some 1e-15. Published
numbers that are not whole are rounded by operations that give the same bits everywhere. Only a number close
to the middle between two rounded ones may still come out as either: a few in ten thousand of those that
differ.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from tabularium.tasks.postprocess.table_layout import Layout
from tabularium.validations.domains.domains import Domain
from tabularium.validations.public_files import MIB
from tabularium.validations.release_spec.checks.table_checks import fits
from tabularium.validations.release_spec.model import ReleaseSpec

ROWS = 1 << 20
"""Rows of a row group, and of all that is held at once."""
QUALITY = "quality"
_NUMBER = 64  # bytes that a number takes as text, and what stands around it
_HISTOGRAM = 64 * MIB  # bytes of text: it has a row for each size that there is


@dataclass(frozen=True, eq=False)
class Frame:
    """Rows that are computed on demand: any part of them, and always the same.

    ``make``: ``(first, last) -> rows``, the last one left out.
    """

    num_rows: int
    make: Callable[[int, int], pa.Table]

    @classmethod
    def of(cls, table: pa.Table) -> Frame:
        """Return a frame of rows in memory."""
        return cls(table.num_rows, lambda first, last: table.slice(first, last - first))

    @cached_property
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""
        return self.make(0, 0).schema

    def parts(self) -> Iterator[pa.Table]:
        """Yield the rows in order, a row group at a time; one empty part if there are none."""
        for first in range(0, max(self.num_rows, 1), ROWS):
            yield self.make(first, min(first + ROWS, self.num_rows))

    def whole(self) -> pa.Table:
        """Return all rows."""
        return pa.concat_tables(self.parts())


class Labels:
    """The codes and labels of each row of some nodes, computed from its number.

    The texts of a column are one dictionary for all rows; of a table that is too large to be held, those of
    the nodes at hand, since a file has a dictionary for each of its row groups.
    """

    def __init__(self, layout: Layout, nodes: NDArray[np.int64]) -> None:
        tail = layout.cells
        self.rows = len(nodes) * tail
        self._columns: list[tuple[str, _Places, pa.Array]] = []
        if layout.along is not None:
            depth = _Places(layout.along.depth[nodes], tail, self.rows)
            self._columns.append(("level", depth, _texts(layout.along.levels)))
        inner = tail
        for name in layout.table.dimensions:
            if layout.along is not None and name == layout.table.along:
                codes, labels = layout.along.node_codes, layout.along.node_labels
                places = _Places(nodes, tail, self.rows)
            else:
                domain: Domain = next(d for d in layout.others if d.name == name)
                codes, labels = domain.codes, domain.labels
                inner //= domain.size
                places = _Places(np.arange(domain.size), inner, self.rows)
            self._columns.append((name, places, _texts(codes)))
            if tuple(codes) != tuple(labels):
                self._columns.append((f"{name}_label", places, _texts(labels)))

    @property
    def names(self) -> tuple[str, ...]:
        """The columns, in the order of the spec's dimensions, each code before its label."""
        return tuple(name for name, _, _ in self._columns)

    def of(self, first: int, last: int) -> dict[str, pa.DictionaryArray]:
        """Return the columns of rows ``first`` to ``last`` (excluded)."""
        if not fits(self.rows):
            return self._of_nodes_at_hand(first, last)
        made: dict[int, pa.Array] = {}  # a code and its label have their places in common
        for _, places, _ in self._columns:
            if id(places) not in made:
                made[id(places)] = places.of(first, last)
        return {
            name: pa.DictionaryArray.from_arrays(made[id(places)], texts)
            for name, places, texts in self._columns
        }

    def _of_nodes_at_hand(self, first: int, last: int) -> dict[str, pa.DictionaryArray]:
        columns = {}
        for name, places, texts in self._columns:
            at = places.of(first, last).to_numpy()
            low, high = (int(at.min()), int(at.max())) if len(at) else (0, -1)
            columns[name] = pa.DictionaryArray.from_arrays(
                pa.array(at - np.int32(low)), texts.slice(low, high - low + 1)
            )
        return columns


def crossed(codes: Mapping[str, Sequence[str]], first: int, last: int) -> dict[str, pa.DictionaryArray]:
    """Return the codes of rows ``first`` to ``last`` (excluded) of dimensions crossed as in a `Shape`."""
    rows, columns, inner = np.arange(first, last), {}, 1
    for name in reversed(list(codes)):
        places = pa.array((rows // inner % max(len(codes[name]), 1)).astype(np.int32))
        columns[name] = pa.DictionaryArray.from_arrays(places, pa.array(list(codes[name]), pa.string()))
        inner *= max(len(codes[name]), 1)
    return columns


class _Places:
    """Indices, each repeated ``repeat`` times, and the sequence repeated to ``total`` rows."""

    def __init__(self, index: NDArray[np.int64], repeat: int, total: int) -> None:
        self._index, self._each = index.astype(np.int32), repeat
        self._period = len(index) * repeat
        self._repeats = self._period < total and self._period <= ROWS
        self._most = min(ROWS, total) + self._period

    @cached_property
    def _pattern(self) -> pa.Array:
        """The pattern that is repeated within a part: one array, and all parts are views of it."""
        return pa.array(np.tile(np.repeat(self._index, self._each), -(-self._most // self._period)))

    def of(self, first: int, last: int) -> pa.Array:
        """Return the indices of rows."""
        skipped = first % self._period if self._repeats else 0
        if self._repeats and skipped + last - first <= len(self._pattern):
            return self._pattern.slice(skipped, last - first)
        places = np.arange(first // max(self._each, 1), -(-last // max(self._each, 1)))
        at = np.repeat(self._index[places % max(1, len(self._index))], self._each)
        skipped = first % self._each if self._each else 0
        return pa.array(at[skipped : skipped + last - first])


def _texts(names: tuple[str, ...]) -> pa.Array:
    return pa.array(list(names), pa.string())


@dataclass(frozen=True, eq=False)
class Shape:
    """The rows of one table or histogram, as the spec has them.

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
    def of(cls, spec: ReleaseSpec, name: str, layout: Layout | None) -> Shape:
        """Return the shape of a table, or of a histogram, which has no layout."""
        if layout is None:
            return cls(name, None, np.arange(0), (), False, ("size", "number"), whole=True)
        nodes = np.arange(layout.nodes)
        if not spec.postprocessing.consistency:
            nodes = np.unique(np.concatenate(list(layout.cuts.values())))
        labels = Labels(layout, nodes[:1]).names
        flagged = spec.publication.quality is not None
        rounded = spec.postprocessing.rounding
        names = tuple(
            column for measure in layout.table.measures for column in (measure, f"{measure}_margin")
        )
        return cls(
            name, layout, nodes, labels, flagged, ("count", "margin", *names), whole=rounded, measures=names
        )

    def only_codes(self) -> Shape:
        """Return it without levels and labels, which follow from the codes."""
        return replace(self, labels=tuple(label for label in self.labels if label in self.dimensions))

    @property
    def rows(self) -> int | None:
        """The number of rows; None for a histogram, where it is not known."""
        return None if self.layout is None else len(self.nodes) * self.layout.cells

    @property
    def domains(self) -> list[Domain]:
        """The domains of the columns of codes."""
        return [] if self.layout is None else [*self.layout.others, *filter(None, [self.layout.along])]

    @property
    def largest_text(self) -> int:
        """The largest size in bytes of a file with all rows as lines of text."""
        if self.layout is None or self.rows is None:
            return _HISTOGRAM
        along = (
            () if self.layout.along is None else (self.layout.along.node_codes, self.layout.along.node_labels)
        )
        texts = [*along, *(text for domain in self.layout.others for text in (domain.codes, domain.labels))]
        # At most four bytes a character, and quotes are doubled; a level's name and a flag are short.
        longest = sum(8 * max(map(len, texts), default=0) + _NUMBER for texts in texts)
        return MIB + self.rows * (longest + _NUMBER * (8 + 2 * len(self.layout.table.measures)))

    @property
    def columns(self) -> list[str]:
        """Names of all columns, in their order."""
        numbers = [name for number in self.numbers for name in (number, *self._flags_behind(number))]
        return [*self.labels, *([QUALITY] if self.flagged else []), *numbers]

    @property
    def flags(self) -> list[str]:
        """Names of the columns of flags."""
        behind = [name for number in self.numbers for name in self._flags_behind(number)]
        return [QUALITY, *behind] if self.flagged else []

    def _flags_behind(self, column: str) -> list[str]:
        """Return the column of flags that follows the margins of a measure."""
        index = self.measures.index(column) if self.flagged and column in self.measures else 0
        return [f"{self.measures[index - 1]}_{QUALITY}"] if index % 2 else []

    @property
    def dimensions(self) -> dict[str, tuple[str, ...]]:
        """Column of codes -> its published codes, crossed by the rows, the last one fastest."""
        if self.layout is None:
            return {}
        along, others = self.layout.along, {other.name: other.codes for other in self.layout.others}
        nodes = {} if along is None else {along.name: tuple(along.node_codes[node] for node in self.nodes)}
        return {**nodes, **others}

    @property
    def texts(self) -> list[str]:
        """Names of the text columns."""
        return [*self.labels, *self.flags]

    def parts(self) -> Iterator[tuple[int, dict[str, pa.Array]]]:
        """Yield rows a million at a time: their number, codes and labels."""
        if self.layout is None:
            return
        labels = Labels(self.layout, self.nodes)
        for start, stop in pairwise([*range(0, labels.rows, ROWS), labels.rows]):
            some = labels.of(start, stop)
            shown = {name: column for name, column in some.items() if name in self.labels}
            if self.possible is None:
                yield stop - start, shown
                continue
            some_rows = self.possible.reshape(-1)[start:stop]
            yield (
                int(some_rows.sum()),
                {name: values.filter(pa.array(some_rows)) for name, values in shown.items()},
            )


# --- files of rows, written a part at a time: CSV and Parquet, as releases have them

_ROWS_AT_ONCE = 50_000

WriteRows = Callable[[pa.Table], None]
"""Writes the next rows into a file."""
RowWriter = AbstractContextManager[WriteRows]
"""A file while rows are written into it."""


@contextmanager
def rows_into_csv(schema: pa.Schema, path: Path, *, quoted: bool = True) -> Iterator[WriteRows]:
    """Open a CSV file for rows: a header, texts between quotes, bare numbers, nothing for nulls.

    Columns of codes may be dictionaries, which are spelled out a part of the rows at a time. Texts that need
    no quotes may go without.
    """
    plain = pa.schema(
        [(f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type) for f in schema]
    )
    options = pa.csv.WriteOptions(quoting_style="needed" if quoted else "none")
    with pa.csv.CSVWriter(path, plain, write_options=options) as writer:

        def write(rows: pa.Table) -> None:
            for start in range(0, rows.num_rows, _ROWS_AT_ONCE):
                writer.write_table(rows.slice(start, _ROWS_AT_ONCE).cast(plain))

        yield write


@contextmanager
def rows_into_parquet(schema: pa.Schema, path: Path) -> Iterator[WriteRows]:
    """Open a Parquet file for rows; each call writes a row group."""
    with pa.parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        yield lambda rows: writer.write_table(rows.cast(schema), ROWS)


# --- work on the files of a release, on several processors: what is written does not depend on that

Result = TypeVar("Result")

MOST_THREADS = 4
"""Pieces of work at once: each holds a part of a table in memory."""


@contextmanager
def threads(most: int = MOST_THREADS) -> Iterator[ThreadPoolExecutor]:
    """Give a pool of at most as many threads as processors; wait for their work at the end."""
    with ThreadPoolExecutor(max(1, min(MOST_THREADS, len(os.sched_getaffinity(0)), most))) as pool:
        yield pool


def run_parallel(work: Sequence[Callable[[], Result]]) -> list[Result]:
    """Run functions in threads; return their results, in order.

    The libraries that write and digest files let go of Python's lock meanwhile. What was raised first, in the
    order of the work, is raised, after all of it has ended.
    """
    with threads(len(work)) as pool:
        begun = [pool.submit(task) for task in work]
    return [future.result() for future in begun]


Floats = NDArray[np.float64]
T = TypeVar("T")

DIGITS = 12
"""Significant digits at most; there may be one less. Sums of rounded numbers agree better than to 1e-9."""
_DECIMALS = 22  # up to here powers of ten are exact floats
_POWERS = np.array([float(10**digits) for digits in range(_DECIMALS + 1)])
_DIGITS_OF_A_BIT = 0.30103


def in_digits(numbers: Floats) -> Floats:
    """Return numbers rounded to so many digits; whole numbers and those that need 23 decimals stay."""
    _, exponents = np.frexp(numbers)
    before = np.floor(exponents * _DIGITS_OF_A_BIT).astype(np.int64)  # digits before the point, or one less
    decimals = DIGITS - 1 - before
    power = _POWERS[np.clip(decimals, 0, _DECIMALS)]
    return np.where(decimals > _DECIMALS, numbers, np.rint(numbers * power) / power)


def all_in_digits(value: T) -> T:
    """Return a JSON value with its floats rounded to so many digits."""
    rounded: Any = value
    if isinstance(rounded, float):
        rounded = float(in_digits(np.array([rounded]))[0])
    elif isinstance(rounded, Mapping):
        rounded = {key: all_in_digits(item) for key, item in rounded.items()}
    elif isinstance(rounded, list | tuple):
        rounded = [all_in_digits(item) for item in rounded]
    return rounded  # type: ignore[no-any-return]
