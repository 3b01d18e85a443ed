"""PrivHist: the multiset of counts, without the items' names and without even their number.

Small counts are many, large ones are few: small counts are measured by how many items have at least r
records, in blocks of r, and what items have beyond a threshold T by a sorted list (the excess). The number of
records n is measured first; block boundaries and the length of the list follow from its noisy value and ε.

What one record changes: the count of one item, from r - 1 to r. So n moves by 1. If r <= T, the one block
that holds r moves by 1, and the excess does not move. If r > T, no block moves, and one item's excess moves
by 1; sorting and cutting the list off are contractions. Hence blocks and excess have joint L1 and L2
sensitivity 1, and their shape follows from an earlier output. Discrete Laplace noise of scale 1/ε1 on n and
1/ε2 on the rest, with ε1 + ε2 = ε, is ε-differentially private; discrete Gaussian noise with ρ1 + ρ2 = ρ is
ρ-zCDP. A unit of c records is at a distance of c such steps: group privacy.

Cost: O(k log k) for k distinct counts (O(k) if they come in order), and O(k + m + J) for m blocks and J list
entries. Counts are cut off at 2^40, the number of records and each block at 2^60: public bounds.

Source: Suresh 2019 (PrivHist). Steps, changes from the paper: docs/reference/mechanisms/privhist.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, isqrt, log, sqrt
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tabularium.mechanisms.arrays import LARGEST_COUNT, LARGEST_SUM, Floats
from tabularium.mechanisms.channel import Channel
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.histograms.histogram_properties import Runs, merged, pairs_of
from tabularium.mechanisms.histograms.parameter_checks import one_of, share_of_budget, switch
from tabularium.mechanisms.inference.isotonic import isotonic, whole
from tabularium.mechanisms.kernels.compiled import compiled
from tabularium.mechanisms.measured import Array, Measured, Release
from tabularium.mechanisms.mechanism import Counts, Mechanism, check_counts

LARGEST_LIST = 1 << 27
"""Items that ``expand`` writes out by default: 1 GiB of them."""
LONGEST_LIST = 1 << 17
LEAST_GROWTH = 1 / (1 << 15)
_MOST_ITEMS = 1 << 62


@dataclass(frozen=True)
class PrivHist(Mechanism):
    """How many items have which count, as pairs (count, multiplicity), without names.

    Parameters
    ----------
    total_share
        Share of the budget for the number of records.
    form
        What is given. ``"counts"``: an array of any shape, the count of every item; items of count 0 leave no
        trace. ``"prevalences"``: shape (k, 2), pairs (count, number of items that have it), in any order.
    tied
        Find how many items are above the threshold by least squares over blocks and list together, so that
        the two agree. ``false``: fit each separately.
    """

    total_share: Fraction = Fraction(1, 10)
    form: Literal["counts", "prevalences"] = "counts"
    tied: bool = True

    name: ClassVar[str] = "privhist"
    attributed: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "total_share", share_of_budget(self.total_share, "total_share"))
        one_of(self.form, ("counts", "prevalences"), "form")
        switch(self.tied, "tied")

    def draw(self, counts: Counts, channel: Channel) -> tuple[dict[str, Array], dict[str, Any]]:
        """Measure the number of records, then blocks and excess, whose shape follows from it."""
        runs = self._runs(counts)
        records = np.array([min(int((runs[:, 0] * runs[:, 1]).sum()), LARGEST_SUM)])
        amount = float(channel.remaining)  # of a ρ, the ε whose noise is about as large
        level = amount if channel.definition == "pure" else sqrt(2 * amount)
        rest = channel.remaining * (1 - self.total_share)
        total = channel.add_noise(records, channel.remaining - rest, purpose="records")
        if total[0] <= 0:
            return {"total": channel.add_noise(records, rest, purpose="records again")}, {}
        boundaries = boundaries_of(int(total[0]), level)
        length = excess_length(int(total[0]), int(boundaries[-1]))
        true = np.concatenate([block_sums(runs, boundaries), excess(runs, int(boundaries[-1]), length)])
        drawn = channel.add_noise(true, rest, purpose="blocks and excess")
        blocks = boundaries.size - 1
        return {
            "total": total,
            "boundaries": boundaries,
            "blocks": drawn[:blocks].copy(),
            "excess": drawn[blocks:].copy(),
        }, {}

    def finish(self, measured: Measured) -> AnonymizedRelease:
        """Return pairs (count, multiplicity), int64, counts descending; shape (0, 2) if there is nothing."""
        arrays = measured.arrays
        total = max(0, int(arrays["total"][0]))
        values, diagnostics = np.zeros((0, 2), dtype=np.int64), {"total": total}
        if "blocks" in arrays:
            values = histogram(arrays["boundaries"], arrays["blocks"], arrays["excess"], tied=self.tied)
            diagnostics |= {
                "blocks": int(arrays["blocks"].size),
                "threshold": int(arrays["boundaries"][-1]),
                "listed": int(arrays["excess"].size),
            }
        return AnonymizedRelease(
            values=values,
            total=total,
            transcript=measured.transcript,
            insecure=measured.insecure,
            diagnostics=diagnostics | {"items": int(values[:, 1].sum()), "distinct": int(values.shape[0])},
        )

    def validated(self, counts: ArrayLike) -> Counts:
        """Return the counts, or the pairs, as ``draw`` takes them; the number of items is not cut off."""
        return check_counts(
            counts, where=self.name, largest=LARGEST_COUNT if self.form == "counts" else _MOST_ITEMS
        )

    def _runs(self, counts: Counts) -> Runs:
        """Return what was given as pairs in order, as Python's integers where sums would overflow."""
        if self.form == "prevalences" and (counts.ndim != 2 or counts.shape[1] != 2):
            raise MechanismError(
                "prevalences are pairs of count and multiplicity",
                where="privhist",
                hint='give an array of shape (k, 2), or counts with form: "counts"',
            )
        capped = np.minimum(counts, [LARGEST_COUNT, _MOST_ITEMS]) if self.form == "prevalences" else counts
        runs = prevalences(capped) if self.form == "counts" else merged(capped)
        # In floats, which cannot overflow; their error is far below the distance to 2^63.
        if float((runs[:, 0].astype(np.float64) * runs[:, 1]).sum()) > LARGEST_SUM:
            return runs.astype(object)
        return runs


