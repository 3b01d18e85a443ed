"""The forms of denoising: what each makes of noisy tables, and how that follows their noise.

Mixtures are averaged over several places of the dyadic grid (cycle spinning): the average has no edges where
the grid has, and a smaller error than the estimates that it averages.

Source: Coifman, Donoho 1995.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt
from statistics import NormalDist
from typing import Literal

import numpy as np

from tabularium.mechanisms.arrays import Floats, Integers
from tabularium.mechanisms.histograms.denoise.boxes import (
    Boxes,
    Layout,
    boxes_of,
    cells_of,
    means_of,
    shape_of,
    spread,
)
from tabularium.mechanisms.histograms.denoise.many_mixtures import mixtures
from tabularium.mechanisms.histograms.denoise.mixture import ascend, descend, perturbed_levels
from tabularium.mechanisms.histograms.denoise.prior import NORMAL_CELLS, TreePrior, sum_of_laplaces
from tabularium.mechanisms.histograms.denoise.risk import Probes, threshold_covariance
from tabularium.mechanisms.histograms.denoise.wavelet import haar_shrinkage
from tabularium.mechanisms.noise_distributions import Noise

FormName = Literal["mixture", "sparse", "wavelet", "none"]

STRENGTHS: dict[FormName, tuple[float, ...]] = {
    "mixture": (0.9, 0.5),
    "sparse": (0.5,),
    "wavelet": (0.6, 0.8, 1.0),
    "none": (1.0,),
}
"""What is tried when no strength is given."""
CLOSED = ("none", "wavelet")
"""Forms whose correlation with the noise is known in closed form: they need no probes."""

_ADAPT_BOXES = 1 << 21
_LEAST_CELLS = 256  # of a table to learn from
_PASSES = (4, 40)
_MOST_SPARSE_PASSES = 16
_EFFORT = 1 << 21  # boxes seen in all
_NOTHING = 0.02  # standard deviations of the noise
_OCCUPIED = 0.5  # share of the cells
_NOT_POSITIVE = 0.2  # share of noisy cells; a quarter is expected where half of the cells are empty
_DEVIATIONS = 2.0

Perturbed = Callable[[Integers, Floats], Floats]


@dataclass(frozen=True, eq=False)
class Estimate:
    """Estimates of all rows by one form, and how they follow their noise.

    Attributes
    ----------
    form, strength
        Where they come from.
    levels
        Shape (rows, tables, cells).
    moved
        Shape (2, rows, probes): the level of each probed cell, had that cell been measured higher, and lower;
        None where the covariance is known in closed form.
    covariance
        In the shape of the levels: unbiased estimates of E[Z·f], if there is a closed form; else empty.
    variance
        Shape (rows,): of the mean of these; else 0.
    """

    form: FormName
    strength: float
    levels: Floats
    moved: Floats | None
    covariance: Floats
    variance: Floats


@dataclass(frozen=True, eq=False)
class Task:
    """Noisy tables, and how they are to be looked at; each row is denoised as if it were alone.

    Attributes
    ----------
    tables
        Shape (rows, tables, sides...); ``layout`` is that of one row.
    sample, sample_layout
        The same, or tiles of a large row: to learn from, and to try what is to be tried.
    whole
        The layout of all there is: that of the tables, unless these are the sample themselves.
    shifts
        Number of places of the dyadic grid.
    together
        Whether mixtures of all rows are made in one compiled loop (small tables); else there is one row.
    priors
        What was learned from the sample, by form and the strength that learning began with.
    """

    tables: Floats
    layout: Layout
    sample: Floats
    sample_layout: Layout
    whole: Layout
    noise: Noise
    shifts: int
    probes: Probes
    together: bool
    priors: dict[tuple[FormName, float], TreePrior]

    @property
    def cells(self) -> Floats:
        """The noisy cells, (rows, tables, cells)."""
        return self.tables.reshape(*self.tables.shape[:2], -1)


def estimates(task: Task, form: FormName, strengths: tuple[float, ...]) -> Iterator[Estimate]:
    """Yield the estimates of one form, one for each strength."""
    nothing = np.zeros(len(task.tables))
    if form == "none":
        follows = np.full(task.cells.shape, task.noise.variance)
        yield Estimate("none", 1.0, task.cells, None, follows, nothing)
    elif form == "wavelet":
        for strength in strengths:
            yield _wavelet(task, strength)
    elif task.together:
        for strength, levels, moved in mixtures(
            task.tables,
            task.layout,
            task.noise,
            task.shifts,
            task.probes,
            strengths,
            passes_over(task.tables[0], task.layout),
        ):
            yield Estimate(form, strength, levels, moved, np.zeros(0), nothing)
    else:
        for strength, (levels, moved) in zip(strengths, _cycle_spin(task, form, strengths), strict=True):
            yield Estimate(form, strength, levels.reshape(task.cells.shape), moved, np.zeros(0), nothing)


def _wavelet(task: Task, strength: float) -> Estimate:
    """Shrink wavelet coefficients; the strength is the threshold, in what pure noise exceeds once."""
    tables, noise, tail = (
        task.tables.reshape(-1, *task.tables.shape[2:]),
        task.noise,
        1 / (2 * max(task.whole.cells, 2)),
    )

    def threshold(cells: int) -> float:
        return strength * noise_quantile(noise.family, cells, tail) * sqrt(noise.variance / cells)

    levels, covariance, variance = haar_shrinkage(
        tables, threshold, threshold_covariance(noise), len(task.tables)
    )
    # Near the edges cells count for less than elsewhere: totals are put right again.
    axes = tuple(range(1, levels.ndim))
    levels += (tables - levels).mean(axis=axes, keepdims=True)
    covariance += noise.variance / tables[0].size
    shape = task.cells.shape
    return Estimate("wavelet", strength, levels.reshape(shape), None, covariance.reshape(shape), variance)


@lru_cache(maxsize=512)
def noise_quantile(family: str, cells: int, tail: float) -> float:
    """Return what a mean over ``cells`` cells of noise, with signs, exceeds with probability ``tail``.

    In standard deviations of that mean. Of few Laplace variables it grows like ln(1/tail), not like its root.
    """
    if family != "laplace" or cells >= NORMAL_CELLS:
        return -NormalDist().inv_cdf(tail)
    grid = np.arange(0, 40, 1 / 256)
    density = np.exp(sum_of_laplaces(grid, cells))
    beyond = np.cumsum(((density[1:] + density[:-1]) / 512)[::-1])[::-1]
    return float(np.interp(-np.log(tail), -np.log(beyond[:-1]), grid[:-2]))


def _cycle_spin(task: Task, form: FormName, strengths: tuple[float, ...]) -> Iterator[tuple[Floats, Floats]]:
    """Yield the mixture, plain or sparse, under a prior learned from each strength; levels and ``moved``.

    The strength is how likely flatness is when learning begins.
    """
    (tables,), layout, probes = task.tables, task.layout, task.probes
    for start in strengths:
        if (form, start) not in task.priors:
            task.priors[form, start] = learned(task, form, start)
    adapt = task.whole.boxes <= _ADAPT_BOXES and (form == "mixture" or passes_over(tables, layout) > 0)
    levels = [np.zeros_like(tables) for _ in strengths]
    moved = [np.zeros((2, probes.steps.size)) for _ in strengths]
    for offsets in layout.offsets(task.shifts):
        for tile in layout.tiles():
            boxes = boxes_of(shape_of(tile), offsets)
            means = means_of(tables[tile], boxes)
            which, places = probes.within(tile)
            steps = probes.steps[which]
            for k, start in enumerate(strengths):
                result, perturbed = smooth(boxes, means, task.priors[form, start], task.noise, adapt=adapt)
                levels[k][tile] += cells_of(boxes, result)
                moved[k][0, which] += perturbed(places, steps)
                moved[k][1, which] += perturbed(places, -steps)
    for one, other in zip(levels, moved, strict=True):
        yield one / task.shifts, other[:, None] / task.shifts


def smooth(
    boxes: Boxes, means: Floats, prior: TreePrior, noise: Noise, *, adapt: bool
) -> tuple[Floats, Perturbed]:
    """Return the average over all partitions under a tree prior, and that of cells measured differently.

    With ``adapt`` the prior is learned once more on this place of the grid, for tables whose own steps lie on
    a grid: ages heaped on even years are flat pairs on one of two grids, and on the other never.
    """
    inflation = prior.inflation(boxes, means, noise)
    if adapt:
        prior = _pass(prior, noise, [(boxes, means, inflation)])
    known, sparse = prior.tables(noise, inflation)
    evidence, shares = ascend(boxes, means, known, sparse)
    levels = descend(boxes, means, evidence, shares, known, sparse, prior.empty_counts())
    spread(boxes, levels)
    return levels, lambda places, steps: perturbed_levels(
        boxes, means, evidence, known, sparse, places, steps
    )


def learned(task: Task, form: FormName, start: float) -> TreePrior:
    """Return the tree prior that fits a row, on the grid without offset; of few cells, the start.

    Boxes of more classes than the sample has keep the start.
    """
    (tables,), layout, noise = task.sample, task.sample_layout, task.noise
    sparse = form == "sparse"
    prior = TreePrior.of(start, task.whole.classes, max(1, len(layout.sides)), sparse=sparse)
    if not (passes := passes_over(tables, layout)):
        return prior
    tiles = []
    for tile in layout.tiles():
        boxes = boxes_of(shape_of(tile), (0,) * len(layout.sides))
        means = means_of(tables[tile], boxes)
        tiles.append((boxes, means, prior.inflation(boxes, means, noise)))
    for _ in range(min(passes, _MOST_SPARSE_PASSES) if sparse else passes):
        prior = _pass(prior, noise, tiles)
    return prior


def passes_over(tables: Floats, layout: Layout) -> int:
    """Return how often tables are passed over to learn a prior from them: never, if they have few cells."""
    least, most = _PASSES
    return min(most, max(least, _EFFORT // layout.boxes)) if tables.size >= _LEAST_CELLS else 0


def _pass(prior: TreePrior, noise: Noise, tiles: list[tuple[Boxes, Floats, Floats]]) -> TreePrior:
    """Return the prior after one pass over the boxes of tables."""
    counts = prior.empty_counts()
    for boxes, means, inflation in tiles:
        known, sparse = prior.tables(noise, inflation)
        evidence, shares = ascend(boxes, means, known, sparse)
        descend(boxes, means, evidence, shares, known, sparse, counts)
    return prior.learned(counts, noise)


def may_be_empty(tables: Floats, layout: Layout) -> bool:
    """Return whether most of noisy tables may be empty, at a glance: of empty cells half are not positive."""
    return passes_over(tables, layout) > 0 and bool((tables <= 0).mean() >= _NOT_POSITIVE)


def mostly_empty(tables: Floats, levels: Floats, noise: Noise) -> bool:
    """Return whether levels that take most of noisy tables for empty are borne out by them."""
    deviation = sqrt(noise.variance)
    lost = float((tables - levels).sum())
    occupied = float((np.abs(levels) > _NOTHING * deviation).mean())
    return occupied <= _OCCUPIED and lost <= _DEVIATIONS * deviation * sqrt(tables.size)
