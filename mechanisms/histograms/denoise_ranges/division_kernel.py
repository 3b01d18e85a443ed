"""How likely it is that a box divides unevenly, given a noisy contrast of its halves: one loop over boxes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mechanisms.kernels.compiled import compiled

Floats = NDArray[np.float64]


@compiled
def judge(
    contrasts: Floats, noises: Floats, bounds: Floats, slabs: Floats, weights: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return, of each box, what its contrast says if the box is divided unevenly.

    Parameters
    ----------
    contrasts, noises
        (boxes,) noisy contrasts and the variances of their noise; infinite: nothing is known.
    bounds
        (boxes,) no slab of a box is wider than this variance.
    slabs, weights
        (slabs,) variances of true contrasts of uneven boxes, and their probabilities.

    Returns
    -------
    The logarithm of the likelihood ratio against an even box, (boxes,); the mean of the true contrast,
    (boxes,); the probabilities of the slabs, (boxes, slabs); the mean squares by slab, (boxes, slabs).
    """
    boxes, kinds = contrasts.size, slabs.size
    ratios, means = np.zeros(boxes), np.zeros(boxes)
    shares, squares = np.zeros((boxes, kinds)), np.zeros((boxes, kinds))
    logs = np.zeros(kinds)
    for box in range(boxes):
        noise, seen = noises[box], contrasts[box]
        if not np.isfinite(noise):
            for kind in range(kinds):
                shares[box, kind] = weights[kind]
                squares[box, kind] = min(slabs[kind], bounds[box])
            continue
        most = -np.inf
        for kind in range(kinds):
            trust = min(slabs[kind], bounds[box])
            trust /= trust + noise
            logs[kind] = np.log(weights[kind]) + 0.5 * np.log(1 - trust) + 0.5 * trust * seen * seen / noise
            most = max(most, logs[kind])
        total, mean = 0.0, 0.0
        for kind in range(kinds):
            trust = min(slabs[kind], bounds[box])
            trust /= trust + noise
            likely = np.exp(logs[kind] - most)
            total += likely
            mean += likely * trust * seen
            shares[box, kind] = likely
            squares[box, kind] = trust * trust * seen * seen + trust * noise
        for kind in range(kinds):
            shares[box, kind] /= total
        ratios[box] = most + np.log(total)
        means[box] = mean / total
    return ratios, means, shares, squares
