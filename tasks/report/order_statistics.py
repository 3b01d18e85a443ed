"""Quantiles of numbers that go by several times, exact, in memory that does not grow with them.

Numbers that are not negative are ordered as their bits are. So the first time they are counted by their
highest sixteen bits, and each time after that only those are looked at whose higher bits are those of the
number that is sought: four times at most, twice where few are alike or all are whole and small.
"""

from __future__ import annotations

from math import ceil

import numpy as np
from numpy.typing import NDArray

HELD = 1 << 17
"""Numbers that are kept instead of counted, if there are no more."""
_DIGIT = 16
_ALL = 64


class OrderStatistics:
    """Quantiles that are numbers which occur, as numpy's ``inverted_cdf`` takes them.

    Show all numbers with :meth:`see`, then ask :meth:`again`; while that is true, show the same again.

    Attributes
    ----------
    number
        How many numbers there are.
    found
        The quantiles, in the order of their shares; None before they are known, and of no numbers.
    """

    def __init__(self, *shares: float) -> None:
        self._shares = shares
        self.number = 0
        self.found: tuple[float, ...] | None = None
        self._shift = _ALL  # how many of the low bits of what is sought are not known yet
        self._sought: list[_Sought] = []
        self._all = _Counted()
        self._bits = 0  # of all numbers together, those that are set in any

    def see(self, numbers: NDArray[np.float64]) -> None:
        """Take some numbers, (n,), none of them negative or not a number."""
        keys = (numbers + 0.0).view(np.uint64)  # minus zero is zero
        if self._shift == _ALL:
            self.number += len(keys)
            self._bits |= int(np.bitwise_or.reduce(keys)) if len(keys) else 0
            self._all.see(keys, _ALL - _DIGIT)
            return
        high = keys >> np.uint64(self._shift)
        for each in {one.prefix: one for one in self._sought if one.key is None}.values():
            each.counted.see(keys[high == np.uint64(each.prefix)], self._shift - _DIGIT)

    def again(self) -> bool:
        """Whether the numbers must go by once more; to be asked each time when they have."""
        if self.found is not None or not self.number:
            return False
        if self._shift == _ALL:
            ranks = (max(0, ceil(self.number * share - 1)) for share in self._shares)
            self._sought = [_Sought(0, rank, self._all) for rank in ranks]
        self._shift -= _DIGIT
        self._sought = [each.after(self._shift) for each in self._sought]
        self._all = _Counted()
        if self._shift and self._bits & ((1 << self._shift) - 1):
            several: dict[int, _Counted] = {}
            for each in self._sought:
                each.counted = several.setdefault(each.prefix, _Counted())
            if any(each.key is None for each in self._sought):
                return True
        keys = [each.prefix << self._shift if each.key is None else each.key for each in self._sought]
        self.found = tuple(np.array(keys, np.uint64).view(np.float64).tolist())
        return False


class _Counted:
    """Some numbers as keys: kept while they are few, else counted by sixteen of their bits."""

    def __init__(self) -> None:
        self.kept: list[NDArray[np.uint64]] | None = []
        self._held = 0
        self.bins = np.zeros(0, np.int64)

    def see(self, keys: NDArray[np.uint64], shift: int) -> None:
        if self.kept is not None:
            self._held += len(keys)
            self.kept.append(keys)
            if self._held <= HELD:
                return
            keys, self.kept = np.concatenate(self.kept), None
            self.bins = np.zeros(1 << _DIGIT, np.int64)
        digits = (keys >> np.uint64(shift)).astype(np.int64) & ((1 << _DIGIT) - 1)
        self.bins += np.bincount(digits, minlength=len(self.bins))


class _Sought:
    """A number of which the high bits are known, and how many with the same ones are smaller."""

    def __init__(self, prefix: int, rank: int, counted: _Counted, key: int | None = None) -> None:
        self.prefix, self.rank, self.counted, self.key = prefix, rank, counted, key

    def after(self, shift: int) -> _Sought:
        """Return what is known after its like have been counted, all bits or sixteen more."""
        if self.key is not None:
            return self
        if self.counted.kept is not None:
            keys = np.sort(np.concatenate(self.counted.kept))
            return _Sought(self.prefix, self.rank, self.counted, int(keys[self.rank]))
        upto = np.cumsum(self.counted.bins)
        digit = int(np.searchsorted(upto, self.rank, side="right"))
        below = int(upto[digit - 1]) if digit else 0
        return _Sought(self.prefix << _DIGIT | digit, self.rank - below, self.counted)
