"""Registered mechanisms, each with one mistake that has been made with it or is easy to make."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from fractions import Fraction
from math import isqrt
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.accounting.transcript import Event
from tabularium.mechanisms.channel import Channel
from tabularium.mechanisms.channel.replay.replay_findings import Output
from tabularium.mechanisms.histograms import privhist
from tabularium.mechanisms.histograms.boost import Boost
from tabularium.mechanisms.histograms.clustering import SrebGca
from tabularium.mechanisms.histograms.dawa import Dawa, row_order
from tabularium.mechanisms.histograms.denoise.denoise import Denoise
from tabularium.mechanisms.histograms.denoise_ranges.tree import SplitTree, few_peaks
from tabularium.mechanisms.histograms.hierarchical_kd_tree import HierarchicalKdTree
from tabularium.mechanisms.histograms.kd_tree import KdTree
from tabularium.mechanisms.histograms.mwem import Mwem, TilingWorkload
from tabularium.mechanisms.histograms.noise_first import NoiseFirst, improve
from tabularium.mechanisms.histograms.p_hpartition import PHPartition
from tabularium.mechanisms.histograms.privelet import Privelet, sums_and_differences
from tabularium.mechanisms.histograms.privhist import PrivHist, Runs
from tabularium.mechanisms.histograms.sorted_isotonic import SortedIsotonic
from tabularium.mechanisms.histograms.spectral import Efpa
from tabularium.mechanisms.histograms.structure_first import StructureFirst
from tabularium.mechanisms.inference.even_trees import one_tree, stands
from tabularium.mechanisms.measured import Measured, Release
from tabularium.mechanisms.noise_distributions import Noise
from tests.audit.cases import CASES, Counts
from tests.audit.twins.twin import Broken, Drawn, Wrapped, small


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

    def _run_rounds(
        self, counts: Counts, mass: float, meta: dict[str, Any], rounds: int, channel: Channel
    ) -> Any:
        return Mwem._run_rounds(self, counts, float(counts.sum()), meta, rounds, channel)


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


OF_BASELINES = [
    Broken(twin, small((3,), (7,)))
    for twin in (
        WholeBudgetForEveryLevel(branching=2, root=True),
        OneLevelTooFew(),
        TheTotalIsKnown(replays=2),
        RoundsByTheTrueTotal(),
        OverlappingRanges(replays=2, rounds=2),
    )
]


# --- StructureFirst and SReB_GCA with the mistakes of their papers and of the authors' code ----------


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


class WholeBudgetForEveryTree(StructureFirst):
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
OF_STRUCTURES = [
    Broken(CapFromItsCounts(50, bins=2, structure_share="1/2")),
    Broken(UnclippedCounts(3, bins=2)),
    Broken(WholeBudgetForEveryTree(**TREES)),
    Broken(DrawPerCell(grouping="noisy")),
    Broken(TiesByTheTruth(grouping="noisy")),
]


# --- DAWA, each time broken in one way ---------------------------------------------------------------


class _Cuts(Dawa):
    """Base: something is changed in what the channel is offered to choose a partition from."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        through: Any = Wrapped(channel)

        def partition(costs: Any, starts: Any, stops: Any, epsilon: Any, **options: Any) -> Any:
            offer = {"costs": costs, "starts": starts, "stops": stops, "epsilon": epsilon, **options}
            return channel.partition(**(offer | self.changed(offer, counts)))

        through.partition = partition
        return super().draw(counts, through)

    def changed(self, offer: dict[str, Any], counts: Counts) -> dict[str, Any]:
        """Return what is changed of the offer."""
        raise NotImplementedError


class CountedOnce(_Cuts):
    """The noise is scaled for costs in whole records, and the costs are in quarters of one."""

    def changed(self, offer: dict[str, Any], counts: Counts) -> dict[str, Any]:
        return {"sensitivity": 1}


