"""The audit catches StructureFirst and SReB_GCA with the mistakes of their papers and of the authors' code.

StructureFirst and SReB_GCA themselves, each with one of the mistakes that have been made with them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from tabularium.mechanisms.channel import Channel, replay, replay_loss
from tabularium.mechanisms.histograms.clustering import SrebGca
from tabularium.mechanisms.histograms.structure_first import StructureFirst
from tabularium.mechanisms.measured import Measured, Release
from tabularium.mechanisms.mechanism import Counts, Mechanism
from tests.audit.cases import Case
from tests.audit.replays import NotPrivateError, audit
from tests.audit.twins.twin import Drawn


@dataclass(frozen=True)
class CapFromItsCounts(StructureFirst):
    """F is the largest count of the data, as in the authors' experiments (theirs: of its mean)."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        seen = max(1, int(counts.max()))
        return StructureFirst(**{**given, "largest_count": seen}).draw(counts, channel)


@dataclass(frozen=True)
class UnclippedCounts(StructureFirst):
    """F is public, but the counts above it are not clipped."""

    def _choose_starts(self, flat: Counts, channel: Channel) -> NDArray[np.int64]:
        middle = flat.size // 2
        costs = [
            sum(
                int(part.sum()) * (self.clipped_at(flat.size) - int(part.sum()) / part.size)
                for part in np.split(flat, [cut])
            )
            for cut in range(1, middle + 1)
        ]
        cut = channel.pick(
            -np.array(costs, dtype=np.float64),
            channel.remaining / 2,
            sensitivity=self.clipped_at(flat.size),
            error="1/1000000",
            purpose="boundary 1",
        )
        return np.array([0, 1 + cut])


@dataclass(frozen=True)
class WholeBudgetForEveryLevel(StructureFirst):
    """The trees of ``boost`` with the noise of one level: a record is in a node of each."""

    def _measure_trees(self, flat: Counts, starts: NDArray[np.int64], channel: Channel) -> Counts:
        from tabularium.mechanisms.inference.even_trees import stands

        trees = list(stands(starts, flat.size, self.branching))
        nodes = np.concatenate([sums for stand in trees for sums in stand.sums(flat)])
        return channel.laplace(nodes, channel.remaining, purpose="trees")


@dataclass(frozen=True)
class DrawPerCell(SrebGca):
    """Line 10 of Algorithm 1 as it is printed: the group's mean is drawn for each of its cells."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        rest = channel.remaining * (1 - self.share)
        noisy = channel.laplace(counts, channel.remaining - rest, purpose="order")
        order = np.argsort(noisy.reshape(-1), kind="stable")
        starts = self._starts(noisy.reshape(-1)[order], channel.transcript[-1], rest)
        sums = np.add.reduceat(counts.reshape(-1)[order], starts)
        sizes = np.diff(np.append(starts, order.size))
        drawn = channel.laplace(np.repeat(sums, sizes), rest, purpose="groups")
        return {"cells": noisy, "starts": starts, "sums": drawn}, {}

    def finish(self, measured: Measured) -> Release:
        return Release(
            values=measured.arrays["sums"], transcript=measured.transcript, insecure=measured.insecure
        )


@dataclass(frozen=True)
class TiesByTheTruth(SrebGca):
    """Cells with equal noisy counts are put in the order of their true ones."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        rest = channel.remaining * (1 - self.share)
        noisy = channel.laplace(counts, channel.remaining - rest, purpose="order")
        order = np.lexsort((counts.reshape(-1), noisy.reshape(-1)))
        starts = self._starts(noisy.reshape(-1)[order], channel.transcript[-1], rest)
        sums = np.add.reduceat(counts.reshape(-1)[order], starts)
        released = channel.laplace(sums, rest, purpose="groups")
        ordered = np.empty_like(noisy)
        ordered.reshape(-1)[order] = np.arange(order.size)
        return {"cells": noisy, "starts": starts, "sums": released, "places": ordered}, {}


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
