"""Blocks of rows as they come from a generator: plain arrays, without a file format in mind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Coded:
    """A column of texts: (rows,) positions in a short list of ``texts``."""

    index: Numbers
    texts: tuple[str, ...]

    def __getitem__(self, part: slice) -> Coded:
        return Coded(self.index[part], self.texts)

    def __len__(self) -> int:
        return len(self.index)


Block = dict[str, Numbers | Coded]


def length(block: Block) -> int:
    """Return the number of rows of a block."""
    return len(next(iter(block.values())))


def first_rows(blocks: Iterator[Block], rows: int) -> Iterator[Block]:
    """Yield blocks until ``rows`` rows have passed, the last one cut short."""
    for block in blocks:
        size = length(block)
        if size >= rows:
            yield {name: column[:rows] for name, column in block.items()}
            return
        yield block
        rows -= size
