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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tabularium.mechanisms.arrays import Floats
from tabularium.mechanisms.inference.hierarchy import Hierarchy
from tabularium.mechanisms.inference.margins_of_error.half_widths import margins
from tabularium.mechanisms.inference.margins_of_error.pooled_errors import Pool, Strata
from tabularium.mechanisms.inference.margins_of_error.simulated_releases import (
    Assumed,
    Made,
    Release,
    Rows,
    Runs,
)
from tabularium.mechanisms.inference.margins_of_error.tallies import Tally

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
    """Simulate releases of ``tables`` and return half-widths for the published numbers.

    Parameters
    ----------
    tables
        The tables whose margins are wanted, taken for the truth.
    release
        Measures this truth again, with all tables that are treated together, and finishes it.
    fallback
        Half-widths where too few simulated cells are alike; the tally takes them as well.
    level
        Share of true values that intervals are to hold.
    whole
        Published numbers are whole: so are half-widths.
    runs
        How many releases are simulated.
    room
        Makes an array for the half-widths of a table of this name and shape; in memory if there is none.

    Returns
    -------
    Table name to what was learnt of it.
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
    """Return half-widths for linear estimates, whose errors do not depend on the truth.

    A weighted sum of Laplace errors has quantiles that its variance bounds and does not give: at 90 % they
    lie between 1.62 and 1.65 standard deviations. Here they are those of simulated errors of the same
    weights, in units of the standard deviation, over cells of the same stratum. A stratum of few errors, such
    as a nation's one cell in eight releases, has no quantile worth the name: there the bound is taken.

    Parameters
    ----------
    tree, variances
        Of the table; variances broadcast to (nodes, cells).
    shape
        (nodes, cells)
    errors
        Of simulated releases.
    level
        Share of errors that are to be held.

    Returns
    -------
    (nodes, cells)
    """
    deviations = np.broadcast_to(np.sqrt(variances), shape)
    strata = np.broadcast_to(Strata.among(tree, variances).of, shape)
    half: Floats = np.broadcast_to(margins(variances, level), shape).copy()

    def of_stratum(made: Made) -> Floats:
        nodes = slice(None) if made.nodes is None else made.nodes
        spread = deviations[nodes]
        there = (strata[nodes] == stratum) & (spread > 0)
        ratios: Floats = np.abs(made.values[there]) / spread[there]
        return ratios

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
