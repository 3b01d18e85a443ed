"""The audit catches denoising that asks the true counts how well it did."""

from __future__ import annotations

import pytest

from mechanisms.histograms.denoise.denoise import Denoise
from tests.audit.cases import Case
from tests.audit.replays import NotPrivateError, audit
from tests.audit.twins_denoise import ErrorOfTheCounts, FormOfTheCounts

CASE = Case(worst=([], []), shapes=((4,), (9,)), largest=1000)


@pytest.mark.parametrize("kind", [FormOfTheCounts, ErrorOfTheCounts])
def test_the_broken_twin_is_caught(kind: type[Denoise]) -> None:
    with pytest.raises(NotPrivateError):
        audit(kind(), CASE, "pure", shrink=False)
