"""The parametric bootstrap of a release: its published tables measured anew, as if they were the truth."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.channel import SeededChannel
from tabularium.mechanisms.inference import Estimate
from tabularium.mechanisms.inference.margins_of_error.simulated_releases import Made
from tabularium.mechanisms.limits import LARGEST_COUNT
from tabularium.mechanisms.mechanism import Mechanism
from tabularium.mechanisms.noise.synthetic import generator
from tabularium.tasks.margins.sampled_families import LARGE, Families, Known, can_be_sampled
from tabularium.tasks.measure import shares
from tabularium.tasks.postprocess.postprocessing import PostProcessor
from tabularium.tasks.postprocess.table_layout import Layout, measured_tree
from tabularium.tasks.runtime.run import Run

Floats = NDArray[np.float64]


class Bootstrap:
    """Measures published tables anew, those in ``truth``, with the mechanisms and budgets of the spec.

    The noise comes from a seeded channel: it protects nobody and costs nothing, since what it is added to is
    published. Its seed is made of the release's public id, so that whoever repeats it finds the same.

    Parameters
    ----------
    sampling
        Large tables may be measured in part (:mod:`tabularium.tasks.margins.sampled_families`).

    Attributes
    ----------
    few
        A few simulated releases have errors enough.
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
        self._layouts = {name: each for name, each in post.agreement.layouts.items() if name in truth}
        self._families: Families | None = None
        self._shares = [
            (table.name, level, loss * (1 - (table.margin_share or 0)), mechanism)
            for table, level, loss, mechanism in shares(run)
            if table.name in truth
        ]
        self.few = sampling and sum(each.size for each in truth.values()) > LARGE
        if self.few and all(can_be_sampled(each.name, known[n][level]) for n, level, _, each in self._shares):
            families = Families(post, self._layouts, truth, known)
            self._families = families if families.worthwhile else None

    @property
    def sampled(self) -> bool:
        """Whether simulated releases are of a part of the nodes, each of another one."""
        return self._families is not None

    def release(self, number: int) -> dict[str, Made]:
        """Return what simulated release ``number`` publishes."""
        if self._families is None:
            made = self.post.finish(self.measured(number))
            return {name: Made(each.values, self._layouts[name].parents) for name, each in made.items()}
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
        """Return what stands for the measurements of a whole simulated release, table by table."""
        return self._measured(number, self._layouts, self._truth)

    def _measured(
        self, number: int, layouts: Mapping[str, Layout], truths: Mapping[str, Floats]
    ) -> dict[str, Estimate]:
        """Return the same of any part of the tables."""
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
    """Return errors for a table whose own are unknown, as far as other tables are concerned.

    Independent and of the right mean square; margins of the table itself do not come from them.
    """
    noise: Floats = generator(int.from_bytes(seed.encode(), "big")).laplace(
        scale=np.sqrt(mean_square / 2), size=shape
    )
    return noise


def normal_errors(seed: str, rows: int, cells: int) -> Floats:
    """Return independent errors of variance 1, of sums of many others."""
    errors: Floats = generator(int.from_bytes(seed.encode(), "big")).normal(size=(rows, cells))
    return errors
