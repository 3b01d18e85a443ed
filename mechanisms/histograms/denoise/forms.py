"""The forms of denoising: what each makes of noisy tables, and how that follows their noise.

Mixtures are averaged over several places of the dyadic grid (cycle spinning): the average has no edges where
the grid has, and a smaller error than the estimates that it averages.

Source: Coifman, Donoho 1995.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log, sqrt
from statistics import NormalDist
from typing import Literal, NamedTuple

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
from tabularium.mechanisms.histograms.denoise.mixture import (
    Counts,
    Prior,
    ascend,
    descend,
    fast_exp,
    perturbed_levels,
)
from tabularium.mechanisms.histograms.denoise.prior import (
    ANCHOR,
    DENSITY,
    NORMAL_CELLS,
    TreePrior,
    gap_densities,
    sum_of_laplaces,
)
from tabularium.mechanisms.histograms.denoise.risk import Probes, threshold_covariance
from tabularium.mechanisms.histograms.denoise.wavelet import haar_shrinkage
from tabularium.mechanisms.kernels.compiled import compiled
from tabularium.mechanisms.noise_distributions import Noise

# Mixtures over partitions for many small tables of one shape, each under a tree prior of its own.
#
# What ``forms`` and ``prior`` do for one table, in one compiled loop over tables: their small arrays stay
# near the processor, and threads can share the tables out. Sums over a prior's points are taken in another
# order than NumPy's, so that results agree to about twelve digits and not bit by bit.


def mixtures(
    tables: Floats,
    layout: Layout,
    noise: Noise,
    shifts: int,
    probes: Probes,
    strengths: Sequence[float],
    passes: int,
) -> Iterator[tuple[float, Floats, Floats]]:
    """Yield each strength with the mixtures of ``tables`` (rows, tables, sides...).

    Levels (rows, tables, cells), and those of probed cells moved up and down (2, rows, probes). ``passes``:
    over the tables, to learn from them before they are smoothed.
    """
    gaps = Gaps(*gap_densities(noise.family), float(DENSITY), DENSITY / sqrt(noise.variance))
    number, together = tables.shape[:2]
    changes, which = _changes(probes, tables.shape[1:])
    flat = tables.reshape(-1, *layout.sides)
    cells = (slice(None), slice(None), *(slice(side) for side in layout.sides))
    for start in strengths:
        first = TreePrior.of(start, layout.classes, len(layout.sides))
        known = Beliefs(
            first.flat[None], first.axes[None], first.gaps[None], start, first.gaps[0].copy(), ANCHOR
        )
        levels, moved = np.zeros((number, tables[0].size)), np.zeros((2, changes.steps.size))
        for offsets in layout.offsets(shifts):
            boxes = boxes_of((together, *layout.sides), offsets)
            means = means_of(flat, boxes_of(flat.shape, offsets)).reshape(number, -1)
            if passes and not any(offsets):  # the first place of the grid, on which the prior is learned
                known = Beliefs(*learn_each(boxes, means, known, gaps, passes), *known[3:])
            added = np.zeros_like(means)
            add_mixtures(boxes, means, known, gaps, changes, added, moved)
            levels += added.reshape(number, *boxes.sides)[cells].reshape(number, -1)
        yield start, levels.reshape(number, together, -1) / shifts, moved[:, which] / shifts


def _changes(probes: Probes, sides: tuple[int, ...]) -> tuple[Changes, Integers]:
    """Return the different changes of the rows' probes, and which is that of each: (rows, probes)."""
    places, steps, which, first = [], [], [], [0]
    sizes = probes.steps.astype(np.int64)
    for row in probes.places:
        cells = np.ravel_multi_index(tuple(row.T), sides)
        _, one, own = np.unique(cells * (sizes.max() + 1) + sizes, return_index=True, return_inverse=True)
        places.append(row[one])
        steps.append(probes.steps[one])
        which.append(first[-1] + own)
        first.append(first[-1] + one.size)
    return Changes(np.array(first), np.concatenate(places), np.concatenate(steps)), np.stack(which)


