"""How far noisy counts may lie from the truth: what Xiao et al. prove, and what is exactly so.

All of it depends on public numbers only (the scale, how many cells are summed), never on a release.
"""

from __future__ import annotations

from fractions import Fraction
from math import log

import numpy as np

from tabularium.mechanisms.inference import laplace_margin


def xiao_bound(cells: int, epsilon: float, delta: float) -> float:
    """Return an error that no count query exceeds with probability 1 - δ: β·ln(β/δ)/ε for β cells.

    Source: Xiao, Xiong, Yuan 2010, Theorem 4.2: a query sums at most β cells, each within ln(β/δ)/ε.
    """
    return cells * log(cells / delta) / epsilon


def laplace_accuracy(epsilon: Fraction, cells: int, delta: float) -> dict[str, float]:
    """Return both statements for ``identity``: the paper's bound and the exact margins of error.

    Keys: ``xiao_any_query``, ``one_cell``, ``all_cells`` (every cell at once, exact), ``total`` (all cells
    summed).
    """
    scale = float(1 / epsilon)
    each = -np.expm1(np.log1p(-delta) / cells)  # independent cells: (1 - each)^cells = 1 - δ
    return {
        "delta": delta,
        "xiao_any_query": xiao_bound(cells, float(epsilon), delta),
        "one_cell": laplace_margin(scale, 1 - delta),
        "all_cells": laplace_margin(scale, 1 - float(each)),
        "total": laplace_margin(scale, 1 - delta, cells),
    }
