"""Probes: single cells whose measurement is changed a little, to see how an estimate follows its noise."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2, prod, sqrt

import numpy as np

from tabularium.mechanisms.arrays import Floats, Integers
from tabularium.mechanisms.histograms.denoise.noise_correlation import draw_steps
from tabularium.mechanisms.histograms.denoise.tiles import Layout, Tile
from tabularium.mechanisms.noise.synthetic import generator
from tabularium.mechanisms.noise_distributions import Noise

_SEED = 2006
_LEAST, _MOST = 256, 4096
_EFFORT = 1 << 21


@dataclass(frozen=True, eq=False)
class Probes:
    """Cells to be changed, up and down, by steps drawn as ``draw_steps`` says.

    The sum of E[Z·f] over all cells is the mean over probes of weight·(f(Y + m) - f(Y - m)). Half of the
    probes are spread evenly over the cells, half over those that stand out of the noise: an estimate follows
    the noise of few others. (Which cells are looked at may depend on the table, if their weights make up for
    it.)

    Attributes
    ----------
    places
        Shape (count, 1 + d): table and cell.
    steps, weights
        Shape (count,).
    """

    places: Integers
    steps: Floats
    weights: Floats

    @classmethod
    def of(cls, tables: Floats, layout: Layout, noise: Noise, shifts: int) -> Probes:
        """Return probes of ``tables``, always the same; fewer where each is a lot of work."""
        around = prod(ceil(log2(side)) + 2 for side in layout.sides)
        affordable = _EFFORT // (shifts * around * max(1, len(layout.sides)))
        count = max(_LEAST, min(affordable, _MOST, 4 * tables.size))
        rng = generator(_SEED)
        chances = _chances(tables.reshape(tables.shape[0], -1), noise).reshape(-1)
        ranks = (np.arange(count) + rng.random(count)) / count
        flat = np.minimum(np.searchsorted(np.cumsum(chances), ranks, side="right"), tables.size - 1)
        steps, weights = draw_steps(noise, count, rng)
        places = np.stack(np.unravel_index(flat, tables.shape), axis=1)
        return cls(np.ascontiguousarray(places, dtype=np.int64), steps, weights / chances[flat])

    @classmethod
    def none(cls, axes: int) -> Probes:
        """Return no probes, for tables of so many axes."""
        return cls(np.zeros((0, 1 + axes), dtype=np.int64), np.zeros(0), np.zeros(0))

    def within(self, tile: Tile) -> tuple[Integers, Integers]:
        """Return which probes lie in a tile, and their places relative to it."""
        low = np.array([part.start for part in tile])
        high = np.array([part.stop for part in tile])
        inside = np.flatnonzero(((self.places >= low) & (self.places < high)).all(axis=1))
        return inside, np.ascontiguousarray(self.places[inside] - low)


def _chances(tables: Floats, noise: Noise) -> Floats:
    """Return with what chance a probe falls on each cell; they sum to 1."""
    outside = np.abs(tables - np.median(tables, axis=1, keepdims=True)) / sqrt(noise.variance)
    stands_out = np.clip(outside / 2 - 1, 0.0, 1.0) + 1e-3
    return np.asarray(0.5 / tables.size + 0.5 * stands_out / stands_out.sum())
