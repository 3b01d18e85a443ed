"""Absolute deviations Σ|x - mean| of both sides of every cut of a part, in O(m log m) for m bins.

One pass over the bins gives all prefixes, one more all suffixes; everything is exact in int64 for counts up
to 2^40 and up to 2^21 bins, and deviations stay within 2^60 (docs/reference/mechanisms/p_hpartition.md).

Source: Acs, Castelluccia, Chen 2012, section V; there it costs O(m²) for a part.
"""

from __future__ import annotations

import numpy as np

from tabularium.mechanisms.arrays import Integers
from tabularium.mechanisms.histograms.segmentation import first_from
from tabularium.mechanisms.kernels.compiled import compiled

_SHIFT = 5
_WITHIN = (1 << _SHIFT) - 1
_MOST_LEVELS = 8


@compiled
def bisection_costs(values: Integers, order: Integers, starts: Integers, sizes: Integers) -> Integers:
    """Return the absolute deviation of each part, and of its two sides under every cut.

    Parameters
    ----------
    values
        Counts, int64, shape (n,), 0 to 2^40.
    order
        Positions in ``values``, int64, shape (n,): the places of a part hold its positions, sorted by value.
    starts, sizes
        First position and number of bins of each part, int64, shape (parts,); parts are disjoint.

    Returns
    -------
    int64, shape (sum of sizes,), part after part: first the deviation of the part, then, for the cut after
    1, 2, …, m - 1 of its bins, the deviations of both sides together. Every single deviation is rounded to
    the nearest integer, halves downwards.
    """
    largest = sizes.max()
    costs = np.zeros(sizes.sum(), dtype=np.int64)
    ranks = np.empty(largest, dtype=np.int64)
    levels = np.empty(largest, dtype=np.int64)
    bases = np.zeros(_MOST_LEVELS, dtype=np.int64)
    tree = np.empty((bases[_lay_out(largest, bases)], 2), dtype=np.int64)
    first = 0
    for part in range(sizes.size):
        start, size = starts[part], sizes[part]
        number = _rank(values, order[start : start + size], start, ranks, levels)
        if number > 1:  # a part of equal bins has no deviation under any cut
            depth = _lay_out(number, bases)
            nodes, bins = tree[: bases[depth]], values[start : start + size]
            own, rank = costs[first : first + size], ranks[:size]
            # Slices with a step, both of them: one type of array, hence one compiled function.
            own[0] = _deviations(bins[::1], rank[::1], levels[:number], nodes, bases[:depth], own[1::1])
            _deviations(bins[::-1], rank[::-1], levels[:number], nodes, bases[:depth], own[:0:-1])
        first += size
    return costs


@compiled
def _rank(values: Integers, positions: Integers, start: int, ranks: Integers, levels: Integers) -> int:
    """Number the distinct values of a part upwards; fill in the numbers of its bins and the values."""
    number = 0
    for place in range(positions.size):
        value = values[positions[place]]
        if number == 0 or value != levels[number - 1]:
            levels[number] = value
            number += 1
        ranks[positions[place] - start] = number - 1
    return number


@compiled
def _lay_out(number: int, bases: Integers) -> int:
    """Fill in where each level of a tree of ``number`` leaves begins and the last one ends; return the depth.

    Each level has a node more than it needs: the end of a range is then a node too.
    """
    depth, width = 0, number
    while True:
        width = (width >> _SHIFT) + 1
        bases[depth + 1] = bases[depth] + (width << _SHIFT)
        depth += 1
        if width == 1:
            return depth


@compiled
def _deviations(
    bins: Integers, ranks: Integers, levels: Integers, tree: Integers, bases: Integers, costs: Integers
) -> int:
    """Add the deviation of the first 1, 2, …, m - 1 bins to ``costs``; return that of all.

    The quotients are taken in floating point, several times as fast as in integers. S/j is at most 2^40, so
    its error is far below 1 and one step mends it. 4·c·r + j and 2·j are exact doubles, and a quotient that
    is not whole is at least 1/2j from the next integer, more than rounding can bridge.
    """
    tree[:] = 0
    total, above, beyond = 0, 0, 0  # S, c and A
    place = 0  # of the first level above q
    deviation = 0
    for met in range(1, bins.size + 1):
        value, rank = bins[met - 1], ranks[met - 1]
        total += value
        if rank >= place:
            above += 1
            beyond += value
        for level in range(bases.size):
            node = bases[level] + (rank >> (level * _SHIFT))
            tree[node, 0] += 1
            tree[node, 1] += value
        quotient = int(float(total) / float(met))
        rest = total - quotient * met
        if rest < 0:
            quotient, rest = quotient - 1, rest + met
        elif rest >= met:
            quotient, rest = quotient + 1, rest - met
        if place < levels.size and levels[place] <= quotient:
            result = first_from(levels, place, quotient + 1)
            number, amount = _between(tree, bases, place, result)
            above, beyond, place = above - number, beyond - amount, result
        elif place > 0 and levels[place - 1] > quotient:
            result = first_from(levels, place - 1, quotient + 1)
            number, amount = _between(tree, bases, result, place)
            above, beyond, place = above + number, beyond + amount, result
        share = int(float(4 * above * rest + met) / float(2 * met))  # 2·c·r/j to the nearest integer
        deviation = 2 * (beyond - above * quotient) - share
        if met < bins.size:
            costs[met - 1] += deviation
    return deviation


@compiled
def _between(tree: Integers, bases: Integers, low: int, high: int) -> tuple[int, int]:
    """Return how many of the bins met have a rank from ``low`` to ``high - 1``, and their sum.

    On each level the nodes up to the next multiple of 32 are read at both ends, the rest one level up.
    """
    number, amount = 0, 0
    level = 0
    while low < high:
        base = bases[level]
        while low < high and low & _WITHIN:
            number += tree[base + low, 0]
            amount += tree[base + low, 1]
            low += 1
        while low < high and high & _WITHIN:
            high -= 1
            number += tree[base + high, 0]
            amount += tree[base + high, 1]
        low, high, level = low >> _SHIFT, high >> _SHIFT, level + 1
    return number, amount


@compiled
def split_order(order: Integers, starts: Integers, sizes: Integers, cuts: Integers) -> None:
    """Divide the positions of every part into those before its cut and those after, each in their old order.

    ``order``, ``starts``, ``sizes``: As for ``bisection_costs``; ``order`` is changed in place. ``cuts``:
    Number of bins before the cut of each part, int64, shape (parts,).
    """
    spare = np.empty(sizes.max(), dtype=np.int64)
    for part in range(sizes.size):
        start, cut = starts[part], cuts[part]
        own = order[start : start + sizes[part]]
        left, right = 0, 0
        for place in range(own.size):
            if own[place] < start + cut:
                own[left] = own[place]
                left += 1
            else:
                spare[right] = own[place]
                right += 1
        for place in range(right):
            own[left + place] = spare[place]
