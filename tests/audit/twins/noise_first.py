"""NoiseFirst that looks at the counts a second time for nothing."""

from __future__ import annotations

import numpy as np

from tabularium.mechanisms.channel import Channel
from tabularium.mechanisms.histograms.noise_first import NoiseFirst, improve
from tabularium.mechanisms.measured import Measured, Release
from tabularium.mechanisms.mechanism import Counts
from tests.audit.twins.twin import Broken, Drawn


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


TWINS = [Broken(BinsOfTheCounts()), Broken(NumberOfBinsOfTheCounts()), Broken(KeepsWhatIsTrulyRough())]
