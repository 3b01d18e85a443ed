"""What the audit must know about each registered mechanism: one entry per name.

A mechanism in the registry without an entry here fails the build.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel.replay import Force
from mechanisms.mechanism import LARGEST_COUNT

Counts = NDArray[np.int64]
FLAT = ((1,), (2,), (7,), (16,))
DEEP = ((1, 1), (2, 3), (2, 1, 3), (2, 2, 2, 2))


@dataclass(frozen=True)
class Case:
    """How to audit one mechanism.

    Attributes
    ----------
    worst
        A hand-made pair of neighbours that loses at least ``reaches`` of the budget: a mechanism whose worst
        pair loses less wastes noise.
    worst_force
        Outputs at which it does, if the drawn ones will not do.
    parameters
        Every set of parameters that is to be audited.
    shapes
        Shapes of counts that it takes; edge shapes included.
    largest
        Largest count to try (the mechanism's cap).
    shows
        Share of the budget that the statistical audit must see in the outputs of the worst pair at ε = 1 or
        ρ = 1/2. 0 where outputs are too indirect for it. (A threshold on Gaussian noise shows at most 2/π of
        ρ, and confidence takes its part.)
    shows_zcdp
        The same for the zCDP form of a mechanism that also has a pure one.
    """

    worst: tuple[Sequence[Any], Sequence[Any]]
    worst_force: Force | None = None
    reaches: float = 0.8
    parameters: tuple[dict[str, Any], ...] = ({},)
    shapes: tuple[tuple[int, ...], ...] = FLAT + DEEP
    largest: int = LARGEST_COUNT
    shows: float = 0.0
    shows_zcdp: float = 0.0

    def __post_init__(self) -> None:
        assert self.parameters, "an audit without parameters audits nothing"
        assert self.shapes, "an audit without shapes audits nothing"
        assert self.largest >= 10, "an audit that tries no large counts proves little"
        assert self.reaches > 0, "a worst pair that need not lose anything shows nothing"


CASES: dict[str, Case] = {
    "identity": Case(worst=([4, 0], [4, 1]), shows=0.5),
    "cells": Case(worst=([4, 0], [4, 1]), shows=0.5),
    "gaussian": Case(worst=([4, 0], [5, 0]), shows=0.15),
}
