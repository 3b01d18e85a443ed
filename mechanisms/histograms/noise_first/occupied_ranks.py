"""A multiset of ranks that finds the next one above or below: a tree of counts, sixteen children to a node.

``tree`` holds all floors one after another. The lowest has a count for each rank, each higher one the
number of occupied places among sixteen below it; ``floors`` says where each begins, and where the last
ends. All operations take O(log n) steps.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.kernels.compiled import compiled

Integers = NDArray[np.int64]
Counts = NDArray[np.int32]


@compiled
def empty(size: int) -> tuple[Counts, Integers]:
    """Return an empty multiset of ranks below ``size``: its tree and its floors."""
    height, width, total = 1, size, size
    while width > 16:
        width = (width + 15) >> 4
        total += width
        height += 1
    floors = np.zeros(height + 1, dtype=np.int64)
    width = size
    for floor in range(height):
        floors[floor + 1] = floors[floor] + width
        width = (width + 15) >> 4
    return np.zeros(total, dtype=np.int32), floors


@compiled
def put(tree: Counts, floors: Integers, rank: int) -> None:
    """Add ``rank`` once."""
    tree[rank] += 1
    floor = 0
    while tree[floors[floor] + rank] == 1 and floor + 2 < floors.size:
        floor += 1
        rank >>= 4
        tree[floors[floor] + rank] += 1


@compiled
def clear(tree: Counts, floors: Integers, rank: int) -> None:
    """Remove ``rank``, which must be there, as often as it is there."""
    tree[rank] = 0
    floor = 0
    while tree[floors[floor] + rank] == 0 and floor + 2 < floors.size:
        floor += 1
        rank >>= 4
        tree[floors[floor] + rank] -= 1


@compiled
def above(tree: Counts, floors: Integers, rank: int, end: int) -> int:
    """Return the next occupied rank after ``rank``, or ``end`` if there is none before ``end``."""
    floor, place = 0, rank + 1
    while True:
        base = floors[floor]
        stop = min(((place + 15) >> 4) << 4, floors[floor + 1] - base)
        while place < stop and tree[base + place] == 0:
            place += 1
        if place < stop:
            break
        if floor + 2 == floors.size or place << 4 * floor >= end:
            return end
        floor += 1
        place = (place + 15) >> 4
    while floor > 0:
        floor -= 1
        place <<= 4
        while tree[floors[floor] + place] == 0:
            place += 1
    return min(place, end)


@compiled
def below(tree: Counts, floors: Integers, rank: int, end: int) -> int:
    """Return the next occupied rank before ``rank``, or ``end`` if there is none after ``end``."""
    floor, place = 0, rank - 1
    while True:
        base = floors[floor]
        stop = 0 if floor + 2 == floors.size else (place + 1) >> 4 << 4
        while place >= stop and tree[base + place] == 0:
            place -= 1
        if place >= stop:
            break
        if place < 0 or (place + 1) << 4 * floor <= end:
            return end
        floor += 1
        place >>= 4
    while floor > 0:
        floor -= 1
        place = (place << 4) + 15
        while tree[floors[floor] + place] == 0:
            place -= 1
    return max(place, end)
