"""Small mechanisms, each in two forms: as it should be, and broken in one way that the field has seen.

Twins live here only. Each stands for a mistake that has been published, or shipped, or is easy to make.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from mechanisms.channel import Channel
from mechanisms.mechanism import Mechanism
from mechanisms.release import Measured, Release
from tests.audit.cases import Case, Counts

Drawn = tuple[dict[str, Any], dict[str, Any]]
SMALL = Case(worst=([], []), shapes=((1,), (2,), (7,), (16,)), largest=1000)


@dataclass(frozen=True)
class Twin(Mechanism):
    """Base: ``finish`` hands back what was measured."""

    broken: bool = True
    name: ClassVar[str] = "twin"
    definitions: ClassVar = ("pure",)
    case: ClassVar[Case] = SMALL

    def finish(self, measured: Measured) -> Release:
        return Release(
            values=next(iter(measured.arrays.values())),
            transcript=measured.transcript,
            insecure=measured.insecure,
            diagnostics=measured.meta,
        )


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

    case: ClassVar[Case] = Case(worst=([], []), shapes=((1,), (8,), (128,)), largest=1000)
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


class EventCountFromTheData(Twin):
    """Only the bins that hold someone are measured."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        share = channel.remaining
        noisy = np.zeros_like(counts)
        with channel.parallel(share, cells=counts.size, purpose="bins") as scope:
            for place in np.flatnonzero(counts) if self.broken else range(counts.size):
                noisy[place] = scope.branch([place]).laplace(counts[place], share, purpose="bin")
        return {"cells": noisy}, {}


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


class NoiseOfItsOwn(Twin):
    """Noise from a generator of its own, besides the channel's."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        noisy = channel.laplace(counts, channel.remaining, purpose="cells")
        extra = np.random.default_rng().laplace(size=counts.shape) if self.broken else np.zeros(counts.shape)
        return {"cells": noisy + (counts + extra if self.broken else extra)}, {}


class TrueTotalInTheDiagnostics(Twin):
    """The release is private; what is said about it is not."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        noisy = channel.laplace(counts, channel.remaining, purpose="cells")
        return {"cells": noisy}, {"total": int((counts if self.broken else noisy).sum())}


class RaisesOnTheData(Twin):
    """An error that only some data sets cause tells which they are."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        noisy = channel.laplace(counts, channel.remaining, purpose="cells")
        if (counts if self.broken else noisy).max() > 2:
            raise ValueError("a count is too large")
        return {"cells": noisy}, {}


class NotesOnTheError(Twin):
    """Both runs fail with the same text; a note, or the error behind it, tells them apart."""

    case: ClassVar[Case] = Case(worst=([], []), shapes=((2,), (7,)), largest=1000)

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        noisy = channel.laplace(counts, channel.remaining, purpose="cells")
        if noisy.max() > 5:
            error = ValueError("a noisy count is too large")
            if self.broken:
                error.add_note(f"{counts.sum()} records")
            raise error
        return {"cells": noisy}, {}


class FailsBecauseOfTheData(Twin):
    """The same, with the telling error as the cause."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        noisy = channel.laplace(counts, channel.remaining, purpose="cells")
        if noisy.max() > 5:
            raise ValueError("too large") from KeyError(int((counts if self.broken else noisy).sum()))
        return {"cells": noisy}, {}


class WarnsAboutTheData(Twin):
    """Nothing is different but what a log would hold."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        noisy = channel.laplace(counts, channel.remaining, purpose="cells")
        if (counts if self.broken else noisy).max() > 2:
            warnings.warn("a count is large", stacklevel=1)
        return {"cells": noisy}, {}


class OrderInMemory(Twin):
    """The release is laid out by columns or by rows, as the largest true count will have it."""

    case: ClassVar[Case] = Case(worst=([], []), shapes=((2, 3), (3, 2)), largest=1000)
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


class SharesFromTheData(Twin):
    """The budget is divided by what the data look like."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        share = Fraction(1, 2 + int(counts[0]) % 2) if self.broken else Fraction(1, 3)
        total = channel.laplace(counts.sum(), channel.remaining * share, purpose="total")
        return {
            "cells": channel.laplace(counts, channel.remaining, purpose="cells"),
            "total": np.array(total),
        }, {}


class WidthOfTheInteger(Twin):
    """The numbers are private; the type they are stored in follows the largest true count."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        noisy = channel.laplace(counts, channel.remaining, purpose="cells")
        wide = (counts if self.broken else noisy).max() > 100
        return {"cells": noisy.astype(np.int64 if wide else np.int32)}, {}


class RemembersTheFirst(Twin):
    """A cache that outlives the run: the neighbour's run shows the first run's bins."""

    seen: ClassVar[list[int]] = []

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        noisy = channel.laplace(counts, channel.remaining, purpose="cells")
        if self.broken:
            self.seen.append(int(counts.sum()))
            noisy = noisy + self.seen[-1] % 7
        return {"cells": noisy}, {}


class RemembersByTheNoise(Twin):
    """A cache whose key is what was drawn: forced to the same draws, the neighbour's run finds the first's.

    Only a replay in another process sees it.
    """

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

    case: ClassVar[Case] = Case(worst=([], []), shapes=((2,), (7,)), largest=1000)

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        seen = np.full_like(counts, counts.sum()) if self.broken else counts
        scores = np.column_stack([seen, 10 - seen]).reshape(-1)
        starts = 2 * np.arange(counts.size)
        chosen = channel.pick_each(scores, starts, channel.remaining, sensitivity=1, purpose="larger")
        return {"chosen": chosen}, {}


class GroupsFromTheData(Twin):
    """The groups begin where the data say."""

    case: ClassVar[Case] = Case(worst=([], []), shapes=((2,), (7,)), largest=1000)

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        start = 1 + int(counts[0] > 2) * (counts.size - 2) if self.broken else 1
        bound = counts.size  # the groups' best scores may both move
        chosen = channel.pick_each(counts, [0, start], channel.remaining, sensitivity=bound, purpose="best")
        return {"chosen": chosen}, {}


TWINS: list[type[Twin]] = [
    BarePhase,
    DrawPerBin,
    CapFromTheData,
    UnboundedDepth,
    HalfTheScale,
    HalfTheSigma,
    PeekingFinish,
    EventCountFromTheData,
    OverlappingBins,
    NoiseOfItsOwn,
    TrueTotalInTheDiagnostics,
    RaisesOnTheData,
    NotesOnTheError,
    FailsBecauseOfTheData,
    WarnsAboutTheData,
    OrderInMemory,
    SaysItInThePurpose,
    SharesFromTheData,
    WidthOfTheInteger,
    RemembersTheFirst,
    ReusesItsBuffer,
    SharesItsNotes,
    SwallowsEverything,
    OneCandidateTooGood,
    OneGroupTooMany,
    GroupsFromTheData,
]
