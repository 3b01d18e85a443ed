"""Blocks of rows as they come from a generator: plain arrays, without a file format in mind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
Days = NDArray[np.datetime64]  # of days; null is NaT


@dataclass(frozen=True, eq=False)
class Coded:
    """A column of texts: (rows,) positions in a short list of ``texts``; below zero is null."""

    index: Numbers
    texts: tuple[str, ...]

    def __getitem__(self, part: slice) -> Coded:
        return Coded(self.index[part], self.texts)

    def __len__(self) -> int:
        return len(self.index)


@dataclass(frozen=True, eq=False)
class Holed:
    """A column of numbers, whole or not, some of which are null: (rows,) both."""

    values: Numbers | NDArray[np.float64]
    missing: NDArray[np.bool_]

    def __getitem__(self, part: slice) -> Holed:
        return Holed(self.values[part], self.missing[part])

    def __len__(self) -> int:
        return len(self.values)


Block = dict[str, Numbers | Coded | Holed | Days]
Blocks = tuple[Block, ...]
"""Rows of files that belong together. The first column of each further file is a key, ascending and unique,
that the first file has as well."""


def length(block: Block) -> int:
    """Return the number of rows of a block."""
    return len(next(iter(block.values())))


def first_rows(blocks: Iterator[Blocks], rows: int) -> Iterator[Blocks]:
    """Yield blocks until ``rows`` rows of the first file have passed, the last ones cut short.

    Of the other files no row is left whose key the first one does not come to.
    """
    for parts in blocks:
        main, *others = parts
        size = length(main)
        if size >= rows:
            main = _cut(main, rows)
            yield (main, *(_cut(other, _reached(main, other)) for other in others))
            return
        yield parts
        rows -= size


def _cut(block: Block, rows: int) -> Block:
    return {name: column[:rows] for name, column in block.items()}


def _reached(main: Block, other: Block) -> int:
    name, keys = next(iter(other.items()))
    last = main[name]
    assert isinstance(keys, np.ndarray) and isinstance(last, np.ndarray)  # noqa: S101 - keys are numbers
    return int(np.searchsorted(keys, last[-1], side="right"))
