"""Margins by simulation: what non-negativity and rounding do to errors, learnt from the release alone.

Non-negativity and rounding are not linear: what they leave of an error depends on the truth. So the release
is taken for the truth, measured again, finished again, and compared with what it was made from; as often as
is affordable. This costs no budget: nothing is looked at but what is published.

*Who is compared with whom.* A reader sees a published number, not a true one. So errors are pooled over cells
of like kind *by the number published in the simulated release*: the same stratum (level of the hierarchy and
variance of the linear estimate), the same size against its standard deviation, and families of the same mean.
A published cell has the half-width of its class.

*Why a quantile is not enough.* A published table is not the truth. Where cells hold less than the noise, what
many cells hold together is published in few of them, so that nearly all cells of the assumed truth are empty,
and a zero that is published of them is right nearly always. Of the real cells it may be right hardly ever: of
5 000 cells that hold three records each, at ε = 1/30, the smallest whole number that 90 % of the simulated
errors do not exceed covers 16 %. What the simulation does keep is the mean square: sums are kept, and few
large errors weigh as much as many small ones. So the half-width of a class is the larger of

    the smallest h that holds the stated share of its simulated errors and one standard error more, and
    z·(root mean squared simulated error), z the normal quantile of the level,

of which the second has a mean over all cells of at most z times the root mean squared error of the table.
Beyond four standard deviations nothing is moved by non-negativity; there the first alone decides.

*What it does not promise.* Shares hold over the cells of a class and not for each by itself, and not over
cells of a certain true size: of few cells that hold something among many that hold nothing, most may lie
outside, and the interval is still right as often as it says. How often, by true size, is measured on
simulated releases of their own (:class:`Tally`), and published.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from mechanisms.inference.arrays import Bools, Floats, Ints
from mechanisms.inference.estimate import Estimate
from mechanisms.inference.hierarchy import Hierarchy
from mechanisms.inference.margins_of_error.half_widths import margins
from mechanisms.inference.margins_of_error.tallies import Tally

Tables = Mapping[str, Estimate]
Measure = Callable[[int], Tables]
"""Number of the simulated release to the estimates that stand for its measurements."""
Chain = Callable[[Tables], Tables]

SIZE_ENDS = np.array([0, 1 / 4, 1 / 2, 1, 2, 4])
"""Upper ends of the size classes, in standard deviations of the linear estimate; the last is open."""
FAMILY_ENDS = np.array([0, 1 / 32, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4])
"""Upper ends of the classes of the mean over a family, in standard deviations of its members."""

BINS = 1024
REACH = 16
"""Errors are counted in ``BINS`` steps; at least up to ``REACH`` standard deviations."""

MOST = 64
"""Strata that are told apart, if variances of a finer grid would make more of them."""

FINE, COARSE = 200, 100
"""Fewest simulated errors of a class that are relied on: with its families apart, and pooled."""

CHECKS = 4
"""One simulated release in so many, two at least, is kept for checking the margins that the others gave."""


@dataclass(frozen=True, eq=False, slots=True)
class Assumed:
    """One table of the release that is taken for the truth.

    Attributes
    ----------
    tree
        Its hierarchy.
    values
        (nodes, cells) published numbers.
    variances
        Those of the linear estimate, broadcasting to ``values``; all finite.
    counted
        (nodes, cells) which cells there is something to say of; None for all.
    """

    tree: Hierarchy
    values: Floats
    variances: Floats
    counted: Bools | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Simulated:
    """What was learnt of one table.

    Attributes
    ----------
    half
        (nodes, cells) half-widths; not a number where too few simulated cells were like this one.
    tally
        Errors and coverage on simulated releases that had no part in ``half``.
    replicates
        How many simulated releases gave the half-widths, and how many the tally.
    """

    half: Floats
    tally: Tally
    replicates: tuple[int, int]


PLENTY = 5000
"""Simulated errors from which on their 90 % quantile has a standard error of about 1 %."""
USED = 1_000_000
"""Simulated errors beyond which more of them tell nothing new."""


def replicates(cells: int) -> int:
    """Return how many simulated releases so many cells get: 100 down to 8, and 4 beyond 4 million."""
    return 4 if cells > 4_000_000 else int(min(100, max(8, 200_000 // cells)))


def simulate(
    tables: Mapping[str, Assumed],
    measure: Measure,
    chain: Chain,
    fallback: Mapping[str, Floats],
    *,
    level: float,
    whole: bool,
    runs: int,
) -> dict[str, Simulated]:
    """Simulate releases of ``tables`` and return half-widths for the published numbers.

    Parameters
    ----------
    tables
        The tables whose margins are wanted, taken for the truth.
    measure
        Measures this truth again; all tables that the chain treats together, whether wanted or not.
    chain
        What is done to measurements before they are published.
    fallback
        Half-widths where too few simulated cells are alike; the tally takes them as well.
    level
        Share of true values that intervals are to hold.
    whole
        Published numbers are whole: so are half-widths.
    runs
        Number of simulated releases, at least 3; a quarter of them, at least two, check the others.

    Returns
    -------
    Table name to what was learnt of it.
    """
    checks = min(max(2, runs // CHECKS), runs - 1)
    pools = {name: _Pool(table, whole=whole) for name, table in tables.items()}
    for run in range(runs - checks):
        made = chain(measure(run))
        for name, pool in pools.items():
            pool.add(made[name].values)
    learnt = {name: pool.widths(level) for name, pool in pools.items()}
    tallies = {name: Tally(table.tree, table.counted) for name, table in tables.items()}
    for run in range(runs - checks, runs):
        made = chain(measure(run))
        for name, pool in pools.items():
            published = made[name].values
            half = pool.look_up(learnt[name], published)
            half = np.where(np.isnan(half), fallback[name], half)
            tallies[name].add(published, tables[name].values, half)
    return {
        name: Simulated(
            pool.look_up(learnt[name], tables[name].values), tallies[name], (runs - checks, checks)
        )
        for name, pool in pools.items()
    }


def linear_half(tree: Hierarchy, variances: Floats, errors: Sequence[Floats], *, level: float) -> Floats:
    """Return half-widths for linear estimates, whose errors do not depend on the truth.

    A weighted sum of Laplace errors has quantiles that its variance bounds and does not give: at 90 % they
    lie between 1.62 and 1.65 standard deviations. Here they are those of simulated errors of the same
    weights, in units of the standard deviation, over cells of the same stratum. A stratum of few errors, such
    as a nation's one cell in eight releases, has no quantile worth the name: there the bound is taken.

    Parameters
    ----------
    tree, variances
        Of the table; variances broadcast to (nodes, cells).
    errors
        (nodes, cells) errors of simulated releases.
    level
        Share of errors that are to be held.

    Returns
    -------
    (nodes, cells)
    """
    shape = errors[0].shape
    deviations = np.broadcast_to(np.sqrt(variances), shape)
    strata = np.broadcast_to(_Strata.among(tree, variances).of, shape)
    half: Floats = np.broadcast_to(margins(variances, level), shape).copy()
    for stratum in np.unique(strata):
        there = (strata == stratum) & (deviations > 0)
        cells = int(there.sum())
        if not cells or cells * len(errors) < PLENTY:
            continue
        some = errors[: -(-USED // cells)]
        sample = np.concatenate([np.abs(each[there]) / deviations[there] for each in some])
        half[there] = deviations[there] * np.quantile(sample, level, method="inverted_cdf")
    return half


@dataclass(frozen=True, eq=False, slots=True)
class _Strata:
    """Cells of like linear estimates: one number per stratum, (nodes, cells) or (nodes, 1)."""

    of: Ints
    deviation: Floats

    @classmethod
    def among(cls, tree: Hierarchy, variances: Floats) -> _Strata:
        """Tell apart levels, leaves from inner nodes, and variances that differ by a tenth or more.

        By a third or a factor of e only, where there would be more than ``MOST`` strata otherwise.
        """
        each = np.asarray(variances, np.float64)
        # A leaf above the deepest level is measured with several levels; its variance tells it apart.
        level = (tree.depth * 2 + tree.leaf).astype(np.int64)[:, None] * (1 << 16)
        for steps in (10, 3, 1):
            keys = np.rint(steps * np.log(np.maximum(each, 1e-12))).astype(np.int64) + level
            found, of = np.unique(keys, return_inverse=True)
            if len(found) <= MOST:
                break
        of = of.reshape(keys.shape)
        mean = np.bincount(of.ravel(), each.ravel()) / np.bincount(of.ravel())
        return cls(of.astype(np.int64), np.sqrt(mean))


class _Pool:
    """Simulated errors of one table, counted class by class."""

    def __init__(self, table: Assumed, *, whole: bool) -> None:
        self._table, self._whole = table, whole
        self._strata = _Strata.among(table.tree, table.variances)
        self._classes = len(SIZE_ENDS) + 1
        self._kinds = len(self._strata.deviation) * (len(FAMILY_ENDS) + 1) * self._classes
        deviation = np.maximum(self._strata.deviation, 1e-9)
        steps = REACH * deviation / BINS
        self._steps = np.maximum(1.0, np.ceil(steps)) if whole else steps
        self._counts = np.zeros((self._kinds, BINS), np.int64)
        self._squares = np.zeros(self._kinds)
        self._scale = deviation
        inner = table.tree.parents[table.tree.parents >= 0]
        self._members = np.maximum(np.bincount(inner, minlength=table.tree.nodes), 1)[:, None]

    def add(self, published: Floats) -> None:
        """Count the errors of one simulated release."""
        truth = self._table.values
        for rows in _strips(*truth.shape):
            codes = self._codes(published, rows)
            errors = np.abs(published[rows] - truth[rows]).ravel()
            step = np.broadcast_to(self._steps[self._strata.of[rows]], truth[rows].shape).ravel()
            # Bin b holds errors above (b - 1) steps and up to b.
            bins = np.minimum(np.ceil(errors / step - 1e-9), BINS - 1).astype(np.int64)
            self._counts += np.bincount(codes * BINS + bins, minlength=self._kinds * BINS).reshape(-1, BINS)
            self._squares += np.bincount(codes, errors**2, minlength=self._kinds)

    def widths(self, level: float) -> Floats:
        """Return the half-width of every class; not a number where too little is known of it."""
        strata, families, sizes = len(self._scale), len(FAMILY_ENDS) + 1, self._classes
        shape = (strata, families, sizes)
        fine = self._widths(self._counts, self._squares, families * sizes, FINE, level).reshape(shape)
        counts = self._counts.reshape(*shape, BINS).sum(axis=1).reshape(-1, BINS)
        squares = self._squares.reshape(shape).sum(axis=1).ravel()
        coarse = self._widths(counts, squares, sizes, COARSE, level).reshape(strata, 1, sizes)
        return np.where(np.isnan(fine), coarse, fine).ravel()

    def _widths(self, counts: Ints, squares: Floats, each: int, fewest: int, level: float) -> Floats:
        step = np.repeat(self._steps, each)
        total = counts.sum(axis=1)
        safe = np.maximum(total, 1)
        # One standard error: the share found in a sample of this size is not that of the class.
        slack = np.sqrt(level * (1 - level) / safe)
        wanted = np.minimum(level + slack, 1.0) * total
        held = np.cumsum(counts, axis=1)
        bins = np.argmax(held >= wanted[:, None] - 1e-9, axis=1)
        root = NormalDist().inv_cdf(0.5 + level / 2) * np.sqrt(squares / safe)
        root = np.where(np.arange(len(total)) % self._classes < self._classes - 1, root, 0.0)
        half = np.maximum(bins * step, np.floor(root + 1e-9) if self._whole else root)
        known = (total >= fewest) & (bins < BINS - 1)
        return np.where(known, half, np.nan)

    def look_up(self, widths: Floats, published: Floats) -> Floats:
        """Return the half-width of every cell of a release."""
        half = np.empty(published.shape)
        for rows in _strips(*published.shape):
            half[rows] = widths[self._codes(published, rows)].reshape(half[rows].shape)
        return half

    def _codes(self, published: Floats, rows: slice) -> Ints:
        """Return the class of every cell of some rows, flat."""
        strata = self._strata.of[rows]
        scale = self._scale[strata]
        own = published[rows]
        size = np.searchsorted(SIZE_ENDS, own / scale)
        family = np.searchsorted(FAMILY_ENDS, self._means(published, rows) / scale)
        codes = (strata * (len(FAMILY_ENDS) + 1) + family) * self._classes + size
        return codes.ravel()

    def _means(self, published: Floats, rows: slice) -> Floats:
        """Return the mean over each cell's family: its siblings, or the cells of its root."""
        parents = self._table.tree.parents[rows]
        above = np.maximum(parents, 0)
        means: Floats = published[above] / self._members[above]
        alone = parents < 0
        means[alone] = published[rows][alone].mean(axis=1, keepdims=True)
        return means


def _strips(nodes: int, cells: int) -> Iterator[slice]:
    """Cut rows into pieces of about a quarter of a million numbers."""
    rows = max(1, (1 << 18) // cells)
    return (slice(first, min(first + rows, nodes)) for first in range(0, nodes, rows))
