"""How StructureFirst divides its budget: by minimising the paper's bound on the error.

Moving one boundary by a choice among m candidates, with p_q proportional to exp(-t·E(q)), adds at most
m/(2t·α) to the error, where α is a lower bound on Σ exp(-t·(E(q) - min E)): with all errors at most W,

    α = max{ m·(1 - t·W), exp(-t·W) },

which the second term keeps positive (Xu et al. 2013, Lemmas 5, 6 and 11; permute-and-flip is never worse than
these odds: McKenna & Sheldon 2020). Here t = ε1/(2·(k-1)·Δ), and W is n·F²/4 for squared errors and n·F/2 for
absolute ones. Added to the noise of the k measured numbers this bounds the error of the release.

For medians the paper adds 2k/ε2² to absolute errors, which is a squared error; the expected absolute noise
of the cells, n·E|Z|, stands here instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import inf, log, log1p, pi, sqrt

import numpy as np


@dataclass(frozen=True)
class Bound:
    """The public numbers that the bound is made of.

    Attributes
    ----------
    cells, candidates, bins
        n, m and k.
    largest_count
        F.
    centre, definition
        ``"mean"`` or ``"median"``; ``"pure"`` or ``"zcdp"``.
    """

    cells: int
    candidates: int
    bins: int
    largest_count: int
    centre: str
    definition: str

    def log_error(self, structure: float, rest: float) -> float:
        """Return the logarithm of the bound, for a budget divided into ``structure`` and ``rest``."""
        return float(np.logaddexp(self.log_misplaced(structure), self.log_noise(rest)))

    def log_misplaced(self, structure: float) -> float:
        """Return ln of the error that the choices of all boundaries add: (k-1)·m/(2t·α)."""
        choices = self.bins - 1
        if not choices:
            return -inf
        around_means = self.centre == "mean"
        each = structure / choices
        epsilon = each if self.definition == "pure" else sqrt(2 * each)
        rate = epsilon / (2 * (self.largest_count if around_means else 1))
        worst = self.cells * self.largest_count * (self.largest_count / 4 if around_means else 1 / 2)
        flat = -log1p(-rate * worst) if rate * worst < 1 else inf  # ln m/α for the first α
        steep = log(self.candidates) + rate * worst
        return log(choices) - log(2 * rate) + min(flat, steep)

    def log_noise(self, rest: float) -> float:
        """Return ln of the error of the noise: squared, at most k·Var; absolute, n·E|Z|."""
        if self.centre == "mean":
            return log(self.bins) + (log(2) - 2 * log(rest) if self.definition == "pure" else -log(2 * rest))
        deviation = -log(rest) if self.definition == "pure" else log(sqrt(1 / (pi * rest)))
        return log(self.cells) + deviation


def least_bound(bound: Bound, budget: Fraction) -> Fraction:
    """Return the share for the structure, among ``shares()``, that makes the bound least."""
    total = float(budget)
    return min(shares(), key=lambda share: bound.log_error(total * float(share), total * float(1 - share)))


def shares() -> list[Fraction]:
    """Return shares of a budget with five binary digits each, from 2^-30 to 1 - 2^-30, ascending."""
    low = [Fraction(digits, 1 << place) for place in range(35, 6, -1) for digits in range(32, 64)]
    return low + [Fraction(1, 2)] + [1 - share for share in reversed(low)]
