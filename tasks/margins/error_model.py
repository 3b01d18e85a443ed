"""The error of each measured level, and how it is known.

``exact``: the mechanism adds noise of a known variance to every cell, and nothing else. Where non-negativity
comes after it, its margins are ``simulated`` (:mod:`tabularium.tasks.margins.margins`).
``risk``: it merges or drops what it measured, and estimates its own mean squared error per cell from the
measurements (``diagnostics["risk"]``, with ``diagnostics["risk_standard_error"]`` where it is known).
``measured``: the sum of its errors was measured with a share of the budget, because it cannot tell or because
the spec asks for it.
``unknown``: it cannot tell, and nothing was measured; no margins are published.
``prior``: noisy cells were drawn towards an earlier release (:mod:`tabularium.tasks.margins.known_levels`),
and how far cells like these may lie from what they were drawn to was learnt from the noisy cells themselves.
``above``: the same, towards what the level above makes expect.

The last five have errors that are no independent noise: neighbouring cells err together. So least squares
uses them as weights only, and a margin holds the whole interval of the level's own measurement, wherever
post-processing moved the cell to. Levels that were not measured themselves have the margins of their parts
added up, which is the worst case.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.accounting.transcript import CHOOSING, Event
from tabularium.mechanisms.inference import Estimate
from tabularium.mechanisms.inference.margins_of_error.measured_error import bounded_risk, error_classes
from tabularium.mechanisms.queries.sources import noisy_cells
from tabularium.tasks.postprocess.table_layout import Layout
from tabularium.validations.certificate.tables import Method

if TYPE_CHECKING:
    from tabularium.tasks.measure import Finished

MEANING: dict[Method, str] = {
    "exact": (
        "Analytic, from the variance of the noise and of weighted least squares, and rounded up where counts "
        "were made whole: count ± margin holds the true count at least as often as stated, over the noise of "
        "many such releases and for each cell by itself."
    ),
    "simulated": (
        "The noise has a known distribution, but what non-negativity and rounding leave of it depends on "
        "the true counts. So the published tables were taken for true, measured and finished again many "
        "times with seeded noise, which costs no budget, and the errors pooled over cells of the same "
        "level, of like published size and in families of like published mean. The margin of such a class "
        "is the smallest number that holds the stated share of its simulated errors, or the normal quantile"
        " times their root mean square if that is more. It holds on average over the cells of a table and "
        "of a class of published size, as far as the published table is like the true one; it does not hold"
        " for each cell, nor over cells of a certain true count: in tables that are mostly empty, few cells"
        " that hold something are seldom within it. How often, by size, was measured on further simulated "
        "releases and stands with each table under errors. Classes that hardly occur have the interval of "
        "the linear estimate, cut at zero, which is wider and holds for each cell."
    ),
    "inverted": (
        "Analytic, of a mean, quantile or rate: the margin reaches to the farthest value that a test on the "
        "noisy numbers behind it, made to agree, does not reject at the stated level; where not all cells of "
        "a level are shown, at the higher one that makes up for showing those that look full. So it holds at "
        "least as often as stated over what is shown. Means and rates that noise by itself could have made "
        "are left blank, and of a rate over counts that may be zero there is no margin."
    ),
    "beside": (
        "Analytic, of a quantile that was chosen: the margin reaches to the farthest value that noisy counts "
        "of the values next to the chosen one leave possible, given how far a choice may miss. It holds at "
        "least as often as stated for each cell by itself, however small; in a cell with few records it is "
        "as wide as the bounds. The counts have a small part of the budget, and the choice the rest: it is "
        "usually much nearer to the truth than its margin says."
    ),
    "prior": (
        "The finest measured counts were drawn towards those that an earlier release published. How far true "
        "counts lie from what is expected after it was learnt only from the noisy counts, for cells of like "
        "size in that release; the interval around the published count holds the one that this gives for "
        "the drawn count, cut at zero. It holds on average over cells of like size and like distance from "
        "the earlier release, as far as that was learnt well, and not for each cell: among cells that hardly "
        "changed, few that did lie outside. Levels above the finest have the intervals of their own noisy "
        "counts; those under from_noisy_cells the narrower ones of least squares over the noisy counts "
        "alone, which hold for each cell."
    ),
    "above": (
        "The finest measured counts were drawn towards what the level above makes expect: each area made up "
        "like the one it lies in. How far true counts lie from that was learnt only from the noisy counts, "
        "for cells in which about as many are expected; the interval around the published count holds the "
        "one that this gives for the drawn count, cut at zero. It holds on average over such cells, as far "
        "as that was learnt well, and not for each cell: areas look more similar than they are, and of those "
        "that are made up unlike all others more lie outside. Levels above the finest have the intervals of "
        "their own noisy counts; those under from_noisy_cells the narrower ones of least squares over the "
        "noisy counts alone, which hold for each cell."
    ),
    "risk": (
        "From the mechanism's own unbiased estimate of its mean squared error per cell, made from the noisy "
        "measurements and taken one standard error higher where that is known; "
        "in levels of 768 cells and more, classes of released size whose residuals are larger have more. "
        "The interval around the published count holds that around the measured one, cut at zero. "
        "It holds on average over the cells of "
        "the table and not for each cell: where a cell differs from those it was merged with, as large "
        "counts among small ones do, its error may be much larger than its margin."
    ),
    "measured": (
        "From a private measurement of the sum of |true - released| over the cells, paid from the table's "
        "budget, taken at its upper bound (95 %, one-sided) and as if errors were spread over the cells like "
        "a Laplace distribution. Levels of 768 cells and more have a sum for each class of released size, "
        "the largest 256 cells first. The interval around the published count holds that around the released "
        "one, cut at zero. It holds on average over the cells of such a class, or of the table, "
        "and not for each cell: a few cells may have much larger errors, and large counts among small ones "
        "often do. Where several levels were made to agree it is wider than it need be: what they gain "
        "from one another is not known. Levels under from_noisy_cells have the narrower intervals of "
        "least squares over only the noisy cells, which hold for each cell."
    ),
    "unknown": (
        "None: the mechanism does not know its error, and the spec buys no measurement of it "
        "(margin_share: 0)."
    ),
}


@dataclass(frozen=True)
class LevelError:
    """The error of one measured level.

    Attributes
    ----------
    variance
        Mean squared error per cell, one number or one per cell (nodes, cells); where it is unknown, that of
        noise at the level's whole loss, which serves as a weight only.
    per_cell
        Mean squared errors by class of released size, one per cell, flat; for margins only: weights that
        depend on what was released would favour what noise made small.
    """

    method: Method
    variance: float | NDArray[np.float64]
    per_cell: NDArray[np.float64] | None = None

    @property
    def mean(self) -> float:
        """The mean squared error over the cells."""
        return float(np.mean(self.variance))


def level_error(part: Finished) -> LevelError:
    """Return the error of one measured level."""
    release = part.release
    if release.variances is not None:
        spread = np.asarray(release.variances, np.float64)
        return LevelError("exact", float(spread) if spread.ndim == 0 else spread)
    cells = release.values.size
    # The error of the mean of all cells, spread over them: however they are merged, there is no less.
    least = noise_variance(release.transcript)
    if part.error is not None:
        return _measured(part, least / cells)
    estimate = release.diagnostics.get("risk")
    if estimate is None or not np.isfinite(estimate):
        return LevelError("unknown", least)
    # An unbiased estimate may fall below what is possible, even below zero; one number fitted to the whole
    # table would still have the noise of its mean.
    # One standard error more: with two, margins would be half as wide again as they need to be.
    slack = float(release.diagnostics.get("risk_standard_error", 0.0))
    risk = max(float(estimate) + slack, least / cells)
    apart = release.diagnostics.get("risk_by_level")
    per_cell = _by_level(apart, release.values, risk) if apart else _by_residuals(part, float(estimate), risk)
    return LevelError("risk", risk, per_cell)


def _by_level(apart: list[dict[str, float]], released: NDArray[Any], risk: float) -> NDArray[np.float64]:
    """Return mean squared errors by released size, as the mechanism estimates them, and no smaller.

    ``apart``: ``tabularium.mechanisms.histograms.denoise.tables.errors_by_level``.
    """
    per_cell = np.full(released.size, risk)
    for index, part in enumerate(apart):
        of = released.reshape(-1) >= part["above"] if index else slice(None)  # below zero there are some too
        per_cell[of] = max(risk, part["risk"] + part["standard_error"])
    return per_cell


def _by_residuals(part: Finished, estimate: float, risk: float) -> NDArray[np.float64] | None:
    """Return mean squared errors by class of released size, where noisy cells show them, and no smaller.

    With noise of variance V, a residual Y - r has a mean square of (risk) + V - 2c, c the covariance of noise
    and release. Over all cells that gives c, and in each class, as if c were the same there, a risk. Where
    it is larger than that of the table by more than its standard error, large counts among small ones
    usually, it is taken instead; to take smaller ones as well would choose what noise made small.
    """
    of = error_classes(part.release.values)
    noisy = noisy_cells(part.measured, np.array([0]), part.release.values.shape)
    if noisy is None or not of.any():
        return None
    square = (noisy.values.reshape(-1) - np.asarray(part.release.values, float).reshape(-1)) ** 2
    sizes = np.bincount(of)
    mean = np.bincount(of, square) / sizes
    # Where all squares of a class are equal, rounding may leave a variance just below zero.
    chance = np.sqrt(np.maximum(np.bincount(of, square**2) / sizes - mean**2, 0.0) / sizes)
    excess = mean - chance - square.mean() + estimate
    risks: NDArray[np.float64] = np.maximum(excess, risk)[of]
    return risks


def _measured(part: Finished, least: float) -> LevelError:
    """Return the errors from measured sums, class by class of released size."""
    assert part.error is not None  # noqa: S101 - the caller has looked
    totals, event, scale = part.error.totals, part.error.event, float(part.error.event.scale)
    of = error_classes(part.release.values)
    if int(of.max()) + 1 != len(totals):
        # Drawn before there were classes, or finished by a library that rounds otherwise: all in one.
        of, totals, scale = np.zeros_like(of), (sum(totals),), scale * len(totals)
    sizes = np.bincount(of)
    bounds = (
        bounded_risk(total, int(size), scale, event.definition)
        for total, size in zip(totals, sizes, strict=True)
    )
    risks = np.maximum(list(bounds), least)
    return LevelError("measured", float(risks @ sizes / len(of)), risks[of] if len(totals) > 1 else None)


def noise_variance(transcript: tuple[Event, ...]) -> float:
    """Return about the least noise variance of a transcript's additive draws; 1 if there are none."""
    additive = [event for event in transcript if event.primitive not in CHOOSING]
    spreads = [
        float(event.scale_squared * event.width**2) * (2 if "laplace" in event.primitive else 1)
        for event in additive
    ]
    return min(spreads, default=1.0)


