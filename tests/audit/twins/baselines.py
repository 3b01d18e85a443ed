"""Boost, Privelet and MWEM with the mistakes that are easy to make with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tabularium.mechanisms.channel import Channel
from tabularium.mechanisms.histograms.boost import Boost
from tabularium.mechanisms.histograms.mwem import Mwem
from tabularium.mechanisms.histograms.mwem_workloads import TilingWorkload
from tabularium.mechanisms.histograms.privelet import Privelet, sums_and_differences
from tabularium.mechanisms.inference.even_trees import one_tree
from tabularium.mechanisms.mechanism import Counts
from tests.audit.twins.twin import Broken, Drawn, small


class WholeBudgetForEveryLevel(Boost):
    """All nodes get the noise of one level: a record is in a node of each."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        stand = one_tree(counts.size, 2)
        nodes = np.concatenate(stand.sums(counts.reshape(-1)))
        return {"nodes": channel.laplace(nodes, channel.remaining, purpose="nodes")}, {
            "shape": list(counts.shape),
            "branching": 2,
        }


class OneLevelTooFew(Privelet):
    """The noise is for ⌊log2 n⌋ differences; without padding, some cells are in one more."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        table, bound = counts, 1
        for axis, cells in enumerate(counts.shape):
            table, bound = sums_and_differences(table, axis), bound * cells.bit_length()
        noisy = channel.laplace(table, channel.remaining, sensitivity=bound, purpose="coefficients")
        return {"coefficients": noisy}, {"axes": list(range(counts.ndim))}


class TheTotalIsKnown(Mwem):
    """The paper's n: the weights begin with the true number of records."""

    def _ask(self, counts: Counts, mass: float, meta: dict[str, Any], rounds: int, channel: Channel) -> Any:
        return Mwem._ask(self, counts, float(counts.sum()), meta, rounds, channel)


class RoundsByTheTrueTotal(Mwem):
    """The noise of an answer follows from the number of rounds, which follows from the true total."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        rounds = 1 + int(counts.sum()) % 2
        return Mwem(rounds=rounds, replays=1).draw(counts, channel)


@dataclass(frozen=True, eq=False)
class _Overlapping(TilingWorkload):
    """Each sum is asked for twice."""

    def answer(self, truth: Any, query: int) -> Any:
        once = super().answer(truth, query)
        return np.concatenate([once, once])

    def length(self, query: int) -> int:
        return 2 * super().length(query)

    def fitted(self, queries: Any, answers: Any, slack: float, total: float, passes: int) -> Any:
        halves = [(both[: both.size // 2] + both[both.size // 2 :]) / 2 for both in answers]
        return super().fitted(queries, halves, slack, total, passes)


class OverlappingRanges(Mwem):
    """Ranges that overlap are measured together at the price of one."""

    def _workload(self, shape: tuple[int, ...], narrowest: int) -> Any:
        found = Mwem._workload(self, shape, narrowest)
        assert isinstance(found, TilingWorkload)
        return _Overlapping(found.shape, found.tilings)


TWINS = [
    Broken(twin, small((3,), (7,)))
    for twin in (
        WholeBudgetForEveryLevel(branching=2, root=True),
        OneLevelTooFew(),
        TheTotalIsKnown(replays=2),
        RoundsByTheTrueTotal(),
        OverlappingRanges(replays=2, rounds=2),
    )
]
