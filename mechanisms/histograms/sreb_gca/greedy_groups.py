"""Greedy groups of ascending counts by mean relative error: the loop of SReB_GCA.

Source: Chen et al. 2024, Definition 5 and Algorithm 2 (GGS), with the two slips mended that
``tabularium.mechanisms.histograms.sreb_gca.sreb_gca`` names.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.kernels.compiled import compiled


@compiled
def group_starts(ascending: NDArray[np.float64], noise: float, least: float) -> NDArray[np.int64]:
    """Return where the groups of a greedy scan begin.

    A group C with mean μ has the expected relative error Σ (|h - μ| + noise/|C|)/max(h, least). The next
    count h joins it when its error with h is below its error without h plus the least that h could cost in
    a group of its own, noise/((counts left)·max(h, least)); otherwise h opens the next group.

    Cost: O(n) altogether. The counts ascend, so the mean of a growing group never falls, and the place where
    it splits the group only moves to the right: each count passes it once. Sums start anew with every group,
    which keeps them as small as the group and cancellation out of them.

    Parameters
    ----------
    ascending
        Shape (n,), n >= 1, ascending.
    noise
        Expected absolute noise of a group's sum.
    least
        What takes the place of smaller counts in denominators; positive.

    Returns
    -------
    int64, shape (groups,): the position of each group's first count, from 0.
    """
    size = ascending.shape[0]
    starts = np.empty(size, np.int64)
    starts[0] = 0
    groups = 1
    first = split = 0  # counts first..split-1 lie below the mean
    total = ascending[0]
    weight = 1.0 / max(ascending[0], least)  # Σ 1/h
    share = ascending[0] * weight  # Σ h/h, which is not their number where h was replaced
    low_weight = low_share = 0.0  # the same below the mean
    error = noise * weight
    for here in range(1, size):
        count = ascending[here]
        own = 1.0 / max(count, least)
        members = here - first + 1
        mean = (total + count) / members
        while split < here and ascending[split] < mean:
            part = 1.0 / max(ascending[split], least)
            low_weight += part
            low_share += ascending[split] * part
            split += 1
        new_weight, new_share = weight + own, share + count * own
        above = (new_share - low_share) - mean * (new_weight - low_weight)
        joined = (mean * low_weight - low_share) + above + noise * new_weight / members
        if joined < error + noise * own / (size - here):
            total, weight, share, error = total + count, new_weight, new_share, joined
        else:
            starts[groups] = here
            groups += 1
            first = split = here
            total, weight, share = count, own, count * own
            low_weight = low_share = 0.0
            error = noise * own
    return starts[:groups].copy()
