"""Anonymized histograms in short: how many items have which count.

An anonymized histogram is the multiset of the positive counts of a table, without the items' names. It is
written as pairs (count, multiplicity), counts descending: an array of shape (k, 2). With n records there are
at most √(2n) distinct counts, however many items there are.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.measured import Release
from tabularium.mechanisms.mechanism import check_counts

Runs = NDArray[np.int64]

LARGEST_LIST = 1 << 27
"""Items that ``expand`` writes out by default: 1 GiB of them."""
LARGEST_TOTAL = 1 << 60


@dataclass(frozen=True, eq=False)
class AnonymizedRelease(Release):
    """A private anonymized histogram.

    Attributes
    ----------
    values
        Shape (k, 2), int64: pairs (count, multiplicity), counts positive and descending.
    total
        The noisy number of records, not below zero. It is a measurement of its own, not Σ count·multiplicity.
    """

    total: int = field(kw_only=True)

    def expand(self, largest: int = LARGEST_LIST) -> NDArray[np.int64]:
        """Return the counts one by one, descending; see ``expand``."""
        return expand(self.values, largest)


def prevalences(counts: ArrayLike) -> Runs:
    """Return how many items have which positive count, as pairs (count, multiplicity), counts descending.

    Parameters
    ----------
    counts
        Integers of any shape: the count of every item. Items of count 0 leave no trace.

    Examples
    --------
    >>> prevalences([1, 0, 3, 1]).tolist()
    [[3, 1], [1, 2]]
    """
    checked = check_counts(counts).reshape(-1)
    distinct, items = np.unique(checked[checked > 0], return_counts=True)
    return np.stack([distinct[::-1], items[::-1].astype(np.int64)], axis=1)


def merged(pairs: NDArray[np.int64]) -> Runs:
    """Return pairs (count, multiplicity) in order: counts positive, descending, and each there once.

    Parameters
    ----------
    pairs
        Shape (k, 2), not negative, in any order; a count of 0 or a multiplicity of 0 says nothing.
    """
    real = pairs[(pairs > 0).all(axis=1)]
    if (real[1:, 0] >= real[:-1, 0]).any():  # most are in order already
        real = real[np.argsort(-real[:, 0], kind="stable")]
    firsts = np.flatnonzero(np.append(True, real[1:, 0] != real[:-1, 0]))[: real.shape[0]]
    if not firsts.size:
        return np.zeros((0, 2), dtype=np.int64)
    return np.stack([real[firsts, 0], np.add.reduceat(real[:, 1], firsts)], axis=1)


def pairs_of(runs: ArrayLike) -> Runs:
    """Return pairs (count, multiplicity) as int64, shape (k, 2).

    Raises
    ------
    MechanismError
        Anything else.
    """
    pairs = np.asarray(runs)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu" or (pairs < 0).any():
        raise MechanismError(
            "these are not pairs of count and multiplicity",
            where="run lengths",
            mend="give whole numbers from 0 up, shape (k, 2)",
        )
    return pairs.astype(np.int64)


def expand(runs: ArrayLike, largest: int = LARGEST_LIST) -> NDArray[np.int64]:
    """Return the counts that pairs (count, multiplicity) stand for, one by one, in the order of the pairs.

    Parameters
    ----------
    runs
        Shape (k, 2).
    largest
        How long the list may be.

    Raises
    ------
    MechanismError
        Not such pairs, or more than ``largest`` items.

    Examples
    --------
    >>> expand([[3, 1], [1, 2]]).tolist()
    [3, 1, 1]
    """
    pairs = pairs_of(runs)
    if sum(pairs[:, 1].tolist()) > largest:
        raise MechanismError(
            "the list would be longer than the limit",
            where="expand",
            mend="work with the pairs of count and multiplicity, or raise the limit",
        )
    return np.repeat(pairs[:, 0], pairs[:, 1]).astype(np.int64)
