"""Smoothing of tables most of which are empty, and which tables these are.

The mixture over partitions keeps the total of a noisy table. Where hardly any cell is occupied, that is what
is wrong with it: the noise of the total, √(n·V) for n cells, stays in the table, spread over the empty cells.
To take empty boxes for empty leaves it out, together with whoever lives in them unseen. So it is done only
where the noisy table itself bears it out:

- at least half of the cells then have next to nothing;
- what the noisy counts of the table add up to, above the smoothed ones, is within two standard deviations of
  the noise of the total. By more than that no total is brought down.

Otherwise the table is smoothed as if there were no empty boxes, to the same bits.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.histograms.denoise.cycle_spinning import LevelsIf, Smoother, passes_over
from tabularium.mechanisms.histograms.denoise.dyadic_boxes import Boxes, boxes_of, means_of, spread
from tabularium.mechanisms.histograms.denoise.empties.empties_mixture import ascend, descend, levels_if
from tabularium.mechanisms.histograms.denoise.empties.empties_prior import EmptiesPrior
from tabularium.mechanisms.histograms.denoise.empties.gap_terms import looseness
from tabularium.mechanisms.histograms.denoise.tiles import Layout, shape_of
from tabularium.mechanisms.noise_distributions import Noise

Floats = NDArray[np.float64]

_MOST_PASSES = 16
_NOTHING = 0.02  # standard deviations of the noise
_OCCUPIED = 0.5  # share of the cells
_NOT_POSITIVE = 0.2  # share of noisy cells; a quarter is expected where half of the cells are empty
_DEVIATIONS = 2.0


def may_be_empty(tables: Floats, layout: Layout) -> bool:
    """Return whether most of noisy tables may be empty, at a glance: of empty cells half are not positive."""
    return passes_over(tables, layout) > 0 and bool((tables <= 0).mean() >= _NOT_POSITIVE)


def mostly_empty(tables: Floats, levels: Floats, noise: Noise) -> bool:
    """Return whether levels that take most of noisy tables for empty are borne out by them."""
    deviation = sqrt(noise.variance)
    lost = float((tables - levels).sum())
    occupied = float((np.abs(levels) > _NOTHING * deviation).mean())
    return occupied <= _OCCUPIED and lost <= _DEVIATIONS * deviation * sqrt(tables.size)


def mixture_with_empties(noise: Noise, prior: EmptiesPrior, *, adapt: bool) -> Smoother:
    """Return the smoother that averages over all partitions in which halves may be empty.

    ``adapt`` as in ``cycle_spinning.mixture``.
    """
    common = prior.tables(noise)

    def smoother(boxes: Boxes, means: Floats) -> tuple[Floats, LevelsIf]:
        loose = looseness(boxes, means, common)
        tables = _seen(prior, noise, [(boxes, means, loose)]).tables(noise) if adapt else common
        evidence, shares = ascend(boxes, means, loose, tables)
        levels = descend(boxes, means, evidence, shares, tables, prior.nothing_seen())
        spread(boxes, levels)
        return levels, lambda places, steps: levels_if(boxes, means, loose, evidence, tables, places, steps)

    return smoother


def learn_empties(tables: Floats, layout: Layout, noise: Noise, start: float, classes: int) -> EmptiesPrior:
    """Return the prior that fits noisy tables; see ``cycle_spinning.learn``."""
    prior = EmptiesPrior.of(start, classes, max(1, len(layout.sides)))
    passes = min(passes_over(tables, layout), _MOST_PASSES)
    known, tiles = prior.tables(noise), []
    for tile in layout.tiles() if passes else []:
        boxes = boxes_of(shape_of(tile), (0,) * len(layout.sides))
        means = means_of(tables[tile], boxes)
        tiles.append((boxes, means, looseness(boxes, means, known)))
    for _ in range(passes):
        prior = _seen(prior, noise, tiles)
    return prior


def _seen(prior: EmptiesPrior, noise: Noise, tiles: list[tuple[Boxes, Floats, Floats]]) -> EmptiesPrior:
    """Return the prior after one pass over the boxes of tables."""
    seen = prior.nothing_seen()
    known = prior.tables(noise)
    for boxes, means, loose in tiles:
        evidence, shares = ascend(boxes, means, loose, known)
        descend(boxes, means, evidence, shares, known, seen)
    return prior.learned(seen, noise)
