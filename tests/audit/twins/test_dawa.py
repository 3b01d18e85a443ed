"""The audit catches DAWA when it is broken, whichever way; and what its published code loses.

DAWA, each time broken in one way. Unbroken, every twin is the registered class.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import exp, log
from typing import Any, ClassVar

import numpy as np
import pytest

from tabularium.mechanisms.channel import Channel
from tabularium.mechanisms.histograms.dawa import Dawa
from tabularium.mechanisms.histograms.dawa_intervals import row_order
from tests.audit.cases import CASES, Case, Counts
from tests.audit.replays import NotPrivateError, audit, judge
from tests.audit.twins.twin import Drawn


@dataclass(frozen=True)
class DawaTwin(Dawa):
    """Base. Small counts: at 2^40 hardly any noise matters."""

    broken: bool = True
    case: ClassVar[Case] = Case(worst=([], []), shapes=((2,), (7,), (16,)), largest=1000)

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        changed = self.through(counts, channel) if self.broken else channel
        return super().draw(counts, changed)

    def through(self, counts: Counts, channel: Channel) -> Any:
        """Return the channel that the broken one draws through."""
        return channel


class _Cuts:
    """A channel with another way to choose a partition."""

    def __init__(self, channel: Channel, change: Any) -> None:
        self._channel, self._change = channel, change

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    def partition(self, costs: Any, starts: Any, stops: Any, epsilon: Any, **options: Any) -> Any:
        offer = {"costs": costs, "starts": starts, "stops": stops, "epsilon": epsilon, **options}
        return self._channel.partition(**(offer | self._change(offer)))


class CountedOnce(DawaTwin):
    """The noise is scaled for costs in whole records, and the costs are in quarters of one."""

    def through(self, counts: Counts, channel: Channel) -> Any:
        return _Cuts(channel, lambda offer: {"sensitivity": 1})


class MeanAsIfMedian(DawaTwin):
    """Costs around the mean, with the sensitivity of those around the median; for ``deviation="mean"``."""

    def through(self, counts: Counts, channel: Channel) -> Any:
        return _Cuts(channel, lambda offer: {"sensitivity": 4})


class PriceFromTheTotal(DawaTwin):
    """What a sum costs follows the number of records: all costs move, not those of one cell alone."""

    def through(self, counts: Counts, channel: Channel) -> Any:
        return _Cuts(channel, lambda offer: {"costs": offer["costs"] + int(counts.sum()) // 3})


class OnlyOccupiedIntervals(DawaTwin):
    """Wider intervals are on offer where somebody is."""

    def through(self, counts: Counts, channel: Channel) -> Any:
        def fewer(offer: dict[str, Any]) -> dict[str, Any]:
            sums = np.append(0, np.cumsum(counts.reshape(-1)))
            starts, stops = offer["starts"], offer["stops"]
            keep = (sums[stops] > sums[starts]) | (stops - starts == 1)
            return {key: offer[key][keep] for key in ("costs", "starts", "stops")}

        return _Cuts(channel, fewer)


class OrderFromTheData(DawaTwin):
    """The cells are put in the order of their counts, which makes intervals even, and tells who is where."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        if not self.broken:
            return super().draw(counts, channel)
        arrays, meta = super().draw(np.sort(counts.reshape(-1)), channel)
        arrays["order"] = np.argsort(counts.reshape(-1), kind="stable")
        return arrays, meta


