"""Measures of error from the literature: how far a release is from the truth. For public data only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import log2, prod

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.noise.synthetic import generator

Values = NDArray[np.float64]
Boxes = tuple[NDArray[np.int64], NDArray[np.int64]]
Points = dict[float | str, float]
"""Error by place on the axis; one entry named ``""`` for a measure that is one number."""

_RECTANGLES = 2000
_SHORT = 64
_SIZE_CLASSES = {
    "0": (0, 0),
    "1-9": (1, 9),
    "10-99": (10, 99),
    "100-999": (100, 999),
    "1000 or more": (1000, 2**62),
}


def mean_absolute(truth: Values, release: Values) -> float:
    """Return the mean |error| of a bin."""
    return float(np.abs(release - truth).mean())


def mean_squared(truth: Values, release: Values) -> float:
    """Return the mean squared error of a bin."""
    return float(((release - truth) ** 2).mean())


def divergence(truth: Values, release: Values) -> float:
    """Return the Kullback-Leibler divergence Σ p·ln(p/q) of the normalised release from the truth.

    Released counts are floored at 1 before normalising, as Acs, Castelluccia and Chen (2012, section VI)
    do, so that no bin that holds someone is given probability 0.
    """
    floored = np.maximum(release, 1.0)
    p, q = truth / truth.sum(), floored / floored.sum()
    some = p > 0
    return float((p[some] * np.log(p[some] / q[some])).sum())


def mean_relative(truth: Values, release: Values, least: float = 1.0) -> float:
    """Return the mean of |error| / max(truth, least) (Chen et al. 2024, with δ = ``least``)."""
    return float((np.abs(release - truth) / np.maximum(truth, least)).mean())


def total_absolute_of_sorted(truth: Values, release: Values) -> float:
    """Return Σ|error| between the two lists of counts, each sorted; the shorter is filled with empty bins."""
    return float(np.abs(np.subtract(*_sorted_alike(truth, release))).sum())


def divergence_of_sorted(truth: Values, release: Values) -> float:
    """Return the divergence between the two lists of counts, each sorted (Acs et al. 2012, figure 4)."""
    return divergence(*_sorted_alike(truth, release))


def _sorted_alike(truth: Values, release: Values) -> tuple[Values, Values]:
    size = max(truth.size, release.size)
    one, other = (np.zeros(size), np.zeros(size))
    one[: truth.size] = np.sort(truth.reshape(-1))[::-1]
    other[: release.size] = np.sort(release.reshape(-1))[::-1]
    return one, other


# An error of sums, from what they truly are and what the release is off by; ``least`` bounds a denominator.
Error = Callable[[Values, Values, float], Values]


def _absolute(true: Values, wrong: Values, least: float) -> Values:
    return np.abs(wrong)


def _squared(true: Values, wrong: Values, least: float) -> Values:
    return wrong**2


def _relative(true: Values, wrong: Values, least: float) -> Values:
    return np.abs(wrong) / np.maximum(true, least)


def _thousandth(truth: Values) -> float:
    """Return the least denominator of Xu et al. 2013 (figure 18) and Xiao et al. 2010 (figure 14)."""
    return max(1.0, float(truth.sum()) / 1000)


def _by_range_length(error: Error, truth: Values, release: Values) -> Points:
    """Return the mean ``error`` of all ranges of neighbouring bins, by length, in the order of the cells."""
    running = np.concatenate([[0.0], np.cumsum((release - truth).reshape(-1))])
    true = np.concatenate([[0.0], np.cumsum(truth.reshape(-1))])
    least = _thousandth(truth)
    return {
        float(length): float(
            error(true[length:] - true[:-length], running[length:] - running[:-length], least).mean()
        )
        for length in (1 << power for power in range(int(log2(truth.size)) + 1))
    }


def _by_size(error: Error, truth: Values, release: Values) -> Points:
    """Return the mean ``error`` of the bins by the size of their true count."""
    errors = error(truth, release - truth, 1.0)
    inside = {name: (truth >= low) & (truth <= high) for name, (low, high) in _SIZE_CLASSES.items()}
    return {name: float(errors[some].mean()) for name, some in inside.items() if some.any()}


def _rectangle_sums(table: Values, lows: NDArray[np.int64], highs: NDArray[np.int64]) -> Values:
    """Return sums over boxes, lows ≤ index < highs, both (boxes, axes): by corners."""
    summed = np.pad(table, [(1, 0)] * table.ndim)
    for axis in range(table.ndim):
        summed = np.cumsum(summed, axis=axis)
    errors = np.zeros(len(lows))
    for corner in range(1 << table.ndim):
        upper = np.array([corner >> axis & 1 for axis in range(table.ndim)], dtype=bool)
        sign = -1 if (table.ndim - upper.sum()) % 2 else 1
        errors += sign * summed[tuple(np.where(upper, highs, lows).T)]
    return errors


def random_rectangles(shape: tuple[int, ...], seed: int = 1) -> Boxes:
    """Return 2 000 seeded boxes: lows and highs, each (boxes, axes), none of them empty."""
    rng = generator(seed)
    ends = np.stack(
        [np.sort(rng.integers(0, [[size], [size]], (2, _RECTANGLES)), axis=0) for size in shape], axis=2
    )
    return ends[0].astype(np.int64), ends[1].astype(np.int64) + 1


def short_rectangles(shape: tuple[int, ...], seed: int = 2) -> Boxes:
    """Return 2 000 seeded boxes of 2 to 64 cells along each axis (at most all): lows and highs."""
    rng = generator(seed)
    lows, highs = [], []
    for size in shape:
        length = np.minimum(rng.integers(2, _SHORT + 1, _RECTANGLES), size)
        start = (rng.random(_RECTANGLES) * (size - length + 1)).astype(np.int64)
        lows.append(start)
        highs.append(start + length)
    return np.stack(lows, axis=1), np.stack(highs, axis=1)


def _of_boxes(boxes: Callable[..., Boxes], error: Error, truth: Values, release: Values) -> float:
    """Return the mean ``error`` of the sums over boxes."""
    chosen = boxes(truth.shape)
    true, wrong = (_rectangle_sums(table, *chosen) for table in (truth, release - truth))
    return float(error(true, wrong, _thousandth(truth)).mean())


absolute_of_rectangles = partial(_of_boxes, random_rectangles, _absolute)
absolute_of_short_rectangles = partial(_of_boxes, short_rectangles, _absolute)


def parity_missed(truth: Values, release: Values) -> float:
    """Return 1 if the parity that fits the release best is not the one that fits the truth best, else 0.

    Axes of two categories each; the last says the parity of some of the others (Xiao et al. 2010, section
    4.4). All 2^(d-1) parities are judged at once: a Walsh-Hadamard transform of the counts' differences
    along the last axis.
    """
    return float(_best_parity(truth) != _best_parity(release))


def _best_parity(counts: Values) -> int:
    if counts.shape != (2,) * counts.ndim:
        raise ValueError("the parity example takes attributes of two categories")
    expanded = counts[..., 0] - counts[..., 1]
    for axis in range(expanded.ndim):
        one, other = np.take(expanded, 0, axis=axis), np.take(expanded, 1, axis=axis)
        expanded = np.stack([one + other, one - other], axis=axis)
    return int(np.argmax(expanded))


@dataclass(frozen=True)
class Measure:
    """An error measure: a function of truth and release, one number or several ``along`` an axis.

    ``sorted`` says that it only looks at the sorted list of counts.
    """

    name: str
    says: str
    of: Callable[[Values, Values], float] | Callable[[Values, Values], Points]
    along: str = ""
    sorted: bool = False

    def points(self, truth: Values, release: Values) -> Points:
        """Return the error by place on the axis."""
        errors = self.of(truth, release)
        return errors if isinstance(errors, dict) else {"": errors}


MEASURES = {
    "mean |error|": mean_absolute,
    "mean squared": mean_squared,
    "KL": divergence,
    "mean relative": mean_relative,
}

_RANGES, _SIZES = "range length", "true count"
CATALOGUE = {
    measure.name: measure
    for measure in (
        Measure("mean |error|", "mean |error| of a bin", mean_absolute),
        Measure("mean squared", "mean squared error of a bin", mean_squared),
        Measure("KL", "Kullback-Leibler divergence; release floored at 1, both normalised", divergence),
        Measure("mean relative", "mean of |error| / max(count, 1)", mean_relative),
        Measure("KL, sorted", "the same divergence of the sorted counts", divergence_of_sorted, sorted=True),
        Measure(
            "total |error|, sorted", "Σ|error| of the sorted counts", total_absolute_of_sorted, sorted=True
        ),
        Measure(
            "squared by range",
            "mean squared error of all ranges",
            partial(_by_range_length, _squared),
            _RANGES,
        ),
        Measure(
            "absolute by range", "mean |error| of all ranges", partial(_by_range_length, _absolute), _RANGES
        ),
        Measure(
            "relative by range",
            "mean |error| / max(sum, n/1000) of all ranges",
            partial(_by_range_length, _relative),
            _RANGES,
        ),
        Measure(
            "absolute by size", "mean |error| of bins, by true count", partial(_by_size, _absolute), _SIZES
        ),
        Measure(
            "relative by size",
            "mean |error| / max(count, 1), by true count",
            partial(_by_size, _relative),
            _SIZES,
        ),
        Measure("rectangles", f"mean |error| of {_RECTANGLES} random boxes", absolute_of_rectangles),
        Measure(
            "short rectangles",
            f"the same, of boxes of 2 to {_SHORT} cells along each axis",
            absolute_of_short_rectangles,
        ),
        Measure(
            "relative rectangles",
            "of random boxes, |error| over max(sum, n/1000)",
            partial(_of_boxes, random_rectangles, _relative),
        ),
        Measure("parity missed", "share of runs in which the release shows a wrong parity", parity_missed),
    )
}


def comparable(values: NDArray[np.generic], truth: Values, measure: Measure) -> Values | None:
    """Return the released values in a form that ``measure`` takes, or None: it has no meaning for them.

    A release of (count, multiplicity) pairs says nothing about single bins, only about the sorted list.
    """
    if values.shape == truth.shape:
        return values.astype(np.float64)
    if not measure.sorted:
        return None
    if values.ndim == 2 and values.shape[1] == 2:
        counts, multiplicities = values.astype(np.int64).T
        multiplicities = np.minimum(
            multiplicities, 16 * prod(truth.shape)
        )  # noise may ask for any number of items
        return np.repeat(counts.astype(np.float64), multiplicities)
    return values.astype(np.float64).reshape(-1)
