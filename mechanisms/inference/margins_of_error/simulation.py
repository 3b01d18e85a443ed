"""Margins by simulation: what non-negativity and rounding do to errors, learnt only from the release.

The release is taken for the truth, measured again, finished again, and compared with what it was made from.
This costs no budget: nothing is looked at but what is published. Errors are pooled over cells of like kind
*by the number published in the simulated release*: the same stratum (level and variance of the linear
estimate), size against its standard deviation, and mean of the family. The half-width of a class is the
larger of

    the smallest h that holds the stated share of its simulated errors and one standard error more, and
    z·(root mean squared simulated error), z the normal quantile of the level,

the second since nearly all cells of the assumed truth are empty where noise is large, while sums keep the
mean square. Beyond four standard deviations only the first decides. Shares hold over the cells of a class,
not for each by itself nor by true size: docs/explanation/margins-of-error.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from statistics import NormalDist

import numpy as np

from tabularium.mechanisms.arrays import Floats, Indices, Integers
from tabularium.mechanisms.inference.hierarchy import Hierarchy
from tabularium.mechanisms.inference.margins_of_error.half_widths import margins
from tabularium.mechanisms.inference.margins_of_error.simulated_releases import (
    Assumed,
    Made,
    Release,
    Rows,
    Runs,
    Tally,
    summed,
)

PLENTY = 5000
"""Simulated errors from which on their 90 % quantile has a standard error of about 1 %."""
USED = 1_000_000
"""Simulated errors beyond which more of them tell nothing new."""


@dataclass(frozen=True, eq=False, slots=True)
class Simulated:
    """What was learnt of one table.

    Attributes
    ----------
    half
        (nodes, cells) half-widths; those of the fallback where too few simulated cells were like this one.
    tally
        Errors and coverage on simulated releases that had no part in ``half``.
    replicates
        How many simulated releases gave the half-widths, and how many the tally.
    precision
        Standard error of the share of errors that a half-width holds, on average over the simulated errors of
        a level; of the level that is worst off.
    part
        The part of all cells that a simulated release had, on average.
    """

    half: Floats
    tally: Tally
    replicates: tuple[int, int]
    precision: float
    part: float


def simulate(
    tables: Mapping[str, Assumed],
    release: Release,
    fallback: Mapping[str, Rows],
    *,
    level: float,
    whole: bool,
    runs: Runs,
    room: Callable[[str, tuple[int, ...]], Floats] | None = None,
) -> dict[str, Simulated]:
    """Simulate releases of ``tables``, taken for the truth, and return what was learnt of each.

    Parameters
    ----------
    release
        Measures this truth again, with all tables that are treated together, and finishes it.
    fallback
        Half-widths where too few simulated cells are alike; the tally takes them as well.
    whole
        Published numbers are whole: so are half-widths.
    room
        Makes an array for the half-widths of a table of this name and shape; in memory if there is none.
    """
    pools = {name: Pool(table, whole=whole) for name, table in tables.items()}
    first = 0
    while first < runs.least or (
        first < runs.most and max(pool.precision(level) for pool in pools.values()) > runs.precision
    ):
        made = release(first)
        for name, pool in pools.items():
            pool.add(made[name])
        first += 1
    learnt = {name: pool.widths(level) for name, pool in pools.items()}
    tallies = {name: Tally(table.tree, table.counted) for name, table in tables.items()}
    checks = runs.checks(first)
    for run in range(first, first + checks):
        made = release(run)
        for name, pool in pools.items():
            half = pool.look_up(learnt[name], made[name], fallback[name])
            tallies[name].add(made[name], tables[name].values, half)
    return {
        name: Simulated(
            pool.look_up(
                learnt[name],
                tables[name].whole(tables[name].values),
                fallback[name],
                None if room is None else room(name, tables[name].values.shape),
            ),
            tallies[name],
            (first, checks),
            pool.precision(level),
            tallies[name].part,
        )
        for name, pool in pools.items()
    }


def linear_half(
    tree: Hierarchy, variances: Floats, shape: tuple[int, int], errors: Sequence[Made], *, level: float
) -> Floats:
    """Return (nodes, cells) half-widths for linear estimates, whose errors do not depend on the truth.

    The quantiles are those of simulated errors of the same weights, in units of the standard deviation, over
    cells of the same stratum: at 90 % between 1.62 and 1.65. A stratum of few errors has no quantile worth
    the name: there the bound that knows the variance only is taken.
    """
    deviations = np.broadcast_to(np.sqrt(variances), shape)
    strata = np.broadcast_to(Strata.among(tree, variances).of, shape)
    half: Floats = np.broadcast_to(margins(variances, level), shape).copy()

    def of_stratum(made: Made) -> Floats:
        nodes = slice(None) if made.nodes is None else made.nodes
        spread = deviations[nodes]
        there = (strata[nodes] == stratum) & (spread > 0)
        return np.asarray(np.abs(made.values[there]) / spread[there])

    for stratum in np.unique(strata):
        samples, number = [], 0
        for made in errors:
            samples.append(of_stratum(made))
            number += samples[-1].size
            if number >= USED:
                break
        if number >= PLENTY:
            there = (strata == stratum) & (deviations > 0)
            ratio = np.quantile(np.concatenate(samples), level, method="inverted_cdf")
            half[there] = deviations[there] * ratio
    return half


SIZE_ENDS = np.array([0, 1 / 4, 1 / 2, 1, 2, 4])
"""Upper ends of the size classes, in standard deviations of the linear estimate; the last is open."""
FAMILY_ENDS = np.array([0, 1 / 32, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4])
"""Upper ends of the classes of the mean over a family, in standard deviations of its members."""

BINS = 1024
REACH = 16
"""Errors are counted in ``BINS`` steps; at least up to ``REACH`` standard deviations."""

MOST = 64
"""Strata that are distinguished, if variances of a finer grid would make more of them."""

FINE, COARSE = 200, 100
"""Fewest simulated errors of a class that are relied on: with its families apart, and pooled."""


@dataclass(frozen=True, eq=False, slots=True)
class Strata:
    """Cells of like linear estimates: one number per stratum, (nodes, cells) or (nodes, 1)."""

    of: Integers
    deviation: Floats
    depth: Integers  # (strata,)

    @classmethod
    def among(cls, tree: Hierarchy, variances: Floats) -> Strata:
        """Tell apart levels, leaves from inner nodes, and variances that differ by a tenth or more.

        By a third or a factor of e only, where there would be more than ``MOST`` strata otherwise.
        """
        spread = np.asarray(variances, np.float64)
        # A leaf above the deepest level is measured with several levels; its variance tells it apart.
        level = (tree.depth * 2 + tree.leaf).astype(np.int64)[:, None] * (1 << 16)
        for steps in (10, 3, 1):
            keys = np.rint(steps * np.log(np.maximum(spread, 1e-12))).astype(np.int64) + level
            result, of = np.unique(keys, return_inverse=True)
            if len(result) <= MOST:
                break
        of = of.reshape(keys.shape)
        mean = np.bincount(of.ravel(), spread.ravel()) / np.bincount(of.ravel())
        depth = np.zeros(len(result), np.int64)
        depth[of] = tree.depth[:, None]
        return cls(of.astype(np.int64), np.sqrt(mean), depth)


class Pool:
    """Simulated errors of one table, counted class by class, as often as the nodes that each stands for."""

    def __init__(self, table: Assumed, *, whole: bool) -> None:
        self._table, self._whole = table, whole
        self._strata = Strata.among(table.tree, table.variances)
        self._classes = len(SIZE_ENDS) + 1
        self._shape = len(self._strata.deviation), len(FAMILY_ENDS) + 1, self._classes
        self._kinds = prod(self._shape)
        deviation = np.maximum(self._strata.deviation, 1e-9)
        steps = REACH * deviation / BINS
        self._steps = np.maximum(1.0, np.ceil(steps)) if whole else steps
        self._counts = np.zeros((self._kinds, BINS))
        self._squares, self._doubled = np.zeros((2, self._kinds))
        self._scale = deviation
        inner = table.tree.parents[table.tree.parents >= 0]
        self._members = np.maximum(np.bincount(inner, minlength=table.tree.nodes), 1)[:, None]

    def add(self, made: Made) -> None:
        """Count the errors of one simulated release."""
        truth = self._table.values
        for rows, nodes in made.strips():
            codes = self._codes(made, rows, nodes)
            errors = np.abs(made.values[rows] - truth[nodes]).ravel()
            step = np.broadcast_to(self._steps[self._strata.of[nodes]], made.values[rows].shape).ravel()
            # Bin b holds errors above (b - 1) steps and up to b.
            bins = np.minimum(np.ceil(errors / step - 1e-9), BINS - 1).astype(np.int64)
            weights = None
            if made.weights is not None:
                weights = np.repeat(made.weights[rows], truth.shape[1])
            self._squares += summed(codes, errors**2, weights, self._kinds)
            places = codes * BINS + bins
            self._counts += summed(places, None, weights, self._kinds * BINS).reshape(-1, BINS)
            self._doubled += summed(codes, weights, weights, self._kinds)

    def widths(self, level: float) -> Floats:
        """Return the half-width of every class; not a number where too little is known of it."""
        strata, families, sizes = self._shape
        fine = self._widths(*self._fine, families * sizes, FINE, level).reshape(self._shape)
        coarse = self._widths(*self._coarse, sizes, COARSE, level).reshape(strata, 1, sizes)
        return np.where(np.isnan(fine), coarse, fine).ravel()

    def precision(self, level: float) -> float:
        """Return the standard error of the share held, mean over the errors of a level, of the worst level.

        Errors of classes that too little is known of do not count: their cells have another half-width.
        """
        errors = self._counts.sum(axis=1).reshape(self._shape)
        fine = _worth(errors.ravel(), self._doubled).reshape(self._shape)
        counts, _, doubled = self._coarse
        coarse = _worth(counts.sum(axis=1), doubled).reshape(self._shape[0], 1, self._classes)
        worth = np.where(fine >= FINE, fine, np.where(coarse >= COARSE, coarse, 0.0))
        known = np.where(worth > 0, errors, 0.0)
        spread = known * np.sqrt(level * (1 - level) / np.maximum(worth, 1.0))
        depth = self._strata.depth
        levels = np.bincount(depth, known.sum(axis=(1, 2)))
        return float((np.bincount(depth, spread.sum(axis=(1, 2))) / np.maximum(levels, 1e-300)).max())

    @property
    def _fine(self) -> tuple[Floats, Floats, Floats]:
        """Of each class: counts by bin, squared errors, squared weights."""
        return self._counts, self._squares, self._doubled

    @property
    def _coarse(self) -> tuple[Floats, Floats, Floats]:
        """The same of classes in which all families are pooled."""
        counts, squares, doubled = (item.reshape(*self._shape, -1).sum(axis=1) for item in self._fine)
        return counts.reshape(-1, BINS), squares.ravel(), doubled.ravel()

    def _widths(
        self, counts: Floats, squares: Floats, doubled: Floats, each: int, fewest: int, level: float
    ) -> Floats:
        step = np.repeat(self._steps, each)
        total = counts.sum(axis=1)
        worth, safe = _worth(total, doubled), np.where(total > 0, total, 1.0)
        # One standard error: the share found in a sample of this size is not that of the class.
        slack = np.sqrt(level * (1 - level) / np.maximum(worth, 1))
        wanted = np.minimum(level + slack, 1.0) * total
        held = np.cumsum(counts, axis=1)
        bins = np.argmax(held >= wanted[:, None] - 1e-9, axis=1)
        root = NormalDist().inv_cdf(0.5 + level / 2) * np.sqrt(squares / safe)
        root = np.where(np.arange(len(total)) % self._classes < self._classes - 1, root, 0.0)
        half = np.maximum(bins * step, np.floor(root + 1e-9) if self._whole else root)
        known = (worth >= fewest) & (bins < BINS - 1)
        return np.where(known, half, np.nan)

    def look_up(self, widths: Floats, made: Made, fallback: Rows, out: Floats | None = None) -> Floats:
        """Return the half-width of every cell of a release, in ``out`` if there is one.

        ``fallback``: half-widths of the table, by node, for classes about which too little is known.
        """
        half = np.empty(made.values.shape) if out is None else out
        for rows, nodes in made.strips():
            result = widths[self._codes(made, rows, nodes)].reshape(made.values[rows].shape)
            unknown = np.isnan(result)
            half[rows] = np.where(unknown, fallback[nodes], result) if unknown.any() else result
        return half

    def _codes(self, made: Made, rows: slice, nodes: slice | Indices) -> Integers:
        """Return the class of every cell of some rows, flat."""
        strata = self._strata.of[nodes]
        scale = self._scale[strata]
        size = np.searchsorted(SIZE_ENDS, made.values[rows] / scale)
        family = np.searchsorted(FAMILY_ENDS, self._means(made, rows) / scale)
        codes = (strata * (len(FAMILY_ENDS) + 1) + family) * self._classes + size
        return codes.ravel()

    def _means(self, made: Made, rows: slice) -> Floats:
        """Return the mean over each cell's family: its siblings, or the cells of its root."""
        parents = made.parents[rows]
        above = np.maximum(parents, 0)
        members = self._members[above if made.nodes is None else made.nodes[above]]
        means: Floats = made.values[above] / members
        roots = parents < 0
        means[roots] = made.values[rows][roots].mean(axis=1, keepdims=True)
        return means


def _worth(total: Floats, doubled: Floats) -> Floats:
    """Return of how many errors of equal weight a mean would be known as well (Kish 1965)."""
    return np.asarray(np.divide(total**2, doubled, out=np.zeros_like(total), where=doubled > 0))
