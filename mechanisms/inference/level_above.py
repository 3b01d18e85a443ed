"""What the level above makes expect of the cells of a level: each node made up like its parent.

    expected = odds(share of the cell in the parent) · sum of the node's other cells

Sums over nodes of small size are mostly noise: they are drawn towards the mean of the node's siblings by the
share of their spread that noise explains (James and Stein). The cell itself is left out of its node's sum,
since ``prior_shrinkage`` takes its noise to be independent of what is expected of it.

*Privacy.* All of it is made of noisy counts that are paid for.
"""

from __future__ import annotations

import numpy as np

from tabularium.mechanisms.arrays import Floats, Integers
from tabularium.mechanisms.errors import MechanismError

_ALL = 1 - 1e-6
"""Share of a node in one cell from which the others say nothing of it."""


def expected_below(noisy: Floats, above: Floats, parents: Integers, variance: float) -> Floats:
    """Return what is expected of noisy counts, after the level above and the other cells of each node.

    Parameters
    ----------
    noisy
        (nodes, cells) counts with independent noise; not a number where nothing can be.
    above
        (nodes above, cells) what is known of the level above; below zero is taken for zero.
    parents
        (nodes,) the row of ``above`` for each node.

    Returns
    -------
    (nodes, cells), zero or more; not a number where nothing is expected: in nodes whose parent has no records
    that are seen, in cells that hold all of the parent, and where nothing can be.

    Raises
    ------
    MechanismError
        The shapes do not fit.

    Examples
    --------
    Half of the nation is in the first cell; the others of the second area hold thirty records more.

    >>> noisy = np.array([[40.0, 40.0, 0.0], [90.0, 50.0, 20.0]])
    >>> expected_below(noisy, np.array([[50.0, 25.0, 25.0]]), np.array([0, 0]), 0.0).round(1).tolist()
    [[40.0, 13.3, 26.7], [70.0, 36.7, 46.7]]
    """
    if noisy.ndim != 2 or above.shape[1:] != noisy.shape[1:] or parents.shape != noisy.shape[:1]:
        raise MechanismError(
            "the two levels differ in their cells", where="above", hint="give a row for each node"
        )
    possible = ~np.isnan(noisy)
    result = np.where(possible, noisy, 0.0)
    others = result.sum(axis=1, keepdims=True) - result
    noise = variance * (possible.sum(axis=1, keepdims=True) - possible)
    others = _to_siblings(others, noise, parents, len(above))
    share = np.where(possible, np.maximum(above, 0.0)[parents], 0.0)
    whole = share.sum(axis=1, keepdims=True)
    share = np.divide(share, whole, out=np.full(share.shape, np.nan), where=whole > 0)
    share[~possible | (share > _ALL)] = np.nan
    return np.asarray(np.maximum(others, 0.0) * share / (1 - share))


def _to_siblings(sums: Floats, noise: Floats, parents: Integers, above: int) -> Floats:
    """Draw sums (nodes, cells) towards the mean of their siblings, as far as noise explains them."""
    number = np.bincount(parents, minlength=above).astype(np.float64)
    mean = np.zeros((above, sums.shape[1]))
    np.add.at(mean, parents, sums)
    mean /= np.maximum(number, 1.0)[:, None]
    away = sums - mean[parents]
    free = float(np.maximum(number - 1, 0.0).sum())
    if free < 1:
        return sums
    # Of deviations from a mean of k one k-th of the noise is gone, and with it one in k of what is free.
    chance = (noise * (1 - 1 / number[parents])[:, None]).sum(axis=0)
    left = 1 - chance / np.maximum((away**2).sum(axis=0), 1e-300)
    return np.asarray(mean[parents] + np.clip(left, 0.0, 1.0) * away)
