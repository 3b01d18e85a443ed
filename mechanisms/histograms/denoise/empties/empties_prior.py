"""The tree prior of the mixture with empty halves, and how it is learned from the noisy table.

It is that of ``tree_prior``, with one more probability for each class of boxes: that a box that is halved has
an empty half. Where somebody is beside an empty half, the other half may hold any number: its density is that
of the widest gaps at zero, the same for all.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.histograms.denoise.empties.empties_mixture import Seen
from tabularium.mechanisms.histograms.denoise.empties.gap_terms import EmptiesTables
from tabularium.mechanisms.histograms.denoise.tree_prior import ANCHOR, DENSITY, TreePrior, gap_densities
from tabularium.mechanisms.noise_distributions import Noise

Floats = NDArray[np.float64]

_EMPTY = 0.3  # halvings that leave an empty half
_POOLED = 4.0  # halvings of a class that count towards what all classes have in common
_EITHER = log(2 * sqrt(2))  # one of two halves, and the unit of its mean by that of a gap


@dataclass(frozen=True, eq=False)
class EmptiesPrior:
    """What is believed of boxes by their class (log2 of their cells).

    Attributes
    ----------
    tree
        Of boxes with somebody in both halves.
    empty
        Shape (classes,): probability that a box that is halved has an empty half.
    """

    tree: TreePrior
    empty: Floats

    @classmethod
    def of(cls, start: float, classes: int, axes: int) -> EmptiesPrior:
        """Return the prior to begin with."""
        return cls(TreePrior.of(start, classes, axes), np.full(classes, _EMPTY))

    def tables(self, noise: Noise) -> EmptiesTables:
        """Return the prior in the form that the kernels need."""
        tree = self.tree.tables(noise)
        density, _, alone = gap_densities(noise.family)
        largest = len(alone) - 1
        rows = np.minimum(np.arange(self.empty.size), largest)
        alike = alone[rows]
        return EmptiesTables(
            stop=tree.stop,
            go=tree.go,
            apart=tree.ratio + alike + np.log1p(-self.empty)[:, None],
            kept=tree.kept,
            alike=alike,
            fall=alike[:, -2] - alike[:, -1],
            empty=np.log(self.empty) - _EITHER,
            whole=np.log(density[rows, -1]),
            spiky=largest if noise.family == "laplace" else 0,
            unit=tree.unit,
            density=float(DENSITY),
        )

    def nothing_seen(self) -> Seen:
        """Return zeros for ``descend`` to count in."""
        return Seen(*self.tree.nothing_seen(), np.zeros(self.empty.size))

    def learned(self, seen: Seen, noise: Noise) -> EmptiesPrior:
        """Return the prior that fits what ``descend`` saw under this one."""
        halved = seen.turns[:, :, :-1].sum(axis=(1, 2))
        # In a table of one peak each class has one box that is not empty: together they tell what none does.
        few = np.divide(_POOLED, halved, out=np.ones_like(halved), where=halved > _POOLED)
        pooled = ((few * seen.empties).sum() + ANCHOR * _EMPTY) / ((few * halved).sum() + ANCHOR)
        empty = (seen.empties + ANCHOR * pooled) / (halved + ANCHOR)
        return EmptiesPrior(self.tree.learned(seen.turns, seen.gaps, noise), empty)
