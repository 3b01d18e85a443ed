"""Flags of cells, and cells that are left blank: made of what is published alone, so that they cost nothing.

A rule sees the published count and its margin of error and nothing else, least of all a true count. What it
leaves blank is too uncertain to be of use; it hides nobody, for the noise has done that already.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from validations.spec.parts.output_options import Quality

RELIABLE, UNRELIABLE, SUPPRESSED, UNKNOWN = range(4)
FLAGS = ("reliable", "unreliable", "suppressed", "unknown")


def flags(counts: NDArray[np.float64], margins: NDArray[np.float64], rules: Quality) -> NDArray[np.int8]:
    """Return the flag of each cell, a position in ``FLAGS``.

    A cell without a margin is ``unknown`` where there is a rule about margins. A cell with a margin of zero
    is known exactly and always ``reliable``.

    Parameters
    ----------
    counts
        As they are published.
    margins
        Of the same shape; infinite where nothing is known of the error.
    """
    unknown, exact = np.isinf(margins), margins == 0
    found = np.full(counts.shape, RELIABLE, np.int8)
    if rules.unreliable is not None:
        found[_beyond(counts, margins, rules.unreliable)] = UNRELIABLE
    if rules.suppress is not None:
        found[_beyond(counts, margins, rules.suppress)] = SUPPRESSED
    if (rules.unreliable, rules.suppress) != (None, None):
        found[unknown] = UNKNOWN
    if rules.at_least is not None:
        found[(counts < rules.at_least) & ~exact] = SUPPRESSED
    return found


def _beyond(
    counts: NDArray[np.float64], margins: NDArray[np.float64], limit: int | Fraction
) -> NDArray[np.bool_]:
    """Whether each margin is known and above a limit; above any part of a count that is not above zero."""
    known = np.where(np.isinf(margins), 0, margins)
    if isinstance(limit, int):
        return known > limit
    # Multiplied out, so that whole numbers are compared exactly.
    return known * limit.denominator > np.maximum(counts, 0) * limit.numerator
