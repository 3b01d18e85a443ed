"""The audit catches NoiseFirst when it looks at the counts a second time.

NoiseFirst with its mistakes: whatever looks at the counts a second time for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from tabularium.mechanisms.channel import Channel, replay, replay_loss
from tabularium.mechanisms.histograms.noise_first import NoiseFirst, improve
from tabularium.mechanisms.measured import Measured, Release
from tabularium.mechanisms.mechanism import Counts
from tests.audit.cases import Case
from tests.audit.replays import NotPrivateError, audit
from tests.audit.twins.twin import Drawn


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class NumberOfBinsOfTheCounts(NoiseFirst):
    """Only their number is taken from the true counts."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        arrays, _ = super().draw(counts, channel)
        return arrays, {"bins": int(improve(counts, 5).starts.size)}

    def finish(self, measured: Measured) -> Release:
        values = improve(measured.arrays["cells"], 5, bins=measured.meta["bins"]).values
        return Release(values=values, transcript=measured.transcript, insecure=measured.insecure)


@dataclass(frozen=True)
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


CASE = Case(worst=([], []), shapes=((4,), (9,)), largest=1000)


@pytest.mark.parametrize("kind", [BinsOfTheCounts, NumberOfBinsOfTheCounts, KeepsWhatIsTrulyRough])
def test_the_broken_twin_is_caught(kind: type[NoiseFirst]) -> None:
    with pytest.raises(NotPrivateError):
        audit(kind(), CASE, "pure", shrink=False)


def test_bins_of_the_counts_give_a_record_away() -> None:
    """Somewhere one record more puts two cells apart that were in one bin."""
    threshold = next(far for far in range(1000) if _bins(far) < _bins(far + 1))
    found = replay(BinsOfTheCounts(), [0, threshold], [0, threshold + 1], 1, 1)
    assert found.loss == np.inf
    assert "results differ" in found.reason
    assert replay_loss(NoiseFirst(), [0, threshold], [0, threshold + 1], 1, 1) <= 1


def _bins(far: int) -> int:
    return improve([0, far], 5).starts.size
