"""EFPA, the Enhanced Fourier Perturbation Algorithm: keep as many slow waves as are worth their noise.

Privacy: the score has sensitivity 1 (``choose_radii``), so the choice costs its share; the noise on **every**
kept real coefficient costs the rest (sensitivities in ``spectral``); the inverse transform is
post-processing. As printed the algorithm is not private: it publishes the phases exactly.

O(N log N). Source: Acs, Castelluccia, Chen 2012, Algorithm 2; what differs:
docs/reference/mechanisms/efpa.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.arrays import Floats
from tabularium.mechanisms.histograms.parameter_checks import one_of, share_of_budget, switch
from tabularium.mechanisms.histograms.spectral.spectral import COUNT_CAP, ChosenSpectral, Plan, pure_budget
from tabularium.mechanisms.histograms.spectral.transforms import Layout

SCORES = ("norm", "paper")
_WEIGHT = 2.0
_GROWTH = 2**0.5


@dataclass(frozen=True)
class Efpa(ChosenSpectral):
    """Choose how many frequencies to keep, and put noise on each kept coefficient.

    Parameters
    ----------
    sensitivity
        ``"tight"``, or ``"paper"`` (√z for z kept numbers).
    score
        ``"norm"``, or ``"paper"``; see above.
    share
        Share of the budget for the choice; an exact text such as ``"1/8"``.
    shrink
        Whether coefficients that do not stand out from the noise are made smaller, or dropped.
    transform
        ``"dft"`` (waves that close up around the table) or ``"dct"`` (waves that do not).
    unattributed
        Sort the counts first and release them in ascending order, without saying whose they are.
    count_cap
        Larger counts are cut off there, 2^40 at most. Public: never taken from the data.
    """

    sensitivity: str = "tight"
    score: str = "norm"
    share: str | Fraction = Fraction(1, 8)
    shrink: bool = True
    transform: str = "dft"
    unattributed: bool = False
    count_cap: int = COUNT_CAP

    name: ClassVar[str] = "efpa"

    def __post_init__(self) -> None:
        self._check_parameters()
        one_of(self.score, SCORES, "score")
        switch(self.shrink, "shrink")
        object.__setattr__(self, "share", share_of_budget(self.share, "share"))

    def _adds_in_squares(self) -> bool:
        return self.score == "norm"

    def _weighed(self, plan: Plan, rest: Fraction, total: Fraction) -> tuple[Floats, NDArray[np.bool_]]:
        spreads, drawable = plan.spreads(rest)
        if self.score == "norm":
            return np.sqrt(_WEIGHT * plan.ends) * spreads, drawable & growing(plan.ends)
        return np.sqrt(2.0) * plan.ends / float(pure_budget(total, plan.definition)), drawable

    def _weights(self, coefficients: Floats, variance: float, plan: Layout) -> Floats:
        kept = coefficients.size
        if not self.shrink:
            return np.ones(kept)
        bands = np.append(0, plan.ends[growing(plan.ends) & (plan.ends < kept)])
        sizes = np.diff(bands, append=kept)
        energies = np.add.reduceat(coefficients**2, bands)
        noise = (sizes + 2 * np.sqrt(sizes)) * variance
        noise[0] = 0  # the mean of the table
        standing = energies > noise
        factors = np.where(standing, 1 - noise / np.where(standing, energies, 1), 0)
        return np.asarray(np.repeat(factors, sizes), dtype=np.float64)


def growing(ends: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which of the ascending ``ends`` are the first to reach 1, √2, 2, 2√2, ..., and the last one."""
    steps = np.arange(2 * int(ends[-1]).bit_length() + 1)
    found = np.searchsorted(ends, np.floor(_GROWTH**steps))
    marked = np.zeros(ends.size, dtype=np.bool_)
    marked[found[found < ends.size]] = True
    marked[-1] = True
    return marked
