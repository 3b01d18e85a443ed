"""Sets of ranges of cells to choose from, made without looking at the data: (starts, stops), half-open.

NumPy only; the random set comes from a fixed scrambling of whole numbers, not from a generator.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Ranges = tuple[Integers, Integers]


def block_runs(cells: int, longest: int, narrowest: int, most: int) -> Ranges:
    """Return runs of 1 to ``longest`` neighbouring blocks, where blocks are halves, quarters and so on.

    The whole row is left out.

    Parameters
    ----------
    narrowest
        Ranges with fewer cells are left out, but for the halves of the row.
    most
        Levels are added, from coarse to fine, until there would be more ranges than that; one in any case.
    """
    keys: Integers = np.empty(0, dtype=np.int64)
    blocks = 2
    while cells > 1:
        edges = np.arange(min(blocks, cells) + 1) * cells // min(blocks, cells)
        runs = [(edges[:-run], edges[run:]) for run in range(1, min(longest, edges.size - 2) + 1)]
        starts, stops = (np.concatenate(ends) for ends in zip(*runs, strict=True))
        wide = (stops - starts >= narrowest) | (blocks == 2)
        merged = np.union1d(keys, (starts * (cells + 1) + stops)[wide])
        if not wide.any() or (merged.size > most and keys.size):
            break
        keys = merged
        if blocks >= cells:
            break
        blocks *= 2
    return keys // (cells + 1), keys % (cells + 1)


def prefixes(cells: int, narrowest: int, most: int) -> Ranges:
    """Return the first 1, 2, ... cells, at most ``most`` of them, evenly spread; not the whole row."""
    low = min(narrowest, (cells + 1) // 2)
    number = min(most, cells - low)
    stops = low + np.arange(number, dtype=np.int64) * (cells - low) // max(1, number)
    return np.zeros_like(stops), stops


def scattered(cells: int, seed: int, narrowest: int, number: int) -> Ranges:
    """Return up to ``number`` different ranges with ends that are spread at random, by a public seed."""
    if cells == 1:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    words = _scrambled(np.arange(2 * number, dtype=np.uint64) + (np.uint64(seed) << np.uint64(32)))
    ends = (words.astype(np.int64) * (cells + 1)) >> 32
    one, other = ends[:number], ends[number:]
    starts, stops = np.minimum(one, other), np.maximum(one, other)
    wide = (stops - starts >= min(narrowest, cells // 2)) & (stops > starts) & (stops - starts < cells)
    keys = np.unique((starts * (cells + 1) + stops)[wide])
    if keys.size == 0:
        keys = np.array([cells // 2, cells // 2 * (cells + 1) + cells])  # the two halves
    return keys // (cells + 1), keys % (cells + 1)


def tilings(cells: int, longest: int, most: int) -> list[tuple[int, int]]:
    """Return (width, offset) of tilings of a row by ranges of equal width, those at the ends maybe shorter.

    Widths are 1 to ``longest`` times a power of two 2^k, offsets multiples of 2^k: the ranges of a tiling are
    runs of neighbouring blocks. Sorted; widths below cells/``most`` are left out.
    """
    least = -(-cells // most)
    found = set()
    block = 1
    while block < cells:
        for run in range(1, longest + 1):
            if least <= run * block < cells:
                found |= {(run * block, offset) for offset in range(0, run * block, block)}
        block *= 2
    return sorted(found)


def at_edges(sums: Integers, width: int, offset: int) -> Integers:
    """Return what stands at the edges of a tiling: at 0, offset, offset + width, ..., and at the end.

    Parameters
    ----------
    sums
        Shape (cells + 1,), one number for each place where a range may end.
    """
    first = sums[: 1 if offset else 0]
    return np.concatenate([first, sums[offset:-1:width], sums[-1:]])


def _scrambled(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return 32 bits of each word after SplitMix64's scrambling (Steele, Lea, Flood 2014)."""
    words = words * np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (words ^ (words >> np.uint64(31))) >> np.uint64(32)