_NO_VARIANCE = 1e-300
"""In its place where noise is always 0, so that its precision is a number."""


def margin_base(layout: Layout, parts: dict[str, tuple[NDArray[Any], LevelError]]) -> Estimate:
    """Return the numbers around which margins of non-linear measurements are, and their mean squared errors.

    ``parts``: level -> (released values in the layout of counting, error).

    Returns
    -------
    Estimate
        (nodes, cells) values and (nodes, 1) mean squared errors, (nodes, cells) where they differ by size of
        the released number, infinite where they are unknown. Root mean
        squared errors add up at worst (Minkowski), so a weighted mean of two measurements has at most the
        weighted mean of theirs, and a node that was not measured at most the sum of its children's.
    """
    values = np.zeros((layout.nodes, layout.cells))
    differ = any(known.per_cell is not None for _, known in parts.values())
    error = np.zeros((layout.nodes, layout.cells if differ else 1))
    weight = np.zeros((layout.nodes, 1))
    for level, (released, known) in parts.items():
        nodes = layout.cuts[level]
        fresh = np.asarray(released, float).reshape(len(nodes), layout.cells)
        root: Any = np.inf if known.method == "unknown" else np.sqrt(known.mean)
        if known.per_cell is not None:
            root = np.sqrt(known.per_cell.reshape(fresh.shape))
        precision = 1 / max(known.mean, _NO_VARIANCE)
        share = precision / (weight[nodes] + precision)
        values[nodes] += share * (fresh - values[nodes])
        error[nodes] = np.where(weight[nodes] > 0, (1 - share) * error[nodes] + share * root, root)
        weight[nodes] += precision
    _add_up(layout, values, error, weight[:, 0] == 0)
    return Estimate(values, error**2)


def _add_up(
    layout: Layout, values: NDArray[np.float64], error: NDArray[np.float64], missing: NDArray[np.bool_]
) -> None:
    """Give every unmeasured node the sums over its children, deepest first, in place."""
    if layout.along is None or not missing.any():
        return
    depth = layout.along.depth[: layout.nodes]
    for level in range(int(depth.max()), 0, -1):
        children = np.flatnonzero((depth == level) & missing[np.maximum(layout.parents, 0)])
        np.add.at(values, layout.parents[children], values[children])
        np.add.at(error, layout.parents[children], error[children])
