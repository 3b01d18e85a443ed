"""The audit catches P-HPartition when it is broken, whichever way."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from mechanisms.channel import replay
from tests.audit.cases import CASES
from tests.audit.replays import NotPrivateError, audit, judge
from tests.audit.twins_p_hpartition import TWINS, EachLevelTakesAll, HalfTheSensitivity, PHPartitionTwin

CASE = CASES["p_hpartition"]
WORST = tuple(np.array(counts) for counts in CASE.worst)
ONLY_WITH_THE_WORST_PAIR = (EachLevelTakesAll, HalfTheSensitivity)


@pytest.mark.parametrize("kind", TWINS, ids=lambda kind: kind.__name__)
def test_the_broken_twin_is_caught(kind: type[PHPartitionTwin]) -> None:
    twin = kind(broken=True)
    with pytest.raises(NotPrivateError):
        if kind in ONLY_WITH_THE_WORST_PAIR:
            judge(twin, *WORST, budget=Fraction(1, 2), definition="pure", force=CASE.worst_force)
        else:
            audit(twin, twin.case, "pure", shrink=False)


@pytest.mark.parametrize("kind", TWINS, ids=lambda kind: kind.__name__)
def test_the_sound_twin_passes(kind: type[PHPartitionTwin]) -> None:
    twin = kind(broken=False)
    for budget in (Fraction(1, 2), Fraction(7, 3)):
        judge(twin, *WORST, budget=budget, definition="pure", force=CASE.worst_force)
    audit(twin, twin.case, "pure", examples=10)


def test_what_each_loses() -> None:
    """Five levels at ε/4 instead of ε/20 each; choices at twice their rate."""
    for kind, loss in (
        (EachLevelTakesAll, 5 / 4 + 1 / 4 + 1 / 2),
        (HalfTheSensitivity, 1 / 2 + 1 / 2 + 1 / 2),
    ):
        lost = [
            replay(kind(broken=broken), *WORST, 1, 0, force=CASE.worst_force).loss for broken in (True, False)
        ]
        assert lost == [pytest.approx(loss, rel=1e-3), pytest.approx(1, rel=1e-3)]
