"""Parts of a release that simulated ones are made of: some families of the hierarchies of its tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.inference import Estimate, Hierarchy, TableSet, TreeLeastSquares
from tabularium.mechanisms.inference.margins_of_error.opened_families import (
    Part,
    some_opened,
)
from tabularium.mechanisms.noise_distributions import NOTHING
from tabularium.tasks.margins.error_model import LevelError
from tabularium.tasks.postprocess.agreement import Agreement
from tabularium.tasks.postprocess.postprocessing import PostProcessor
from tabularium.tasks.postprocess.table_layout import Layout
from tabularium.tasks.postprocess.together import Together
from tabularium.validations.spec.tables import APART

Floats = NDArray[np.float64]

Known = dict[str, dict[str, LevelError]]
"""Table, level -> what is known of the error of its measurement."""

LARGE = 200_000
"""Numbers of all tables together up to which simulated releases are whole."""
ENOUGH = 25_000
"""Numbers of a depth that a simulated release has, where its families are not larger than that."""


@dataclass(frozen=True, eq=False)
class Opened:
    """The part of the tables that one simulated release is of.

    Attributes
    ----------
    parts
        Table -> its nodes.
    layouts
        Table -> how they lie in memory.
    post
        What is done to them.
    """

    parts: dict[str, Part]
    layouts: dict[str, Layout]
    post: PostProcessor


class Families:
    """The families of the hierarchies of some tables, of which each simulated release opens a few.

    Parameters
    ----------
    post
        What is done to the tables.
    layouts, truth, known
        Table -> how it lies in memory, its published numbers, and what is known of its measurements.
    """

    def __init__(
        self, post: PostProcessor, layouts: Mapping[str, Layout], truth: Mapping[str, Floats], known: Known
    ) -> None:
        self._post, self._layouts, self._truth = post, layouts, truth
        frames = [frame for group in post.agreement.groups for frame in group.overlap.tables.values()]
        self._trees = {
            along: max((each.tree for each in frames if each.along == along), key=lambda tree: tree.nodes)
            for along in {each.along for each in frames if each.along is not None}
        }
        self._below = {
            name: TreeLeastSquares(Hierarchy(layout.parents), _variances(layout, known[name])).below
            for name, layout in layouts.items()
        }

    @property
    def worthwhile(self) -> bool:
        """Whether a part is at most half of the whole, and everything outside of it is measured."""
        if any(np.isinf(below).any() for below in self._below.values()):
            return False
        parts = self._parts(0)
        some = sum(len(parts[name].nodes) * layout.cells for name, layout in self._layouts.items())
        return 2 * some <= sum(each.size for each in self._truth.values())

    def opened(self, number: int) -> Opened:
        """Return the part that simulated release ``number`` is of."""
        parts = self._parts(number)
        layouts = {name: _part_of_layout(layout, parts[name]) for name, layout in self._layouts.items()}
        along = {name: self._part_of(name, number) for name in self._trees}
        agreement = self._post.agreement
        groups = tuple(_part_of_group(group, along) for group in agreement.groups)
        post = replace(self._post, agreement=Agreement(groups, agreement.layouts))
        return Opened(parts, layouts, post)

    def summed_up(
        self, name: str, part: Part, truth: Floats, measured: Estimate, normal: Callable[[int, int], Floats]
    ) -> Estimate:
        """Return measurements in which nodes without their children have what those would have told of them.

        Parameters
        ----------
        truth, measured
            (kept, cells) what is taken for the truth, and what was measured at the node itself.
        normal
            Draws errors of variance 1.
        """
        if not part.cut.any():
            return measured
        below = self._below[name][part.nodes[part.cut]]
        values, variances = measured.values.copy(), measured.variances.copy()
        values[part.cut] = truth[part.cut] + np.sqrt(below) * normal(len(below), values.shape[1])
        variances[part.cut] = below
        return Estimate(values, variances)

    def _parts(self, number: int) -> dict[str, Part]:
        along = {name: self._part_of(name, number) for name in self._trees}
        return {
            name: Part.of(Hierarchy([-1]), np.zeros(1))
            if layout.along is None
            else along[layout.along.name].first(Hierarchy(layout.parents))
            for name, layout in self._layouts.items()
        }

    def _part_of(self, along: str, number: int) -> Part:
        """Return the part of one hierarchy."""
        tree = self._trees[along]
        own = {
            name: layout
            for name, layout in self._layouts.items()
            if layout.along is not None and layout.along.name == along
        }
        cells = np.zeros(tree.depths)
        for layout in own.values():
            cells[: int(tree.depth[layout.nodes - 1]) + 1] += layout.cells
        largest = max(own, key=lambda name: own[name].nodes, default=None)

        def size(nodes: NDArray[np.intp]) -> Floats:
            sums: Floats = np.zeros(len(nodes))
            if largest is not None:
                there = nodes < own[largest].nodes
                sums[there] = self._truth[largest][nodes[there]].sum(axis=1)
            return np.abs(sums)

        return some_opened(tree, size, cells, ENOUGH, number)


def _variances(layout: Layout, levels: Mapping[str, LevelError]) -> Floats:
    """Return the variances of the measurements of a table, (nodes, cells or 1); see ``measured_tree``."""
    precision = np.zeros((layout.nodes, 1))
    for level, error in levels.items():
        precision[layout.cuts[level]] += 1 / max(float(np.asarray(error.variance)), NOTHING)
    with np.errstate(divide="ignore"):
        variances = 1 / precision
    if layout.impossible is not None:
        variances = np.where(layout.impossible, 0.0, variances)
    return variances


def _part_of_layout(layout: Layout, part: Part) -> Layout:
    cuts = {
        level: np.flatnonzero(np.isin(part.nodes, nodes, assume_unique=True))
        for level, nodes in layout.cuts.items()
    }
    impossible = None if layout.impossible is None else layout.impossible[part.nodes]
    return replace(layout, parents=part.tree.parents, cuts=cuts, impossible=impossible)


def _part_of_group(group: Together, along: Mapping[str, Part]) -> Together:
    frames, known = {}, dict(group.known)
    for name, frame in group.overlap.tables.items():
        if frame.along is None:
            frames[name] = frame
            continue
        part = along[frame.along].first(frame.tree)
        frames[name] = replace(frame, tree=part.tree)
        if name in known:
            known[name] = Estimate(known[name].values[part.nodes], known[name].variances[part.nodes])
    return replace(group, overlap=TableSet(frames), known=known)


def can_be_sampled(mechanism: str, error: LevelError) -> bool:
    """Say whether a part of a level can be measured by itself, with errors as in the whole."""
    return np.ndim(error.variance) == 0 and (error.method != "exact" or mechanism in APART)
