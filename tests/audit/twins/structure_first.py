"""StructureFirst and SReB_GCA with the mistakes of their papers and of the authors' code."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.channel import Channel
from tabularium.mechanisms.histograms.clustering import SrebGca
from tabularium.mechanisms.histograms.structure_first import StructureFirst
from tabularium.mechanisms.inference.even_trees import stands
from tabularium.mechanisms.measured import Measured, Release
from tabularium.mechanisms.mechanism import Counts
from tests.audit.twins.twin import Broken, Drawn


class CapFromItsCounts(StructureFirst):
    """F is the largest count of the data, as in the authors' experiments (theirs: of its mean)."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        seen = max(1, int(counts.max()))
        return StructureFirst(**{**given, "largest_count": seen}).draw(counts, channel)


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


class WholeBudgetForEveryLevel(StructureFirst):
    """The trees of ``boost`` with the noise of one level: a record is in a node of each."""

    def _measure_trees(self, flat: Counts, starts: NDArray[np.int64], channel: Channel) -> Counts:
        trees = list(stands(starts, flat.size, self.branching))
        nodes = np.concatenate([sums for stand in trees for sums in stand.sums(flat)])
        return channel.laplace(nodes, channel.remaining, purpose="trees")


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


TREES: dict[str, Any] = {"largest_count": 50, "bins": 2, "structure_share": "1/2", "boost": True}
TWINS = [
    Broken(CapFromItsCounts(50, bins=2, structure_share="1/2")),
    Broken(UnclippedCounts(3, bins=2)),
    Broken(WholeBudgetForEveryLevel(**TREES)),
    Broken(DrawPerCell(grouping="noisy")),
    Broken(TiesByTheTruth(grouping="noisy")),
]
