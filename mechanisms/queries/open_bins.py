"""Bins without an end: "85+" holds whoever is 85 or older, and ends where the spec had to end somewhere.

A sum or an average takes every record at the middle of its bin. Of a bin without an end that is the middle of
numbers that hardly anybody has, and the headline would be far too large. So such a bin is asked about: the
query leaves it out, or says up to which number it goes, which somebody must know from elsewhere.

A last bin has no end to speak of if its label says where it begins and not where it ends ("85+", "5 or
more"), or if it is wider than all other bins together ("0-9", "10-19", "20-1000000").
"""

from __future__ import annotations

import re

import numpy as np

from mechanisms.inference.arrays import Bools, Floats
from mechanisms.queries.attributes import AnyAttribute, shown_number
from mechanisms.queries.grammar import Word, plain, query_error

_GROUPS = re.compile(r"(?<=\d)[ ,.'_\u00a0\u202f](?=\d{3}\b)")
_DIGITS = re.compile(r"\d+")


def closed(
    attribute: AnyAttribute, numbers: tuple[Floats, Floats], chosen: Bools, of: Word, up_to: Word | None
) -> Floats:
    """Return the largest number of each cell, the last one's as the query says it.

    Parameters
    ----------
    numbers
        (cells,) smallest and largest of each cell, NaN for cells without numbers.
    chosen
        (cells,) which are asked for.
    of, up_to
        The attribute as the query names it, and where it says that the last bin ends.

    Raises
    ------
    InputError
        If a bin without an end is asked for and the query does not say where it ends, or says what cannot be.
    """
    low, high = numbers
    last = int(np.nanargmax(high))
    label = attribute.labels[last]
    if up_to is None:
        if chosen[last] and _open(label, low, high, last):
            begins = shown_number(low[last])
            raise query_error(
                of.at,
                f"the bin {plain(label)} of {plain(of.text)} has no end to reckon with",
                f"write {of.text} up to NUMBER if the largest value is public, or leave it out: "
                f"where {of.text} < {begins}",
            )
        return high
    try:
        end = float(up_to.text)
    except ValueError:
        end = np.nan
    if not (chosen[last] and low[last] <= end <= high[last]):
        raise query_error(
            up_to.at,
            f"{plain(up_to.text)} does not end the bin {plain(label)}",
            f"write a number from {shown_number(low[last])} to {shown_number(high[last])}",
        )
    ended = high.copy()
    ended[last] = end
    return ended


def _open(label: str, low: Floats, high: Floats, last: int) -> bool:
    """Say whether a last bin has no end to speak of; see the head of this module."""
    widths = high - low + 1
    others = float(np.nansum(widths) - widths[last])
    if widths[last] <= 1 or not others:
        return False
    said = {int(text) for text in _DIGITS.findall(_GROUPS.sub("", label))}
    begins = bool(said & {abs(int(low[last])), abs(int(low[last]) - 1)})
    ends = bool(said & {abs(int(high[last])), abs(int(high[last]) + 1)})
    return (begins and not ends) or float(widths[last]) > others