class EmptyIntervalsAreZero(DawaTwin):
    """Intervals without anybody are released as zero."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        arrays, meta = super().draw(counts, channel)
        if self.broken:
            row = counts.reshape(-1)[row_order(counts.size)[0]]
            arrays["sums"] = np.where(np.add.reduceat(row, arrays["starts"]) == 0, 0, arrays["sums"])
        return arrays, meta


TWINS: list[type[DawaTwin]] = [
    CountedOnce,
    MeanAsIfMedian,
    PriceFromTheTotal,
    OnlyOccupiedIntervals,
    OrderFromTheData,
    EmptyIntervalsAreZero,
]


WORST = tuple(np.array(counts) for counts in CASES["dawa"].worst)


@pytest.mark.parametrize("kind", TWINS, ids=lambda kind: kind.__name__)
def test_the_broken_twin_is_caught(kind: type[DawaTwin]) -> None:
    twin = kind(broken=True, deviation="mean") if kind is MeanAsIfMedian else kind(broken=True)
    with pytest.raises(NotPrivateError):
        audit(twin, twin.case, "pure", shrink=False)


@pytest.mark.parametrize("kind", TWINS, ids=lambda kind: kind.__name__)
def test_the_sound_twin_passes(kind: type[DawaTwin]) -> None:
    twin = kind(broken=False)
    for budget in (Fraction(1, 2), Fraction(7, 3)):
        judge(twin, *WORST, budget=budget, definition="pure")
    audit(twin, twin.case, "pure", examples=5, every=8)


def above(threshold: float, scale: float) -> float:
    """P(Z > threshold) for Laplace noise Z."""
    return exp(-threshold / scale) / 2 if threshold >= 0 else 1 - exp(threshold / scale) / 2


def chance_of_single_cells(counts: list[int], first: float, price: float, *, folds: float) -> float:
    """How likely the published code cuts three cells apart, in closed form.

    The interval of m of n cells has a cost of its deviation, the price, and Laplace noise of scale
    folds·(2 - 1/m - 1/n)/ε1; the cost of a single cell is the price. Raising a noisy cost to the price does
    not matter here: three prices is what two intervals, or one, must cost more than.
    """
    chance = 1.0
    for start, stop, rest in ((0, 2, 1), (1, 3, 1), (0, 3, 0)):
        inside = np.array(counts[start:stop])
        deviation = float(np.abs(inside - inside.mean()).sum())
        scale = folds * (2 - 1 / inside.size - 1 / 3) / first
        chance *= above((3 - rest) * price - (deviation + price), scale)
    return chance


@pytest.mark.parametrize("folds", [1, 2])
def test_a_single_cell_without_noise_loses_more_than_is_paid(folds: int) -> None:
    """Every interval that holds the cell must make up for the record: already with three cells it is too much.

    With the scale that the proof asks for (folds = 2), too, if only the single cell's noise is left out.
    """
    first, price = 1 / 10, 1000.0
    one, other = (chance_of_single_cells([0, middle, 0], first, price, folds=folds) for middle in (10, 11))
    lost = abs(log(one / other))
    assert lost == pytest.approx(first / folds * (1 / (7 / 6) + 1 / (7 / 6) + (4 / 3) / (4 / 3)))
    assert lost > 1.35 * first


def chance_of_the_last_pair(cells: int, deviates: bool, first: float, price: float) -> float:
    """How likely the published code, with all intervals on offer, makes two of them, cut where it looks last.

    All counts are equal, but that the middle cell may have one record more. An interval of m cells has the
    deviation 0, or 2 - 2/m with that record; its noisy cost is raised to the price, and then as low as can
    be. The last pair is chosen when both of its intervals are there, for all other pairs at least one is
    not, and the whole row costs more than two prices.
    """

    def scale(size: int) -> float:
        return (2 - 1 / size - 1 / cells) / first

    def deviation(size: int) -> float:
        return 2 - 2 / size if deviates else 0.0

    def lowest(size: int, holds: bool) -> float:
        if size == 1:
            return 1.0  # no noise
        return 1 - above(-deviation(size) if holds else 0.0, scale(size))

    def both_lowest(left: int) -> float:
        middle = cells // 2
        return lowest(left, middle < left) * lowest(cells - left, middle >= left)

    chance = above(price - deviation(cells), scale(cells)) * both_lowest(cells - 2)
    for left in range(1, cells):
        if left != cells - 2:
            chance *= 1 - both_lowest(left)
    return chance


def test_raised_costs_lose_more_with_every_rival() -> None:
    first = 1 / 10
    losses = []
    for cells in (11, 41, 161):
        one, other = (chance_of_the_last_pair(cells, more, first, 10.0) for more in (False, True))
        losses.append(abs(log(one / other)) / first)
    assert losses[0] > 2
    assert losses[1] > 10
    assert losses[2] > 40
