"""Covering: intervals of what was measured, widened to hold around what is published of it.

Wherever post-processing moved a number to, an interval around it that holds the whole interval of what was
measured is as good as that one was
(:func:`tabularium.mechanisms.inference.margins_of_error.half_widths.widen_to_cover`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.arrays import strips
from tabularium.mechanisms.inference import Estimate, Hierarchy, consistency, margins
from tabularium.mechanisms.inference.margins_of_error.half_widths import widen_to_cover
from tabularium.mechanisms.inference.margins_of_error.measured_error import bounded_risk
from tabularium.mechanisms.queries.sources import Measurement, noisy_cells
from tabularium.tasks.measure import Finished
from tabularium.tasks.postprocess.table_layout import Layout, measured_tree
from tabularium.tasks.runtime.run import Run

Floats = NDArray[np.float64]

SHADE = 1e-5
"""Part of a step that rounding up does not count: noise of a variance of ``NOTHING`` needs no margin."""


def cover_exactly(
    run: Run,
    layout: Layout,
    parts: dict[str, Finished],
    published: Estimate,
    base: Estimate,
    *,
    clipped: bool,
) -> Covered:
    """Return half-widths that hold the whole intervals of linear estimates of known variance.

    ``clipped``: non-negativity has moved the estimates since.
    """
    confidence, whole = float(run.loaded.spec.publication.confidence), run.loaded.spec.postprocessing.rounding
    half = linear_half(layout, parts, base, confidence)
    return Covered(published.values, base.values, half, clipped, whole)


@dataclass(frozen=True, eq=False)
class Covered:
    """Half-widths that hold whole intervals, worked out for the rows that are asked for.

    Attributes
    ----------
    published, linear, half
        (nodes, cells) what is published, the linear estimates of it, and half-widths of their intervals.
    clipped, whole
        What has moved the estimates since: non-negativity, rounding.
    """

    published: Floats
    linear: Floats
    half: Floats
    clipped: bool
    whole: bool

    def __getitem__(self, nodes: Any) -> Floats:
        """Return the half-widths of some nodes, (some, cells)."""
        at, around, half = self.published[nodes], self.linear[nodes], self.half[nodes]
        if self.clipped:
            return widen_to_cover(at, around, half, whole=self.whole)
        return whole_half(half, at, around) if self.whole else half

    def all(self) -> Floats:
        """Return the half-widths of all nodes."""
        found: Floats = np.empty(self.published.shape)
        for rows in strips(len(found), found.shape[1]):
            found[rows] = self[rows]
        return found


def cover_zeros(
    half: Floats, published: Floats, own: Covered | None, impossible: NDArray[np.bool_] | None
) -> None:
    """Widen half-widths of what is published as 0, in place, to hold what was measured there, and 1 at least.

    Those of like cells say how often a zero is right, and nothing of this one: where most cells are empty
    they would be 0.

    Parameters
    ----------
    half, published
        (nodes, cells).
    own
        Half-widths that hold whole intervals, where they are not held already.
    impossible
        Which cells nobody can be in, and that are 0 without having been measured.
    """
    for rows in strips(*half.shape):
        zero = published[rows] == 0
        if impossible is not None:
            zero &= ~impossible[rows]
        if zero.any():
            least = 1.0 if own is None else np.maximum(own[rows], 1.0)
            half[rows] = np.where(zero, np.maximum(half[rows], least), half[rows])


def whole_half(half: Floats, published: Floats, base: Floats) -> Floats:
    """Return half-widths around numbers that rounding alone has moved, valid whenever the given ones are.

    With T whole and |base - T| <= h, |published - T| is a whole number below h + 1 where rounding moved
    by less than 1, as it does in one table: at most h rounded up, whatever the number. Where several tables
    had to agree and it moved further, the way is added.
    """
    moved = np.abs(published - base)
    reach: Floats = np.maximum(np.ceil(half - SHADE), np.floor(half + moved + SHADE) * (moved >= 1))
    return reach


def cover_on_average(
    run: Run,
    layout: Layout,
    parts: dict[str, Finished],
    published: Estimate,
    base: Estimate,
    about: dict[str, Any],
) -> Floats:
    """Return half-widths that hold intervals which hold on average over the cells.

    A mechanism that measures every cell before it merges them leaves another interval: that of least squares
    over its noisy cells alone, which is valid for each cell. Level by level the narrower one is taken, on
    average; small levels have too few cells for their errors to be measured well.
    """
    confidence, whole = float(run.loaded.spec.publication.confidence), run.loaded.spec.postprocessing.rounding
    own = widen_to_cover(published.values, base.values, margins(base.variances, confidence))
    if whole:
        # To the nearest, not up: the interval holds on average over the cells, and so does rounding.
        own = np.where(np.isfinite(own), np.floor(own + 0.5), own)
    noisy = _noisy_cells(layout, parts)
    if noisy is None or not run.loaded.spec.postprocessing.consistency or np.isinf(own).any():
        return own
    linear = consistency(Hierarchy(layout.parents), noisy.values, noisy.variances)
    half = linear_half(layout, parts, linear, confidence)
    other = widen_to_cover(published.values, linear.values, half, whole=whole)
    depth = np.zeros(layout.nodes, int) if layout.along is None else layout.along.depth[: layout.nodes]
    doubts = {int(depth[layout.cuts[level][0]]): _doubt(part, confidence) for level, part in parts.items()}
    narrower = [
        d
        for d in range(int(depth.max()) + 1)
        if other[depth == d].mean() < max(own[depth == d].mean(), doubts.get(d, 0.0))
    ]
    about["margins"]["from_noisy_cells"] = (
        [layout.along.levels[d] for d in narrower] if layout.along is not None else bool(narrower)
    )
    chosen: Floats = np.where(np.isin(depth, narrower)[:, None], other, own)
    return chosen


def _doubt(part: Finished, confidence: float) -> float:
    """Return the margin that the measurement of an error would give if its noise alone were measured.

    To compare what came of it with other margins would otherwise prefer it whenever noise made it small.
    """
    if part.error is None:
        return 0.0
    event = part.error.event
    each = part.release.values.size // len(part.error.totals)
    risk = bounded_risk(0, each, float(event.scale), event.definition)
    return float(margins(risk, confidence))


def _noisy_cells(layout: Layout, parts: dict[str, Finished]) -> Estimate | None:
    """Return the first measurements of every cell on the table's tree, or None if a level has none."""
    found = {level: _noisy(layout, level, part) for level, part in parts.items()}
    known = {level: (each.values, each.variance) for level, each in found.items() if each is not None}
    return measured_tree(layout, known) if len(known) == len(found) else None


def _noisy(layout: Layout, level: str, part: Finished) -> Measurement | None:
    shape = tuple(domain.size for domain in layout.others)
    return noisy_cells(part.measured, layout.cuts[level], shape, layout.measured_at(level))


def linear_half(layout: Layout, parts: dict[str, Finished], estimate: Estimate, confidence: float) -> Floats:
    """Return half-widths of linear estimates; those of single measurements are exact."""
    half = np.array(margins(estimate.variances, confidence))
    for level, part in parts.items():
        noisy, nodes = _noisy(layout, level, part), layout.cuts[level]
        if noisy is not None:
            if not layout.adds_up:  # of two measurements of one node the better one stands
                alone = np.isclose(estimate.variances[nodes].max(axis=1), np.max(noisy.variance), rtol=1e-9)
                nodes = nodes[alone]
            sigma = None if noisy.scale is not None else float(part.measured.transcript[0].scale)
            half[nodes] = margins(estimate.variances[nodes], confidence, scale=noisy.scale, sigma=sigma)
    found: Floats = np.broadcast_to(half, estimate.values.shape)
    return found