def boundaries_of(total: int, epsilon: float) -> NDArray[np.int64]:
    """Return s_0 … s_m for ``total`` >= 1 records, a noisy number, at ε; see the page of the mechanism."""
    least = -(-total // LONGEST_LIST)
    if epsilon > 1:
        return widening(float(max(isqrt(total - 1) + 1, least)), LEAST_GROWTH)
    spread = max(log(2 / epsilon), 1.0)
    growth = max(sqrt(2 * spread / (total * epsilon)), LEAST_GROWTH)
    return widening(max(sqrt(total / epsilon), float(least)), growth)


def excess_length(total: int, threshold: int) -> int:
    """Return J = ⌈Ñ/T⌉ + 1: no more than n/T items can have more than T records."""
    return ceil(Fraction(total, threshold)) + 1


def block_sums(runs: Runs, boundaries: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return A_i, shape (m,): differences of Σ min(count, s) over the items, at the boundaries s.

    Each is cut off at 2^60.
    """
    counts, items = runs[::-1, 0], runs[::-1, 1]  # ascending
    below = np.searchsorted(counts, boundaries, side="right")
    records = np.append(0, np.cumsum(counts * items))[below]
    beyond = items.sum() - np.append(0, np.cumsum(items))[below]
    sums = np.minimum(np.diff(records + boundaries * beyond), LARGEST_SUM)
    return np.asarray(sums, dtype=np.int64)


def excess(runs: Runs, threshold: int, length: int) -> NDArray[np.int64]:
    """Return the ``length`` largest excesses over the threshold, descending, zeros where there are none."""
    before = np.cumsum(runs[:, 1]) - runs[:, 1]
    listed = np.repeat(runs[:, 0], np.clip(length - before, 0, runs[:, 1]).astype(np.int64))
    result = np.zeros(length, dtype=np.int64)
    result[: listed.size] = np.maximum(listed - threshold, 0)
    return result


def histogram(
    boundaries: NDArray[np.int64], blocks: NDArray[np.int64], listed: NDArray[np.int64], *, tied: bool
) -> Runs:
    """Return the histogram that noisy blocks and a noisy excess list speak for, as pairs in order.

    ``boundaries``, ``blocks``, ``listed``: Shapes (m + 1,), (m,) and (J,). ``tied``: See ``PrivHist``.
    """
    widths = np.diff(boundaries).astype(np.float64)
    reach, over = isotonic(blocks / widths, widths**2, increasing=False), listed.astype(np.float64)
    if tied:
        beyond = items_beyond(reach, blocks, widths, over)
        reach, over = np.maximum(reach, beyond), over[:beyond]
    return _items(boundaries, whole(reach), whole(isotonic(over, increasing=False)))


def items_beyond(
    reach: NDArray[np.float64],
    blocks: NDArray[np.int64],
    widths: NDArray[np.float64],
    listed: NDArray[np.float64],
) -> int:
    """Return how many items exceed the threshold, by least squares over blocks and list together.

    With g of them, f is at least g everywhere, and the list is zero after its g-th entry. Under a lower bound
    the regression is the larger of it and the bound. Squares are summed for all g at once, less what does not
    depend on g.
    """

    places = np.arange(listed.size + 1)
    # Blocks whose f is below g come last. They are Σ (blocks - g·widths)² instead of Σ (blocks - f·widths)².
    lifted = np.searchsorted(-reach, -places, side="right")
    square, cross, before = (
        np.append(np.cumsum(item[::-1])[::-1], 0.0)[lifted]
        for item in (widths**2, widths * blocks, (widths * reach) ** 2 - 2 * widths * reach * blocks)
    )
    return int(np.argmin(places**2 * square - 2 * places * cross - before - explained(listed)))


def _items(boundaries: NDArray[np.int64], reach: NDArray[np.int64], over: NDArray[np.int64]) -> Runs:
    """Return the histogram with ``reach[i]`` items beyond each boundary and this excess over the last."""
    places = np.arange(1, over.size + 1)
    first = boundaries[np.searchsorted(-reach, -places, side="right")] + over
    # Past the list items have exactly s_i for the last i with f_i >= j: f_i - f_{i+1} of them for each i.
    past = np.maximum(np.append(reach, 0), over.size)
    rest = np.stack([boundaries[:0:-1], (past[:-1] - past[1:])[::-1]], axis=1)
    return merged(np.concatenate([np.stack([first, np.ones_like(first)], axis=1), rest]))


@compiled
def widening(end: float, growth: float) -> NDArray[np.int64]:
    """Return s_0 = 0 < s_1 < … with s_{i+1} = s_i + max(1, ⌊growth·s_i⌋), up to the first s_m >= ``end``.

    ``end``: At least 1; every s_i is below 2^53, so that no product is off by one step. ``growth``: Not
    negative.
    """
    size, last = 1, 0
    while last < end:
        last += max(1, int(growth * last))
        size += 1
    boundaries = np.zeros(size, dtype=np.int64)
    for place in range(1, size):
        before = boundaries[place - 1]
        boundaries[place] = before + max(1, int(growth * before))
    return boundaries


@compiled
def explained(values: Floats) -> Floats:
    """Return how much of Σ value² the best non-increasing vector without negatives explains, for each head.

    The head of g values is fitted by isotonic regression and cut off at zero; what is left of its squares
    then is Σ value² - explained[g].

    ``values``: Shape (n,).

    Shape (n + 1,), explained[0] = 0.
    """
    size = values.size
    sums = np.empty(size)
    heavy = np.empty(size)
    means = np.empty(size)
    so_far = np.zeros(size + 1)  # explained by the pools up to each one
    result = np.zeros(size + 1)
    pools = 0
    for place in range(size):
        total, weight, mean = values[place], 1.0, values[place]
        while pools > 0 and means[pools - 1] <= mean:
            pools -= 1
            total += sums[pools]
            weight += heavy[pools]
            mean = total / weight
        sums[pools], heavy[pools], means[pools] = total, weight, mean
        so_far[pools + 1] = so_far[pools] + max(mean, 0.0) * max(total, 0.0)
        pools += 1
        result[place + 1] = so_far[pools]
    return result


@dataclass(frozen=True, eq=False)
class AnonymizedRelease(Release):
    """A private anonymized histogram.

    ``values``: Shape (k, 2), int64: pairs (count, multiplicity), counts positive and descending. ``total``:
    The noisy number of records, not below zero. It is a measurement of its own, not Σ count·multiplicity.
    """

    total: int = field(kw_only=True)

    def expand(self, largest: int = LARGEST_LIST) -> NDArray[np.int64]:
        """Return the counts one by one, descending; see ``expand``."""
        return expand(self.values, largest)


def prevalences(counts: ArrayLike) -> Runs:
    """Return how many items have which positive count, as pairs (count, multiplicity), counts descending.

    ``counts``: Integers of any shape: the count of every item. Items of count 0 leave no trace.

    Examples
    --------
    >>> prevalences([1, 0, 3, 1]).tolist()
    [[3, 1], [1, 2]]
    """
    checked = check_counts(counts).reshape(-1)
    distinct, items = np.unique(checked[checked > 0], return_counts=True)
    return np.stack([distinct[::-1], items[::-1].astype(np.int64)], axis=1)


def expand(runs: ArrayLike, largest: int = LARGEST_LIST) -> NDArray[np.int64]:
    """Return the counts that pairs (count, multiplicity) stand for, one by one, in the order of the pairs.

    ``runs``: Shape (k, 2). ``largest``: How long the list may be.

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
            hint="work with the pairs of count and multiplicity, or raise the limit",
        )
    return np.repeat(pairs[:, 0], pairs[:, 1]).astype(np.int64)
