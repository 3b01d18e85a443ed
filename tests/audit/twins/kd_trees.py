"""kd-trees that look at the counts, or at a cell twice."""

from __future__ import annotations

from typing import Any

import numpy as np

from tabularium.mechanisms.channel import Channel
from tabularium.mechanisms.histograms.hierarchical_kd_tree import HierarchicalKdTree
from tabularium.mechanisms.histograms.kd_tree import KdTree
from tabularium.mechanisms.noise_distributions import Noise
from tests.audit.cases import Counts
from tests.audit.twins.twin import Broken, Drawn, small


class GrownOnTheCounts(KdTree):
    """The boxes are drawn around what the cells truly hold."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        watched = _Bare(self, counts)
        return KdTree.draw(watched, counts, channel)  # type: ignore[arg-type]


class _Bare:
    """A kd-tree that grows on other cells than it was given."""

    def __init__(self, tree: KdTree, counts: Counts) -> None:
        self._tree, self._counts = tree, counts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tree, name)

    def _grow(self, noisy: dict[str, Any], first: Noise, fresh: Noise) -> Any:
        return self._tree._grow({**noisy, "cells": self._counts}, first, fresh)


class SharedEdges(KdTree):
    """The upper corners belong to the boxes: a cell on an edge is in two of them, and its records count twice."""

    def _grow(self, noisy: dict[str, Any], first: Noise, fresh: Noise) -> Any:
        lows, highs = super()._grow(noisy, first, fresh)
        return lows, np.minimum(highs + 1, np.array(noisy["cells"].shape, dtype=np.int32))


class TrueMedians(HierarchicalKdTree):
    """The counts of the slices are measured, and the cuts are made by the true ones."""

    def _medians(self, cells: Counts, *given: Any) -> Counts:
        super()._medians(cells, *given)
        return super()._medians(cells, *(*given[:-1], _Deaf()))


class _Deaf:
    """Gives back what it is given."""

    def add_noise(self, values: Counts, amount: Any, *, purpose: str) -> Counts:
        return values


SHAPES = small((4,), (9,), (3, 4))
TWINS = [Broken(twin, SHAPES) for twin in (GrownOnTheCounts(), SharedEdges(), TrueMedians(height=2))]
