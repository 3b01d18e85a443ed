"""Small mechanisms, each as it should be and broken in one way that has been published, or shipped, or is easy to make."""

from __future__ import annotations

import logging
import warnings
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar
from zlib import crc32

import numpy as np

from tabularium.mechanisms.channel import Channel
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.measured import Measured, Release
from tabularium.mechanisms.noise.synthetic import generator
from tests.audit.cases import Case, Counts
from tests.audit.twins.twin import Drawn, Says, Twin, small

# --- Mistakes about what a draw costs: sensitivities, shares, and who looks at which bins ------------


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


# --- Mistakes beside the draws: errors, warnings, names, types and other things that follow the data ---


class NoiseOfItsOwn(Twin):
    """Noise from a generator of its own, besides the channel's."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        noisy = channel.laplace(counts, channel.remaining, purpose="cells")
        extra = np.random.default_rng().laplace(size=counts.shape) if self.broken else np.zeros(counts.shape)
        return {"cells": noisy + (counts + extra if self.broken else extra)}, {}


class TrueTotalInTheDiagnostics(Says):
    """The release is private; what is said about it is not."""

    def said(self, cells: Counts, budget: Fraction) -> int:
        return int(cells.sum())


class RaisesOnTheData(Says):
    """An error that only some data sets cause tells which they are."""

    def said(self, cells: Counts, budget: Fraction) -> int:
        if self.broken and cells.max() > 2:
            raise ValueError("a count is too large")
        return 0


class WarnsAboutTheData(Says):
    """Nothing is different but what a log would hold."""

    def said(self, cells: Counts, budget: Fraction) -> int:
        if cells.max() > 2:
            warnings.warn("a count is large", stacklevel=1)
        return 0


class OrderInMemory(Twin):
    """The release is laid out by columns or by rows, as the largest true count will have it."""

    case: ClassVar[Case] = small((2, 3), (3, 2))
    columns: ClassVar[list[bool]] = []

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        noisy = channel.laplace(counts, channel.remaining, purpose="cells")
        self.columns[:] = [bool((counts if self.broken else noisy).max() > 2)]
        return {"cells": noisy}, {}

    def finish(self, measured: Measured) -> Release:
        release = super().finish(measured)
        columns = self.columns[0] if self.broken else bool(release.values.max() > 2)
        return replace(release, values=np.asarray(release.values, order="F" if columns else "C"))


class SaysItInThePurpose(Twin):
    """The transcript is published: a number in a purpose is published too."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        purpose = f"{counts.sum()} records" if self.broken else "all records"
        return {"cells": channel.laplace(counts, channel.remaining, purpose=purpose)}, {}


class WidthOfTheInteger(Twin):
    """The numbers are private; the type they are stored in follows the largest true count."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        noisy = channel.laplace(counts, channel.remaining, purpose="cells")
        wide = (counts if self.broken else noisy).max() > 100
        return {"cells": noisy.astype(np.int64 if wide else np.int32)}, {}


class SwallowsEverything(Twin):
    """Draws again for nothing, and hides every complaint."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        noisy = channel.laplace(counts, channel.remaining / 2, purpose="cells")
        try:
            bound = 1 + int(counts.max()) if self.broken else 1
            channel.laplace(counts, channel.remaining, sensitivity=bound, purpose="again")
        except BaseException:
            pass
        return {"cells": noisy}, {}


# --- Leaks that wait for their hour: a threshold, a size, a budget, a chance, or nobody who watches ---


class TotalIfItIsLarge(Says):
    """Neighbours on both sides of 31 337 are seldom tried."""

    def said(self, cells: Counts, budget: Fraction) -> int:
        total = int(cells.sum())
        return total if total > 31_337 else 0


class TellsTheThousands(Says):
    """One pair of neighbours in a thousand differs."""

    def said(self, cells: Counts, budget: Fraction) -> int:
        return (int(cells.sum()) + 437) // 1000


class RoundsItsOwnNoise(Says):
    """A generator of its own, seeded each time anew, and a rounding that hides it."""

    def said(self, cells: Counts, budget: Fraction) -> int:
        own = generator(1).laplace(scale=3) if self.broken else 0.0
        return int(np.rint((float(cells.sum()) + own) / 4096))


class OnlyOnLargeTables(Says):
    """Audits try small ones."""

    def said(self, cells: Counts, budget: Fraction) -> int:
        return int(cells.sum()) if cells.size > 100 else 0


class OnlyBelowATwentieth(Says):
    """Audits try budgets at which something is seen."""

    def said(self, cells: Counts, budget: Fraction) -> int:
        return int(cells.sum()) if budget < Fraction(1, 20) else 0


