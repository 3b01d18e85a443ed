"""The audit catches denoising that asks the true counts how well it did.

Denoise with its mistakes: what is to be chosen by the estimated error is chosen by the true one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from mechanisms.channel import Channel
from mechanisms.histograms.denoise.denoise import Denoise
from mechanisms.measured import Measured, Release
from mechanisms.mechanism import Counts
from tests.audit.cases import Case
from tests.audit.replays import NotPrivateError, audit
from tests.audit.twins.twin import Drawn


@dataclass(frozen=True)
class FormOfTheCounts(Denoise):
    """The form is the one that comes closest to the true counts."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        arrays, _ = super().draw(counts, channel)
        smooth = np.full(counts.shape, arrays["cells"].mean())
        closer = np.abs(arrays["cells"] - counts).sum() < np.abs(smooth - counts).sum()
        return arrays, {"strength": "1/100" if closer else "9"}

    def finish(self, measured: Measured) -> Release:
        given = Denoise(form="partition", strength=measured.meta["strength"])
        return given.finish(replace(measured, meta={}))


@dataclass(frozen=True)
class ErrorOfTheCounts(Denoise):
    """The stated error is the true one."""

    def draw(self, counts: Counts, channel: Channel) -> Drawn:
        arrays, _ = super().draw(counts, channel)
        return arrays, {"risk": float(((arrays["cells"] - counts) ** 2).mean())}

    def finish(self, measured: Measured) -> Release:
        release = Denoise(form="wavelet").finish(measured)
        release.diagnostics["risk"] = measured.meta["risk"]
        return release


CASE = Case(worst=([], []), shapes=((4,), (9,)), largest=1000)


@pytest.mark.parametrize("kind", [FormOfTheCounts, ErrorOfTheCounts])
def test_the_broken_twin_is_caught(kind: type[Denoise]) -> None:
    with pytest.raises(NotPrivateError):
        audit(kind(), CASE, "pure", shrink=False)
