"""How far each measured level lies from the truth, and how that is known.

``exact``: the mechanism adds noise of a known variance to every cell, and nothing else.
``risk``: it merges or drops what it measured, and estimates its own mean squared error per cell from the
measurements (``diagnostics["risk"]``, with ``diagnostics["risk_standard_error"]`` where it is known).
``measured``: the sum of its errors was measured with a share of the budget, because it cannot tell or because
the spec asks for it.
``unknown``: it cannot tell, and nothing was measured; no margins are published.

The last three have errors that are no independent noise: neighbouring cells err together. So least squares
uses them as weights only, and a margin is that of the level's own measurement, widened by all that
post-processing moved the cell. Levels that were not measured themselves have the margins of their parts
added up, which is the worst case.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from mechanisms.inference import Estimate
from mechanisms.inference.risk import ONE_SIDED, bounded_risk
from mechanisms.transcript import CHOOSING, Event
from tasks.layout import Layout

if TYPE_CHECKING:
    from tasks.release import Finished

Method = Literal["exact", "risk", "measured", "unknown"]

MEANING: dict[Method, str] = {
    "exact": (
        "Analytic, from the variance of the noise and of weighted least squares, widened by what "
        "non-negativity and rounding moved the cell: count ± margin holds the true count at least as often "
        "as stated, over the noise of many such releases and for each cell by itself."
    ),
    "risk": (
        "From the mechanism's own unbiased estimate of its mean squared error per cell, made from the noisy "
        "measurements and taken at its upper bound (95 %, one-sided) where its standard error is known, "
        "widened by what post-processing moved the cell. It holds on average over the cells of "
        "the table and not for each cell: where a cell differs from those it was merged with, its error may "
        "be much larger than its margin."
    ),
    "measured": (
        "From a private measurement of the sum of |true - released| over the cells, paid from the table's "
        "budget, taken at its upper bound (95 %, one-sided) and as if errors were spread over the cells like "
        "a Laplace distribution, widened by what post-processing moved the cell. It holds on average over "
        "the cells of the table and not for each cell: a few cells may have much larger errors."
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
    """

    method: Method
    variance: float | NDArray[np.float64]

    @property
    def mean(self) -> float:
        """The mean squared error over the cells."""
        return float(np.mean(self.variance))


def level_error(part: Finished) -> LevelError:
    """Return what is known of the error of one measured level."""
    release = part.release
    if release.variances is not None:
        spread = np.asarray(release.variances, np.float64)
        return LevelError("exact", float(spread) if spread.ndim == 0 else spread)
    cells = release.values.size
    if part.error is not None:
        event = part.error.event
        risk = bounded_risk(part.error.total, cells, float(event.scale), event.definition)
        return LevelError("measured", risk)
    least = noise_variance(release.transcript)
    estimate = release.diagnostics.get("risk")
    if estimate is None or not np.isfinite(estimate):
        return LevelError("unknown", least)
    # An unbiased estimate may fall below what is possible, even below zero; one number fitted to the whole
    # table would still have the noise of its mean.
    slack = NormalDist().inv_cdf(ONE_SIDED) * float(release.diagnostics.get("risk_standard_error", 0.0))
    return LevelError("risk", max(float(estimate) + slack, least / cells))


def noise_variance(transcript: tuple[Event, ...]) -> float:
    """Return about the least noise variance in a transcript: of its additive draws, 1 if there are none."""
    additive = [event for event in transcript if event.primitive not in CHOOSING]
    spreads = [
        float(event.scale_squared * event.width**2) * (2 if "laplace" in event.primitive else 1)
        for event in additive
    ]
    return min(spreads, default=1.0)


def margin_base(layout: Layout, parts: dict[str, tuple[NDArray[Any], LevelError]]) -> Estimate:
    """Return the numbers that margins of non-linear measurements are about, and their mean squared errors.

    Parameters
    ----------
    layout
        The table.
    parts
        Level -> (released values in the layout of counting, error).

    Returns
    -------
    Estimate
        (nodes, cells) values and (nodes, 1) mean squared errors, infinite where they are unknown. Root mean
        squared errors add up at worst (Minkowski), so a weighted mean of two measurements has at most the
        weighted mean of theirs, and a node that was not measured at most the sum of its children's.
    """
    values = np.zeros((layout.nodes, layout.cells))
    error = np.zeros((layout.nodes, 1))
    weight = np.zeros((layout.nodes, 1))
    for level, (released, known) in parts.items():
        nodes = layout.cuts[level]
        fresh = np.asarray(released, float).reshape(len(nodes), layout.cells)
        root = np.inf if known.method == "unknown" else np.sqrt(known.mean)
        share = (1 / known.mean) / (weight[nodes] + 1 / known.mean)
        values[nodes] += share * (fresh - values[nodes])
        error[nodes] = np.where(weight[nodes] > 0, (1 - share) * error[nodes] + share * root, root)
        weight[nodes] += 1 / known.mean
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
