"""PrivHist and its baseline, each time broken in one way."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from tabularium.mechanisms.channel import Channel
from tabularium.mechanisms.histograms import privhist
from tabularium.mechanisms.histograms.privhist import PrivHist, Runs
from tabularium.mechanisms.histograms.sorted_isotonic import SortedIsotonic
from tests.audit.cases import Counts
from tests.audit.twins.twin import Broken, Drawn, small


class StepByStep(PrivHist):
    """Base. Its measurement in steps, so that a twin can get one of them wrong; as they stand they are right."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        runs = self._runs(counts)
        rest = channel.remaining * (1 - self.total_share)
        level = float(channel.remaining)
        records = np.array([(runs[:, 0] * runs[:, 1]).sum()])
        total = self.total(runs, records, channel, channel.remaining - rest)
        size = max(1, int(total[0]))
        boundaries = self.boundaries(runs, size, level)
        length = self.length(runs, size, int(boundaries[-1]))
        true = self.blocks(runs, boundaries), self.excess(counts, runs, int(boundaries[-1]), length)
        blocks, listed = self.measured(*true, rest, channel)
        return {"total": total, "boundaries": boundaries, "blocks": blocks, "excess": listed}, {}

    def total(self, runs: Runs, records: Counts, channel: Channel, share: Fraction) -> Counts:
        return channel.laplace(records, share, purpose="records")

    def boundaries(self, runs: Runs, size: int, level: float) -> Counts:
        return privhist.boundaries_of(size, level)

    def length(self, runs: Runs, size: int, threshold: int) -> int:
        return privhist.excess_length(size, threshold)

    def blocks(self, runs: Runs, boundaries: Counts) -> Counts:
        return privhist.block_sums(runs, boundaries)

    def excess(self, counts: Counts, runs: Runs, threshold: int, length: int) -> Counts:
        return privhist.excess(runs, threshold, length)

    def measured(
        self, blocks: Counts, listed: Counts, rest: Fraction, channel: Channel
    ) -> tuple[Counts, Counts]:
        drawn = channel.laplace(np.concatenate([blocks, listed]), rest, purpose="blocks and excess")
        return drawn[: blocks.size].copy(), drawn[blocks.size :].copy()


class LengthFromTheTrueTotal(StepByStep):
    """The noisy total is released, and the true one divided by the threshold."""

    def length(self, runs: Runs, size: int, threshold: int) -> int:
        return int((runs[:, 0] * runs[:, 1]).sum()) // threshold + 1


class LengthOfWhatIsThere(StepByStep):
    """As many entries as items exceed the threshold: why measure zeros?"""

    def length(self, runs: Runs, size: int, threshold: int) -> int:
        return int(runs[runs[:, 0] > threshold, 1].sum()) + 1


class BoundariesFromTheTrueTotal(StepByStep):
    def boundaries(self, runs: Runs, size: int, level: float) -> Counts:
        return privhist.boundaries_of(max(1, int((runs[:, 0] * runs[:, 1]).sum())), level)


class BoundariesAtTheCounts(StepByStep):
    """A boundary near every count that occurs (the paper does this with noisy counts)."""

    def boundaries(self, runs: Runs, size: int, level: float) -> Counts:
        return np.unique(np.append([0, 1], runs[:, 0]))


class TotalWithoutNoise(StepByStep):
    def total(self, runs: Runs, records: Counts, channel: Channel, share: Fraction) -> Counts:
        channel.laplace(records, share, purpose="records")
        return records


class OverlappingBlocks(StepByStep):
    """The last count of a block is the first of the next one, which makes the curve smoother."""

    def blocks(self, runs: Runs, boundaries: Counts) -> Counts:
        counts, items = runs[:, :1], runs[:, 1:]
        lows, highs = np.maximum(boundaries[:-1] - 1, 0), boundaries[1:]
        sums: Counts = (np.clip(counts - lows, 0, highs - lows) * items).sum(axis=0)
        return sums


class PrevalencesOfBlocks(StepByStep):
    """The number of items in each block: who moves to the next block leaves the one before."""

    def blocks(self, runs: Runs, boundaries: Counts) -> Counts:
        place = np.searchsorted(boundaries, runs[:, 0], side="left") - 1
        inside = place < boundaries.size - 1
        return np.bincount(place[inside], runs[inside, 1], boundaries.size - 1).astype(np.int64)


class WholeCountsAboveTheThreshold(StepByStep):
    """The list holds whole counts: an item that passes the threshold brings all of its records along."""

    def excess(self, counts: Counts, runs: Runs, threshold: int, length: int) -> Counts:
        found = privhist.excess(runs, threshold, length)
        return np.where(found > 0, found + threshold, 0)


class ExcessUnsorted(StepByStep):
    """Excesses in the order of the cells, those that exceed nothing left out: one more moves all behind it."""

    def excess(self, counts: Counts, runs: Runs, threshold: int, length: int) -> Counts:
        over = counts.reshape(-1)
        over = over[over > threshold][:length] - threshold
        return np.pad(over, (0, length - over.size))


class BlocksAndExcessForTheSamePrice(StepByStep):
    """Two draws of the rest each, in a scope that passes them off as disjoint: blocks and list, after all."""

    def measured(
        self, blocks: Counts, listed: Counts, rest: Fraction, channel: Channel
    ) -> tuple[Counts, Counts]:
        twice = np.concatenate([blocks, listed])
        with channel.parallel(rest, cells=2, purpose="parts") as scope:
            first = scope.branch([0]).laplace(twice, rest, purpose="blocks")
            second = scope.branch([1]).laplace(twice, rest, purpose="excess")
        return first[: blocks.size].copy(), second[blocks.size :].copy()


class EmptyBlocksAreZero(StepByStep):
    """Blocks that no item reaches are left as they are."""

    def measured(
        self, blocks: Counts, listed: Counts, rest: Fraction, channel: Channel
    ) -> tuple[Counts, Counts]:
        drawn, over = super().measured(blocks, listed, rest, channel)
        return np.where(blocks == 0, 0, drawn), over


class SortsAfterwards(SortedIsotonic):
    """Noise on the counts as they lie, and the true order to sort them by."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        flat = counts.reshape(-1)
        noisy = channel.laplace(flat, channel.remaining, purpose="sorted counts")
        return {"sorted": noisy[np.argsort(flat, kind="stable")].reshape(counts.shape)}, {}


class DropsZeros(SortedIsotonic):
    """Only items that have a record are listed: their number is what privhist protects."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        kept: Any = counts[counts > 0]
        return super().draw(kept if kept.size else counts, channel)


TWINS = [
    Broken(kind(), small((2,), (7,), largest=300))
    for kind in (
        LengthFromTheTrueTotal,
        LengthOfWhatIsThere,
        BoundariesFromTheTrueTotal,
        BoundariesAtTheCounts,
        TotalWithoutNoise,
        OverlappingBlocks,
        PrevalencesOfBlocks,
        WholeCountsAboveTheThreshold,
        ExcessUnsorted,
        BlocksAndExcessForTheSamePrice,
        EmptyBlocksAreZero,
        SortsAfterwards,
        DropsZeros,
    )
]
