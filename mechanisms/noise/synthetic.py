"""Seeded NumPy generators for synthetic data and simulations of public quantities."""

from __future__ import annotations

import numpy as np


def generator(seed: int) -> np.random.Generator:
    """Return a NumPy generator that always gives the same numbers for ``seed``.

    **Never use it for noise.** Its output can be predicted, its floats are rounded, and anyone who knows the
    seed can subtract it. It is for synthetic microdata, for tests, and for simulations that see only what
    has been released. Noise comes from a channel (``tabularium.mechanisms.channel``).
    """
    return np.random.default_rng(seed)
