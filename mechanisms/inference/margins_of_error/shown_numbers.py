"""Which means and rates are shown, and at which level their intervals then hold.

A cell without any record has no mean. Whether it has records is seen only through noise, and of many nearly
empty cells the lucky ones, which noise made look full, are wrong more often than others.

*Which.* S, an unbiased estimate of how many records there are, with variance V, is noise alone in an empty
cell: it reaches S with a probability of at most

    max( exp(-S/b)/(1 + exp(-1/b)),  exp(-S²/2V)/2 ),

the tail of one discrete Laplace error of variance V (b its scale) and a bound of that of very many: sums of
them lie between. The cells with the smallest such probabilities are shown, the largest number R of m for
which the last is at most ``EMPTY``·R/m. So of what is shown at most ``EMPTY`` is expected to be cells without
any record, however many of these there are (Benjamini and Hochberg 1995); the threshold rises where few
hold any.

*At which level.* With intervals at the level 1 - α·R/m, of those that are shown at most the share α is
expected to miss (the false coverage rate: Benjamini and Yekutieli 2005). Where all are shown that is 1 - α.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tabularium.mechanisms.arrays import Bools, Floats

EMPTY = 0.01
"""Largest share of what is shown that is expected to be of cells without any record."""


@dataclass(frozen=True, eq=False, slots=True)
class Shown:
    """What is shown of some numbers.

    Attributes
    ----------
    there
        Which are shown, the shape of what was given.
    among
        How many could have been.
    level
        At which their intervals hold.
    without
        What share of those that are shown is expected to be of cells without any record, at most.
    deviations
        How many standard deviations above zero the least of the estimates lies that are shown; infinite where
        none is, or all are known exactly.
    """

    there: Bools
    among: int
    level: float
    without: float
    deviations: float

    @classmethod
    def of(cls, records: Floats, variances: Floats, possible: Bools, level: float) -> Shown:
        """Choose.

        Parameters
        ----------
        records, variances
            Unbiased estimates of what is zero in a cell without any record and more than that in others, and
            their variances; 0 where it is known.
        possible
            Which cells may be shown at all.
        level
            Of intervals if nothing were chosen, in (0, 1).

        Examples
        --------
        >>> found = Shown.of(np.array([90.0, 3.0, -4.0, 60.0]), np.full(4, 50.0), np.ones(4, bool), 0.9)
        >>> found.there.tolist(), found.level
        ([True, False, False, True], 0.95)
        """
        chance = chance_if_empty(records, variances)
        candidates = possible & np.isfinite(variances) & ~((variances == 0) & (records <= 0))
        among = int(candidates.sum())
        ordered = np.sort(chance[candidates])
        allowed = EMPTY * np.arange(1, among + 1) / max(among, 1)
        enough = np.flatnonzero(ordered <= allowed)
        if not len(enough):
            return cls(np.zeros(records.shape, bool), among, level, 0.0, np.inf)
        last = ordered[enough[-1]]
        there = candidates & (chance <= last)
        number = int(there.sum())
        noisy = there & (variances > 0)
        least = (records[noisy] / np.sqrt(variances[noisy])).min() if noisy.any() else np.inf
        false = float(last * among / number)
        return cls(there, among, 1 - (1 - level) * number / among, false, float(least))

    def as_json(self) -> dict[str, float | int | None]:
        """Return what a certificate says of it."""
        far = self.deviations if np.isfinite(self.deviations) else None
        return {
            "cells": self.among,
            "shown": int(self.there.sum()),
            "least_standard_deviations": None if far is None else float(f"{far:.4g}"),
            "without_records_at_most": float(f"{self.without:.4g}"),
            "margins_at": float(f"{self.level:.10g}"),
        }


def chance_if_empty(records: Floats, variances: Floats) -> Floats:
    """Return a bound of the probability that noise alone reaches ``records``, where that is above zero."""
    known = variances <= 0
    spread = np.where(known | np.isinf(variances), 1.0, variances)
    above = np.maximum(records, 0.0)
    scale = 0.5 / np.arcsinh(np.sqrt(0.5 / spread))
    one = np.exp(-above / scale) / (1 + np.exp(-1 / scale))
    found: Floats = np.maximum(one, 0.5 * np.exp(-(above**2) / (2 * spread)))
    return np.where(known, np.where(records > 0, 0.0, 1.0), found)
