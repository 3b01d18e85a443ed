"""The audit catches each mistake made with the baselines themselves."""

from __future__ import annotations

from typing import Any

import pytest

from mechanisms.mechanism import Mechanism
from tests.audit.cases import Case
from tests.audit.replays import NotPrivateError, audit
from tests.audit.twins_baselines import (
    OneLevelTooFew,
    OverlappingRanges,
    RoundsByTheTrueTotal,
    TheTotalIsKnown,
    WholeBudgetForEveryLevel,
)

SMALL = Case(worst=([], []), shapes=((3,), (7,)), largest=1000)
BROKEN: list[tuple[type[Mechanism], dict[str, Any]]] = [
    (WholeBudgetForEveryLevel, {"branching": 2, "root": True}),
    (OneLevelTooFew, {}),
    (TheTotalIsKnown, {"replays": 2}),
    (RoundsByTheTrueTotal, {}),
    (OverlappingRanges, {"replays": 2, "rounds": 2}),
]


@pytest.mark.parametrize(("kind", "parameters"), BROKEN, ids=lambda value: getattr(value, "__name__", ""))
def test_the_broken_twin_is_caught(kind: type[Mechanism], parameters: dict[str, Any]) -> None:
    with pytest.raises(NotPrivateError):
        audit(kind(**parameters), SMALL, "pure", shrink=False)


@pytest.mark.parametrize(("kind", "parameters"), BROKEN, ids=lambda value: getattr(value, "__name__", ""))
def test_the_mechanism_itself_passes(kind: type[Mechanism], parameters: dict[str, Any]) -> None:
    audit(kind.__base__(**parameters), SMALL, "pure", examples=10, every=5)
