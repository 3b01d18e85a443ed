"""The audit catches kd-trees that look at the counts, or at a cell twice."""

from __future__ import annotations

import numpy as np
import pytest

from mechanisms.channel import replay, replay_loss
from mechanisms.histograms.kd_tree.kd_tree import KdTree
from mechanisms.mechanism import Mechanism
from tests.audit.cases import Case
from tests.audit.replays import NotPrivateError, audit
from tests.audit.twins_kd import GrownOnTheCounts, SharedEdges, TrueMedians

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
