"""What ``partition_mixture.levels_if`` finds, for tables of one axis, upwards and downwards at once.

A box of a line has one halving, so that its evidence and its share are a logistic function of one score, and
the level of a cell adds up on the way from the cell to the whole.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mechanisms.histograms.denoise.dyadic_boxes import Boxes
from mechanisms.histograms.denoise.partition_mixture import Prior, power
from mechanisms.kernels.compiled import compiled

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
    unit, offset, rest, inside = np.zeros(side), np.zeros(side), np.zeros(side), np.zeros(side)
    kind, other = np.zeros(side, dtype=np.int64), np.zeros(side, dtype=np.int64)
    for node in range(one_less):
        whole = boxes.parent[first + node]
        kind[node] = boxes.order[first + whole]
        other[node] = boxes.left[first + whole] + boxes.right[first + whole] - node
        unit[node] = prior.unit * boxes.root[first + whole] * boxes.lever[first + whole]
        offset[node] = prior.go[kind[node], 1, 0] - prior.stop[kind[node]]
        inside[node] = 1 / boxes.size[first + node]
        rest[node] = 1 - boxes.size[first + node] / boxes.size[first + whole]
    # Arrays by their own names, and no calls that hand them on: several times as fast.
    parent = boxes.parent[first : first + side]
    ratio, kept, slope, stop = prior.ratio, prior.kept, prior.slope, prior.stop
    size = boxes.size[first + one_less]
    for k in range(steps.size):
        base, node = cells[k, 0] * side, cells[k, 1]
        up, down, up_level, down_level = 0.0, 0.0, 0.0, 0.0
        while node < one_less:
            c, here = kind[node], unit[node]
            gap, step = means[base + node] - means[base + other[node]], steps[k] * inside[node]
            known = offset[node] + evidence[base + other[node]]
            one, own = _read(ratio, kept, slope, c, abs(gap + step) * here)
            two, its = _read(ratio, kept, slope, c, abs(gap - step) * here)
            up += known + one
            down += known + two
            up_level += (gap + step) * own * rest[node]
            down_level += (gap - step) * its * rest[node]
            small, tiny = power(-abs(up)), power(-abs(down))
            up_level *= (1.0 if up > 0 else small) / (1 + small)
            down_level *= (1.0 if down > 0 else tiny) / (1 + tiny)
            up = stop[c] + max(up, 0.0) + _one_more(small)
            down = stop[c] + max(down, 0.0) + _one_more(tiny)
            node = parent[node]
        middle = means[base + one_less]
        higher[k] += middle + steps[k] / size + up_level
        lower[k] += middle - steps[k] / size + down_level


@compiled
def _read(ratio: Floats, kept: Floats, slope: Floats, kind: int, place: float) -> tuple[float, float]:
    """Return ``likelier`` and ``believed``, which read the same points."""
    last = ratio.shape[1] - 1
    if place >= last:
        far = 1.0 - (last - kept[kind, last]) * (last / place / place)
        return ratio[kind, last] + slope[kind] * (place - last), far
    i = np.uint64(place)
    part = place - i
    low, own = ratio[kind, i], kept[kind, i]
    low += part * (ratio[kind, i + np.uint64(1)] - low)
    own += part * (kept[kind, i + np.uint64(1)] - own)
    return low, own / max(place, 1e-300)


@compiled
def _one_more(x: float) -> float:
    """Return ln(1 + x) for x from 0 to 1, as ``logarithm`` does, without its loop."""
    z = x / (2 + x)
    q = z * z
    series = 1 / 9 + q * (1 / 11 + q * (1 / 13 + q * (1 / 15)))
    series = 1 + q * (1 / 3 + q * (1 / 5 + q * (1 / 7 + q * series)))
    return 2 * z * series
