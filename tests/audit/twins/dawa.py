"""DAWA, each time broken in one way."""

from __future__ import annotations

from typing import Any

import numpy as np

from tabularium.mechanisms.channel import Channel
from tabularium.mechanisms.histograms.dawa import Dawa
from tabularium.mechanisms.histograms.dawa_intervals import row_order
from tests.audit.cases import Counts
from tests.audit.twins.twin import Broken, Drawn, Wrapped, small


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


TWINS = [
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
