"""The parametric bootstrap of a release: its published tables, measured again as if they were the truth.

Of large tables a simulated release is made of parts: some families of the hierarchies of its tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.arrays import LARGEST_COUNT
from tabularium.mechanisms.channel import SeededChannel
from tabularium.mechanisms.inference import Estimate, Hierarchy, TableSet, TreeLeastSquares
from tabularium.mechanisms.inference.margins_of_error.opened_families import Part, some_opened
from tabularium.mechanisms.inference.margins_of_error.simulated_releases import Made
from tabularium.mechanisms.mechanism import Mechanism
from tabularium.mechanisms.noise.synthetic import generator
from tabularium.mechanisms.noise_distributions import NOTHING
from tabularium.tasks.margins.error_model import LevelError
from tabularium.tasks.measure import shares
from tabularium.tasks.postprocess.agreement import Agreement, ReconciledGroup
from tabularium.tasks.postprocess.postprocessing import PostProcessor
from tabularium.tasks.postprocess.table_layout import Layout, measured_tree
from tabularium.tasks.runtime.run import Run
from tabularium.validations.release_spec.tables import APART

Floats = NDArray[np.float64]

Known = dict[str, dict[str, LevelError]]
"""Table, level -> what is known of the error of its measurement."""

LARGE = 200_000
"""Numbers of all tables together up to which simulated releases are whole."""
ENOUGH = 25_000
"""Numbers of a depth that a simulated release has, where its families are not larger than that."""


@dataclass(frozen=True, eq=False)
class Sample:
    """The part of the tables in one simulated release.

    Attributes
    ----------
    parts
        Table -> its nodes.
    layouts
        Table -> how they lie in memory.
    """

    parts: dict[str, Part]
    layouts: dict[str, Layout]
    post: PostProcessor


class Families:
    """The families of the hierarchies of tables; each simulated release samples a few.

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
            along: max((frame.tree for frame in frames if frame.along == along), key=lambda tree: tree.nodes)
            for along in {frame.along for frame in frames if frame.along is not None}
        }
        self._below = {
            name: TreeLeastSquares(Hierarchy(layout.parents), _variances(layout, known[name])).below
            for name, layout in layouts.items()
        }

    @property
    def worthwhile(self) -> bool:
        """Whether a part is at most half of all cells, and everything outside of it is measured."""
        if any(np.isinf(below).any() for below in self._below.values()):
            return False
        parts = self._parts(0)
        some = sum(len(parts[name].nodes) * layout.cells for name, layout in self._layouts.items())
        return 2 * some <= sum(counts.size for counts in self._truth.values())

    def sample(self, number: int) -> Sample:
        """Return the part of simulated release ``number``."""
        parts = self._parts(number)
        layouts = {name: _part_of_layout(layout, parts[name]) for name, layout in self._layouts.items()}
        along = {name: self._part_of(name, number) for name in self._trees}
        agreement = self._post.agreement
        groups = tuple(_part_of_group(group, along) for group in agreement.groups)
        post = replace(self._post, agreement=Agreement(groups, agreement.layouts))
        return Sample(parts, layouts, post)

    def summed_up(
        self, name: str, part: Part, truth: Floats, measured: Estimate, normal: Callable[[int, int], Floats]
    ) -> Estimate:
        """Return measurements in which nodes whose children are left out have the children's sums.

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
        part = {
            name: layout
            for name, layout in self._layouts.items()
            if layout.along is not None and layout.along.name == along
        }
        cells = np.zeros(tree.depths)
        for layout in part.values():
            cells[: int(tree.depth[layout.nodes - 1]) + 1] += layout.cells
        largest = max(part, key=lambda name: part[name].nodes, default=None)

        def size(nodes: NDArray[np.intp]) -> Floats:
            sums: Floats = np.zeros(len(nodes))
            if largest is not None:
                there = nodes < part[largest].nodes
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


def _part_of_group(group: ReconciledGroup, along: Mapping[str, Part]) -> ReconciledGroup:
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
    """Whether a part of a level can be measured by itself, with errors as in the full level."""
    return np.ndim(error.variance) == 0 and (error.method != "exact" or mechanism in APART)


class Bootstrap:
    """Measures the published tables ``truth`` again, with the mechanisms and budgets of the spec.

    The noise comes from a seeded channel: it protects nobody and costs nothing, since what it is added to is
    published. Its seed is made from the release's public id, so that it can be repeated.

    ``few``: a few simulated releases have errors enough.

    Parameters
    ----------
    sampling
        Large tables may be measured in part (:mod:`tabularium.tasks.margins.bootstrap`).
    """

    def __init__(
        self,
        run: Run,
        post: PostProcessor,
        release_id: str,
        truth: Mapping[str, Floats],
        known: Known,
        *,
        sampling: bool = True,
    ) -> None:
        self.post, self._id, self._truth, self._known = post, release_id, truth, known
        self._definition = run.loaded.spec.privacy.definition
        self._layouts = {name: layout for name, layout in post.agreement.layouts.items() if name in truth}
        self._families: Families | None = None
        self._shares = [
            (table.name, level, loss * (1 - (table.margin_share or 0)), mechanism)
            for table, level, loss, mechanism in shares(run)
            if table.name in truth
        ]
        self.few = sampling and sum(array.size for array in truth.values()) > LARGE
        if self.few and all(
            can_be_sampled(share.name, known[n][level]) for n, level, _, share in self._shares
        ):
            families = Families(post, self._layouts, truth, known)
            self._families = families if families.worthwhile else None

    @property
    def sampled(self) -> bool:
        """Whether each simulated release samples another part of the nodes."""
        return self._families is not None

    def release(self, number: int) -> dict[str, Made]:
        """Return the published numbers of simulated release ``number``."""
        if self._families is None:
            made = self.post.finish(self.measured(number))
            return {name: Made(array.values, self._layouts[name].parents) for name, array in made.items()}
        some = self._families.sample(number)
        truth = {name: values[some.parts[name].nodes] for name, values in self._truth.items()}
        measured = self._measured(number, some.layouts, truth)
        for name, part in some.parts.items():
            seed = f"margins {self._id} {number} {name} left out"
            measured[name] = self._families.summed_up(
                name, part, truth[name], measured[name], partial(normal_errors, seed)
            )
        made = some.post.finish(measured)
        return {
            name: Made(made[name].values, part.tree.parents, part.nodes, part.weights)
            for name, part in some.parts.items()
        }

    def measured(self, number: int) -> dict[str, Estimate]:
        """Return the measurements of a complete simulated release, table by table."""
        return self._measured(number, self._layouts, self._truth)

    def _measured(
        self, number: int, layouts: Mapping[str, Layout], truths: Mapping[str, Floats]
    ) -> dict[str, Estimate]:
        """Return the same for any part of the tables."""
        parts: dict[str, dict[str, tuple[Floats, Any]]] = {name: {} for name in layouts}
        for name, level, loss, mechanism in self._shares:
            layout, error = layouts[name], self._known[name][level]
            if not len(layout.cuts[level]):
                continue
            truth = truths[name][layout.cuts[level]].reshape(layout.shape(level))
            possible = layout.possible(level)
            if possible is not None:
                truth = truth[possible]
            seed = f"margins {self._id} {number} {name}/{level}"
            if error.method == "exact":
                noise, variance = self._noise(mechanism, loss, truth, seed)
            else:
                noise, variance = surrogate_errors(error.mean, truth.shape, seed), error.variance
            parts[name][level] = (layout.in_shape(level, truth + noise), variance)
        return {name: measured_tree(layouts[name], levels) for name, levels in parts.items()}

    def _noise(
        self, mechanism: Mechanism, loss: Fraction, truth: Floats, seed: str
    ) -> tuple[Floats, float | Floats]:
        """Return new noise, whose distribution does not depend on what it is added to, and its variance."""
        counts = np.clip(np.rint(truth), 0, LARGEST_COUNT).astype(np.int64)
        channel = SeededChannel(loss, seed=seed, definition=self._definition)
        release = mechanism.release(counts, channel)
        assert release.variances is not None  # noqa: S101 - that is what makes an error exact
        return np.asarray(release.values - counts, np.float64), release.variances


def surrogate_errors(mean_square: float, shape: tuple[int, ...], seed: str) -> Floats:
    """Return surrogate errors for a table with unknown errors, for their effect on other tables.

    Independent and of the right mean square; margins of the table itself do not come from them.
    """
    noise: Floats = generator(int.from_bytes(seed.encode(), "big")).laplace(
        scale=np.sqrt(mean_square / 2), size=shape
    )
    return noise


def normal_errors(seed: str, rows: int, cells: int) -> Floats:
    """Return independent errors of variance 1, distributed like sums of many errors."""
    errors: Floats = generator(int.from_bytes(seed.encode(), "big")).normal(size=(rows, cells))
    return errors
