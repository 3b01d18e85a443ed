"""Identity and Gaussian: noise on every cell and nothing else.

Sensitivity and privacy: one record changes one cell by 1, so the table has sensitivity 1 in L1 and in L2. One
draw of discrete Laplace noise of scale 1/ε per cell is ε-differentially private, by parallel composition over
disjoint cells; one of discrete Gaussian noise, σ² = 1/2ρ, is ρ-zCDP (Canonne, Kamath, Steinke 2020, Theorem
4). O(n).

Source: Dwork, McSherry, Nissim, Smith 2006; Xiao, Xiong, Yuan 2010, Algorithm 1 ("cells"); integer noise
after Ghosh, Roughgarden, Sundararajan 2009.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import log, prod
from typing import Any, ClassVar

import numpy as np

from tabularium.mechanisms.channel import Channel
from tabularium.mechanisms.inference import laplace_margin
from tabularium.mechanisms.measured import Array, Measured, Release
from tabularium.mechanisms.mechanism import Counts, Mechanism
from tabularium.mechanisms.noise_distributions import gaussian_variance, laplace_variance


class Cellwise(Mechanism):
    """Noise on every cell."""

    releases_noisy_cells: ClassVar = True
    noisy_cells_purpose: ClassVar = "cells"

    def draw(self, counts: Counts, channel: Channel) -> tuple[dict[str, Array], dict[str, Any]]:
        """Add noise of scale 1/ε, or σ² = 1/2ρ, to each cell, for the whole budget."""
        return {"cells": channel.add_noise(counts, channel.remaining, purpose="cells")}, {}


@dataclass(frozen=True)
class Identity(Cellwise):
    """Discrete Laplace noise on every cell."""

    name: ClassVar[str] = "identity"
    definitions: ClassVar = ("pure",)

    def finish(self, measured: Measured) -> Release:
        """Return the noisy cells, int64, in the shape of the counts."""
        scale = float(measured.transcript[0].scale)
        return measured.release(
            measured.arrays["cells"],
            laplace_variance(scale),
            scale=scale,
        )

    def accuracy(self, shape: tuple[int, ...], epsilon: Fraction, delta: float = 0.05) -> dict[str, float]:
        """Return error bounds that hold with probability 1 - δ; see ``laplace_accuracy``."""
        return laplace_accuracy(epsilon, prod(shape), delta)


@dataclass(frozen=True)
class Gaussian(Cellwise):
    """Discrete Gaussian noise on every cell."""

    name: ClassVar[str] = "gaussian"
    definitions: ClassVar = ("zcdp",)

    def finish(self, measured: Measured) -> Release:
        """Return the noisy cells, int64, in the shape of the counts."""
        parameter = float(measured.transcript[0].scale_squared)
        return measured.release(
            measured.arrays["cells"],
            gaussian_variance(parameter),
            scale=parameter**0.5,
        )


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
    single = -np.expm1(np.log1p(-delta) / cells)  # independent cells: (1 - single)^cells = 1 - δ
    return {
        "delta": delta,
        "xiao_any_query": xiao_bound(cells, float(epsilon), delta),
        "one_cell": laplace_margin(scale, 1 - delta),
        "all_cells": laplace_margin(scale, 1 - float(single)),
        "total": laplace_margin(scale, 1 - delta, cells),
    }
