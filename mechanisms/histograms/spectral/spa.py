"""SPA, the Sampling Perturbation Algorithm: as FPA, with the number of frequencies chosen privately.

A share of the budget, by default half, chooses the number of frequencies by the score
-(√(energy dropped) + z·√N/ε), whose sensitivity is 1 (see ``spectral.choose_radii``; ε is the whole budget,
√2ρ under zCDP). The rest goes into noise on the kept coefficients
(``mechanisms.histograms.spectral.spectral_plan``).

What differs from the paper: it draws the coefficients by the exponential mechanism with the norm as score
(Gaussian noise whose variance has a Gamma distribution), for which floating-point proofs are missing; here
they get noise on a lattice. The choice is by permute-and-flip, which is never worse. The transform is
the real one. The score is kept as it is: it overrates the noise by far, so that SPA keeps few frequencies,
which is what EFPA mends.

Source: Rastogi & Nath 2010; Acs, Castelluccia, Chen 2012, Algorithm 1 and equation (1).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from mechanisms.accounting import epsilon_within
from mechanisms.channel import Channel
from mechanisms.histograms.parameter_checks import share_of_budget
from mechanisms.histograms.spectral.spectral import (
    COUNT_CAP,
    Spectral,
    choose_radii,
    exact_coordinates,
    measure,
    public,
    spend_on_choice,
)
from mechanisms.measured import Array
from mechanisms.mechanism import Counts


@dataclass(frozen=True)
class Spa(Spectral):
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

    def draw(self, counts: Counts, channel: Channel) -> tuple[dict[str, Array], dict[str, Any]]:
        """Choose with the share, measure with the rest."""
        plan = self._plan(counts, channel)
        epsilon, rest = spend_on_choice(Fraction(self.share), channel)
        whole = float(channel.remaining if plan.definition == "pure" else epsilon_within(channel.remaining))
        added = plan.ends * np.sqrt(plan.layout.size) / whole
        _, drawable = plan.spreads(rest)
        bounded = self._bounded(counts)
        coordinates = exact_coordinates(bounded, plan)
        radii = choose_radii(
            coordinates,
            plan,
            added,
            drawable,
            root_of_sum=False,
            epsilon=epsilon,
            channel=channel,
            where=self.name,
        )
        return measure(bounded, coordinates, plan, radii, channel), public(counts, radii)
