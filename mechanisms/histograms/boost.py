"""Boost: a tree of sums over the cells, each level measured, made consistent by least squares.

Sensitivity and privacy: a cell lies in one node of every level, so one record changes one node of each by 1.
Each of L measured levels has the L-th part of the budget; they compose in sequence. The form of the tree
depends only on the number of cells, the budget and the parameters. The cells lie in a row: tables are read
row by row.

O(n) time and memory. Source: Hay, Rastogi, Miklau, Suciu 2010; the branching after Qardaji, Yang, Li 2013;
what differs: docs/reference/mechanisms/boost.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tabularium.mechanisms.accounting.transcript import Definition
from tabularium.mechanisms.channel import Channel
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.histograms.noisy_sums import addable, some_ranges, variance_for
from tabularium.mechanisms.histograms.parameter_checks import switch, whole_number
from tabularium.mechanisms.inference import Hierarchy, consistency
from tabularium.mechanisms.inference.even_trees import EvenTree, height, one_tree
from tabularium.mechanisms.linear_measurements.linear_measurement import LinearMeasurement
from tabularium.mechanisms.linear_measurements.noisy_tree import NoisyTree
from tabularium.mechanisms.measured import Array, Measured, Release
from tabularium.mechanisms.mechanism import Counts, Mechanism
from tabularium.mechanisms.noise_distributions import noise_in, variance_of

LARGEST_BRANCHING = 1 << 20
_NO_NOISE = 1e-60  # stands for a variance of 0, at a vast budget


@dataclass(frozen=True)
class Boost(Mechanism):
    """A b-ary tree of noisy sums, made consistent, for sums over ranges.

    Parameters
    ----------
    branching
        Children of a node, 2 or more. ``"optimal"``: the number with the smallest mean variance of a range,
        which follows from the number of cells and the budget.
    root
        Whether the total is measured too.
    """

    branching: int | str = "optimal"
    root: bool = False

    name: ClassVar[str] = "boost"

    def __post_init__(self) -> None:
        if isinstance(self.branching, str):
            if self.branching != "optimal":
                raise MechanismError(
                    "there is no such branching",
                    where="branching",
                    hint="use optimal or a whole number from 2",
                )
        else:
            whole_number(self.branching, 2, LARGEST_BRANCHING, "branching")
        switch(self.root, "root")

    def draw(self, counts: Counts, channel: Channel) -> tuple[dict[str, Array], dict[str, Any]]:
        """Measure the levels, root first, with equal shares of the budget."""
        flat = addable(counts).reshape(-1)
        branching = self.branching_for(flat.size, channel.remaining, channel.definition)
        stand = one_tree(flat.size, branching)
        measured = self._measured(stand.levels)
        share = channel.remaining / len(measured)
        sums = stand.sums(flat)
        noisy = [channel.add_noise(sums[level], share, purpose=f"level {level}") for level in measured]
        return {"nodes": np.concatenate(noisy)}, {"shape": list(counts.shape), "branching": branching}

    def finish(self, measured: Measured) -> Release:
        """Return the leaves of the consistent tree, float64, in the shape of the counts, with variances."""
        shape, branching = tuple(measured.meta["shape"]), measured.meta["branching"]
        cells, noisy = prod(shape), measured.arrays["nodes"]
        stand, variance = one_tree(cells, branching), variance_of(measured.transcript[0])
        unmeasured = stand.parents.size - noisy.size  # the root, or nothing
        values = np.concatenate([np.zeros(unmeasured), noisy.astype(np.float64)])
        spread = np.full(values.size, variance)
        spread[:unmeasured] = np.inf
        estimate = consistency(Hierarchy(stand.parents), values[:, None], spread)
        return measured.release(
            estimate.values[-cells:, 0].reshape(shape),
            estimate.variances[-cells:, 0].reshape(shape),
            branching=branching,
            levels_measured=len(measured.transcript),
            noise_of_a_node=variance**0.5,
            noise_of_the_total=float(estimate.variances[0, 0]) ** 0.5,
        )

    def linear_measurements(self, measured: Measured) -> LinearMeasurement | None:
        """Return the noisy sums of all levels that were measured."""
        noisy = measured.arrays["nodes"]
        stand = one_tree(prod(measured.meta["shape"]), measured.meta["branching"])
        unmeasured = stand.parents.size - noisy.size  # the root, or nothing
        return NoisyTree(
            np.concatenate([np.zeros(unmeasured, noisy.dtype), noisy]),
            (noise_in(measured.transcript[0]),),
            tree=Hierarchy(stand.parents),
            drawn=np.repeat([-1, 0], [unmeasured, noisy.size]),
            leaf=stand.parents.size - stand.cells.size + np.arange(stand.cells.size),
        )

    def branching_for(self, cells: int, budget: Fraction, definition: Definition = "pure") -> int:
        """Return the number of children of a node of the tree over so many cells."""
        if isinstance(self.branching, int):
            return self.branching
        heights = range(1, max(1, height(cells, 2)) + 1)
        choices = sorted({_least_branching(cells, levels) for levels in heights})
        starts, stops = some_ranges(cells)
        means = [
            float(self._tree(cells, b, budget, definition).range_variances(starts, stops).mean())
            for b in choices
        ]
        return choices[int(np.argmin(means))]

    def range_variance(
        self,
        cells: int,
        starts: ArrayLike,
        stops: ArrayLike,
        budget: Fraction,
        definition: Definition = "pure",
    ) -> NDArray[np.float64]:
        """Return the exact variance of the sum of cells start to stop - 1, read row by row.

        Parameters
        ----------
        cells
            Number of cells.
        starts, stops
            Whole numbers of shape (queries,), 0 <= start < stop <= cells.
        budget
            ε, or ρ under zCDP.
        """
        first, end = np.asarray(starts, dtype=np.int64), np.asarray(stops, dtype=np.int64)
        if not bool(((first >= 0) & (first < end) & (end <= cells)).all()):
            raise MechanismError(
                "a range is empty or beyond the cells",
                where=self.name,
                hint="give 0 <= start < stop <= cells",
            )
        return self._tree_for(cells, budget, definition).range_variances(first, end)

    def query_variance(self, weights: ArrayLike, budget: Fraction, definition: Definition = "pure") -> float:
        """Return the exact variance of Σ weights·values; weights in the shape of the counts. O(n)."""
        flat = np.asarray(weights, dtype=np.float64).reshape(-1)
        return self._tree_for(flat.size, budget, definition).query_variance(flat)

    def _tree_for(self, cells: int, budget: Fraction, definition: Definition) -> EvenTree:
        return self._tree(cells, self.branching_for(cells, budget, definition), budget, definition)

    def _tree(self, cells: int, branching: int, budget: Fraction, definition: Definition) -> EvenTree:
        levels = height(cells, branching) + 1
        variance = max(variance_for(budget / len(self._measured(levels)), definition), _NO_NOISE)
        return EvenTree.of(cells, branching, variance, root=self.root)

    def _measured(self, levels: int) -> range:
        """Return the levels that are measured, root first; a single cell is a root and a leaf."""
        return range(0 if self.root or levels == 1 else 1, levels)


def _least_branching(cells: int, levels: int) -> int:
    """Return the least branching of a tree of so many levels that reaches all cells."""
    low, high = 2, max(2, cells)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if height(cells, middle) <= levels else (middle + 1, high)
    return low
