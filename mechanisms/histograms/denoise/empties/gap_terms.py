"""What the gap between the means of two halves of a box says of the box, where a half may be empty.

Gaps are measured and tabulated as in ``partition_mixture``. There the ratio of two densities is enough; here
a third is compared with them, so each has its own table.

Laplace noise has large single values. One of them, y in one cell, shows in the gap of its pair, and again in
those of the boxes of 4, 8, … cells around it, each time with about the weight of the first. It is one piece
of evidence and must count once. So the mean of a half that is itself uneven is taken to be as uncertain as
its own cells say: its variance is V/m, or half of the squared deviations in it over m², whichever is more
(``looseness``).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.histograms.denoise.dyadic_boxes import Boxes, advance
from tabularium.mechanisms.histograms.denoise.partition_mixture import logarithm, power
from tabularium.mechanisms.kernels.compiled import compiled

Floats = NDArray[np.float64]

_NOTHING = -1e300  # logarithm of nothing


class EmptiesTables(NamedTuple):
    """What is believed of a table before it is seen, in the form the passes need.

    Attributes
    ----------
    stop, go, kept, unit
        As in ``partition_mixture.Prior``.
    apart
        Shape (classes, points): logarithm of the density of a gap t between halves that differ, times the
        probability that somebody is in both; at t = 0, 1/32, 2/32, …
    alike
        Shape (classes, points): logarithm of the density of a gap between halves that do not differ, which
        is also that of the mean of a box that nobody is in.
    fall
        Shape (classes,): by how much that falls from point to point, beyond the last.
    empty
        Shape (classes,): logarithm of the probability that nobody is in the left half, or in the right one,
        in the unit of the densities.
    whole
        Shape (classes, points): logarithm of the density of the mean of a whole table that somebody is in.
    spiky
        Class of boxes from which on single measurements do not matter; 0: none do.
    density
        Points per unit of t.
    """

    stop: Floats
    go: Floats
    apart: Floats
    kept: Floats
    alike: Floats
    fall: Floats
    empty: Floats
    whole: Floats
    spiky: int
    unit: float
    density: float


@compiled
def between(table: Floats, kind: int, place: float) -> float:
    """Return what stands in a table at a place before its last point."""
    i = int(place)
    low = table[kind, np.uint64(i)]  # unsigned: an index that is not tested for being negative
    found: float = low + (place - i) * (table[kind, np.uint64(i + 1)] - low)
    return found


@compiled
def if_apart(apart: Floats, kind: int, place: float) -> float:
    """Return the logarithm of the density of a gap if the halves differ; ``place`` is t in points.

    Beyond the table it falls like 1/t: a half has any share of what is in the box.
    """
    last = apart.shape[1] - 1
    if place >= last:
        far: float = apart[kind, last] - logarithm(place / last)
        return far
    return between(apart, kind, place)


@compiled
def if_alike(
    alike: Floats, fall: Floats, kind: int, place: float, left: float, right: float, share: float
) -> float:
    """Return the logarithm of the density of a gap if the halves are alike.

    ``left`` and ``right`` say how loose their means are, ``share`` is the left half's part of the cells.
    """
    more = 0.0
    if max(left, right) > 1.0:
        loose = max(1.0, left) * (1 - share) + max(1.0, right) * share
        place /= np.sqrt(loose)
        more = logarithm(loose) / 2
    last = alike.shape[1] - 1
    if place >= last:
        far: float = alike[kind, last] - fall[kind] * (place - last) - more
        return far
    return between(alike, kind, place) - more


@compiled
def if_empty(alike: Floats, kind: int, place: float) -> float:
    """Return the logarithm of the density of the mean of an empty box of a class."""
    return between(alike, kind, place) if place < alike.shape[1] - 1 else _NOTHING


@compiled
def inhabited(boxes: Boxes, prior: EmptiesTables, kind: int, place: float, evidence: float) -> float:
    """Return the probability that somebody is in a table, given its mean and the evidence for halvings.

    Of several tables none is taken to be empty: what is in all of them together may be well known.
    """
    if boxes.first[1] > 1 or place >= prior.alike.shape[1] - 1:
        return 1.0
    more = between(prior.whole, kind, place) + evidence - between(prior.alike, kind, place)
    return 1 / (1 + power(-more)) if more >= 0 else 1 - 1 / (1 + power(more))


@compiled
def looseness(boxes: Boxes, means: Floats, prior: EmptiesTables) -> Floats:
    """Return by how much the variance of small boxes' means exceeds that of the noise; below 1 it does not.

    Returns
    -------
    Shape (boxes,): squared deviations from the mean over 2·m·V; 0 for boxes of the class ``spiky`` and above.
    """
    first, strides, left_of, right_of = boxes.first, boxes.strides, boxes.left, boxes.right
    d = strides.size
    loose = np.zeros(means.size)
    if prior.spiky == 0:
        return loose
    at, sides = np.zeros(d, dtype=np.int64), first[1:] - first[:-1]
    for box in range(means.size):
        kind, axis = 0, 0
        for a in range(1, d):
            node = first[a] + at[a]
            kind += boxes.order[node]
            if left_of[node] >= 0:
                axis = a
        if 0 < kind < prior.spiky:
            node = first[axis] + at[axis]
            left = box + (left_of[node] - at[axis]) * strides[axis]
            right = box + (right_of[node] - at[axis]) * strides[axis]
            gap = (means[left] - means[right]) * boxes.lever[node] * prior.unit / prior.density
            share = boxes.share[node]
            loose[box] = loose[left] * share + loose[right] * (1 - share) + gap * gap / 2
        advance(at, sides)
    return loose