class Beliefs(NamedTuple):
    """Tree priors of many tables, as ``prior.TreePrior`` has that of one.

    ``flat``, ``axes``, ``gaps``: Shapes (tables, classes), (tables, classes, d), (tables, classes, kinds);
    one row if all are alike. ``start``, ``weights``, ``anchor``: What learning begins with: the probability
    that a box is flat, the weights (kinds,) of the gaps, and as many boxes as they count for.
    """

    flat: Floats
    axes: Floats
    gaps: Floats
    start: float
    weights: Floats
    anchor: float


class Gaps(NamedTuple):
    """What is known of gaps under each distribution, and how finely.

    Attributes
    ----------
    density, mean
        Shape (rows, kinds, points): of t, and E[u | t]; the last row stands for all larger boxes.
    noise_density
        Shape (rows, points): log density of noise.
    fine
        Points per unit of t.
    unit
        Points per unit of t, by the standard deviation of the noise of one cell.
    """

    density: Floats
    mean: Floats
    noise_density: Floats
    fine: float
    unit: float


class Changes(NamedTuple):
    """Single cells to be changed, those of one table after those of another.

    Attributes
    ----------
    first
        Shape (tables + 1,): where the changes of a table begin.
    places
        Shape (changes, 1 + d).
    steps
        Shape (changes,).
    """

    first: Integers
    places: Integers
    steps: Floats


@compiled
def _prior(flat: Floats, axes: Floats, weights: Floats, gaps: Gaps) -> Prior:
    """Return a prior in the form that the passes need."""
    classes, d = axes.shape
    points = gaps.noise_density.shape[1]
    ratio, kept = np.zeros((classes, points)), np.zeros((classes, points))
    go = np.zeros((classes, 1 << d, d))
    stop, slope = np.zeros(classes), np.zeros(classes)
    for c in range(classes):
        row = min(c, gaps.noise_density.shape[0] - 1)
        stop[c] = log(flat[c])
        most = 0.0
        for p in range(points):
            total, true = 0.0, 0.0
            for k in range(weights.shape[1]):
                share = weights[c, k] * gaps.density[row, k, p]
                total += share
                true += share * gaps.mean[row, k, p]
            ratio[c, p] = log(total) - gaps.noise_density[row, p]
            most = max(most, min(true / total, p / gaps.fine))
            kept[c, p] = most * gaps.fine
        slope[c] = ratio[c, points - 1] - ratio[c, points - 2]
        for free in range(1, 1 << d):
            rivals = 0.0
            for a in range(d):
                if free >> a & 1:
                    rivals += axes[c, a]
            for a in range(d):
                if free >> a & 1 and axes[c, a] > 0:
                    go[c, free, a] = log(1 - flat[c]) + log(axes[c, a] / rivals)
    return Prior(stop, go, ratio, kept, slope, gaps.unit)


@compiled
def _learned(
    old: Floats, weights: Floats, counts: Counts, known: Beliefs, gaps: Gaps
) -> tuple[Floats, Floats, Floats]:
    """Return flat, axes and gaps after one pass, from those of axes and gaps before and what was counted."""
    classes, d = old.shape
    splits = counts.splits
    flat, axes, fresh = np.zeros(classes), np.zeros((classes, d)), np.zeros(weights.shape)
    for c in range(classes):
        row = min(c, gaps.noise_density.shape[0] - 1)
        halved, left = 0.0, 0.0
        exposure = np.full(d, known.anchor)
        for free in range(1 << d):
            own, rivals = 0.0, 0.0
            for a in range(d):
                own += splits[c, free, a]
                if free >> a & 1:
                    rivals += old[c, a]
            halved += own
            left += splits[c, free, d]
            for a in range(d):
                if free >> a & 1 and rivals > 0:
                    exposure[a] += own / rivals
        flat[c] = (left + known.anchor * known.start) / (halved + left + known.anchor)
        whole = 0.0
        for a in range(d):
            own = known.anchor / d
            for free in range(1 << d):
                own += splits[c, free, a]
            axes[c, a] = own / exposure[a]
            whole += axes[c, a]
        for a in range(d):
            axes[c, a] /= whole
        _weigh_gaps(weights[c], counts.gaps[c], gaps.density[row], halved, known, fresh[c])
    return flat, axes, fresh


