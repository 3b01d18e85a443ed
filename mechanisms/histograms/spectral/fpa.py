"""FPA, the Fourier Perturbation Algorithm: the k slowest frequencies of a table, each with noise.

What one record changes, the sensitivity of the kept coefficients and the proof: see
``tabularium.mechanisms.histograms.spectral.spectral``. The whole budget goes into one draw. k is public.

What differs from the paper: the transform is the real one, without the redundant half; noise is discrete, on
a lattice; ``sensitivity="tight"`` needs a fraction of the noise of the paper's √z (the default here, since
FPA stands for the paper, is ``"paper"``).

Source: Rastogi & Nath 2010; Acs, Castelluccia, Chen 2012, section IV.A.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tabularium.mechanisms.channel import Channel
from tabularium.mechanisms.histograms.parameter_checks import whole_number
from tabularium.mechanisms.histograms.spectral.spectral import (
    COUNT_CAP,
    Spectral,
    exact_coordinates,
    measure,
    public,
)
from tabularium.mechanisms.measured import Array
from tabularium.mechanisms.mechanism import Counts


@dataclass(frozen=True)
class Fpa(Spectral):
    """Keep a fixed number of frequencies.

    Parameters
    ----------
    k
        How many frequencies to keep, the constant one included: radii, in several dimensions. All of them
        when there are fewer.
    sensitivity
        ``"paper"`` (√z for z kept numbers) or ``"tight"``.
    transform
        ``"dft"`` (waves that close up around the table) or ``"dct"`` (waves that do not).
    unattributed
        Sort the counts first and release them in ascending order, without saying whose they are.
    count_cap
        Larger counts are cut off there, 2^40 at most. Public: never taken from the data.
    """

    k: int
    sensitivity: str = "paper"
    transform: str = "dft"
    unattributed: bool = False
    count_cap: int = COUNT_CAP

    name: ClassVar[str] = "fpa"

    def __post_init__(self) -> None:
        whole_number(self.k, 1, 1 << 31, "k")
        self._check_parameters()

    def draw(self, counts: Counts, channel: Channel) -> tuple[dict[str, Array], dict[str, Any]]:
        """Measure the first k radii with the whole budget."""
        plan = self._plan(counts, channel)
        radii = min(self.k, plan.ends.size)
        bounded = self._bounded(counts)
        coordinates = exact_coordinates(bounded, plan)
        return measure(bounded, coordinates, plan, radii, channel), public(counts, radii)
