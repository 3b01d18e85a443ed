"""Mistakes about what a draw costs: sensitivities, shares, and who looks at which bins."""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar

import numpy as np

from tabularium.mechanisms.channel import Channel
from tests.audit.cases import Case, Counts
from tests.audit.twins.twin import Drawn, Twin, small


class HalfTheScale(Twin):
    """The sensitivity is understated, so the noise is half of what was promised."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        bound = Fraction(1, 2) if self.broken else Fraction(1)
        return {"cells": channel.laplace(counts, channel.remaining, sensitivity=bound, purpose="cells")}, {}


class HalfTheSigma(HalfTheScale):
    """The same under zCDP."""

    definitions: ClassVar = ("zcdp",)

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        bound = Fraction(1, 2) if self.broken else Fraction(1)
        return {"cells": channel.gaussian(counts, channel.remaining, sensitivity=bound, purpose="cells")}, {}


class OneCandidateTooGood(Twin):
    """A score whose sensitivity is 3, chosen among as if it were 1.

    A factor of 2 would not show: only one score moves, and then a choice costs half of what it declares.
    """

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        scores = 3 * counts
        bound = 1 if self.broken else 3
        return {
            "mode": np.array(channel.pick(scores, channel.remaining, sensitivity=bound, purpose="mode"))
        }, {}


class OneGroupTooMany(Twin):
    """Choices in groups that all look at the total: one record moves the scores of every group."""

    case: ClassVar[Case] = small((2,), (7,))

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        seen = np.full_like(counts, counts.sum()) if self.broken else counts
        scores = np.column_stack([seen, 10 - seen]).reshape(-1)
        starts = 2 * np.arange(counts.size)
        chosen = channel.pick_each(scores, starts, channel.remaining, sensitivity=1, purpose="larger")
        return {"chosen": chosen}, {}


class GroupsFromTheData(Twin):
    """The groups begin where the data say."""

    case: ClassVar[Case] = small((2,), (7,))

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        start = 1 + int(counts[0] > 2) * (counts.size - 2) if self.broken else 1
        bound = counts.size  # the groups' best scores may both move
        chosen = channel.pick_each(counts, [0, start], channel.remaining, sensitivity=bound, purpose="best")
        return {"chosen": chosen}, {}


class CostsBeyondTheBin(Twin):
    """A partition by noisy costs, where a record also changes costs of intervals that do not hold its bin."""

    case: ClassVar[Case] = small((2,), (5,))

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        cells = counts.size
        ends = [(a, b) for b in range(1, cells + 1) for a in range(b)]
        starts, stops = np.array([a for a, _ in ends]), np.array([b for _, b in ends])
        sums = np.array([counts[a:b].sum() for a, b in ends])
        costs = sums - counts.sum() * (stops - starts) if self.broken else sums
        chosen = channel.partition(
            costs, starts, stops, channel.remaining, cells=cells, sensitivity=1, purpose="cut"
        )
        return {"starts": starts[chosen]}, {}


class OverlappingBins(Twin):
    """The branches of a scope say that they look at their own bins, and all look at the total."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        share, noisy = channel.remaining, []
        with channel.parallel(share, cells=counts.size, purpose="halves") as scope:
            middle = (counts.size + 1) // 2
            for half in [slice(0, middle), slice(middle, counts.size)][: counts.size]:
                seen = counts if self.broken else counts[half]
                noisy.append(scope.branch(half).laplace(seen.sum(), share, purpose="sum"))
        return {"sums": np.array(noisy)}, {}


class EventCountFromTheData(Twin):
    """Only the bins that hold someone are measured."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        share = channel.remaining
        noisy = np.zeros_like(counts)
        with channel.parallel(share, cells=counts.size, purpose="bins") as scope:
            for place in np.flatnonzero(counts) if self.broken else range(counts.size):
                noisy[place] = scope.branch([place]).laplace(counts[place], share, purpose="bin")
        return {"cells": noisy}, {}


class SharesFromTheData(Twin):
    """The budget is divided by what the data look like."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        share = Fraction(1, 2 + int(counts[0]) % 2) if self.broken else Fraction(1, 3)
        total = channel.laplace(counts.sum(), channel.remaining * share, purpose="total")
        return {
            "cells": channel.laplace(counts, channel.remaining, purpose="cells"),
            "total": np.array(total),
        }, {}
