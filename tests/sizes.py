"""How large tests are: usual in ``make test``, full in ``make audit``, which sets TABULARIUM_TEST_SIZE=full."""

from __future__ import annotations

import os

_FULL = os.environ.get("TABULARIUM_TEST_SIZE") == "full"


def full() -> bool:
    """Say whether this is the full size."""
    return _FULL


def runs(usual: int, full: int) -> int:
    """Return how often a test repeats what it tries."""
    return full if _FULL else usual
