"""The rows of a table, made when they are wanted: no more at once than a row group of Parquet holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tabularium.tasks.postprocess.table_layout import Layout
from tabularium.validations.domains.domains import Domain
from tabularium.validations.spec.large_tables import fits

ROWS = 1 << 20
"""Rows of a row group, and of all that is held at once."""


@dataclass(frozen=True, eq=False)
class Frame:
    """Rows that lie nowhere: any part of them can be made, again and again the same.

    Attributes
    ----------
    num_rows
        How many there are.
    make
        ``(first, last) -> rows``, the last one left out.
    """

    num_rows: int
    make: Callable[[int, int], pa.Table]

    @classmethod
    def of(cls, table: pa.Table) -> Frame:
        """Return rows that lie in memory."""
        return cls(table.num_rows, lambda first, last: table.slice(first, last - first))

    @cached_property
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""
        return self.make(0, 0).schema

    def parts(self) -> Iterator[pa.Table]:
        """Yield the rows in their order, as many at once as a row group holds; one empty part of none."""
        for first in range(0, max(self.num_rows, 1), ROWS):
            yield self.make(first, min(first + ROWS, self.num_rows))

    def whole(self) -> pa.Table:
        """Return all rows."""
        return pa.concat_tables(self.parts())


class Labels:
    """What each row of some nodes is about, worked out from its number.

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
        """Return the columns of some rows, the last one left out."""
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


class _Places:
    """Indices, every one ``each`` times, and that again and again to ``total`` rows."""

    def __init__(self, index: NDArray[np.int64], each: int, total: int) -> None:
        self._index, self._each = index.astype(np.int32), each
        self._period = len(index) * each
        self._repeats = self._period < total and self._period <= ROWS
        self._most = min(ROWS, total) + self._period

    @cached_property
    def _pattern(self) -> pa.Array:
        """What is repeated within a part: one array in memory, of which all parts are views."""
        return pa.array(np.tile(np.repeat(self._index, self._each), -(-self._most // self._period)))

    def of(self, first: int, last: int) -> pa.Array:
        """Return the indices of some rows."""
        skipped = first % self._period if self._repeats else 0
        if self._repeats and skipped + last - first <= len(self._pattern):
            return self._pattern.slice(skipped, last - first)
        places = np.arange(first // max(self._each, 1), -(-last // max(self._each, 1)))
        at = np.repeat(self._index[places % max(1, len(self._index))], self._each)
        skipped = first % self._each if self._each else 0
        return pa.array(at[skipped : skipped + last - first])


def _texts(names: tuple[str, ...]) -> pa.Array:
    return pa.array(list(names), pa.string())
