"""How likely it is that a box divides unevenly, given a noisy contrast of its halves: one loop over boxes."""

from __future__ import annotations

from math import exp, isfinite, log

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.kernels.compiled import compiled

Floats = NDArray[np.float64]


@compiled
def judge(
    contrasts: Floats,
    noises: Floats,
    bounds: Floats,
    slabs: Floats,
    weights: Floats,
    rests: Floats,
    doubts: Floats,
    against: Floats,
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return, of each box, what its contrast says if the box is divided unevenly.

    It may be so in several ways: by a contrast from one of some normal laws ("slabs"), or because all of the
    box is in its first half, or in its second.

    Parameters
    ----------
    contrasts, noises
        (boxes,) noisy contrasts and the variances of their noise; infinite: nothing is known.
    bounds
        (boxes,) no slab of a box is wider than this variance.
    slabs
        (slabs,) variances of true contrasts.
    weights
        (slabs + 2,) probabilities of the ways.
    rests, doubts
        (2, boxes) the contrast less what it is if all of the box is in its first half, and in its second, as
        far as the box's sum is known; and the variance of that if it is so.
    against
        (2, boxes) by how much (in logarithms) what lies below speaks against an empty second half, and an
        empty first one.

    Returns
    -------
    The logarithm of the likelihood ratio against an even box, (boxes,); the mean of the true contrast over
    the slabs times their probability, (boxes,); the probabilities of the ways, (boxes, slabs + 2); the mean
    squares by slab, (boxes, slabs).
    """
    boxes, kinds = contrasts.size, slabs.size
    ratios, means = np.zeros(boxes), np.zeros(boxes)
    ways, squares = np.zeros((boxes, kinds + 2)), np.zeros((boxes, kinds))
    logs = np.zeros(kinds + 2)
    for box in range(boxes):
        noise, seen = noises[box], contrasts[box]
        if not isfinite(noise):
            for kind in range(kinds + 2):
                ways[box, kind] = weights[kind]
            for kind in range(kinds):
                squares[box, kind] = min(slabs[kind], bounds[box])
            continue
        for kind in range(kinds):
            spread = noise + min(slabs[kind], bounds[box])
            logs[kind] = log(weights[kind]) - 0.5 * log(spread) - 0.5 * seen * seen / spread
        for half in range(2):
            off, spread = rests[half, box], doubts[half, box]
            logs[kinds + half] = log(weights[kinds + half]) - 0.5 * log(spread) - 0.5 * off * off / spread
            logs[kinds + half] -= against[half, box]
        most = logs.max()
        total = 0.0
        for kind in range(kinds + 2):
            ways[box, kind] = exp(logs[kind] - most)
            total += ways[box, kind]
        for kind in range(kinds + 2):
            ways[box, kind] /= total
        for kind in range(kinds):
            slab = min(slabs[kind], bounds[box])
            trust = slab / (slab + noise)
            means[box] += ways[box, kind] * trust * seen
            squares[box, kind] = trust * trust * seen * seen + trust * noise
        ratios[box] = most + log(total) + 0.5 * log(noise) + 0.5 * seen * seen / noise
    return ratios, means, ways, squares
