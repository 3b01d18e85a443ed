"""Sums that were measured twice, the second time after the first had chosen what to measure.

Part P of m cells has the true sum X. Phase one gave Y, the sum of its noisy cells, whose noise has variance
m·v1; phase two, given all of phase one, S with independent noise of variance v2. Least squares weighs both by
the inverse of their variances:

    T = S + a·(Y - S),    a = v2/(m·v1 + v2).

But the part was cut out because of Y, so Y errs by more than its noise: boxes are left whole where noise hid
what they hold, edges are drawn where noise made one. Parts that are alike in size share what can be learnt of
that from S, which nothing was chosen by:

- their mean of Y - S is an offset, taken off Y (the offset of each size is one more unknown of the least
  squares);
- their mean square of Y - S less v2 is the variance of Y, selection and all: where it is larger than m·v1, it
  takes its place. For k parts that makes a = (k - 3)·v2/Σ(Y - S)², the shrinkage of James and Stein (1961)
  towards Y, Lindley's (1962) k - 3 because of the offset, which is not worse than S alone whatever Y is.

Fewer than four parts of one size are left as phase two measured them. NumPy only, O(parts).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Combined:
    """The parts' sums from both phases.

    Attributes
    ----------
    sizes
        Cells of each part, shape (parts,).
    sums
        T.
    before, fresh
        Y and S.
    share
        How much T changes with S, summed over parts of one size and divided by their number.
    variances
        v1 of a cell and v2 of a sum.
    """

    sizes: Floats
    sums: Floats
    before: Floats
    fresh: Floats
    share: Floats
    variances: tuple[float, float]

    @property
    def means(self) -> Floats:
        """T/m, what each cell of a part is released as."""
        return self.sums / self.sizes


def second_alone(sizes: Floats, before: Floats, fresh: Floats, variances: tuple[float, float]) -> Combined:
    """Return the sums of phase two as they are."""
    return Combined(sizes, fresh, before, fresh, np.ones(sizes.size), variances)


def combined(sizes: Floats, before: Floats, fresh: Floats, variances: tuple[float, float]) -> Combined:
    """Return the combination of both phases; parts are alike if their sizes have as many binary digits."""
    first, second = variances
    kind = np.frexp(sizes)[1]
    number = np.maximum(np.bincount(kind), 1)
    gaps = before - fresh
    gaps -= (np.bincount(kind, weights=gaps) / number)[kind]
    squares = np.bincount(kind, weights=gaps * gaps)
    enough = (number > 3) & (squares > 0)
    shrunk = np.where(enough, (number - 3) * second / np.where(enough, squares, 1.0), 0.0)[kind]
    if second > 0:  # at a vast budget both variances are 0
        known = np.where(enough[kind], second / (sizes * first + second), 0.0)
    else:
        known = np.zeros(sizes.size)
    weight = np.minimum(known, shrunk)
    lost = np.where(shrunk < known, 3, 1) / number[kind]
    return Combined(sizes, fresh + weight * gaps, before, fresh, 1 - weight * (1 - lost), variances)


def estimated_risk(cells: Floats, values: Floats, parts: Combined) -> dict[str, float]:
    """Return an estimate of the squared error per cell, with its standard error.

    With x the true cells, y the noisy ones and t = T/m the released ones,
    Σ(x - t)² = Σx² - 2Σ_P t·X + Σ_P m·t². Phase one has E Σy² = Σx² + n·v1, whatever is done with y
    afterwards. Given phase one, S is X without bias, and t and S share the noise c·v2/m where T changes by c
    with S. Hence, written with residuals,

        Σ(y - t)² - n·v1 + 2Σ_P [t·(Y - S) + c·v2/m]

    has the right mean, choice of the partition and all: without bias if a is fixed, after Stein (1981) if it
    is shrunk (exact for normal noise). The standard error takes t for given; the two random terms may go
    together, so their deviations are added, not their variances.

    Parameters
    ----------
    cells, values
        Noisy and released cells, shape (n,).
    """
    first, second = parts.variances
    size, means = cells.size, parts.means
    rest = (cells - values) ** 2
    cross = means * (parts.before - parts.fresh) + parts.share * second / parts.sizes
    spread = means**2 * (parts.sizes * first + second)
    return {
        "risk": float(rest.mean()) - first + 2 * float(cross.sum()) / size,
        "risk_standard_error": sqrt(float(rest.var()) / size) + 2 * sqrt(float(spread.sum())) / size,
    }