@compiled
def _weigh_gaps(
    weights: Floats, seen: Floats, density: Floats, halved: float, known: Beliefs, fresh: Floats
) -> None:
    """Fill in the weights of the gaps' distributions that fit what was seen of one class of boxes."""
    for p in range(seen.size):
        if seen[p] > 0:
            total = 0.0
            for k in range(weights.size):
                total += weights[k] * density[k, p]
            for k in range(weights.size):
                fresh[k] += weights[k] * density[k, p] / total * seen[p]
    whole = 0.0
    for k in range(weights.size):
        fresh[k] = (fresh[k] + known.anchor * known.weights[k]) / (halved + known.anchor)
        whole += fresh[k]
    for k in range(weights.size):
        fresh[k] /= whole


@compiled
def _count_table(boxes: Boxes, means: Floats, prior: Prior, counts: Counts) -> None:
    """Count what one table shows under a prior."""
    counts.splits[:] = 0.0
    counts.gaps[:] = 0.0
    evidence, shares = ascend(boxes, means, prior, None)
    descend(boxes, means, evidence, shares, prior, None, counts)


@compiled
def learn_each(
    boxes: Boxes, means: Floats, known: Beliefs, gaps: Gaps, passes: int
) -> tuple[Floats, Floats, Floats]:
    """Return flat, axes and gaps of every table after so many passes over its boxes.

    ``boxes`` are those of one table, ``means`` (tables, boxes); ``known`` has one row, to begin with.
    """
    tables, classes, d = means.shape[0], known.axes.shape[1], known.axes.shape[2]
    flat, axes = np.zeros((tables, classes)), np.zeros((tables, classes, d))
    weights = np.zeros((tables, classes, known.gaps.shape[2]))
    counts = Counts(
        np.zeros((classes, 1 << d, d + 1)), np.zeros((classes, gaps.noise_density.shape[1])), np.zeros(0)
    )
    for table in range(tables):
        own = known.flat[0], known.axes[0], known.gaps[0]
        for _ in range(passes):
            _count_table(boxes, means[table], _prior(own[0], own[1], own[2], gaps), counts)
            own = _learned(own[1], own[2], counts, known, gaps)
        flat[table], axes[table], weights[table] = own
    return flat, axes, weights


@compiled
def add_mixtures(
    boxes: Boxes,
    means: Floats,
    known: Beliefs,
    gaps: Gaps,
    changes: Changes,
    levels: Floats,
    moved: Floats,
) -> None:
    """Add to ``levels`` those of every table on one place of the grid, its prior learned there once more.

    ``boxes`` are those of one table, ``means`` and ``levels`` (tables, boxes), whose single cells count. To
    ``moved`` (2, changes) the level of every cell to be changed, had it been measured higher, and lower.
    """
    classes, d = known.axes.shape[1], known.axes.shape[2]
    counts = Counts(
        np.zeros((classes, 1 << d, d + 1)), np.zeros((classes, gaps.noise_density.shape[1])), np.zeros(0)
    )
    before = _prior(known.flat[0], known.axes[0], known.gaps[0], gaps)
    for table in range(means.shape[0]):
        own = min(table, known.flat.shape[0] - 1)
        if own > 0:
            before = _prior(known.flat[own], known.axes[own], known.gaps[own], gaps)
        _count_table(boxes, means[table], before, counts)
        result = _learned(known.axes[own], known.gaps[own], counts, known, gaps)
        prior = _prior(result[0], result[1], result[2], gaps)
        evidence, shares = ascend(boxes, means[table], prior, None)
        level = descend(boxes, means[table], evidence, shares, prior, None, counts)
        spread(boxes, level)
        for box in range(level.size):
            levels[table, box] += level[box]
        own_changes = slice(changes.first[table], changes.first[table + 1])
        cells, steps = changes.places[own_changes], changes.steps[own_changes]
        higher, lower = moved[0, own_changes], moved[1, own_changes]
        if d == 1:
            add_line_levels(boxes, means[table], evidence, prior, cells, steps, higher, lower)
            continue
        up = perturbed_levels(boxes, means[table], evidence, prior, None, cells, steps)
        down = perturbed_levels(boxes, means[table], evidence, prior, None, cells, -steps)
        for k in range(steps.size):
            higher[k] += up[k]
            lower[k] += down[k]


