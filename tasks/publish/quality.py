"""Flags of numbers, and numbers that are left blank: made of what is published alone, at no cost.

A rule sees a published number and its margin of error and nothing else, least of all a true one; each kind of
number has limits of its own. What is left blank is too uncertain to be of use; it hides nobody, for the noise
has done that already.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tabularium.validations.spec.measures.measure import Measure
from tabularium.validations.spec.publication import Limits, Quality

RELIABLE, UNRELIABLE, SUPPRESSED, UNKNOWN, ZERO, EXACT = range(6)
FLAGS = ("reliable", "unreliable", "suppressed", "unknown", "zero", "exact")

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def flags(counts: Floats, margins: Floats, rules: Quality, exact: Bools | None = None) -> NDArray[np.int8]:
    """Return the flag of each count, a position in ``FLAGS``.

    One that is known without having been measured is ``exact``. One that was measured and is published as 0
    is ``zero``, of which no percentage can be taken: it is left blank by ``at_least``, or by a limit that is
    a number. One without a margin is ``unknown`` where there is a rule about margins.

    Parameters
    ----------
    counts
        As they are published.
    margins
        Of the same shape; infinite where nothing is known of the error.
    exact
        Which are known: by invariants, or because nobody can be there.
    """
    limits = Limits(rules.unreliable, rules.suppress)
    found = _judged(counts, margins, np.maximum(counts, 0), limits, zero=counts == 0)
    if rules.at_least is not None:
        found[counts < rules.at_least] = SUPPRESSED
    if exact is not None:
        found[exact] = EXACT
    return found


def measure_flags(
    measure: Measure,
    numbers: Floats,
    margins: Floats,
    reach: Floats,
    rules: Quality,
    *,
    blank: Bools,
    exact: Bools,
) -> NDArray[np.int8]:
    """Return the flag of each number of a measure, a position in ``FLAGS``.

    Parameters
    ----------
    numbers, margins
        As they are published; no number where there is none to show.
    reach
        Of all that it may be: of a rate what it is per, else ``to`` less ``from``; broadcasts to the numbers.
    blank
        Where the count beside it is left blank, and so is this.
    exact
        Where nobody can be.
    """
    kind, limits = rules.limits_of(measure)
    size = np.abs(numbers) if kind == "value" else np.broadcast_to(reach, numbers.shape)
    zero = (numbers == 0) & (measure.linear and not measure.signed)
    found = _judged(numbers, margins, size, limits, zero=zero)
    found[np.isnan(numbers) | blank] = SUPPRESSED
    found[exact] = EXACT
    return found


def _judged(
    numbers: Floats, margins: Floats, size: Floats, limits: Limits, *, zero: Bools
) -> NDArray[np.int8]:
    """Return flags by the limits of margins, percentages of which are parts of ``size``."""
    found = np.full(numbers.shape, RELIABLE, np.int8)
    if limits.unreliable is not None:
        found[_beyond(margins, size, limits.unreliable)] = UNRELIABLE
    found[zero] = ZERO
    if limits.suppress is not None:
        # Any margin is larger than a part of nothing: that says nothing of a zero.
        judged = ~zero if isinstance(limits.suppress, Fraction) else np.ones(numbers.shape, bool)
        found[_beyond(margins, size, limits.suppress) & judged] = SUPPRESSED
    if (limits.unreliable, limits.suppress) != (None, None):
        found[np.isinf(margins)] = UNKNOWN
    return found


def _beyond(margins: Floats, size: Floats, limit: int | Fraction) -> Bools:
    """Whether each margin is known and above a limit."""
    known = np.where(np.isfinite(margins), margins, 0)
    if isinstance(limit, int):
        return known > limit
    # Multiplied out, so that whole numbers are compared exactly.
    with np.errstate(invalid="ignore"):
        return known * limit.denominator > size * limit.numerator
