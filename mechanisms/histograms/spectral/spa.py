"""SPA, the Sampling Perturbation Algorithm: FPA with the number of frequencies chosen privately.

Privacy: the score -(√(energy dropped) + z·√N/ε) has sensitivity 1 (``choose_radii``), so the choice costs its
share; the noise on the kept coefficients costs the rest (``spectral``).

Source: Rastogi & Nath 2010; Acs, Castelluccia, Chen 2012, Algorithm 1 and equation (1); what differs:
docs/reference/mechanisms/spa.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.arrays import Floats
from tabularium.mechanisms.histograms.parameter_checks import share_of_budget
from tabularium.mechanisms.histograms.spectral.spectral import COUNT_CAP, ChosenSpectral, Plan, pure_budget


@dataclass(frozen=True)
class Spa(ChosenSpectral):
    """Choose how many frequencies to keep by the score of Rastogi and Nath.

    Parameters
    ----------
    sensitivity
        ``"paper"`` (√z for z kept numbers) or ``"tight"``.
    share
        Share of the budget for the choice; an exact text such as ``"1/2"``.
    transform, unattributed, count_cap
        As for ``Fpa``.
    """

    sensitivity: str = "paper"
    share: str | Fraction = Fraction(1, 2)
    transform: str = "dft"
    unattributed: bool = False
    count_cap: int = COUNT_CAP

    name: ClassVar[str] = "spa"

    def __post_init__(self) -> None:
        self._check_parameters()
        object.__setattr__(self, "share", share_of_budget(self.share, "share"))

    def _weighed(self, plan: Plan, rest: Fraction, total: Fraction) -> tuple[Floats, NDArray[np.bool_]]:
        whole = float(pure_budget(total, plan.definition))
        return plan.ends * np.sqrt(plan.layout.size) / whole, plan.spreads(rest)[1]
