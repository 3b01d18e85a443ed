"""Segmentation of a sequence around medians: the same dynamic program, in whole numbers throughout.

As in ``mean_segments``, with |level - μ| in place of the square: what is carried along is, for each level μ
that occurs, the least cost of a segmentation whose last segment is represented by μ, as far as it does not
exceed the ceiling (the cost of beginning a new segment after this level). It consists of pieces, intervals
of μ that belong to segments with one begin. On a piece it is convex, and linear between *nodes*, the levels
of the segment. A piece knows its value and slope at both edges and at its least point; so a new level changes
a few numbers, and an edge that rises above the ceiling moves inwards from node to node. Pieces are disjoint
and a level lies in one of them at most, so one multiset of nodes serves them all, and every level enters it
once and leaves it once: O(n log n) as long as few pieces are alive (about ten are). The search is exact.

Numbers are integers. Values are kept relative to the least cost; they stay below the ceiling plus the
distance between two levels.

Source: the recursion of Rigaill 2015 and Maidstone et al. 2017; the bookkeeping of nodes is ours.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.histograms.noise_first.occupied_ranks import above, below, clear, empty, put
from tabularium.mechanisms.kernels.compiled import compiled

Integers = NDArray[np.int64]
Counts = NDArray[np.int32]

# Columns of a piece. Positions are ranks of levels; a slope is that just inside the edge, or on either side
# of the least point (of no meaning where that is an edge).
BEGIN, LOW, HIGH, LEAST = 0, 1, 2, 3
AT_LOW, AT_HIGH, AT_LEAST = 4, 5, 6
AFTER_LOW, BEFORE_HIGH, BEFORE_LEAST, AFTER_LEAST = 7, 8, 9, 10
COLUMNS = 11


@compiled
def median_layer(
    levels: Integers, ranks: Integers, price: int, before: Integers, first: int
) -> tuple[Counts, Integers]:
    """Return, for every t, where the last segment of the best segmentation of the first t levels begins.

    Parameters
    ----------
    levels
        Shape (K,): the levels that occur, ascending; max|level| <= 2^59, and n·max|level| <= 2^60 when
        ``before`` is given.
    ranks
        Shape (n,): the sequence, each level by its position in ``levels``.
    price
        Of a segment, from 0 to 2^59; of no use when ``before`` is given.
    before
        Shape (n + 1,): least costs with one segment less, at most 2^61; or shape (0,): the number of segments
        is free.
    first
        Where the last segment may begin at the earliest (with j segments: j - 1).

    Returns
    -------
    starts, costs
        Shape (n + 1,) each, of use from ``first + 1`` on; costs are zeros when ``before`` is not given. Of
        equally good ones the earliest start is taken, hence few segments.
    """
    n = ranks.size
    layered = before.size > 0
    starts = np.zeros(n + 1, dtype=np.int32)
    costs = np.zeros(n + 1, dtype=np.int64)
    tree, floors = empty(levels.size)
    # Rows of ``pieces`` hold them in any order; ``order`` (two banks: now, and after the next level) says
    # which rows are alive, by position, and then which ones are free.
    room = 32
    pieces = np.zeros((room, COLUMNS), dtype=np.int64)
    order = np.zeros((2, room), dtype=np.int64)
    for row in range(room):
        order[0, row] = row
    now, then, count = 0, 1, 0
    total = 0
    flat = 0  # cost of a segment that begins with the level to come
    for t in range(first, n):
        rank = ranks[t]
        least, begin = _take_in_all(pieces, order[now, :count], flat, t, rank, levels, tree, floors)
        starts[t + 1] = begin
        ceiling = price
        if layered:
            total += least
            costs[t + 1] = total
            ceiling = before[t + 1] - total

        if 2 * count + 1 > room:
            pieces, order = _longer(pieces, order, now, 4 * room)
            room *= 4
        # The segment that begins with this level holds what lies between the pieces, up to the ceiling.
        base = flat - least
        low = _first_from(levels, rank, levels[rank] - (ceiling - base))
        high = _last_to(levels, rank, levels[rank] + (ceiling - base))
        kept, free, dead = 0, count, room
        edge = 0
        for j in range(count + 1):
            row = order[now, j]
            until = pieces[row, LOW] if j < count else levels.size
            if max(edge, low) <= min(until - 1, high):
                new = order[now, free]
                free += 1
                _begin(pieces, new, t, max(edge, low), min(until - 1, high), base, rank, levels, tree, floors)
                order[then, kept] = new
                kept += 1
            edge = pieces[row, HIGH] + 1
            if j == count:
                pass
            elif _cut(pieces, row, least, ceiling, levels, tree, floors):
                order[then, kept] = row
                kept += 1
            else:
                dead -= 1
                order[then, dead] = row
        for j in range(kept, dead):
            order[then, j] = order[now, free + j - kept]
        flat = ceiling
        now, then, count = then, now, kept
    return starts, costs


@compiled
def _begin(
    pieces: Integers,
    row: int,
    begin: int,
    low: int,
    high: int,
    base: int,
    rank: int,
    levels: Integers,
    tree: Counts,
    floors: Integers,
) -> None:
    """Make a piece of the function base + |level - μ|."""
    level = levels[rank]
    least = min(max(rank, low), high)
    pieces[row, BEGIN] = begin
    pieces[row, LOW], pieces[row, HIGH], pieces[row, LEAST] = low, high, least
    pieces[row, AT_LOW] = base + abs(level - levels[low])
    pieces[row, AT_HIGH] = base + abs(level - levels[high])
    pieces[row, AT_LEAST] = base + abs(level - levels[least])
    pieces[row, AFTER_LOW] = 1 if rank <= low else -1
    pieces[row, BEFORE_HIGH] = 1 if rank < high else -1
    pieces[row, BEFORE_LEAST] = 1 if rank < least else -1
    pieces[row, AFTER_LEAST] = 1 if rank <= least else -1
    if low < rank < high:
        put(tree, floors, rank)


@compiled
def _take_in_all(
    pieces: Integers,
    rows: Integers,
    flat: int,
    t: int,
    rank: int,
    levels: Integers,
    tree: Counts,
    floors: Integers,
) -> tuple[int, int]:
    """Add |level - μ| to all pieces; return the least value, and where its segment begins."""
    inside = False
    for row in rows:
        inside |= _take_in(pieces, row, rank, levels, tree, floors)
    # Where no piece is, a segment may begin with this level.
    least, begin = (pieces[rows[0], AT_LEAST], t + 1) if inside else (flat, t)
    for row in rows:
        value = pieces[row, AT_LEAST]
        if value < least or (value == least and pieces[row, BEGIN] < begin):
            least, begin = value, pieces[row, BEGIN]
    return least, begin


@compiled
def _take_in(pieces: Integers, row: int, rank: int, levels: Integers, tree: Counts, floors: Integers) -> bool:
    """Add |level - μ| to a piece; return whether the level lies in it."""
    level = levels[rank]
    low, high, least = pieces[row, LOW], pieces[row, HIGH], pieces[row, LEAST]
    pieces[row, AT_LOW] += abs(level - levels[low])
    pieces[row, AT_HIGH] += abs(level - levels[high])
    pieces[row, AT_LEAST] += abs(level - levels[least])
    pieces[row, AFTER_LOW] += 1 if rank <= low else -1
    pieces[row, BEFORE_HIGH] += 1 if rank < high else -1
    pieces[row, BEFORE_LEAST] += 1 if rank < least else -1
    pieces[row, AFTER_LEAST] += 1 if rank <= least else -1
    if low < rank < high:
        put(tree, floors, rank)
    # One level moves the least point to the next node at most: a node bends the slope by two or more.
    if least < high and pieces[row, AFTER_LEAST] < 0:
        node = above(tree, floors, least, high)
        slope = pieces[row, AFTER_LEAST]
        pieces[row, AT_LEAST] += slope * (levels[node] - levels[least])
        pieces[row, BEFORE_LEAST] = slope
        pieces[row, AFTER_LEAST] = slope + 2 * np.int64(tree[node])
        pieces[row, LEAST] = node
    elif least > low and pieces[row, BEFORE_LEAST] > 0:
        node = below(tree, floors, least, low)
        slope = pieces[row, BEFORE_LEAST]
        pieces[row, AT_LEAST] -= slope * (levels[least] - levels[node])
        pieces[row, AFTER_LEAST] = slope
        pieces[row, BEFORE_LEAST] = slope - 2 * np.int64(tree[node])
        pieces[row, LEAST] = node
    return bool(low <= rank <= high)


@compiled
def _cut(
    pieces: Integers,
    row: int,
    least: int,
    ceiling: int,
    levels: Integers,
    tree: Counts,
    floors: Integers,
) -> bool:
    """Make values relative to the new least cost, and cut off what exceeds the ceiling; False if all does."""
    pieces[row, AT_LOW] -= least
    pieces[row, AT_HIGH] -= least
    pieces[row, AT_LEAST] -= least
    if pieces[row, AT_LEAST] > ceiling:
        node = above(tree, floors, pieces[row, LOW], pieces[row, HIGH])
        while node < pieces[row, HIGH]:
            clear(tree, floors, node)
            node = above(tree, floors, node, pieces[row, HIGH])
        return False
    while pieces[row, AT_LOW] > ceiling:  # the least point stops it
        at, value, slope = pieces[row, LOW], pieces[row, AT_LOW], pieces[row, AFTER_LOW]
        node = above(tree, floors, at, pieces[row, HIGH])
        needed = levels[at] + (value - ceiling - slope - 1) // -slope
        if needed < levels[node]:
            node = _first_from(levels, at, needed)
        pieces[row, LOW] = node
        pieces[row, AT_LOW] = value + slope * (levels[node] - levels[at])
        if tree[node] > 0 and node < pieces[row, HIGH]:
            pieces[row, AFTER_LOW] = slope + 2 * np.int64(tree[node])
            clear(tree, floors, node)
    while pieces[row, AT_HIGH] > ceiling:
        at, value, slope = pieces[row, HIGH], pieces[row, AT_HIGH], pieces[row, BEFORE_HIGH]
        node = below(tree, floors, at, pieces[row, LOW])
        needed = levels[at] - (value - ceiling + slope - 1) // slope
        if needed > levels[node]:
            node = _last_to(levels, at, needed)
        pieces[row, HIGH] = node
        pieces[row, AT_HIGH] = value - slope * (levels[at] - levels[node])
        if tree[node] > 0 and node > pieces[row, LOW]:
            pieces[row, BEFORE_HIGH] = slope - 2 * np.int64(tree[node])
            clear(tree, floors, node)
    return True


@compiled
def _first_from(levels: Integers, rank: int, bound: int) -> int:
    """Return the first rank whose level is ``bound`` or more, searched outwards from ``rank``."""
    step = 1
    if levels[rank] >= bound:
        high = rank
        low = rank - 1
        while low >= 0 and levels[low] >= bound:
            high = low
            step *= 2
            low -= step
        low = max(low, -1)
    else:
        low = rank
        high = rank + 1
        while high < levels.size and levels[high] < bound:
            low = high
            step *= 2
            high += step
        high = min(high, levels.size)
    while high - low > 1:
        middle = (low + high) // 2
        if levels[middle] >= bound:
            high = middle
        else:
            low = middle
    return high


@compiled
def _last_to(levels: Integers, rank: int, bound: int) -> int:
    """Return the last rank whose level is ``bound`` or less, searched outwards from ``rank``."""
    return _first_from(levels, rank, bound + 1) - 1


@compiled
def _longer(pieces: Integers, order: Integers, now: int, room: int) -> tuple[Integers, Integers]:
    """Return more rows, the new ones free."""
    rows = np.zeros((room, COLUMNS), dtype=np.int64)
    banks = np.zeros((2, room), dtype=np.int64)
    for place in range(room):
        if place < order.shape[1]:
            banks[now, place] = order[now, place]
            for column in range(COLUMNS):
                rows[place, column] = pieces[place, column]
        else:
            banks[now, place] = place
    return rows, banks
