"""EFPA, the Enhanced Fourier Perturbation Algorithm: keep as many slow waves as are worth their noise.

A share of the budget chooses how many frequencies to keep, by a score that weighs the energy of what is
dropped against the noise on what is kept. The rest goes into noise on **every** kept real coefficient.

Why the loss is at most ε: the score has sensitivity 1 (``spectral.choose_radii``), so the choice costs its
share; the kept coefficients have the sensitivity proven in
``tabularium.mechanisms.histograms.spectral.spectral``, so their noise costs the rest; the inverse
transform is post-processing.

What differs from the paper, and why:

- **The paper's algorithm as printed is not private.** It puts noise on the magnitude of each coefficient and
  publishes the phase exactly, which tells neighbours apart at once. Here both parts of every coefficient get
  noise.
- ``sensitivity="tight"``: z/√N in place of the paper's √z for z kept numbers out of N; and where that is
  above 1, Laplace noise on the cells, of which the fast waves are dropped afterwards.
- ``score="norm"``: √(energy dropped + 2·energy of the noise), where the paper adds two roots and takes for
  the noise √2·z/ε, half of what it draws. The energy of the noise counts twice because dropped energy sits in
  few large peaks and noise everywhere: weighed equally, mean absolute errors grow. Candidates are numbers of
  coefficients that grow by a factor √2: thousands of nearly equal ones would be chosen among at random.
- ``shrink``: the choice often keeps more than is worth its noise. The noisy coefficients show it: between two
  candidates, B of them with noise σ² each and the energy S are multiplied by 1 - (B + 2√B)·σ²/S, or by 0
  when that is negative (James & Stein 1961, with the penalty of Cavalier & Tsybakov 2001). That looks at
  noisy numbers only and costs nothing.
- An eighth of the budget for the choice by default, in place of one half; the choice is by permute-and-flip.
- Any number of cells and dimensions, and a cosine transform, which has no jump where the ends meet.

``score="paper"`` (its formula, every number of frequencies a candidate), ``sensitivity="paper"``,
``share="1/2"`` and ``shrink=False`` are the paper's, but for the phase.

Cost: O(N log N) for the transform, O(N) for all scores together.

Source: Acs, Castelluccia, Chen 2012, Algorithm 2.
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
