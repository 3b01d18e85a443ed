"""Properties of the distribution behind a histogram of sizes: support, entropy, distance to uniform.

They need no more than how many values of a column have how many records, which ``privhist`` releases
(:mod:`tabularium.mechanisms.histograms.histogram_properties`). Nothing is drawn and no budget is spent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tabularium.mechanisms.arrays import Integers
from tabularium.mechanisms.histograms.histogram_properties import (
    Estimated,
    distance_to_uniformity,
    entropy,
    support_size,
)
from tabularium.mechanisms.queries.attributes import listed
from tabularium.mechanisms.queries.grammar import PROPERTIES, Query, Word, plain, query_error


class SizeHistogram(Protocol):
    """A released histogram of sizes."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def column(self) -> str:
        """The column whose values have the sizes."""

    @property
    def pairs(self) -> Integers:
        """(k, 2) sizes, and how many values have each."""


def estimate_property(query: Query, histograms: Sequence[SizeHistogram]) -> tuple[SizeHistogram, Estimated]:
    """Return the histogram that a property is asked of, and its estimate.

    Raises
    ------
    InputError
        If no histogram, or more than one, has the name or is of the column.
    MechanismError
        If the histogram is empty.
    """
    assert query.of is not None  # noqa: S101 - the grammar's own rule
    found = _named(query.of, histograms)
    if query.measure == "support":
        return found, support_size(found.pairs)
    if query.measure == "entropy":
        return found, entropy(found.pairs)
    return found, distance_to_uniformity(found.pairs, query.symbols)


def _named(name: Word, histograms: Sequence[SizeHistogram]) -> SizeHistogram:
    text = name.text.casefold()
    found = [each for each in histograms if each.name.casefold() == text]
    found = found or [each for each in histograms if each.column.casefold() == text]
    if len(found) == 1:
        return found[0]
    names = [each.name for each in found or histograms]
    raise query_error(
        name.at,
        f"{plain(name.text)} is no histogram of sizes of this release",
        f"name one of {listed(names, 16)}"
        if names
        else f"{', '.join(PROPERTIES)} are of a `privhist` histogram",
    )
