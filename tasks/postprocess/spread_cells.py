"""The cells of a table among places of which some are no cell: those hold nothing, and that exactly.

Inference sees all places; the others are known to be 0, with variance 0, in every step, and are left out
again of what comes back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.inference import Estimate
from tabularium.validations.derivation.derived_columns import Chain
from tabularium.validations.domains.domains import Domain


@dataclass(frozen=True, eq=False)
class Spread:
    """Where the cells of a table lie among its places.

    Attributes
    ----------
    flat
        The axes of the places and their sizes.
    at
        (cells,) the place of each cell, -1 for one that is no place and holds nothing; None where places are
        cells, in the same order.
    free
        (places,) which places are unknown to the table, though they may hold something; None for none.
    """

    flat: dict[str, int]
    at: NDArray[np.int64] | None
    free: NDArray[np.bool_] | None = None

    @classmethod
    def of(cls, domains: Sequence[Domain], chains: Sequence[Chain]) -> Spread:
        """Lay the cells of a cross of columns along the axes of the chains that they are in."""
        own = {name: (chain, level) for chain in chains for level, name in enumerate(chain.names)}
        flat: dict[str, int] = {}
        at = np.zeros(1, np.int64)
        for domain in domains:
            if domain.name not in own:
                flat[domain.name] = domain.size
                place, size = np.arange(domain.size), domain.size
            else:
                chain, level = own[domain.name]
                sizes = chain.sizes[: level + 1]
                flat |= dict(zip(chain.axes, sizes, strict=False))
                place, size = np.ravel_multi_index(tuple(chain.places[level].T), sizes), prod(sizes)
            at = (at[:, None] * size + place).ravel()
        same = len(at) == prod(flat.values()) and bool((np.diff(at) == 1).all())
        return cls(flat, None if same else at)

    def values(self, cells: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return (nodes, places) of (nodes, cells), 0 where there is no cell."""
        if self.at is None:
            return cells
        places, some = np.zeros((len(cells), prod(self.flat.values()))), self.at >= 0
        places[:, self.at[some]] = cells[:, some]
        return places

    def estimate(self, given: Estimate) -> Estimate:
        """Return an estimate of all places: exact where there is no cell, unmeasured where it is unknown."""
        if self.at is None:
            return given
        variances = given.variances
        apart = self.free is not None or len(self.at) < prod(self.flat.values())
        if apart or variances.shape[1] > 1:
            variances = self.values(np.broadcast_to(variances, given.values.shape))
        if self.free is not None:
            variances[:, self.free] = np.inf
        return Estimate(self.values(given.values), variances)

    def cells(self, places: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return (nodes, cells) of (nodes, places); one column for all places stays one."""
        if self.at is None:
            return places
        if places.shape[1] == 1 < (size := prod(self.flat.values())):
            if self.free is None:
                return places
            places = np.broadcast_to(places, (len(places), size))
        return np.where(self.at >= 0, places[:, self.at], 0)

    def back(self, made: Estimate) -> Estimate:
        """Return the estimate of the cells alone."""
        return Estimate(self.cells(made.values), self.cells(made.variances))


def codes_at(
    group: Mapping[str, int], chains: Sequence[Chain], domains: Mapping[str, Domain]
) -> dict[str, str]:
    """Return column -> code for a place along some axes, each named by its column or in a chain."""
    codes: dict[str, str] = {}
    chained = {axis for chain in chains for axis in chain.axes}
    for chain in chains:
        place = tuple(group[axis] for axis in chain.axes if axis in group)
        if place:
            codes[chain.names[len(place) - 1]] = chain.code(place)
    return codes | {name: domains[name].codes[place] for name, place in group.items() if name not in chained}
