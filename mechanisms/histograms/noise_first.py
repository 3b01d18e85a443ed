"""NoiseFirst: noise on every cell, then neighbouring cells are merged into bins.

Sensitivity and privacy: one record changes one cell by 1; one draw of noise per cell, as in ``identity`` and
``gaussian``, is the only look at the counts. Merging sees only noisy counts, and ``improve`` serves any
noisy table.

O(n log n) time and O(n) memory; with ``bins`` given that for each bin, and 4·n·bins bytes, at most 512 MiB.
Source: Xu, Zhang, Xiao, Yang, Yu, Winslett 2013, sections 3, 5.1 and 6.1; what differs:
docs/reference/mechanisms/noise_first.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from math import log, prod, sqrt
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tabularium.mechanisms.arrays import LARGEST_VALUE, Floats, Integers
from tabularium.mechanisms.channel import Channel
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.histograms.parameter_checks import one_of, switch, whole_number
from tabularium.mechanisms.histograms.segmentation import segment, segment_into
from tabularium.mechanisms.measured import Array, Measured, Release
from tabularium.mechanisms.mechanism import Counts, Mechanism
from tabularium.mechanisms.noise.synthetic import generator
from tabularium.mechanisms.noise_distributions import Noise, noise_in, noise_of

CENTRES = ("mean", "median")
PENALTIES = ("selection", "paper")
LARGEST_SEARCH = 1 << 27
"""Cells times bins when their number is given: four bytes each, 512 MiB."""


@dataclass(frozen=True)
class Merging:
    """How cells are merged, by the parameters of :class:`NoiseFirst`."""

    centre: Literal["mean", "median"] = "mean"
    bins: int | None = None
    penalty: Literal["selection", "paper"] = "selection"
    range_rule: bool = True

    def __post_init__(self) -> None:
        one_of(self.centre, CENTRES, "centre")
        one_of(self.penalty, PENALTIES, "penalty")
        switch(self.range_rule, "range_rule")
        if self.bins is not None:
            whole_number(self.bins, 1, LARGEST_SEARCH, "bins")

    def price(self, noise: Noise, cells: int) -> float:
        """Return what a bin costs when their number is free.

        ``"paper"``: 2V (mean), 3E|z| (median), after equations 4 and 15. ``"selection"``: 2V·ln n, E|z|·ln n,
        but not less than the paper's.
        """
        growth = log(cells) if self.penalty == "selection" else 0.0
        if self.centre == "mean":
            return 2 * noise.variance * max(1.0, growth)
        return noise.deviation * max(3.0, growth)

    def check(self, cells: int) -> None:
        """Refuse what cannot be done in a table of so many cells."""
        if self.bins is None:
            return
        if self.bins > cells:
            raise MechanismError(
                "there cannot be more bins than cells",
                where="bins",
                hint=f"write {cells} at most, or leave it out",
            )
        if self.bins < cells and cells * self.bins > LARGEST_SEARCH:
            raise MechanismError(
                f"the search for so many bins in {cells} cells would take more than 512 MiB",
                where="bins",
                hint=f"write {LARGEST_SEARCH // cells} at most, or leave it out to have the best number",
            )


@dataclass(frozen=True)
class NoiseFirst(Merging, Mechanism):
    """Noise on every cell, then the bins that balance noise against detail.

    Parameters
    ----------
    centre
        What stands for the cells of a bin: ``"mean"`` (least squared error) or ``"median"`` (least absolute
        error; outliers count less).
    bins
        Number of bins k; at most 2^27 cells times bins. By default the best number is found.
    penalty
        Price of a bin when their number is free: ``"selection"``, which grows like ln n, or ``"paper"``,
        which does not.
    range_rule
        Keep the noisy counts of a bin that cannot be expected to gain by merging (section 6.1 of the paper).
        ``false``: exactly the best bins.
    risk_runs
        Simulations for an unbiased estimate of the mean squared error, 0 for none; each takes as long as the
        merging. It costs no budget, but is imprecise where hardly anything of the noise is left.
    """

    risk_runs: int = 0

    name: ClassVar[str] = "noise_first"
    noisy_cells_purpose: ClassVar = "cells"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_runs(self.risk_runs)

    def draw(self, counts: Counts, channel: Channel) -> tuple[dict[str, Array], dict[str, Any]]:
        """Add noise to each cell, for the whole budget."""
        self.check_shape(counts.shape)
        return {"cells": channel.add_noise(counts, channel.remaining, purpose="cells")}, {}

    @property
    def per_cell_noise(self) -> bool:
        """Yes: all that follows is made of the noisy cells."""
        return True

    def check_shape(self, shape: tuple[int, ...]) -> None:
        """Refuse more bins than there are cells, or memory."""
        self.check(prod(shape))

    def finish(self, measured: Measured) -> Release:
        """Return the merged counts, float64, in the shape of the counts; their errors depend on the data."""
        noise = noise_in(measured.transcript[0])
        improved = merge(measured.arrays["cells"], noise, self, risk_runs=self.risk_runs)
        return measured.release(improved.values, **improved.diagnostics)


@dataclass(frozen=True, eq=False)
class Improved:
    """A table with neighbouring cells merged.

    Attributes
    ----------
    values
        float64, in the shape of the noisy table.
    starts
        Shape (k,): where the bins begin in the flattened table, ascending, the first one 0.
    kept
        Shape (k,): bins of more than one cell whose noisy cells were kept (range rule).
    noise
        What was assumed of the noise.
    risk
        Estimate of the squared error per cell, if it was asked for.
    """

    values: Floats
    starts: Integers
    kept: NDArray[np.bool_]
    noise: Noise
    risk: Risk | None = None

    @property
    def diagnostics(self) -> dict[str, Any]:
        """JSON-able values: scale of the noise, bins, cells in the largest, cells left as measured, risk."""
        sizes = np.diff(self.starts, append=self.values.size)
        return {
            "scale": self.noise.scale,
            "bins": int(sizes.size),
            "largest_bin": int(sizes.max()),
            "cells_as_measured": int(sizes[self.kept | (sizes == 1)].sum()),
            **(self.risk.diagnostics() if self.risk else {}),
        }


def improve(
    noisy: ArrayLike,
    scale: float | Fraction,
    *,
    noise: Literal["laplace", "gaussian"] = "laplace",
    centre: Literal["mean", "median"] = "mean",
    bins: int | None = None,
    penalty: Literal["selection", "paper"] = "selection",
    range_rule: bool = True,
    risk_runs: int = 0,
) -> Improved:
    """Merge neighbouring cells of a noisy table so that the expected error is least.

    It uses nothing but what has been published, so it costs no privacy. The noise must be independent from
    cell to cell and of one scale; a table whose negative cells were set to zero, or that was smoothed, has
    lost that.

    Parameters
    ----------
    noisy
        Numbers of any shape, at most 2^61 in absolute value. Several dimensions are read row by row:
        neighbours are those along the last one, and a row's end is a neighbour of the next row's beginning.
        Integers are taken to carry discrete noise.
    scale
        Of the noise: s = sensitivity/ε of Laplace noise, σ of Gaussian noise.
    noise
        Its family.
    centre, bins, penalty, range_rule
        See ``Merging``.
    risk_runs
        Simulations for an unbiased estimate of the squared error, 0 for none; each takes as long as merging.

    Raises
    ------
    MechanismError
        Not finite numbers, no cells, a scale that is not positive, or an impossible parameter.

    Examples
    --------
    >>> improve([3, 5, 4, 4, 90, 93, 91], scale=2).values.tolist()
    [4.0, 4.0, 4.0, 4.0, 91.33333333333333, 91.33333333333333, 91.33333333333333]
    """
    merging = Merging(centre=centre, bins=bins, penalty=penalty, range_rule=range_rule)
    table = check_table(noisy)
    assumed = noise_of(noise, scale, whole=table.dtype.kind == "i")
    check_runs(risk_runs)
    merging.check(table.size)
    return merge(table, assumed, merging, risk_runs=risk_runs)


def check_table(noisy: ArrayLike) -> NDArray[Any]:
    """Return a table as int64 or float64, or say what is wrong with it."""
    table = np.asarray(noisy)
    if table.size == 0:
        raise MechanismError("there are no cells", where="table", hint="give at least one cell")
    if table.dtype.kind not in "iuf":
        raise MechanismError(f"cells must be numbers, not {table.dtype}", where="table")
    if table.dtype.kind == "f" and not np.isfinite(table).all():
        raise MechanismError("a cell is not a finite number", where="table", hint="leave such cells out")
    if max(-float(table.min()), float(table.max())) > LARGEST_VALUE:
        raise MechanismError("a cell is beyond 2^61", where="table", hint="count in a coarser unit")
    return table.astype(np.float64 if table.dtype.kind == "f" else np.int64)


def merge(table: NDArray[Any], noise: Noise, merging: Merging, *, risk_runs: int = 0) -> Improved:
    """Merge the cells of a checked table (int64 or float64, any shape); see ``improve``."""
    merged = _merged(table, noise, merging)
    if not risk_runs:
        return merged
    risk = estimate_risk(table, noise, lambda more: _merged(more, noise, merging).values, runs=risk_runs)
    return replace(merged, risk=risk)


def _merged(table: NDArray[Any], noise: Noise, merging: Merging) -> Improved:
    flat = np.ascontiguousarray(table).reshape(-1)
    if merging.bins is None:
        price = merging.price(noise, flat.size)
        starts = segment(flat, merging.centre, price, unit=noise.scale)
    else:
        starts = segment_into(flat, merging.centre, merging.bins, unit=noise.scale)
    sizes = np.diff(starts, append=flat.size)
    centres = _means(flat, starts, sizes) if merging.centre == "mean" else _medians(flat, starts, sizes)
    values = np.repeat(centres, sizes)
    kept = np.zeros(starts.size, dtype=bool)
    if merging.range_rule:
        kept = (sizes > 1) & ~_gains(flat - values, starts, sizes, noise, merging.centre)
        values = np.where(np.repeat(kept, sizes), flat, values)
    return Improved(values.reshape(table.shape), starts, kept, noise)


def _means(flat: NDArray[Any], starts: Integers, sizes: Integers) -> Floats:
    # Relative to the first cell of the bin: sums of integers stay exact, and a bin of equal cells exact too.
    first = flat[starts]
    offsets = flat - np.repeat(first, sizes)
    if flat.dtype.kind == "i" and flat.size * float(np.abs(offsets).max()) >= LARGEST_VALUE:
        offsets = offsets.astype(np.float64)
    return np.asarray(first + np.add.reduceat(offsets, starts) / sizes, dtype=np.float64)


def _medians(flat: NDArray[Any], starts: Integers, sizes: Integers) -> Floats:
    order = np.lexsort((flat, np.repeat(np.arange(starts.size), sizes)))
    low = flat[order[starts + (sizes - 1) // 2]]
    high = flat[order[starts + sizes // 2]]
    return np.asarray(low + (high - low) / 2, dtype=np.float64)


def _gains(rest: Floats, starts: Integers, sizes: Integers, noise: Noise, centre: str) -> NDArray[np.bool_]:
    """Return the bins that can be expected to gain by merging (Xu et al. 2013, equations 22 and 23)."""
    if centre == "mean":
        bound = 2 * noise.variance * (sizes - 1)
        return np.asarray(np.add.reduceat(rest**2, starts) < bound)
    bound = noise.deviation * (4 * (sizes - 1) + 1)
    return np.asarray(np.add.reduceat(np.abs(rest), starts) < bound)


SHARE = 16
MOST_RUNS = 1000


@dataclass(frozen=True)
class Risk:
    """An estimate of the expected squared error per cell.

    Attributes
    ----------
    mean_squared_error
        The estimate; unbiased, hence sometimes below zero.
    standard_error
        Of the simulation, and of the noise in the residuals.
    runs
        Number of simulated tables.
    """

    mean_squared_error: float
    standard_error: float
    runs: int

    def diagnostics(self) -> dict[str, Any]:
        """Return JSON-able values: ``risk`` is the mean squared error per cell."""
        return {
            "risk": self.mean_squared_error,
            "risk_standard_error": self.standard_error,
            "risk_runs": self.runs,
        }


def check_runs(runs: object) -> None:
    """Refuse a number of simulations that is not 0, for none, or 2 to 1 000."""
    if whole_number(runs, 0, MOST_RUNS, "risk_runs") == 1:
        raise MechanismError(
            "one simulation does not say how far to trust it",
            where="risk_runs",
            hint=f"give 0 for none, or 2 to {MOST_RUNS}",
        )


def estimate_risk(
    table: NDArray[Any],
    noise: Noise,
    smooth: Callable[[NDArray[Any]], Floats],
    *,
    runs: int,
    seed: int = 0,
) -> Risk:
    """Return an unbiased estimate of the squared error of ``smooth(table)``.

    Parameters
    ----------
    table
        Noisy cells of any shape.
    noise
        Its distribution in every cell.
    smooth
        Returns a table of the same shape; called ``runs + 1`` times.
    runs
        At least 2. Always the same simulations for the same ``seed``.
    """
    rng, smoothed = generator(seed), smooth(table)
    result, spread = np.empty(runs), np.empty(runs)
    for run in range(runs):
        more = noise.part(SHARE, table.size, rng).reshape(table.shape)
        again = smooth(table + more)
        rest = (again - table) ** 2
        result[run] = rest.mean() - noise.variance + 2 * SHARE * ((again - smoothed) * more).mean()
        spread[run] = rest.var()
    error = result.var(ddof=1) / runs + spread.mean() / table.size
    return Risk(float(result.mean()), float(sqrt(error)), runs)
