"""Denoise that asks the true counts what only the noisy ones may tell."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tabularium.mechanisms.channel import Channel
from tabularium.mechanisms.histograms.denoise.denoise import Denoise
from tabularium.mechanisms.histograms.denoise_ranges.tree import SplitTree, few_peaks
from tabularium.mechanisms.measured import Measured, Release
from tabularium.mechanisms.mechanism import Counts
from tests.audit.twins.twin import Broken, Drawn, small


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


TWINS = [
    Broken(FormOfTheCounts()),
    Broken(ErrorOfTheCounts()),
    Broken(UncountedLevel(workload="ranges")),
    Broken(LevelsOfTheCounts(workload="ranges")),
    Broken(OverlappingBoxes(workload="ranges")),
    Broken(PeaksOfTheCounts(workload="ranges"), small((16,))),
]
