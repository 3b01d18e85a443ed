"""What a query can be answered from: the noisy measurements of a table, or its published cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mechanisms.inference import Hierarchy, consistency
from mechanisms.inference.arrays import Bools, Floats, Indices, Ints
from mechanisms.queries.cut import Axes, Cut
from mechanisms.queries.leaf_sums import largest_nodes, sum_variances
from mechanisms.queries.profile import Profile, quantile
from mechanisms.queries.query_plan import Plan


class Source(Protocol):
    """Something that knows the cells of a table with their errors."""

    @property
    def method(self) -> str:
        """How its errors are known, as one of ``answers.METHODS``."""

    def profile(self, plan: Plan) -> Profile:
        """Return the cells that a plan asks for, one row for each combination of its groups."""


@dataclass(frozen=True, eq=False)
class Measurement:
    """Counts plus independent noise of one law, at some nodes of a hierarchy.

    Attributes
    ----------
    nodes
        (m,) which; ``[0]`` for a table without a hierarchy.
    values
        (m, *axes) what was measured.
    variance
        Of the noise in each cell; (m,) where it differs from node to node.
    scale
        Of the noise if it is discrete Laplace noise of one scale, otherwise None.
    """

    nodes: Indices
    values: Floats | Ints
    variance: float | Floats
    scale: float | None = None


@dataclass(frozen=True, eq=False)
class NoisyTable:
    """Independent noisy measurements of a table: of its cells, or of several levels of its hierarchy.

    Weighted least squares over all of them gives every sum its best unbiased estimate and the exact variance.
    """

    axes: Axes
    measurements: tuple[Measurement, ...]

    @property
    def method(self) -> str:
        """``noise`` where one level was measured, otherwise ``least squares``."""
        return "noise" if len(self.measurements) == 1 else "least squares"

    @property
    def precision(self) -> Floats:
        """(nodes,) one over the variance with which each node was measured, 0 where it was not."""
        total = np.zeros(len(self.axes.parents))
        for part in self.measurements:
            total[part.nodes] += 1 / np.asarray(part.variance)
        return total

    def profile(self, plan: Plan) -> Profile:
        """Return the cells that a plan asks for.

        Raises
        ------
        InputError
            If the answer would have too many rows.
        """
        cut = Cut.of(plan, self.axes)
        with np.errstate(divide="ignore"):
            measured = 1 / self.precision
        weighted: Floats | None = None
        for part in self.measurements:
            fresh = cut.contract(part.values)
            if weighted is None:
                weighted = np.zeros((len(measured), *fresh.shape[1:]))
            share = measured[part.nodes] / np.asarray(part.variance)
            weighted[part.nodes] += share.reshape(-1, *[1] * (fresh.ndim - 1)) * fresh
        assert weighted is not None  # noqa: S101 - a table has a measurement
        flat = weighted.reshape(len(measured), -1)
        tree = Hierarchy(self.axes.parents)
        estimate = consistency(tree, flat, measured)
        variances = np.broadcast_to(estimate.variances[:, :1], (tree.nodes, 1))[:, 0]
        unit = cut.at_tops(sum_variances(tree, measured, variances, cut.chosen))
        values = cut.leaf_sums(estimate.values).reshape(len(unit), *weighted.shape[1:])
        step = np.minimum(1.0, np.sqrt(unit / measured.min()))
        return cut.finish(values, unit, step, scale=self._scale())

    def _scale(self) -> float | None:
        """Return the scale of the noise if there is nothing but one draw of it on every leaf."""
        only = self.measurements[0]
        alone = len(self.measurements) == 1 and np.array_equal(only.nodes, self.axes.leaves)
        return only.scale if alone else None


@dataclass(frozen=True, eq=False)
class PublishedTable:
    """The published cells of a table with their margins.

    Attributes
    ----------
    values, margin
        (nodes, *axes) counts, and their margins of error, infinite where nothing is known.
    present
        (nodes,) which nodes are published; all leaves are.
    spread
        (nodes,) root mean squared error of a cell before what moved it; (nodes, *axes) where cells differ.
    level
        That the margins are stated for.
    noise
        The variances behind the cells where these are exactly known, as measurements whose values nobody
        looks at. None: errors may go together in any way, and are added up.
    """

    axes: Axes
    values: Floats | Ints
    margin: Floats
    present: Bools
    spread: Floats
    level: float
    noise: NoisyTable | None = None

    @property
    def method(self) -> str:
        """``published`` where the variances are exact, ``added up`` where margins are, ``unknown``."""
        if self.noise is not None:
            return "published"
        return "added up" if np.isfinite(self.spread[self.present]).all() else "unknown"

    def profile(self, plan: Plan) -> Profile:
        """Return the cells that a plan asks for, from the fewest published cells that make it up.

        Raises
        ------
        InputError
            If the answer would have too many rows.
        """
        cut = Cut.of(plan, self.axes)
        nodes = largest_nodes(self.axes.parents, self.axes.depth, cut.chosen, self.present, cut.lowest_depth)
        of = cut.groups_of(nodes)
        spread = self.spread[nodes]
        if spread.ndim == 1:
            spread = spread.reshape(-1, *[1] * len(self.axes.shape))
        known = np.isfinite(spread)
        moved = np.maximum(self.margin[nodes] - quantile(self.level) * np.where(known, spread, 0.0), 0.0)
        cells = [cut.sums(cut.contract(a), of) for a in (self.values[nodes], np.where(known, moved, 0.0))]
        if self.noise is None:
            all_spread = np.broadcast_to(np.where(known, spread, np.inf), moved.shape)
            together = cut.sums(cut.contract(all_spread), of)
            return cut.finish(cells[0], moved=cells[1], spread=together)
        tree = Hierarchy(self.axes.parents)
        with np.errstate(divide="ignore"):
            measured = 1 / self.noise.precision
        estimated = consistency(tree, np.zeros((tree.nodes, 1)), measured).variances[:, 0]
        unit = cut.at_tops(sum_variances(tree, measured, estimated, cut.chosen))
        step = np.minimum(1.0, np.sqrt(unit / measured.min()))
        return cut.finish(cells[0], unit, step, moved=cells[1])
