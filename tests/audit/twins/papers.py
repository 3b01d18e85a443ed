"""Mistakes that were published: steps of the papers as they are printed."""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar

import numpy as np

from tabularium.mechanisms.channel import Channel
from tests.audit.cases import Case, Counts
from tests.audit.twins.twin import Drawn, Twin, small


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
