"""Noisy counts drawn towards a table that was published before (an empirical Bayes estimate).

::

    expected = scale · prior + offset of its class       (both learnt from the noisy counts, or 1 and 0)
               or 0, where that is the better guess for its class
    estimate = expected + E(change | noisy - expected)   (the law of changes learnt class by class)

A class holds cells of like size in the prior: that an empty cell stays empty and that a large one changes by
little are different beliefs, and each is formed by how the noisy counts of its own cells lie about what is
expected of them (:mod:`tabularium.mechanisms.inference.prior_table.law_of_changes`). A prior that fits is
trusted; one that has nothing to do with the counts leaves residuals as wide as the table itself, and little
is drawn. In a sparse table zero then makes the noisy counts of a class likelier than the prior does, and
stands in its place.

*Privacy.* The prior is public and the noisy counts are paid for; nothing else is looked at.

*Bias.* The estimate is the mean of the law given the residual. Over all cells of a class it is right on
average; of a true change only a part is shown, less of small ones than of large ones (``Drawn.shown``).

*Intervals.* Expected, as the estimates are, over the cells of a class with the same residual, as far as the
law was learnt well: by ``LEAST`` cells or more.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from tabularium.mechanisms.arrays import Bools, Floats, Integers
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.inference.margins_of_error.half_widths import quantile
from tabularium.mechanisms.inference.prior_table.law_of_changes import Grid, Law, laws_behind
from tabularium.mechanisms.noise_distributions import NOTHING, Noise

LEAST = 200
"""Cells of a class: below, none is drawn, or the class is joined to the one of larger cells."""
CHANGES = (1, 2, 4, 8)
"""Changes whose shown part is told, in standard deviations of the noise."""
_FIRST, _GROWTH, _CLASSES = 1 / 4, sqrt(2), 64
_PLAINLY = 3.0  # by which the logarithm of a likelihood has to be larger
_OUTLIER = 8  # standard deviations, beyond which a residual tells nothing of what is expected


@dataclass(frozen=True, eq=False, slots=True)
class Drawn:
    """Noisy counts after they were drawn.

    Attributes
    ----------
    values
        (cells,) estimates.
    variances
        (cells,) mean squared errors, one for each class of size in the prior.
    half
        (cells,) half-widths of intervals around the estimates.
    cells
        How many were drawn towards the prior: for the others nothing was published, or zero is the better
        guess.
    scale
        Of the prior.
    shown
        Changes against the prior, and which part of them the estimates show on average.
    """

    values: Floats
    variances: Floats
    half: Floats
    cells: int
    scale: float
    shown: tuple[tuple[int, float], ...]


def draw_towards(noisy: Floats, prior: Floats, noise: Noise, level: float, *, scaled: bool = True) -> Drawn:
    """Draw noisy counts towards what was published before.

    Parameters
    ----------
    noisy
        (cells,) whole numbers: counts with independent noise of one law.
    prior
        (cells,) what was published for them before, in the order of ``noisy``; not a number where nothing
        was. Those cells are left as they are.
    noise
        The law of the noise.
    level
        Share of true counts that intervals are to hold, in (0, 1).
    scaled
        Whether the prior is of another time, so that all counts together may have grown since.

    Raises
    ------
    MechanismError
        The two do not have the same shape, or the prior holds numbers below zero or infinite ones.

    Examples
    --------
    One cell in a thousand is far from what was published: it alone is left alone.

    >>> noise = Noise("laplace", 10.0, whole=True)
    >>> away = np.rint(10 * np.log(np.linspace(0.002, 1, 500)))
    >>> noisy = 50 + np.concatenate((away, -away))
    >>> noisy[0] = 900.0
    >>> drawn = draw_towards(noisy, np.full(1000, 50.0), noise, 0.9)
    >>> noisy[[0, 100, 900]].tolist(), drawn.values[[0, 100, 900]].round().tolist()
    ([900.0, 34.0, 52.0], [900.0, 49.0, 50.0])
    """
    if noisy.shape != prior.shape or noisy.ndim != 1:
        raise MechanismError(
            "noisy counts and prior differ in shape", where="prior", hint="give one number for each cell"
        )
    known = ~np.isnan(prior)
    if np.isinf(prior).any() or (prior[known] < 0).any():
        raise MechanismError(
            "a prior holds counts that cannot be", where="prior", hint="give counts that are zero or more"
        )
    values = noisy.astype(np.float64)
    variances = np.full(noisy.shape, noise.variance)
    half = np.full(noisy.shape, quantile(level) * sqrt(noise.variance))
    if int(known.sum()) < LEAST or noise.variance <= NOTHING:
        return Drawn(values, variances, half, 0, 1.0, ())
    scale = _scale(noisy[known], prior[known], noise.variance) if scaled else 1.0
    own, size = noisy[known], scale * prior[known]
    of = _classes(size, sqrt(noise.variance))
    grid = Grid.of(noise)
    expected = np.rint(size + _offsets(own - size, of, noise.variance)[of])
    expected, trusted = _or_zero(grid, own, expected, of)
    counts = _seen(grid, own - expected, of)
    laws = [Law.of(grid, law, level) for law in laws_behind(grid, counts)[0]]
    near = np.abs(own - expected) <= grid.trusted
    at = (own - expected) / grid.step + len(grid.points) // 2
    values[known] = np.where(near, expected + _between([law.mean for law in laws], of, at), own)
    half[known] = np.where(near, _between([law.half for law in laws], of, at), half[known])
    spread = np.stack([law.variance for law in laws])
    variances[known] = ((counts * spread).sum(axis=1) / counts.sum(axis=1))[of]
    sizes = np.bincount(of) * trusted
    shown = _shown(grid, laws, sizes, (np.bincount(of, expected) / np.bincount(of)).tolist())
    return Drawn(values, variances, half, int(sizes.sum()), scale, shown)


def _scale(noisy: Floats, prior: Floats, variance: float) -> float:
    """Return by how much all counts together have grown, as far as that is more than chance."""
    total = float(prior.sum())
    if total <= 0:
        return 1.0
    growth = float(noisy.sum()) / total - 1
    return 1 + float(_beyond_chance(np.array(growth), np.array(len(noisy) * variance / total**2)))


def _beyond_chance(found: Floats, variance: Floats) -> Floats:
    """Shrink estimates to 0 by the share of their squares that chance explains (James and Stein)."""
    square = np.maximum(found**2, 1e-300)
    left: Floats = found * np.maximum(0.0, 1 - variance / square)
    return left


def _classes(size: Floats, deviation: float) -> Integers:
    """Return the class of each cell, by what the prior says that it holds: (cells,), from 0 up.

    Zeros, then classes from a quarter of the noise up, each half as wide again as the last; of cells that are
    too few the largest are put together first.
    """
    ends = np.concatenate(([0.5], max(0.75, _FIRST * deviation) * _GROWTH ** np.arange(_CLASSES)))
    of = np.searchsorted(ends, size, side="right")
    sizes = np.bincount(of, minlength=len(ends) + 1)
    joined, number, cells = np.zeros(len(sizes), np.int64), 0, 0
    for each in range(len(sizes) - 1, -1, -1):
        joined[each], cells = number, cells + int(sizes[each])
        if cells >= LEAST and sizes[:each].sum() >= LEAST:
            number, cells = number + 1, 0
    classes: Integers = number - joined[of]
    return classes


def _offsets(residuals: Floats, of: Integers, variance: float) -> Floats:
    """Return by how much the cells of each class lie beside the prior on average, beyond chance."""
    most = _OUTLIER * sqrt(variance)
    inside = np.clip(residuals, -most, most)
    sizes = np.bincount(of)
    mean = np.bincount(of, inside) / sizes
    spread = np.bincount(of, inside**2) / sizes - mean**2
    return _beyond_chance(mean, spread / sizes)


def _or_zero(grid: Grid, own: Floats, expected: Floats, of: Integers) -> tuple[Floats, Bools]:
    """Return what is expected of each cell, and (classes,) whether that is what the prior says and not 0."""
    by_prior = laws_behind(grid, _seen(grid, own - expected, of))[1]
    by_zero = laws_behind(grid, _seen(grid, own, of))[1]
    trusted: Bools = by_zero <= by_prior + _PLAINLY
    return np.where(trusted[of], expected, 0.0), trusted


def _seen(grid: Grid, residuals: Floats, of: Integers) -> Integers:
    """Return how many residuals of each class lie at each point of the grid, (classes, points)."""
    points = len(grid.points)
    at: Integers = of * points + grid.places(residuals)
    found: Integers = np.bincount(at, minlength=(int(of.max()) + 1) * points).reshape(-1, points)
    return found


def _between(rows: list[Floats], of: Integers, at: Floats) -> Floats:
    """Return numbers of each cell's class at a place between points, by linear interpolation."""
    table = np.stack(rows)
    low = np.clip(np.floor(at), 0, table.shape[1] - 2).astype(np.int64)
    part = np.clip(at - low, 0.0, 1.0)
    found: Floats = (1 - part) * table[of, low] + part * table[of, low + 1]
    return found


def _shown(
    grid: Grid, laws: list[Law], cells: Integers, expected: list[float]
) -> tuple[tuple[int, float], ...]:
    """Return changes of some sizes with the part of them that is shown, over cells that can change so."""
    found = []
    for times in CHANGES if cells.any() else ():
        change = grid.step * max(1, round(times * sqrt(grid.variance) / grid.step))
        parts = [
            (law.shown(change) + law.shown(-change)) / 2 if mean >= change else law.shown(change)
            for law, mean in zip(laws, expected, strict=True)
        ]
        found.append((change, float(np.average(parts, weights=cells))))
    return tuple(found)
