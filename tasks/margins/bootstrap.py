"""The parametric bootstrap of a release: its published tables measured anew, as if they were the truth."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import SeededChannel
from mechanisms.inference import Estimate
from mechanisms.mechanism import LARGEST_COUNT, Mechanism
from mechanisms.noise.synthetic import generator
from tasks.margins.error_model import LevelError
from tasks.measure import shares
from tasks.postprocess.estimate_files import measured_tree
from tasks.postprocess.postprocessing import PostProcessor
from tasks.runtime.run import Run

Floats = NDArray[np.float64]

Known = dict[str, dict[str, LevelError]]
"""Table, level -> what is known of the error of its measurement."""


class Bootstrap:
    """Measures published tables anew, those in ``truth``, with the mechanisms and budgets of the spec.

    The noise comes from a seeded channel: it protects nobody and costs nothing, since what it is added to is
    published. Its seed is made of the release's public id, so that whoever repeats it finds the same.
    """

    def __init__(
        self, run: Run, post: PostProcessor, release_id: str, truth: Mapping[str, Floats], known: Known
    ) -> None:
        self.post, self._id, self._truth, self._known = post, release_id, truth, known
        self._definition = run.loaded.spec.privacy.definition
        self._layouts = {name: each for name, each in post.agreement.layouts.items() if name in truth}
        self._shares = [
            (table.name, level, loss * (1 - (table.margin_share or 0)), mechanism)
            for table, level, loss, mechanism in shares(run)
            if table.name in truth
        ]

    def measured(self, number: int) -> dict[str, Estimate]:
        """Return what stands for the measurements of simulated release ``number``, table by table."""
        parts: dict[str, dict[str, tuple[Floats, Any]]] = {name: {} for name in self._layouts}
        for name, level, loss, mechanism in self._shares:
            layout, error = self._layouts[name], self._known[name][level]
            truth = self._truth[name][layout.cuts[level]].reshape(layout.shape(level))
            possible = layout.possible(level)
            if possible is not None:
                truth = truth[possible]
            seed = f"margins {self._id} {number} {name}/{level}"
            if error.method == "exact":
                noise, variance = self._noise(mechanism, loss, truth, seed)
            else:
                noise, variance = stand_in(error.mean, truth.shape, seed), error.variance
            parts[name][level] = (layout.in_shape(level, truth + noise), variance)
        return {name: measured_tree(self._layouts[name], levels) for name, levels in parts.items()}

    def _noise(
        self, mechanism: Mechanism, loss: Fraction, truth: Floats, seed: str
    ) -> tuple[Floats, float | Floats]:
        """Return new noise, whose distribution does not depend on what it is added to, and its variance."""
        counts = np.clip(np.rint(truth), 0, LARGEST_COUNT).astype(np.int64)
        channel = SeededChannel(loss, seed=seed, definition=self._definition)
        release = mechanism.release(counts, channel)
        assert release.variances is not None  # noqa: S101 - that is what makes an error exact
        return np.asarray(release.values - counts, np.float64), release.variances


def stand_in(mean_square: float, shape: tuple[int, ...], seed: str) -> Floats:
    """Return errors for a table whose own are unknown, as far as other tables are concerned.

    Independent and of the right mean square; margins of the table itself do not come from them.
    """
    noise: Floats = generator(int.from_bytes(seed.encode(), "big")).laplace(
        scale=np.sqrt(mean_square / 2), size=shape
    )
    return noise
