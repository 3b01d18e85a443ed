"""The audit catches kd-trees that look at the counts, or at a cell twice.

kd-trees with the mistakes that such trees invite.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tabularium.mechanisms.channel import Channel, replay, replay_loss
from tabularium.mechanisms.histograms.hierarchical_kd_tree import HierarchicalKdTree
from tabularium.mechanisms.histograms.kd_tree import KdTree
from tabularium.mechanisms.mechanism import Mechanism
from tabularium.mechanisms.noise_distributions import Noise
from tests.audit.cases import Case, Counts
from tests.audit.replays import NotPrivateError, audit
from tests.audit.twins.twin import Drawn


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


CASE = Case(worst=([], []), shapes=((4,), (9,), (3, 4)), largest=1000)


@pytest.mark.parametrize(
    "twin",
    [GrownOnTheCounts(), SharedEdges(), TrueMedians(height=2)],
    ids=lambda twin: type(twin).__name__,
)
def test_the_broken_twin_is_caught(twin: Mechanism) -> None:
    with pytest.raises(NotPrivateError):
        audit(twin, CASE, "pure", shrink=False)


def test_a_cell_on_an_edge_costs_the_sums_twice() -> None:
    """Every cell is a box: sums cost 3/4 of the budget, and a record in the second cell is in two of them."""

    def far_apart(event, inputs, drawn):  # type: ignore[no-untyped-def]
        return np.resize(np.array([0, 10**6]), inputs.shape) if event.purpose == "cells" else inputs

    counts, more = np.array([0, 5, 0, 5]), np.array([0, 6, 0, 5])
    assert replay_loss(SharedEdges(), counts, more, 1, 1, force=far_apart) == pytest.approx(1.75)
    assert replay_loss(KdTree(), counts, more, 1, 1, force=far_apart) == pytest.approx(1)


def test_a_cut_by_the_truth_changes_what_is_measured() -> None:
    counts, more = np.array([5, 1, 5]), np.array([5, 1, 6])
    found = replay(TrueMedians(height=1), counts, more, 1, 1)
    assert found.loss == np.inf
