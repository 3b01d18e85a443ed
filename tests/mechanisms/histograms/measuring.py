"""Measurements and releases of mechanisms by name, with seeded noise."""

from __future__ import annotations

from typing import Any

import numpy as np

from tabularium.mechanisms import build
from tabularium.mechanisms.channel import SeededChannel
from tabularium.mechanisms.measured import Measured, Release


def measured(
    name: str, counts: Any, budget: Any = 1, *, seed: Any = 1, definition: Any = "pure", **parameters: Any
) -> Measured:
    """Measure; the whole budget must be spent."""
    channel = SeededChannel(budget, seed=seed, definition=definition)
    found = build(name, **parameters).measure(np.asarray(counts), channel)
    assert channel.remaining == 0
    return found


def released(name: str, counts: Any, budget: Any = 1, **options: Any) -> Release:
    """Measure and finish."""
    given = {key: options[key] for key in options.keys() - {"seed", "definition"}}
    return build(name, **given).finish(measured(name, counts, budget, **options))
