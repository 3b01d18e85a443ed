"""The audit catches P-HPartition when it is broken, whichever way.

P-HPartition, each time broken in one way. Unbroken, every twin is the registered class.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest

from tabularium.mechanisms.channel import Channel, replay
from tabularium.mechanisms.histograms.p_hpartition import PHPartition
from tests.audit.cases import CASES, Case, Counts
from tests.audit.replays import NotPrivateError, audit, judge
from tests.audit.twins.twin import Drawn


@dataclass(frozen=True)
class PHPartitionTwin(PHPartition):
    """Base."""

    broken: bool = True
    case: ClassVar[Case] = Case(worst=([], []), shapes=((2,), (7,), (16,)), largest=1000)


class EachLevelTakesAll(PHPartitionTwin):
    """Every level spends what all of them may: a scope passes d looks at the same bins off as disjoint."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        if not self.broken:
            return super().draw(counts, channel)
        share = channel.remaining * self.structure
        with channel.parallel(share, cells=64, purpose="levels") as scope:
            return super().draw(counts, _Levels(channel, share, scope))  # type: ignore[arg-type]


class _Levels:
    """A channel whose choices in groups go to a branch each. It shows the share of the scope as unspent."""

    def __init__(self, channel: Channel, share: Fraction, scope: Any) -> None:
        self._channel, self._share, self._scope, self._level = channel, share, scope, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    @property
    def remaining(self) -> Fraction:
        return self._channel.remaining + (self._share if not self._level else 0)

    def pick_each(self, scores: Any, starts: Any, epsilon: Fraction, **options: Any) -> Any:
        self._level += 1
        return self._scope.branch([self._level]).pick_each(scores, starts, self._share, **options)


class DepthFromTheData(PHPartitionTwin):
    """As many levels as the largest count has digits."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        depth = max(1, int(counts.max()).bit_length()) if self.broken else 3
        return PHPartition(depth=depth).draw(counts, channel)


class StopsWhenNothingIsGained(PHPartitionTwin):
    """Parts whose bins are all equal are not offered to the next level: that saves time, and tells."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        if self.broken and counts.max() == counts.min():
            return PHPartition(depth=1).draw(counts, channel)
        return super().draw(counts, channel)


class HalfTheSensitivity(PHPartitionTwin):
    """Scores move by 2, and 1 is declared: it would be right for deviations from the median."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        return super().draw(counts, _Understated(channel) if self.broken else channel)  # type: ignore[arg-type]


class _Understated:
    """A channel that takes half of the sensitivity of a choice for the whole."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    def pick_each(self, scores: Any, starts: Any, epsilon: Fraction, **options: Any) -> Any:
        return self._channel.pick_each(scores, starts, epsilon, **(options | {"sensitivity": 1}))

    def pick(self, scores: Any, epsilon: Fraction, **options: Any) -> int:
        return self._channel.pick(scores, epsilon, **(options | {"sensitivity": 1}))


class BestPartitionUnchosen(PHPartitionTwin):
    """The last choice is left out, and the best of the partitions taken: each was found privately, after all."""

    def _keep(self, cuts: Any, share: Fraction, channel: Channel) -> int:
        changes = np.concatenate([np.zeros(1, dtype=np.int64), *cuts.changes])
        if not self.broken:
            return super()._keep(cuts, share, channel)
        return int((np.cumsum(changes) + 2 * np.arange(changes.size)).argmin())


class EmptyPartsAreZero(PHPartitionTwin):
    """Parts without anybody are released as zero, to keep the table free of noise where nobody is."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        arrays, meta = super().draw(counts, channel)
        if self.broken:
            arrays["sums"] = np.where(
                np.add.reduceat(counts.reshape(-1), arrays["starts"]) == 0, 0, arrays["sums"]
            )
        return arrays, meta


TWINS: list[type[PHPartitionTwin]] = [
    EachLevelTakesAll,
    DepthFromTheData,
    StopsWhenNothingIsGained,
    HalfTheSensitivity,
    BestPartitionUnchosen,
    EmptyPartsAreZero,
]


CASE = CASES["p_hpartition"]
WORST = tuple(np.array(counts) for counts in CASE.worst)
ONLY_WITH_THE_WORST_PAIR = (EachLevelTakesAll, HalfTheSensitivity)


@pytest.mark.parametrize("kind", TWINS, ids=lambda kind: kind.__name__)
def test_the_broken_twin_is_caught(kind: type[PHPartitionTwin]) -> None:
    twin = kind(broken=True)
    with pytest.raises(NotPrivateError):
        if kind in ONLY_WITH_THE_WORST_PAIR:
            judge(twin, *WORST, budget=Fraction(1, 2), definition="pure", force=CASE.worst_force)
        else:
            audit(twin, twin.case, "pure", shrink=False)


@pytest.mark.parametrize("kind", TWINS, ids=lambda kind: kind.__name__)
def test_the_sound_twin_passes(kind: type[PHPartitionTwin]) -> None:
    twin = kind(broken=False)
    for budget in (Fraction(1, 2), Fraction(7, 3)):
        judge(twin, *WORST, budget=budget, definition="pure", force=CASE.worst_force)
    audit(twin, twin.case, "pure", examples=10)


def test_what_each_loses() -> None:
    """Five levels at ε/4 instead of ε/20 each; choices at twice their rate."""
    for kind, loss in (
        (EachLevelTakesAll, 5 / 4 + 1 / 4 + 1 / 2),
        (HalfTheSensitivity, 1 / 2 + 1 / 2 + 1 / 2),
    ):
        lost = [
            replay(kind(broken=broken), *WORST, 1, 0, force=CASE.worst_force).loss for broken in (True, False)
        ]
        assert lost == [pytest.approx(loss, rel=1e-3), pytest.approx(1, rel=1e-3)]
