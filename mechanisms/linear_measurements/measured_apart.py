"""Linear measurements of parts of a table that share no cell, as one of all of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tabularium.mechanisms.arrays import Bools, Floats, Indices
from tabularium.mechanisms.inference.hierarchy import Hierarchy
from tabularium.mechanisms.linear_measurements.linear_measurement import LinearMeasurement, NoisyCells, Sums
from tabularium.mechanisms.linear_measurements.noisy_tree import NoisyTree
from tabularium.mechanisms.noise_distributions import Noise


def side_by_side(
    parts: Sequence[LinearMeasurement | None], places: Sequence[Indices], shape: tuple[int, ...]
) -> LinearMeasurement | None:
    """Return the measurement of a table whose parts were measured one by one; None if one was not.

    Parameters
    ----------
    parts
        The measurements, none of which shares noise with another.
    places
        Of each part, the places of its cells in the table.
    shape
        Of the table.
    """
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    before = [part.chosen_by for part in known]
    chosen_by = side_by_side(before, places, shape) if any(before) else None
    noise = tuple(dict.fromkeys(noise for part in known for noise in part.noise))
    cells = [part for part in known if isinstance(part, NoisyCells)]
    if len(cells) == len(known) and len(noise) == 1:
        table = np.empty(sum(map(len, places)), cells[0].values.dtype)
        for part, own in zip(cells, places, strict=True):
            table[own] = part.values.reshape(-1)
        return NoisyCells(table.reshape(shape), noise, chosen_by=chosen_by)
    trees = [part for part in known if isinstance(part, NoisyTree)]
    if len(trees) == len(known):
        return _forest(trees, places, noise, chosen_by)
    values = np.concatenate([part.values.reshape(-1) for part in known])
    return SideBySide(values, noise, parts=tuple(known), places=tuple(places), chosen_by=chosen_by)


def _forest(
    trees: Sequence[NoisyTree],
    places: Sequence[Indices],
    noise: tuple[Noise, ...],
    chosen_by: LinearMeasurement | None,
) -> NoisyTree:
    firsts = np.cumsum([0, *(part.tree.nodes for part in trees)])
    leaf = np.empty(sum(map(len, places)), np.intp)
    parents, drawn = [], []
    for part, own, first in zip(trees, places, firsts, strict=False):
        above = part.tree.parents
        parents.append(np.where(above < 0, -1, above + first))
        drawn.append(np.array([*map(noise.index, part.noise), -1])[part.drawn])
        leaf[own] = part.leaf + first
    values = np.concatenate([part.values for part in trees])
    tree = Hierarchy(np.concatenate(parents))
    return NoisyTree(values, noise, tree=tree, drawn=np.concatenate(drawn), leaf=leaf, chosen_by=chosen_by)


@dataclass(frozen=True, eq=False)
class SideBySide(LinearMeasurement):
    """Measurements of parts of a table that share no cell and, together, are all of it.

    Attributes
    ----------
    parts
        The measurements.
    places
        Of each part, the places of its cells in the table.
    """

    parts: tuple[LinearMeasurement, ...] = field(kw_only=True)
    places: tuple[Indices, ...] = field(kw_only=True)

    @property
    def variances(self) -> Floats:
        """Of the values of each part, part after part."""
        return np.concatenate(
            [np.broadcast_to(part.variances, part.values.size).reshape(-1) for part in self.parts]
        )

    @property
    def cells(self) -> int:
        """Number of cells of all parts."""
        return sum(map(len, self.places))

    def estimates(self) -> Floats:
        """Return the estimates of every part where its cells lie."""
        found = np.empty(self.cells)
        for part, places in zip(self.parts, self.places, strict=True):
            found[places] = part.estimates()
        return found

    def known(self, sums: Sums) -> Bools:
        """Return which sums each part knows its share of."""
        found = np.ones((sums.rows, sums.columns), bool)
        for part, places in zip(self.parts, self.places, strict=True):
            own, rows = sums.within(places)
            found[rows] &= part.known(own).reshape(len(rows), sums.columns)
        return found.reshape(-1)

    def covariances(self, sums: Sums) -> Floats:
        """Return the covariances of the shares of all parts, added up: no noise is in two of them."""
        found = np.zeros((sums.rows, sums.columns, sums.columns))
        for part, places in zip(self.parts, self.places, strict=True):
            own, rows = sums.within(places)
            found[rows] += part.covariances(own)
        return found
