"""A quantile of every cell by a private choice among the positions of a grid, with counts next to it.

The counts are histograms (..., bins), a histogram for each cell of a table. Of n values, C up to position b
and C' below it, the position b misses the rank q = a/d by max(0, d·C' - a·n, a·n - d·C) in parts of a record:
0 for the quantile itself. One of the positions is chosen, the likelier the less it misses; then noise is
added to the sums of cells that grow away from it, from which a margin follows.

What one record changes. It lies in one histogram, whose n changes by its weight w, at most W, and whose C and
C' change by 0 or w; so what any position misses changes by at most W·max(a, d - a), and in no other
histogram: all choices together cost what one does (``Channel.pick_each``). It lies in at most one of the
cells next to the chosen position: the sums of all change by W in L1 and in L2. Where those cells lie follows
from the choice. The two draws compose in sequence.

A choice misses by ln(bins)/ε records at most times a small number, where noisy counts of all positions miss
by √bins/ε; but the choices of a level say nothing of those above it, and other quantiles are paid for apart.

Cost: O(n) time and memory.

Source: Smith 2011 for the choice, with permute-and-flip (McKenna & Sheldon 2020) in the exponential
mechanism's place; what a position misses by is that of OpenDP's private quantile but for values that are
alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Any, ClassVar

import numpy as np

from tabularium.mechanisms.channel import Channel
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.histograms.parameter_checks import exact_number, share_of_budget, whole_number
from tabularium.mechanisms.kernels.outward_cells import outward_sums
from tabularium.mechanisms.measured import Array, Measured, Release
from tabularium.mechanisms.mechanism import Counts, Mechanism
from tabularium.mechanisms.noise_distributions import variance_of

LARGEST_WEIGHT = 10**7
LARGEST_DENOMINATOR = 1000
_LARGEST_TOTAL = 1 << 50  # so that d times it stays a whole number of 64 bits


@dataclass(frozen=True)
class QuantileChoices(Mechanism):
    """A private choice of the quantile of every cell, and noisy counts next to it.

    Parameters
    ----------
    at
        The rank q, an exact text such as ``"1/2"``, between 0 and 1.
    heaviest
        W: the largest weight of a record.
    margin_share
        The part of the budget that the counts next to the chosen position have.
    """

    at: str = "1/2"
    heaviest: int = 1
    margin_share: str = "1/4"
    name: ClassVar[str] = "quantile_choices"

    def __post_init__(self) -> None:
        rank = exact_number(self.at, "at", called="a rank", hint='write it as text, such as "1/4"')
        if not 0 < rank < 1 or rank.denominator > LARGEST_DENOMINATOR:
            raise MechanismError(
                f"a rank lies between 0 and 1, in parts of at most {LARGEST_DENOMINATOR}",
                where="at",
                hint='write it as text, such as "1/4"',
            )
        whole_number(self.heaviest, 1, LARGEST_WEIGHT, "heaviest")
        share_of_budget(self.margin_share, "margin_share")

    def draw(self, counts: Counts, channel: Channel) -> tuple[dict[str, Array], dict[str, Any]]:
        """Choose, then measure next to what was chosen."""
        shape, bins = counts.shape[:-1], counts.shape[-1]
        # A public bound that brings no two histograms further apart.
        rows = np.minimum(counts.reshape(-1, bins), _LARGEST_TOTAL // bins)
        rank, for_sums = Fraction(self.at), channel.remaining * Fraction(self.margin_share)
        above, parts = rank.numerator, rank.denominator
        upto = np.cumsum(rows, axis=1)
        wanted = above * upto[:, -1:]
        missed = np.maximum(parts * (upto - rows) - wanted, wanted - parts * upto)
        chosen = channel.pick_each(
            -np.maximum(missed, 0).reshape(-1),
            np.arange(len(rows)) * bins,
            channel.pure_epsilon(channel.remaining - for_sums),
            sensitivity=self.heaviest * max(above, parts - above),
            purpose="choice",
        )
        noise = channel.laplace if channel.definition == "pure" else channel.gaussian
        # What a choice under zCDP leaves, as its ε is a fraction: all that is left.
        sums = noise(
            outward_sums(rows, chosen), channel.remaining, sensitivity=self.heaviest, purpose="beside"
        )
        return {"chosen": chosen.reshape(shape), "beside": sums.reshape(*shape, -1)}, {"bins": bins}

    def finish(self, measured: Measured) -> Release:
        """Return rows of position, rate and noisy sums (..., numbers), with the variance of the sums."""
        choice, noise = measured.transcript
        chosen, sums = measured.arrays["chosen"], measured.arrays["beside"]
        # A position that misses by t records, or d·t parts, comes up with exp(-d·t/scale) at most.
        rate = np.full(chosen.shape, Fraction(self.at).denominator / float(choice.scale))
        rows = np.concatenate([np.stack([chosen, rate], axis=-1), sums], axis=-1)
        return measured.release(rows, variance_of(noise), rate=float(rate.flat[0]), cells=prod(chosen.shape))
