"""Exact segmentation of a table into runs of neighbouring cells, around their means or their medians.

``segment`` minimises the squared (mean) or absolute (median) error within runs plus a price for each run;
``segment_into`` minimises the error with a given number of runs. The kernels take integers; a table of other
numbers, or of too large ones, is first put on a lattice (``on_lattice``) that is fine enough not to matter.
"""

from __future__ import annotations

from math import frexp, inf, ldexp, sqrt
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.arrays import LARGEST_SUM, Floats, Integers
from tabularium.mechanisms.kernels.compiled import compiled

Centre = Literal["mean", "median"]

_UNREACHED = 1 << 61
_LEVEL = 1 << 58
_FINENESS = 1 << 20


def segment(table: NDArray[Any], centre: Centre, price: float, *, unit: float) -> Integers:
    """Return where the runs of the best segmentation begin: its error plus ``price`` per run is least.

    Parameters
    ----------
    table
        Shape (n,): int64 or float64, finite, at most 2^61 in absolute value.
    centre
        ``"mean"``: the error is a sum of squares; ``"median"``: of absolute values.
    price
        In squared units of the table (mean) or in its units (median), not negative.
    unit
        A difference that matters, say the noise scale: a table of other numbers than integers is rounded to
        2^-20 of it, and so is the price of a median.

    Returns
    -------
    ndarray
        Shape (runs,): the first cell of each run, ascending from 0. Of equally good segmentations, one whose
        last runs are the longest.
    """
    if centre == "mean":
        levels, step = on_lattice(table, unit / _FINENESS, LARGEST_SUM // table.size)
        scaled = price / step**2
        starts, _ = mean_layer(levels, scaled, np.zeros(0), 0, 4096 * sqrt(scaled))
    else:
        levels, step = on_lattice(table, min(unit, price or unit) / _FINENESS, _LEVEL, finer=True, also=price)
        whole = round(price / step)
        distinct, ranks = np.unique(levels, return_inverse=True)
        starts, _ = median_layer(distinct, ranks, whole, np.zeros(0, dtype=np.int64), 0)
    return backtrack(starts)


def segment_into(table: NDArray[Any], centre: Centre, runs: int, *, unit: float) -> Integers:
    """Return where the runs of the best segmentation into exactly ``runs`` runs begin.

    ``table``, ``centre``, ``unit``: As in ``segment``. ``runs``: From 1 to n. It takes 4·n·runs bytes.
    """
    if runs == table.size:
        return np.arange(runs)
    levels, _ = on_lattice(table, unit / _FINENESS, LARGEST_SUM // table.size)
    layers: list[NDArray[np.int32]] = []
    if centre == "mean":
        reals = np.full(table.size + 1, np.inf)
        reals[0] = 0.0
        for first in range(runs):
            starts, reals = mean_layer(levels, 0.0, reals, first, np.inf)
            layers.append(starts)
    else:
        distinct, ranks = np.unique(levels, return_inverse=True)
        wholes = np.full(table.size + 1, _UNREACHED)
        wholes[0] = 0
        for first in range(runs):
            starts, wholes = median_layer(distinct, ranks, 0, wholes, first)
            layers.append(starts)
    return _backtrack_layers(layers)


def on_lattice(
    table: NDArray[Any], finest: float, largest: int, *, finer: bool = False, also: float = 0.0
) -> tuple[Integers, float]:
    """Return a table in whole steps around the middle of its range, and the step, a power of two.

    Parameters
    ----------
    table
        Shape (n,): int64 or float64.
    finest
        The step for a table of floats, rounded down to a power of two. Integers stay as they are, or with
        ``finer`` become multiples of such a step.
    largest
        The step is doubled until no level, nor ``also``, is larger in absolute value.
    """
    whole = table.dtype.kind == "i"
    step = ldexp(1.0, frexp(max(finest, 1e-300))[1] - 1)
    if whole:
        step = min(1.0, step) if finer else 1.0
    low, high = table.min(), table.max()
    middle = low + (high - low) // 2
    span = max(float(high - low) / 2 + 1, also)
    while span / step > largest:
        step *= 2
    offset = table - middle
    if not whole:
        return np.rint(offset / step).astype(np.int64), step
    if step <= 1:
        return offset << int(1 / step).bit_length() - 1, step
    return (offset + int(step) // 2) >> int(step).bit_length() - 1, step


def _backtrack_layers(layers: list[NDArray[np.int32]]) -> Integers:
    """Return the first cells of the runs: one in each layer, the last one first."""
    result, end = [], layers[0].size - 1
    for starts in reversed(layers):
        end = int(starts[end])
        result.append(end)
    return np.array(result[::-1], dtype=np.int64)


Starts = NDArray[np.int32]

# A piece reaches from the end of the piece before it (the first one: from -inf) to its own end.
END, VALUE = 0, 1  # columns of ``reals``
SUM, OPENED = 0, 1  # columns of ``wholes``


@compiled
def mean_layer(
    levels: Integers, price: float, before: Floats, first: int, reach: float
) -> tuple[Starts, Floats]:
    """Return, for every t, where the last segment of the best segmentation of ``levels[:t]`` begins.

    Parameters
    ----------
    levels
        Shape (n,), n·max|level| <= 2^60.
    price
        Of a segment; of no use when ``before`` is given.
    before
        Shape (n + 1,): least costs with one segment less; or shape (0,): the number of segments is free.
    first
        Where the last segment may begin at the earliest (with j segments: j - 1).
    reach
        How far a level may lie from the origin of the intervals before the origin is moved to it.

    Returns
    -------
    starts, costs
        Shape (n + 1,) each, of use from ``first + 1`` on. Costs hold the price of all segments but the first.
        Of equally good ones the earliest start is taken, hence few segments.
    """
    n = levels.size
    layered = before.size > 0
    starts, costs = np.zeros(n + 1, dtype=np.int32), np.zeros(n + 1, dtype=np.float64)
    # Two banks: the pieces now, and the pieces after the next level. One loop does it all, since calls for
    # each level would cost as much as the work.
    room, now, count = 64, 0, 1
    reals = np.zeros((2, room, 2), dtype=np.float64)
    wholes = np.zeros((2, room, 2), dtype=np.int64)
    _write(reals, wholes, 0, 0, inf, before[first] if layered else 0.0, 0, first)
    origin = levels[first]
    for t in range(first, n):
        level = levels[t]
        move = float(level - origin)
        if abs(move) > reach:
            _move_ends(reals, now, count, move)
            origin = level

        best, begin = inf, n  # add (level - μ)² to every piece, and find the least value
        for j in range(count):
            value = reals[now, j, VALUE]
            size = t - wholes[now, j, OPENED]
            if size > 0:
                apart = float(size * level - wholes[now, j, SUM])
                value += apart * apart / (float(size) * (float(size) + 1.0))
                reals[now, j, VALUE] = value
            wholes[now, j, SUM] += level
            if value < best or (value == best and wholes[now, j, OPENED] < begin):
                best, begin = value, wholes[now, j, OPENED]
        starts[t + 1], costs[t + 1] = begin, best

        ceiling = before[t + 1] if layered else best + price
        then, kept = 1 - now, 0
        edge = left = -inf  # where the piece begins, and where the last one that was kept ends
        for j in range(count):
            low, high = edge, reals[now, j, END]
            edge = high
            value = reals[now, j, VALUE]
            if value > ceiling:
                continue
            size = t + 1 - wholes[now, j, OPENED]
            share = 1.0 / float(size)
            middle = float(wholes[now, j, SUM] - size * origin) * share
            radius = sqrt((ceiling - value) * share)
            low, high = max(low, middle - radius), min(high, middle + radius)
            if low > high or (low == high and wholes[now, j, OPENED] != begin):
                continue  # at a single point a neighbour costs the same: such pieces would pile up
            if low > left:  # in between, a segment that begins after this level is better
                kept = _write(reals, wholes, then, kept, low, ceiling, 0, t + 1)
            kept = _write(reals, wholes, then, kept, high, value, wholes[now, j, SUM], wholes[now, j, OPENED])
            left = high
        if left < inf:
            kept = _write(reals, wholes, then, kept, inf, ceiling, 0, t + 1)
        now, count = then, kept
        if 2 * count + 1 > room:
            room *= 4
            reals, wholes = grow_banks(reals, room), grow_banks(wholes, room)
    return starts, costs


@compiled
def _write(
    reals: Floats, wholes: Integers, bank: int, place: int, end: float, value: float, total: int, begin: int
) -> int:
    """Write a piece; return the place after it."""
    reals[bank, place, END] = end
    reals[bank, place, VALUE] = value
    wholes[bank, place, SUM] = total
    wholes[bank, place, OPENED] = begin
    return place + 1


@compiled
def _move_ends(reals: Floats, bank: int, count: int, move: float) -> None:
    for place in range(count):
        reals[bank, place, END] -= move


@compiled
def grow_banks(banks: NDArray[Any], room: int) -> NDArray[Any]:
    """Return the two banks with more room."""
    wider = np.zeros((2, room, banks.shape[2]), dtype=banks.dtype)
    for bank in range(2):
        for place in range(banks.shape[1]):  # assigning slices would take seconds to compile
            for column in range(banks.shape[2]):
                wider[bank, place, column] = banks[bank, place, column]
    return wider


@compiled
def backtrack(starts: Starts) -> Integers:
    """Return where the segments begin, ascending, from the last starts of all beginnings of the sequence."""
    n = starts.size - 1
    count, end = 0, n
    while end > 0:
        end = starts[end]
        count += 1
    result = np.zeros(count, dtype=np.int64)
    end = n
    for place in range(count - 1, -1, -1):
        end = starts[end]
        result[place] = end
    return result


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
            pieces, order = _grow_pieces(pieces, order, now, 4 * room)
            room *= 4
        # The segment that begins with this level holds what lies between the pieces, up to the ceiling.
        base = flat - least
        low = first_from(levels, rank, levels[rank] - (ceiling - base))
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
            node = first_from(levels, at, needed)
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
def first_from(levels: Integers, rank: int, bound: int) -> int:
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
    return first_from(levels, rank, bound + 1) - 1


@compiled
def _grow_pieces(pieces: Integers, order: Integers, now: int, room: int) -> tuple[Integers, Integers]:
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
