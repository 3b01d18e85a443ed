"""DAWA, each time broken in one way. Unbroken, every twin is the registered class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mechanisms.channel import Channel
from mechanisms.histograms.dawa.dawa import Dawa
from mechanisms.histograms.dawa.hilbert import row_order
from tests.audit.cases import Case, Counts
from tests.audit.twin import Drawn


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
