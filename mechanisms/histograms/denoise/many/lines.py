"""What ``partition_mixture.levels_if`` finds, for tables of one axis, upwards and downwards at once.

A box of a line has one halving, so that its evidence and its share are a logistic function of one score, and
the level of a cell adds up on the way from the cell to the whole.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.histograms.denoise.dyadic_boxes import Boxes
from tabularium.mechanisms.histograms.denoise.partition_mixture import Prior, power
from tabularium.mechanisms.kernels.compiled import compiled

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@compiled
def add_line_levels(
    boxes: Boxes,
    means: Floats,
    evidence: Floats,
    prior: Prior,
    cells: Integers,
    steps: Floats,
    higher: Floats,
    lower: Floats,
) -> None:
    """Add the levels of some cells, had each alone been measured higher, or lower, by its step.

    Parameters
    ----------
    boxes
        Of tables of one axis.
    cells
        Shape (count, 2): table and place.
    higher, lower
        Shape (count,): they are added to.
    """
    first, side = boxes.first[1], boxes.strides[0]
    one_less = side - 1
    kind, other, unit, offset, inside, rest = _halves(boxes, prior)
    # Arrays by their own names, and no calls that hand them on: reading takes a tenth of the time.
    parent = boxes.parent[first : first + side]
    ratio, kept, slope, stop = prior.ratio, prior.kept, prior.slope, prior.stop
    last = ratio.shape[1] - 1
    size = boxes.size[first + one_less]
    # Two walks for each cell, up to the whole. All go up one box before any goes up the next: what a walk
    # works out at a box waits for what it worked out below, and other walks fill the time.
    count = steps.size
    score, level = np.zeros(2 * count), np.zeros(2 * count)
    here, going = np.repeat(cells[:, 1], 2), np.arange(2 * count)
    left = 2 * count
    while left > 0:
        still = 0
        for j in range(left):
            w = going[j]
            n = here[w]
            if n < one_less:
                going[still] = w
                still += 1
                k = w >> 1
                base, change = cells[k, 0] * side, -steps[k] if w & 1 else steps[k]
                c, gap = kind[n], means[base + n] - means[base + other[n]] + change * inside[n]
                # ``likelier`` and ``believed``, which read the same points.
                place = abs(gap) * unit[n]
                if place >= last:
                    own = 1.0 - (last - kept[c, last]) * (last / place / place)
                    likelier = ratio[c, last] + slope[c] * (place - last)
                else:
                    low = int(place)
                    part, i = place - low, np.uint64(low)
                    likelier, own = ratio[c, i], kept[c, i]
                    likelier += part * (ratio[c, i + np.uint64(1)] - likelier)
                    own += part * (kept[c, i + np.uint64(1)] - own)
                    own /= max(place, 1e-300)
                score[w] += offset[n] + evidence[base + other[n]] + likelier
                level[w] += gap * own * rest[n]
        left = still
        for j in range(left):
            w = going[j]
            small = power(-abs(score[w]))
            level[w] *= (1.0 if score[w] > 0 else small) / (1 + small)
            score[w] = stop[kind[here[w]]] + max(score[w], 0.0) + _one_more(small)
            here[w] = parent[here[w]]
    for k in range(count):
        middle = means[cells[k, 0] * side + one_less]
        higher[k] += middle + steps[k] / size + level[2 * k]
        lower[k] += middle - steps[k] / size + level[2 * k + 1]


@compiled
def _halves(boxes: Boxes, prior: Prior) -> tuple[Integers, Integers, Floats, Floats, Floats, Floats]:
    """Return what a walk needs at each box but the whole, of the box around it and of that box's two halves.

    The class of the box around it; its sibling, the other half; points per unit of their gap; the logarithm
    of the odds of halving; one over its size; the share of the size that is its sibling's.
    """
    first, side = boxes.first[1], boxes.strides[0]
    unit, offset, inside, rest = np.zeros(side), np.zeros(side), np.zeros(side), np.zeros(side)
    kind, other = np.zeros(side, dtype=np.int64), np.zeros(side, dtype=np.int64)
    for node in range(side - 1):
        whole = boxes.parent[first + node]
        kind[node] = boxes.order[first + whole]
        other[node] = boxes.left[first + whole] + boxes.right[first + whole] - node
        unit[node] = prior.unit * boxes.root[first + whole] * boxes.lever[first + whole]
        offset[node] = prior.go[kind[node], 1, 0] - prior.stop[kind[node]]
        inside[node] = 1 / boxes.size[first + node]
        rest[node] = 1 - boxes.size[first + node] / boxes.size[first + whole]
    return kind, other, unit, offset, inside, rest


@compiled
def _one_more(x: float) -> float:
    """Return ln(1 + x) for x from 0 to 1, as ``logarithm`` does, without its loop."""
    z = x / (2 + x)
    q = z * z
    series = 1 / 9 + q * (1 / 11 + q * (1 / 13 + q * (1 / 15)))
    series = 1 + q * (1 / 3 + q * (1 / 5 + q * (1 / 7 + q * series)))
    return 2 * z * series
