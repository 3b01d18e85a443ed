"""The audit catches StructureFirst and SReB_GCA with the mistakes of their papers and of the authors' code."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from mechanisms.channel import replay, replay_loss
from mechanisms.histograms.sreb_gca.sreb_gca import SrebGca
from mechanisms.histograms.structure_first.structure_first import StructureFirst
from mechanisms.mechanism import Mechanism
from tests.audit.cases import Case
from tests.audit.replays import NotPrivateError, audit
from tests.audit.twins_of_bins import (
    CapFromItsCounts,
    DrawPerCell,
    TiesByTheTruth,
    UnclippedCounts,
    WholeBudgetForEveryLevel,
)

CASE = Case(worst=([], []), shapes=((4,), (9,)), largest=1000)
TREES = {"largest_count": 50, "bins": 2, "structure_share": "1/2", "boost": True}


@pytest.mark.parametrize(
    "twin",
    [
        CapFromItsCounts(50, bins=2, structure_share="1/2"),
        UnclippedCounts(3, bins=2),
        WholeBudgetForEveryLevel(**TREES),  # type: ignore[arg-type]
        DrawPerCell(grouping="noisy"),
        TiesByTheTruth(grouping="noisy"),
    ],
    ids=lambda twin: type(twin).__name__,
)
def test_the_broken_twin_is_caught(twin: Mechanism) -> None:
    with pytest.raises(NotPrivateError):
        audit(twin, CASE, "pure", shrink=False)


def test_a_cap_from_the_data_changes_the_events() -> None:
    counts, more = np.array([0, 0, 7, 9]), np.array([0, 0, 7, 10])
    found = replay(CapFromItsCounts(50, bins=2), counts, more, 1, 1)
    assert found.loss == np.inf
    assert "event 0 differs" in found.reason


def test_a_tree_costs_each_of_its_levels() -> None:
    """Eight cells in one bin: a record is in a node of each of four levels."""
    counts = np.arange(8)
    more = counts + (counts == 3)
    one_bin = {**TREES, "bins": 1}
    assert replay_loss(WholeBudgetForEveryLevel(**one_bin), counts, more, 1, 1) == pytest.approx(4)
    assert replay_loss(StructureFirst(**one_bin), counts, more, 1, 1) == pytest.approx(1)


def test_a_draw_per_cell_costs_the_size_of_the_group() -> None:
    """Twelve cells that all look alike: one group."""

    def alike(event, inputs, drawn):  # type: ignore[no-untyped-def]
        return np.zeros(inputs.shape, dtype=np.int64)

    counts = np.zeros(12, dtype=np.int64)
    more = counts + (np.arange(12) == 5)
    share = Fraction(1, 2)
    broken = replay_loss(DrawPerCell(share, "noisy"), counts, more, 1, 1, force=alike)
    assert broken == pytest.approx(0.5 + 12 * 0.5)
    assert replay_loss(SrebGca(share, "noisy"), counts, more, 1, 1, force=alike) == pytest.approx(1)


def test_ties_by_the_truth_move_cells_between_groups() -> None:
    """Noisy counts 0, 5, 5, 40: the two in the middle are told apart by what they truly are."""

    def forced(event, inputs, drawn):  # type: ignore[no-untyped-def]
        return np.array([0, 5, 5, 40]) if event.purpose == "order" else np.zeros(inputs.shape, np.int64)

    counts, more = np.array([0, 6, 6, 40]), np.array([0, 7, 6, 40])
    found = replay(TiesByTheTruth(grouping="noisy"), counts, more, 1, 1, force=forced)
    assert found.loss == np.inf
    assert replay_loss(SrebGca(grouping="noisy"), counts, more, 1, 1, force=forced) <= 1
