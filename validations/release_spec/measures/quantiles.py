"""Quantiles by a tree of counts over the grid: a record adds 1 to the node that holds it, on every level."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import BeforeValidator, Field

from tabularium.mechanisms.arrays import Floats, Integers
from tabularium.mechanisms.inference.margins_of_error.quantile_margins import tree_over
from tabularium.mechanisms.noise.synthetic import generator
from tabularium.validations.release_spec.measures.measure import Noise, Numbers
from tabularium.validations.release_spec.measures.of_column import CELLS, OfRank
from tabularium.validations.release_spec.scalars import refuse


def _known_way(written: object) -> object:
    if written != "tree":  # a choice is read by a class of its own
        raise refuse("is no way to measure a quantile", "write tree or choice")
    return written


class Quantile(OfRank):
    """A median or quantile of a column, read off a tree that serves all quantiles of the same values."""

    method: Annotated[Literal["tree"], BeforeValidator(_known_way)] | None = Field(
        default=None,
        description="How a quantile is measured: by a `tree` of counts (the default), or a private `choice`.",
    )

    way: ClassVar[str] = "tree"
    margin_method: ClassVar[str | None] = "inverted"

    @classmethod
    def reads(cls, written: Mapping[str, object]) -> bool:
        return super().reads(written) and written.get("method") != "choice"

    @property
    def reads_shared_array(self) -> bool:
        return True

    @property
    def parts(self) -> int:
        return tree_over(self.bins).parts

    @property
    def codes(self) -> tuple[str, ...]:
        return tuple(map(str, range(self.parts)))

    @property
    def levels(self) -> int:
        return tree_over(self.bins).levels

    def add(
        self, array: Integers, cells: Integers, powers: Sequence[Integers], low: Integers, width: Integers
    ) -> None:
        weights, values = powers
        for nodes in tree_over(self.bins).nodes_of(values):
            np.add.at(array, self.parts * cells + nodes, weights)

    def estimate(self, numbers: Numbers) -> Floats:
        return self.bottom + float(self.step) * tree_over(self.bins).quantile_of(numbers.parts, self.rank)

    def reach(self, at: Floats, numbers: Numbers, level: float) -> Floats:
        low, high = tree_over(self.bins).interval(numbers.parts, numbers.spread, self.rank, level)
        return self.reach_of(at, numbers, low, high)

    def expected_half(self, records: float, noise: Noise, level: float) -> float:
        """Return the middle one of the margins that some cells with made-up noise would have."""
        tree, position = tree_over(self.bins), np.arange(self.bins)
        shares = [np.bincount(nodes, minlength=tree.parts) for nodes in tree.nodes_of(position)]
        true: Floats = np.sum(shares, axis=0) / self.bins * records
        draw = generator(0)
        numbers = true + draw.normal(0.0, math.sqrt(noise.variance), (CELLS, len(true)))
        spread = np.full(numbers.shape, noise.variance)
        at = tree.quantile_of(numbers, self.rank)
        return self.middle_reach(at, *tree.interval(numbers, spread, self.rank, level))

    @property
    def query_values(self) -> tuple[list[float], float]:
        bottom, step = float(self.bottom), float(self.step)
        return [bottom + step * step_number for step_number in range(self.bins)], 1.0
