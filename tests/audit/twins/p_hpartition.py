"""P-HPartition, each time broken in one way."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from tabularium.mechanisms.channel import Channel
from tabularium.mechanisms.histograms.p_hpartition import PHPartition
from tests.audit.cases import CASES, Counts
from tests.audit.twins.twin import Broken, Drawn, Wrapped, small


class EachLevelTakesAll(PHPartition):
    """Every level spends what all of them may: a scope passes d looks at the same bins off as disjoint."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        share = channel.remaining * self.structure
        with channel.parallel(share, cells=64, purpose="levels") as scope:
            return super().draw(counts, _Levels(channel, share, scope))  # type: ignore[arg-type]


class _Levels(Wrapped):
    """A channel whose choices in groups go to a branch each. It shows the share of the scope as unspent."""

    def __init__(self, channel: Channel, share: Fraction, scope: Any) -> None:
        super().__init__(channel)
        self._share, self._scope, self._level = share, scope, 0

    @property
    def remaining(self) -> Fraction:
        return self._channel.remaining + (self._share if not self._level else 0)

    def pick_each(self, scores: Any, starts: Any, epsilon: Fraction, **options: Any) -> Any:
        self._level += 1
        return self._scope.branch([self._level]).pick_each(scores, starts, self._share, **options)


class DepthFromTheData(PHPartition):
    """As many levels as the largest count has digits."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        return PHPartition(depth=max(1, int(counts.max()).bit_length())).draw(counts, channel)


class StopsWhenNothingIsGained(PHPartition):
    """Parts whose bins are all equal are not offered to the next level: that saves time, and tells."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        if counts.max() == counts.min():
            return PHPartition(depth=1).draw(counts, channel)
        return super().draw(counts, channel)


class HalfTheSensitivity(PHPartition):
    """Scores move by 2, and 1 is declared: it would be right for deviations from the median."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        return super().draw(counts, _Understated(channel))  # type: ignore[arg-type]


class _Understated(Wrapped):
    """A channel that takes half of the sensitivity of a choice for the whole."""

    def pick_each(self, scores: Any, starts: Any, epsilon: Fraction, **options: Any) -> Any:
        return self._channel.pick_each(scores, starts, epsilon, **(options | {"sensitivity": 1}))

    def pick(self, scores: Any, epsilon: Fraction, **options: Any) -> int:
        return self._channel.pick(scores, epsilon, **(options | {"sensitivity": 1}))


class BestPartitionUnchosen(PHPartition):
    """The last choice is left out, and the best of the partitions taken: each was found privately, after all."""

    def _keep(self, cuts: Any, share: Fraction, channel: Channel) -> int:
        changes = np.concatenate([np.zeros(1, dtype=np.int64), *cuts.changes])
        return int((np.cumsum(changes) + 2 * np.arange(changes.size)).argmin())


class EmptyPartsAreZero(PHPartition):
    """Parts without anybody are released as zero, to keep the table free of noise where nobody is."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        arrays, meta = super().draw(counts, channel)
        records = np.add.reduceat(counts.reshape(-1), arrays["starts"])
        arrays["sums"] = np.where(records == 0, 0, arrays["sums"])
        return arrays, meta


CASE = CASES["p_hpartition"]
WORST = tuple(np.array(counts) for counts in CASE.worst)
SHAPES = small((2,), (7,), (16,))
TWINS = [
    Broken(EachLevelTakesAll(), pair=WORST, force=CASE.worst_force),
    Broken(HalfTheSensitivity(), pair=WORST, force=CASE.worst_force),
    Broken(DepthFromTheData(), SHAPES),
    Broken(StopsWhenNothingIsGained(), SHAPES),
    Broken(BestPartitionUnchosen(), SHAPES),
    Broken(EmptyPartsAreZero(), SHAPES),
]
