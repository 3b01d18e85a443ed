"""How often a test repeats: the usual number of times, or the full number, which ``make audit`` asks for.

``TABULARIUM_TEST_SIZE=full`` in the environment asks for the full size. A test with two sizes says what the
usual one still finds.
"""

from __future__ import annotations

import os


def full() -> bool:
    """Return whether tests are to run at their full size."""
    return os.environ.get("TABULARIUM_TEST_SIZE") == "full"


def runs(usual: int, most: int) -> int:
    """Return how often to repeat: ``usual`` times, or ``most`` times at full size."""
    return most if full() else usual
