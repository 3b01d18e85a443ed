"""The audit catches NoiseFirst when it looks at the counts a second time."""

from __future__ import annotations

import numpy as np
import pytest

from mechanisms.channel import replay, replay_loss
from mechanisms.histograms.noise_first.merging import improve
from mechanisms.histograms.noise_first.noise_first import NoiseFirst
from tests.audit.cases import Case
from tests.audit.replays import NotPrivateError, audit
from tests.audit.twins_of_merging import BinsOfTheCounts, KeepsWhatIsTrulyRough, NumberOfBinsOfTheCounts

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