class MeanAsIfMedian(_Cuts):
    """Costs around the mean, with the sensitivity of those around the median; for ``deviation="mean"``."""

    def changed(self, offer: dict[str, Any], counts: Counts) -> dict[str, Any]:
        return {"sensitivity": 4}


class PriceFromTheTotal(_Cuts):
    """What a sum costs follows the number of records: all costs move, not those of one cell alone."""

    def changed(self, offer: dict[str, Any], counts: Counts) -> dict[str, Any]:
        return {"costs": offer["costs"] + int(counts.sum()) // 3}


class OnlyOccupiedIntervals(_Cuts):
    """Wider intervals are on offer where somebody is."""

    def changed(self, offer: dict[str, Any], counts: Counts) -> dict[str, Any]:
        sums = np.append(0, np.cumsum(counts.reshape(-1)))
        starts, stops = offer["starts"], offer["stops"]
        keep = (sums[stops] > sums[starts]) | (stops - starts == 1)
        return {key: offer[key][keep] for key in ("costs", "starts", "stops")}


class OrderFromTheData(Dawa):
    """The cells are put in the order of their counts, which makes intervals even, and tells who is where."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        arrays, meta = super().draw(np.sort(counts.reshape(-1)), channel)
        arrays["order"] = np.argsort(counts.reshape(-1), kind="stable")
        return arrays, meta


class EmptyIntervalsAreZero(Dawa):
    """Intervals without anybody are released as zero."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        arrays, meta = super().draw(counts, channel)
        row = counts.reshape(-1)[row_order(counts.size)[0]]
        arrays["sums"] = np.where(np.add.reduceat(row, arrays["starts"]) == 0, 0, arrays["sums"])
        return arrays, meta


OF_DAWA = [
    Broken(twin, small((2,), (7,), (16,)))
    for twin in (
        CountedOnce(),
        MeanAsIfMedian(deviation="mean"),
        PriceFromTheTotal(),
        OnlyOccupiedIntervals(),
        OrderFromTheData(),
        EmptyIntervalsAreZero(),
    )
]


# --- Denoise that asks the true counts what only the noisy ones may tell -----------------------------


class FormOfTheCounts(Denoise):
    """The form is the one that comes closest to the true counts."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        arrays, _ = super().draw(counts, channel)
        smooth = np.full(counts.shape, arrays["cells"].mean())
        closer = np.abs(arrays["cells"] - counts).sum() < np.abs(smooth - counts).sum()
        return arrays, {"strength": "1/100" if closer else "9"}

    def finish(self, measured: Measured) -> Release:
        given = Denoise(form="wavelet", strength=measured.meta["strength"])
        return given.finish(replace(measured, meta={}))


class ErrorOfTheCounts(Denoise):
    """The stated error is the true one."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        arrays, _ = super().draw(counts, channel)
        return arrays, {"risk": float(((arrays["cells"] - counts) ** 2).mean())}

    def finish(self, measured: Measured) -> Release:
        release = Denoise(form="wavelet").finish(measured)
        release.diagnostics["risk"] = measured.meta["risk"]
        return release


class UncountedLevel(Denoise):
    """The sum of the first half of the cells goes into the total without noise, and unpaid."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        arrays, meta = super().draw(counts, channel)
        arrays["total"] = arrays["total"] + counts.reshape(-1)[: counts.size // 2].sum()
        return arrays, meta


class LevelsOfTheCounts(Denoise):
    """The share of the cells is chosen by the true counts, not by the noisy total."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        arrays = {"total": channel.add_noise(counts.sum(keepdims=True).reshape(1), "1/1000", purpose="total")}
        rest = channel.remaining
        tree = SplitTree.of(counts.shape)
        share = rest / 2 if counts.sum() % 2 else rest / 3
        arrays["cells"] = channel.add_noise(counts, share, purpose="cells")
        arrays["level_1"] = channel.add_noise(tree.sums(counts, 1), channel.remaining, purpose="level 1")
        return arrays, {"shape": list(counts.shape), "levels": [0, 1]}


class OverlappingBoxes(Denoise):
    """The boxes of a level overlap, so that one record is in several, and is paid for once."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        arrays = {"total": channel.add_noise(counts.sum(keepdims=True).reshape(1), "1/1000", purpose="total")}
        twice = np.convolve(counts.reshape(-1), [1, 1])[: counts.size].reshape(counts.shape)
        arrays["cells"] = channel.add_noise(twice, channel.remaining, purpose="cells")
        return arrays, {"shape": list(counts.shape), "levels": [0]}


class PeaksOfTheCounts(Denoise):
    """Whether the table is a few peaks in a void is asked of the true counts."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        arrays, meta = super().draw(counts, channel)
        return arrays, {**meta, "few_peaks": few_peaks(counts.reshape(-1).astype(np.float64), 0.04)}


OF_DENOISE = [
    Broken(FormOfTheCounts()),
    Broken(ErrorOfTheCounts()),
    Broken(UncountedLevel(workload="ranges")),
    Broken(LevelsOfTheCounts(workload="ranges")),
    Broken(OverlappingBoxes(workload="ranges")),
    Broken(PeaksOfTheCounts(workload="ranges"), small((16,))),
]


# --- EFPA, each time broken in one way ---------------------------------------------------------------


class EfpaTwin(Efpa):
    """Base: the registered draw, through a channel that is not what it should be."""

    wrong: ClassVar[type[Any]]

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        return super().draw(counts, self.wrong(channel))


class PhasesAsTheyAre(EfpaTwin):
    """As printed: noise on the magnitude of each coefficient, phases published as they are."""

    class wrong(Wrapped):
        def lattice(self, values: Any, loss: Fraction, **options: Any) -> Any:
            pairs = np.append(values, 0.0)[1 : 2 * (values.size // 2) + 1].reshape(-1, 2)
            waves = pairs[:, 0] + 1j * pairs[:, 1]
            sizes = np.append(values[:1], np.abs(waves))
            noisy = self._channel.lattice(sizes, loss, **options)
            waves = noisy[1:] * np.exp(1j * np.angle(waves))
            parts = np.stack([waves.real, waves.imag], axis=1).reshape(-1)
            return np.append(noisy[:1], parts)[: values.size]


class LengthOfTheColumn(EfpaTwin):
    """Laplace noise for the Euclidean length of a column, √(z/N), in place of its L1 norm."""

    class wrong(Wrapped):
        def lattice(self, values: Any, loss: Fraction, *, sensitivity: Fraction, **options: Any) -> Any:
            shorter = sensitivity / Fraction(isqrt(values.size << 40), 1 << 20)
            return self._channel.lattice(values, loss, sensitivity=shorter, **options)


class InnerCell(EfpaTwin):
    """The sensitivity of cosines at an average cell, 2/π·√2 of z/√N, instead of the first."""

    class wrong(Wrapped):
        def lattice(self, values: Any, loss: Fraction, *, sensitivity: Fraction, **options: Any) -> Any:
            return self._channel.lattice(values, loss, sensitivity=sensitivity * Fraction(2, 3), **options)


class ScoreOfSquares(EfpaTwin):
    """Energies as scores, without the root: one record changes them by as much as twice its cell's count."""

    class wrong(Wrapped):
        def pick(self, scores: Any, epsilon: Fraction, **options: Any) -> int:
            return self._channel.pick(-(scores**2), epsilon, **options)


class WavesOfTheCells(Efpa):
    """Where the cells are measured, the coefficients that were computed on the way are published too."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        arrays, meta = super().draw(counts, channel)
        return arrays, {**meta, "slowest": float(counts.sum() / counts.size**0.5)}


def second(event: Event, inputs: Counts, drawn: Output) -> Output:
    """The two slowest radii are kept."""
    return 1 if event.primitive == "permute_and_flip" else drawn


def one_more_in(cell: int) -> tuple[Counts, Counts]:
    """Sixteen cells, of which one gains a record: one at which the kept waves are large."""
    return np.arange(16) * 100, np.arange(16) * 100 + (np.arange(16) == cell)


WAVES = small((2,), (9,), (16,), (5, 5))
OF_EFPA = [
    *(Broken(twin, WAVES) for twin in (PhasesAsTheyAre(), ScoreOfSquares(), WavesOfTheCells())),
    Broken(LengthOfTheColumn(share="1/10"), pair=one_more_in(2), force=second),
    Broken(InnerCell(share="1/10", transform="dct"), pair=one_more_in(0), force=second),
]


# --- kd-trees that look at the counts, or at a cell twice --------------------------------------------


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


BOXES = small((4,), (9,), (3, 4))
OF_KD_TREES = [Broken(twin, BOXES) for twin in (GrownOnTheCounts(), SharedEdges(), TrueMedians(height=2))]


# --- NoiseFirst that looks at the counts a second time for nothing -----------------------------------


class BinsOfTheCounts(NoiseFirst):
    """The bins are the best ones of the true counts: StructureFirst without paying for the structure."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        arrays, _ = super().draw(counts, channel)
        return arrays, {"starts": improve(counts, 5).starts.tolist()}

    def finish(self, measured: Measured) -> Release:
        noisy, starts = measured.arrays["cells"].reshape(-1), measured.meta["starts"]
        means = [np.full(part.size, part.mean()) for part in np.split(noisy, starts[1:])]
        return Release(
            values=np.concatenate(means), transcript=measured.transcript, insecure=measured.insecure
        )


class NumberOfBinsOfTheCounts(NoiseFirst):
    """Only their number is taken from the true counts."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        arrays, _ = super().draw(counts, channel)
        return arrays, {"bins": int(improve(counts, 5).starts.size)}

    def finish(self, measured: Measured) -> Release:
        values = improve(measured.arrays["cells"], 5, bins=measured.meta["bins"]).values
        return Release(values=values, transcript=measured.transcript, insecure=measured.insecure)


class KeepsWhatIsTrulyRough(NoiseFirst):
    """The range rule asks the true counts which cells would lose by merging."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        arrays, _ = super().draw(counts, channel)
        noisy = arrays["cells"]
        merged = improve(noisy, 5, range_rule=False).values
        return {"cells": np.where(np.abs(merged - counts) > np.abs(noisy - counts), noisy, merged)}, {}

    def finish(self, measured: Measured) -> Release:
        return Release(
            values=measured.arrays["cells"], transcript=measured.transcript, insecure=measured.insecure
        )


OF_NOISE_FIRST = [
    Broken(BinsOfTheCounts()),
    Broken(NumberOfBinsOfTheCounts()),
    Broken(KeepsWhatIsTrulyRough()),
]


# --- P-HPartition, each time broken in one way -------------------------------------------------------


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
ROWS = small((2,), (7,), (16,))
OF_P_HPARTITION = [
    Broken(EachLevelTakesAll(), pair=WORST, force=CASE.worst_force),
    Broken(HalfTheSensitivity(), pair=WORST, force=CASE.worst_force),
    Broken(DepthFromTheData(), ROWS),
    Broken(StopsWhenNothingIsGained(), ROWS),
    Broken(BestPartitionUnchosen(), ROWS),
    Broken(EmptyPartsAreZero(), ROWS),
]


# --- PrivHist and its baseline, each time broken in one way ------------------------------------------


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


OF_PRIVHIST = [
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


REGISTERED = [
    *(*OF_BASELINES, *OF_STRUCTURES, *OF_DAWA, *OF_DENOISE, *OF_EFPA),
    *(*OF_KD_TREES, *OF_NOISE_FIRST, *OF_P_HPARTITION, *OF_PRIVHIST),
]
