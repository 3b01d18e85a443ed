"""Smoothing over dyadic boxes, averaged over several places of the dyadic grid (cycle spinning).

Where a dyadic interval ends depends on where the grid was laid, which has nothing to do with the table. The
average over several grids has no such edges, and a smaller error than the estimates that it averages.

Source: Coifman, Donoho 1995.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tabularium.mechanisms.arrays import Floats, Integers
from tabularium.mechanisms.histograms.denoise.dyadic_boxes import (
    Boxes,
    Layout,
    boxes_of,
    cells_of,
    means_of,
    shape_of,
    spread,
)
from tabularium.mechanisms.histograms.denoise.partition_mixture import ascend, descend, levels_if
from tabularium.mechanisms.histograms.denoise.probes import Probes
from tabularium.mechanisms.histograms.denoise.tree_prior import TreePrior
from tabularium.mechanisms.noise_distributions import Noise

LevelsIf = Callable[[Integers, Floats], Floats]
Smoother = Callable[[Boxes, Floats], tuple[Floats, LevelsIf]]

_LEAST_CELLS = 256  # of a table to learn from
_PASSES = (4, 40)
_EFFORT = 1 << 21  # boxes seen in all


@dataclass(frozen=True, eq=False)
class Fit:
    """An estimate, and what it would be in the probed cells had they been measured higher or lower.

    Attributes
    ----------
    levels
        Shape (tables, sides...).
    higher, lower
        Shape (probes,).
    """

    levels: Floats
    higher: Floats
    lower: Floats


def spun(
    tables: Floats, layout: Layout, shifts: int, probes: Probes, smoothers: Sequence[Smoother]
) -> list[Fit]:
    """Return the average of each smoother over so many places of the grid."""
    levels = [np.zeros_like(tables) for _ in smoothers]
    higher = [np.zeros_like(probes.steps) for _ in smoothers]
    lower = [np.zeros_like(probes.steps) for _ in smoothers]
    for offsets in layout.offsets(shifts):
        for tile in layout.tiles():
            boxes = boxes_of(shape_of(tile), offsets)
            means = means_of(tables[tile], boxes)
            which, places = probes.within(tile)
            steps = probes.steps[which]
            for k, smoother in enumerate(smoothers):
                found, levels_if_ = smoother(boxes, means)
                levels[k][tile] += cells_of(boxes, found)
                higher[k][which] += levels_if_(places, steps)
                lower[k][which] += levels_if_(places, -steps)
    return [Fit(a / shifts, b / shifts, c / shifts) for a, b, c in zip(levels, higher, lower, strict=True)]


def mixture(noise: Noise, prior: TreePrior, *, adapt: bool) -> Smoother:
    """Return the smoother that averages over all partitions under a tree prior.

    With ``adapt`` the prior is learned once more on each place of the grid, for tables whose own steps lie on
    a grid: ages heaped on even years are flat pairs on one of two grids, and on the other never.
    """
    common = prior.tables(noise)

    def smoother(boxes: Boxes, means: Floats) -> tuple[Floats, LevelsIf]:
        tables = _seen(prior, noise, [(boxes, means)]).tables(noise) if adapt else common
        evidence, shares = ascend(boxes, means, tables)
        levels = descend(boxes, means, shares, tables, *prior.nothing_seen())
        spread(boxes, levels)
        return levels, lambda places, steps: levels_if(boxes, means, evidence, tables, places, steps)

    return smoother


def learn(tables: Floats, layout: Layout, noise: Noise, start: float, classes: int) -> TreePrior:
    """Return the tree prior that fits noisy tables, on the grid without offset; of few cells, the start.

    Boxes of more classes than the tables have keep the start.
    """
    prior = TreePrior.of(start, classes, max(1, len(layout.sides)))
    if not (passes := passes_over(tables, layout)):
        return prior
    tiles = []
    for tile in layout.tiles():
        boxes = boxes_of(shape_of(tile), (0,) * len(layout.sides))
        tiles.append((boxes, means_of(tables[tile], boxes)))
    for _ in range(passes):
        prior = _seen(prior, noise, tiles)
    return prior


def passes_over(tables: Floats, layout: Layout) -> int:
    """Return how often tables are passed over to learn a prior from them: never, if they have few cells."""
    least, most = _PASSES
    return min(most, max(least, _EFFORT // layout.boxes)) if tables.size >= _LEAST_CELLS else 0


def _seen(prior: TreePrior, noise: Noise, tiles: list[tuple[Boxes, Floats]]) -> TreePrior:
    """Return the prior after one pass over the boxes of tables."""
    turns, gaps = prior.nothing_seen()
    known = prior.tables(noise)
    for boxes, means in tiles:
        _, shares = ascend(boxes, means, known)
        descend(boxes, means, shares, known, turns, gaps)
    return prior.learned(turns, gaps, noise)
