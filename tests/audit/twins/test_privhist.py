"""The audit catches PrivHist when it is broken, and passes it in both forms of its input.

PrivHist and its baseline, each time broken in one way. Unbroken, every twin is the registered class.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import inf
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabularium.mechanisms import build
from tabularium.mechanisms.accounting.transcript import Definition
from tabularium.mechanisms.channel import Channel, replay
from tabularium.mechanisms.channel.replay.replay_audit import Audit
from tabularium.mechanisms.histograms import privhist
from tabularium.mechanisms.histograms.privhist import PrivHist, Runs, prevalences
from tabularium.mechanisms.histograms.sorted_isotonic import SortedIsotonic
from tabularium.mechanisms.limits import LARGEST_COUNT
from tests.audit.cases import CASES, Case, Counts
from tests.audit.replays import BUDGETS, FORCES, NotPrivateError, audit, edge_pairs, judge, made_up
from tests.audit.twins.twin import Drawn


@dataclass(frozen=True)
class PrivHistTwin(PrivHist):
    """Base. Its measurement, step by step, so that a twin can get one of them wrong."""

    broken: bool = True
    case: ClassVar[Case] = Case(worst=([], []), shapes=((2,), (7,)), largest=300)

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        if not self.broken:
            return super().draw(counts, channel)
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


class LengthFromTheTrueTotal(PrivHistTwin):
    """The noisy total is released, and the true one divided by the threshold."""

    def length(self, runs: Runs, size: int, threshold: int) -> int:
        return int((runs[:, 0] * runs[:, 1]).sum()) // threshold + 1


class LengthOfWhatIsThere(PrivHistTwin):
    """As many entries as items exceed the threshold: why measure zeros?"""

    def length(self, runs: Runs, size: int, threshold: int) -> int:
        return int(runs[runs[:, 0] > threshold, 1].sum()) + 1


class BoundariesFromTheTrueTotal(PrivHistTwin):
    def boundaries(self, runs: Runs, size: int, level: float) -> Counts:
        return privhist.boundaries_of(max(1, int((runs[:, 0] * runs[:, 1]).sum())), level)


class BoundariesAtTheCounts(PrivHistTwin):
    """A boundary near every count that occurs (the paper does this with noisy counts)."""

    def boundaries(self, runs: Runs, size: int, level: float) -> Counts:
        return np.unique(np.append([0, 1], runs[:, 0]))


class TotalWithoutNoise(PrivHistTwin):
    def total(self, runs: Runs, records: Counts, channel: Channel, share: Fraction) -> Counts:
        channel.laplace(records, share, purpose="records")
        return records


class OverlappingBlocks(PrivHistTwin):
    """The last count of a block is the first of the next one, which makes the curve smoother."""

    def blocks(self, runs: Runs, boundaries: Counts) -> Counts:
        counts, items = runs[:, :1], runs[:, 1:]
        lows, highs = np.maximum(boundaries[:-1] - 1, 0), boundaries[1:]
        sums: Counts = (np.clip(counts - lows, 0, highs - lows) * items).sum(axis=0)
        return sums


class PrevalencesOfBlocks(PrivHistTwin):
    """The number of items in each block: who moves to the next block leaves the one before."""

    def blocks(self, runs: Runs, boundaries: Counts) -> Counts:
        place = np.searchsorted(boundaries, runs[:, 0], side="left") - 1
        inside = place < boundaries.size - 1
        return np.bincount(place[inside], runs[inside, 1], boundaries.size - 1).astype(np.int64)


class WholeCountsAboveTheThreshold(PrivHistTwin):
    """The list holds whole counts: an item that passes the threshold brings all of its records along."""

    def excess(self, counts: Counts, runs: Runs, threshold: int, length: int) -> Counts:
        found = privhist.excess(runs, threshold, length)
        return np.where(found > 0, found + threshold, 0)


class ExcessUnsorted(PrivHistTwin):
    """Excesses in the order of the cells, those that exceed nothing left out: one more moves all behind it."""

    def excess(self, counts: Counts, runs: Runs, threshold: int, length: int) -> Counts:
        over = counts.reshape(-1)
        over = over[over > threshold][:length] - threshold
        return np.pad(over, (0, length - over.size))


class BlocksAndExcessForTheSamePrice(PrivHistTwin):
    """Two draws of the rest each, in a scope that passes them off as disjoint: blocks and list, after all."""

    def measured(
        self, blocks: Counts, listed: Counts, rest: Fraction, channel: Channel
    ) -> tuple[Counts, Counts]:
        twice = np.concatenate([blocks, listed])
        with channel.parallel(rest, cells=2, purpose="parts") as scope:
            first = scope.branch([0]).laplace(twice, rest, purpose="blocks")
            second = scope.branch([1]).laplace(twice, rest, purpose="excess")
        return first[: blocks.size].copy(), second[blocks.size :].copy()


class EmptyBlocksAreZero(PrivHistTwin):
    """Blocks that no item reaches are left as they are."""

    def measured(
        self, blocks: Counts, listed: Counts, rest: Fraction, channel: Channel
    ) -> tuple[Counts, Counts]:
        drawn, over = super().measured(blocks, listed, rest, channel)
        return np.where(blocks == 0, 0, drawn), over


@dataclass(frozen=True)
class SortsAfterwards(SortedIsotonic):
    """Noise on the counts as they lie, and the true order to sort them by."""

    broken: bool = True
    case: ClassVar[Case] = Case(worst=([], []), shapes=((2,), (7,)), largest=300)

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        if not self.broken:
            return super().draw(counts, channel)
        flat = counts.reshape(-1)
        noisy = channel.laplace(flat, channel.remaining, purpose="sorted counts")
        return {"sorted": noisy[np.argsort(flat, kind="stable")].reshape(counts.shape)}, {}


@dataclass(frozen=True)
class DropsZeros(SortedIsotonic):
    """Only items that have a record are listed: their number is what privhist protects."""

    broken: bool = True
    case: ClassVar[Case] = Case(worst=([], []), shapes=((2,), (7,)), largest=300)

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        kept: Any = counts[counts > 0] if self.broken else counts
        return super().draw(kept if kept.size else counts, channel)


TWINS: list[Any] = [
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
]


AS_DRAWN = FORCES["as drawn"]


@pytest.mark.parametrize("kind", TWINS, ids=lambda kind: kind.__name__)
def test_the_broken_twin_is_caught(kind: Any) -> None:
    with pytest.raises(NotPrivateError):
        audit(kind(broken=True), kind.case, "pure", shrink=False)


@pytest.mark.parametrize("kind", [PrivHistTwin, *TWINS[-2:]], ids=lambda kind: kind.__name__)
def test_the_sound_twin_passes(kind: Any) -> None:
    audit(kind(broken=False), kind.case, "pure", examples=10, every=5)


def test_steps_as_they_should_be_pass() -> None:
    """The base of the twins does by itself what each of them breaks."""
    audit(PrivHistTwin(broken=True), PrivHistTwin.case, "pure", examples=8, every=7)


def test_a_record_in_two_blocks_costs_twice() -> None:
    counts, more = np.array([40, 40, 1, 3]), np.array([40, 40, 1, 4])
    lost = [replay(OverlappingBlocks(broken=broken), counts, more, 2, 0).loss for broken in (True, False)]
    assert lost == [pytest.approx(0.2 + 2 * 1.8), pytest.approx(2)]


# --- prevalences ------------------------------------------------------------------------------------


def given_as(counts: np.ndarray, form: str) -> np.ndarray:
    """The same counts in the other form; an array without any record still has a pair."""
    if form == "counts":
        return counts
    runs = prevalences(counts)
    return runs if runs.size else np.zeros((1, 2), dtype=np.int64)


def test_prevalences_are_private_too() -> None:
    """The arrays have different shapes on the two sides, and neither events nor results may show it."""
    mechanism = build("privhist", form="prevalences")
    with Audit(mechanism) as processes:
        for number, (counts, more) in list(enumerate(edge_pairs(CASES["privhist"])))[::5]:
            force = list(FORCES.values())[number % len(FORCES)]
            pair = given_as(counts, "prevalences"), given_as(more, "prevalences")
            budget = BUDGETS[number % len(BUDGETS)]
            options: Any = {"budget": budget, "definition": "pure", "force": force}
            found = judge(mechanism, *pair, **options, processes=processes)
            assert found.loss <= budget * (1 + Fraction(1, 10**9))


@pytest.mark.parametrize("definition", ["pure", "zcdp"])
def test_any_prevalences_and_one_record_more(definition: Definition) -> None:
    mechanism = build("privhist", form="prevalences")

    @settings(max_examples=25, deadline=None, derandomize=True, database=None)
    @given(st.data())
    def search(data: st.DataObject) -> None:
        sizes = data.draw(st.lists(st.integers(0, 60), min_size=1, max_size=12))
        place = data.draw(st.integers(0, len(sizes) - 1))
        more = [size + (place == at) for at, size in enumerate(sizes)]
        pair = [given_as(np.array(each), "prevalences") for each in (sizes, more)]
        for order in (pair, pair[::-1]):
            judge(mechanism, *order, **options, force=made_up(data), processes=processes)

    options: Any = {"budget": Fraction(7, 3), "definition": definition}
    with Audit(mechanism) as processes:
        search()


def test_both_forms_ask_for_the_same_draws() -> None:
    counts = np.array([[5, 0, 2], [2, 2, 90]])
    runs = []
    for form in ("counts", "prevalences"):
        given_in = given_as(counts, form)
        runs.append(replay(build("privhist", form=form), given_in, given_in, 1, 5))
    assert [run.loss for run in runs] == [0, 0]
    assert [event for event, _ in runs[0].losses] == [event for event, _ in runs[1].losses]


@pytest.mark.parametrize("form", ["counts", "prevalences"])
def test_huge_counts(form: str) -> None:
    """Whole budget, no more, where the sums are largest and the blocks are at their widest."""
    counts = np.array([LARGEST_COUNT, 3, 3, LARGEST_COUNT - 1])
    more = np.array([LARGEST_COUNT, 3, 3, LARGEST_COUNT])
    for budget in (Fraction(1, 2), Fraction(2)):
        found = replay(build("privhist", form=form), given_as(counts, form), given_as(more, form), budget, 1)
        assert found.loss == pytest.approx(float(budget))


def test_a_leak_in_the_shape_is_seen() -> None:
    """Events must not say how many distinct counts there are: this would be what the form leaks."""

    class Tells(PrivHistTwin):
        def draw(self, counts: Any, channel: Any) -> Any:
            arrays, meta = super().draw(counts, channel)
            return arrays, meta | {"distinct": int(counts.shape[0])}

    one, more = (given_as(np.array(each), "prevalences") for each in ([3, 3], [3, 4]))
    assert replay(Tells(broken=False, form="prevalences"), one, more, 1, 0).loss == inf