class OnlyWhereNobodyWatches(Twin):
    """An audit's noise is predictable, and a channel used to say so."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        noisy = channel.laplace(counts, channel.remaining, purpose="cells")
        secure = self.broken and not channel.insecure
        return {"cells": counts if secure else noisy}, {}


class LogsTheTotal(Says):
    """At a level that nobody has switched on yet."""

    def said(self, cells: Counts, budget: Fraction) -> int:
        logging.getLogger("twin").debug("%d records", cells.sum())
        return 0


class LogsUnderABorrowedName(Says):
    """The compiler's own loggers are not listened to; one that is called like them is."""

    def said(self, cells: Counts, budget: Fraction) -> int:
        logging.getLogger("numba_twin").debug("%d records", cells.sum())
        return 0


class RefusesLargeCounts(Says):
    """That there is a release tells that no count is so large; zeros and small tables are taken."""

    def said(self, cells: Counts, budget: Fraction) -> int:
        if self.broken and cells.max() > 1_000_000:
            raise MechanismError("there are too many records in one cell", where="twin")
        return 0

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        self.said(counts, channel.budget)
        return super().draw(counts, channel)


class RefusesTheWitness(RefusesLargeCounts):
    """Tells large totals from small ones, and does not take the public table that would show it."""

    def said(self, cells: Counts, budget: Fraction) -> int:
        if self.broken and cells.min() > 1_000_000:
            raise MechanismError("such a table is not measured", where="twin")
        return int(self.broken and cells.sum() > 31_337)


class TruthOneInManyTimes(Twin):
    """The truth itself, once in 65 536 releases."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        noisy = channel.laplace(counts, channel.remaining, purpose="cells")
        if self.broken and crc32(noisy.tobytes()) % 65_536 == 0:
            return {"cells": counts}, {}
        return {"cells": noisy}, {}


# --- Mistakes that need a memory: what one run leaves for another, or for ``finish`` -----------------


@dataclass(frozen=True)
class PeekingFinish(Twin):
    """``finish`` uses counts that ``measure`` laid aside: here, to clip at the true maximum."""

    aside: dict[str, Any] = field(default_factory=dict)

    def parameters(self) -> dict[str, Any]:
        return {"broken": self.broken}  # what was laid aside stays hidden

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        if self.broken:
            self.aside["most"] = int(counts.max())
        return {"cells": channel.laplace(counts, channel.remaining, purpose="cells")}, {}

    def finish(self, measured: Measured) -> Release:
        release = super().finish(measured)
        values = (
            np.minimum(release.values, self.aside["most"]) if self.broken else np.maximum(release.values, 0)
        )
        return Release(values=values, transcript=release.transcript, insecure=release.insecure)


class RemembersTheFirst(Twin):
    """A cache that outlives the run: the neighbour's run shows the first run's bins."""

    seen: ClassVar[list[int]] = []

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        noisy = channel.laplace(counts, channel.remaining, purpose="cells")
        if self.broken:
            self.seen.append(int(counts.sum()))
            noisy = noisy + self.seen[-1] % 7
        return {"cells": noisy}, {}


class RemembersTheFirstEver(Twin):
    """What every later release tells is of the first table alone: two runs in one process look the same."""

    first: ClassVar[list[int]] = []

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        noisy = channel.laplace(counts, channel.remaining, purpose="cells")
        if self.broken and not self.first:
            self.first.append(int(counts.sum()))
        return {"cells": noisy}, {"first": self.first[0] if self.broken else 0}


class RemembersByTheNoise(Twin):
    """A cache whose key is what was drawn: forced to the same draws, a run in one process finds the first's."""

    seen: ClassVar[dict[tuple[bool, bytes], int]] = {}

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        noisy = channel.laplace(counts, channel.remaining, purpose="cells")
        total = self.seen.setdefault(
            (self.broken, noisy.tobytes()), int((counts if self.broken else noisy).sum())
        )
        return {"cells": noisy}, {"total": total}


class ReusesItsBuffer(Twin):
    """A scratch array that outlives the run is returned, true counts in it: the next run fills it anew."""

    scratch: ClassVar[dict[tuple[int, ...], Counts]] = {}

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        noisy = channel.laplace(counts, channel.remaining, purpose="cells")
        buffer = self.scratch.setdefault(counts.shape, np.zeros_like(counts))
        buffer[...] = counts if self.broken else noisy
        return {"cells": buffer}, {}