@compiled
def add_line_levels(
    boxes: Boxes,
    means: Floats,
    evidence: Floats,
    prior: Prior,
    cells: Integers,
    steps: Floats,
    higher: Floats,
    lower: Floats,
) -> None:
    """Add the levels of some cells, had only that one been measured higher, or lower, by its step.

    ``boxes`` are of tables of one axis, ``cells`` (count, 2): table and place.
    """
    first, side = boxes.first[1], boxes.strides[0]
    one_less = side - 1
    kind, other, unit, offset, inside, rest = _halves(boxes, prior)
    # Arrays by their own names, and no calls that hand them on: reading takes a tenth of the time.
    parent = boxes.parent[first : first + side]
    ratio, kept, slope, stop = prior.ratio, prior.kept, prior.slope, prior.stop
    last = ratio.shape[1] - 1
    size = boxes.size[first + one_less]
    # Two walks for each cell, up to the whole. All go up one box before any goes up the next: what a walk
    # works out at a box waits for what it worked out below, and other walks fill the time.
    count = steps.size
    score, level = np.zeros(2 * count), np.zeros(2 * count)
    here, going = np.repeat(cells[:, 1], 2), np.arange(2 * count)
    left = 2 * count
    while left > 0:
        still = 0
        for j in range(left):
            w = going[j]
            n = here[w]
            if n < one_less:
                going[still] = w
                still += 1
                k = w >> 1
                base, change = cells[k, 0] * side, -steps[k] if w & 1 else steps[k]
                c, gap = kind[n], means[base + n] - means[base + other[n]] + change * inside[n]
                # ``log_bayes_factor`` and ``shrinkage``, which read the same points.
                place = abs(gap) * unit[n]
                if place >= last:
                    own = 1.0 - (last - kept[c, last]) * (last / place / place)
                    likelier = ratio[c, last] + slope[c] * (place - last)
                else:
                    low = int(place)
                    part, i = place - low, np.uint64(low)
                    likelier, own = ratio[c, i], kept[c, i]
                    likelier += part * (ratio[c, i + np.uint64(1)] - likelier)
                    own += part * (kept[c, i + np.uint64(1)] - own)
                    own /= max(place, 1e-300)
                score[w] += offset[n] + evidence[base + other[n]] + likelier
                level[w] += gap * own * rest[n]
        left = still
        for j in range(left):
            w = going[j]
            small = fast_exp(-abs(score[w]))
            level[w] *= (1.0 if score[w] > 0 else small) / (1 + small)
            score[w] = stop[kind[here[w]]] + max(score[w], 0.0) + _one_more(small)
            here[w] = parent[here[w]]
    for k in range(count):
        middle = means[cells[k, 0] * side + one_less]
        higher[k] += middle + steps[k] / size + level[2 * k]
        lower[k] += middle - steps[k] / size + level[2 * k + 1]


@compiled
def _halves(boxes: Boxes, prior: Prior) -> tuple[Integers, Integers, Floats, Floats, Floats, Floats]:
    """Return what a walk needs at each box but the whole, of the box around it and of that box's two halves.

    The class of the box around it; its sibling, the other half; points per unit of their gap; the logarithm
    of the odds of halving; one over its size; the share of the size that is its sibling's.
    """
    first, side = boxes.first[1], boxes.strides[0]
    unit, offset, inside, rest = np.zeros(side), np.zeros(side), np.zeros(side), np.zeros(side)
    kind, other = np.zeros(side, dtype=np.int64), np.zeros(side, dtype=np.int64)
    for node in range(side - 1):
        whole = boxes.parent[first + node]
        kind[node] = boxes.order[first + whole]
        other[node] = boxes.left[first + whole] + boxes.right[first + whole] - node
        unit[node] = prior.unit * boxes.root[first + whole] * boxes.lever[first + whole]
        offset[node] = prior.go[kind[node], 1, 0] - prior.stop[kind[node]]
        inside[node] = 1 / boxes.size[first + node]
        rest[node] = 1 - boxes.size[first + node] / boxes.size[first + whole]
    return kind, other, unit, offset, inside, rest


@compiled
def _one_more(x: float) -> float:
    """Return ln(1 + x) for x from 0 to 1, as ``logarithm`` does, without its loop."""
    z = x / (2 + x)
    q = z * z
    series = 1 / 9 + q * (1 / 11 + q * (1 / 13 + q * (1 / 15)))
    series = 1 + q * (1 / 3 + q * (1 / 5 + q * (1 / 7 + q * series)))
    return 2 * z * series


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
    """Noisy tables, and how they are to be looked at; each row is denoised as if it were the only one.

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