class SharesItsNotes(Twin):
    """The same with the dictionary of what is said about the release."""

    notes: ClassVar[dict[str, Any]] = {}

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        noisy = channel.laplace(counts, channel.remaining, purpose="cells")
        self.notes["total"] = int((counts if self.broken else noisy).sum())
        return {"cells": noisy}, self.notes


# --- Mistakes that were published: steps of the papers as they are printed ---------------------------


class BarePhase(Twin):
    """EFPA as printed (Acs 2012): noise on the magnitudes, phases published as they are."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        size = counts.size
        kept = np.fft.rfft(counts.astype(np.float64), norm="ortho")[: size // 4 + 1]
        common = {"width": "1/1024", "error": "1/1000000", "purpose": "coefficients"}
        bound = Fraction(2 * kept.size) / Fraction(int(np.sqrt(size) * 2**20), 2**20)
        if self.broken:
            noisy = channel.lattice(np.abs(kept), channel.remaining, sensitivity=bound, **common)
            return {"coefficients": noisy * np.exp(1j * np.angle(kept))}, {}
        parts = np.concatenate([kept.real, kept.imag])
        return {"coefficients": channel.lattice(parts, channel.remaining, sensitivity=bound, **common)}, {}


class DrawPerBin(Twin):
    """SReB_GCA (Chen 2024), line 10: the group's mean is drawn for every bin instead of once."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        noisy = channel.laplace(counts, channel.remaining / 2, purpose="order")
        groups = np.argsort(np.argsort(noisy, kind="stable"), kind="stable") // 3
        sums = np.bincount(groups, weights=counts).astype(np.int64)
        if self.broken:
            means = channel.laplace(sums[groups], channel.remaining, purpose="means")
            return {"values": means / np.bincount(groups)[groups]}, {}
        means = channel.laplace(sums, channel.remaining, purpose="means") / np.bincount(groups)
        return {"values": means[groups]}, {}


class CapFromTheData(Twin):
    """StructureFirst (Xu 2013): the cap F in the sensitivity 2F+1 is taken from the data."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        cap = int(counts.max()) if self.broken else 50
        clipped = np.minimum(counts, cap)
        cuts = [(clipped[:place], clipped[place:]) for place in range(1, clipped.size)] or [
            (clipped, clipped[:0])
        ]
        scores = np.array([-sum(_squared_error(part) for part in cut) for cut in cuts])
        place = 1 + channel.pick(
            scores, channel.remaining / 2, sensitivity=2 * cap + 1, error="1/1000", purpose="boundary"
        )
        sums = np.array([counts[:place].sum(), counts[place:].sum()])
        return {"sums": channel.laplace(sums, channel.remaining, purpose="sums")}, {"place": place}


def _squared_error(part: Counts) -> float:
    return float(((part - part.mean()) ** 2).sum()) if part.size else 0.0


class UnboundedDepth(Twin):
    """P-HPartition (Acs 2012) without its limit on depth: a record pays at every level it meets.

    The broken one gives every part bins of its own in one scope, although a part lies inside its parent.
    """

    case: ClassVar[Case] = small((1,), (8,), (128,))
    depth = 2

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        share = channel.remaining / 4
        parts = [(0, counts.size)]
        if self.broken:
            parts = self._unbounded(counts, channel, share)
        else:
            for level in range(self.depth):
                with channel.parallel(share, cells=counts.size, purpose=f"level {level}") as scope:
                    halves = [self._split(counts, part, scope.branch(slice(*part)), share) for part in parts]
                parts = [half for pair in halves for half in pair]
        sums = np.array([counts[low:high].sum() for low, high in parts])
        return {"sums": channel.laplace(sums, channel.remaining, purpose="sums")}, {"parts": parts}

    def _unbounded(self, counts: Counts, channel: Channel, share: Fraction) -> list[tuple[int, int]]:
        done, queue = [], [(0, counts.size)]
        with channel.parallel(share, cells=4 * counts.size, purpose="parts") as scope:
            for number in range(4 * counts.size):
                if not queue:
                    break
                part = queue.pop(0)
                halves = self._split(counts, part, scope.branch([number]), share)
                (queue if len(halves) == 2 else done).extend(halves)
        return done + queue

    def _split(
        self, counts: Counts, part: tuple[int, int], channel: Channel, share: Fraction
    ) -> list[tuple[int, int]]:
        low, high = part
        middle = (low + high) // 2
        if middle == low:
            return [part]
        left, right = int(counts[low:middle].sum()), int(counts[middle:high].sum())
        split = channel.pick([0, abs(left - right) - 2], share, purpose=f"{low}-{high}")
        return [(low, middle), (middle, high)] if split else [part]
