"""What is known of the cells a query asks for, summed as far as every measure allows.

Count, sum, average, quantile, minimum and maximum are all made from weighted sums along one attribute, whose
cells are kept apart: a count has the weights 1, a sum the numbers, an average θ the numbers minus θ
(:mod:`.measures`).

How the error of such a sum is bounded, with weights w:

- what is exactly known, independent noise: its variance is V·Σw². The half-width is the larger of the normal
  and the Laplace quantile (:func:`tabularium.mechanisms.inference.margins_of_error.half_widths`). Noise comes
  in whole numbers, so a sum jumps by up to h = step·max|w|: half of that is added on either side, and the
  variance of a uniform error of that width. (The sum plus a uniform error U of width h has no jumps, and
  |sum| <= m + h/2 wherever |sum + U| <= m.) A plain sum of k equal Laplace errors has the exact quantile of
  its own distribution instead;
- what is known on average over cells that may err together: root mean squares add up, Σ|w|·rms_error
  (Minkowski);
- what post-processing moved, which is known cell by cell: Σ|w|·moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from tabularium.mechanisms.arrays import Floats, Indices, Integers
from tabularium.mechanisms.inference import laplace_margin, margins
from tabularium.mechanisms.inference.margins_of_error.half_widths import quantile
from tabularium.mechanisms.noise_distributions import NOTHING

MOST_DISTRIBUTIONS = 64
"""Different numbers of summed errors whose exact quantiles are worked out for one answer."""


@dataclass(frozen=True, eq=False)
class WeightedSums:
    """Weighted sums, one per row of the answer.

    Attributes
    ----------
    value, standard_error, half
        (rows,) the sums, the root mean square of their errors (or a bound of it), and half the interval's
        width; infinite where nothing is known.
    """

    value: Floats
    standard_error: Floats
    half: Floats


@dataclass(frozen=True, eq=False)
class SelectedCells:
    """The cells of an answer: rows × the cells of one attribute.

    Attributes
    ----------
    values
        (rows, cells) sums over everything else.
    variance
        (rows, 1) of the independent noise in each; (rows, cells) where cells differ.
    step
        (rows, 1 or cells) by how much one whole number of noise may move a cell.
    rms_error, moved
        (rows, cells) bound of the root mean square of errors that may go together; what post-processing
        moved.
    terms, scale
        (rows, 1 or cells) how many equal Laplace errors of this scale each cell sums, where that is all there
        is to its error; otherwise None.
    covariances
        (rows, cells, cells) of the noise in the cells of a row; None where these have none in common.
    least_variance
        Then the least variance of a whole number of noise. One more moves a sum by its standard deviation
        over that of the number, at most.
    """

    values: Floats
    variance: Floats
    step: Floats
    rms_error: Floats
    moved: Floats
    terms: Integers | None = None
    scale: float | None = None
    covariances: Floats | None = None
    least_variance: float = 1.0

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.values)

    def weighted(self, weights: Floats, level: float) -> WeightedSums:
        """Return Σ w·cells for every row.

        Parameters
        ----------
        weights
            (cells,) or (rows, cells).
        level
            Of the interval, between 0 and 1.
        """
        each = np.broadcast_to(np.asarray(weights, float), self.values.shape)
        size = np.abs(each)
        zero_one = bool(((size == 0) | (size == 1)).all())
        if self.covariances is None:
            noise, jump = (self.variance * each**2).sum(axis=1), (self.step * size).max(axis=1, initial=0.0)
        else:
            noise = np.maximum(np.einsum("ri,rij,rj->r", each, self.covariances, each), 0.0)
            jump = np.minimum(self._largest_jump(noise), (self.step * size).sum(axis=1))
        return self._bounded(
            _Sums(
                value=(each * self.values).sum(axis=1),
                noise=noise,
                jump=jump,
                rms_error=_added(size, self.rms_error),
                moved=_added(size, self.moved),
                terms=(self.terms * (size > 0)).sum(axis=1) if self.terms is not None and zero_one else None,
            ),
            level,
        )

    def tails(self, order: Indices, level: float) -> WeightedSums:
        """Return the sums of the last k cells in an order, for k = all, ..., 2, 1: (rows, cells) each."""

        def added(cells: Floats | Integers) -> Floats:
            every = np.broadcast_to(cells, self.values.shape)
            return np.asarray(np.cumsum(every[:, order[::-1]], axis=1)[:, ::-1])

        noise, jump = added(self.variance), np.broadcast_to(self.step, self.values.shape)
        if self.covariances is not None:
            noise = _of_first(self.covariances, order[::-1])[:, ::-1]
            jump = self._largest_jump(noise)
        return self._bounded(
            _Sums(
                value=added(self.values),
                noise=noise,
                jump=jump,
                rms_error=added(self.rms_error),
                moved=added(self.moved),
                terms=None if self.terms is None else added(self.terms).astype(np.int64),
            ),
            level,
        )

    def excess(self, order: Indices, share: float, level: float) -> WeightedSums:
        """Return the first k cells in an order less a share of all, for k = 1, 2, ..., all: (rows, cells).

        Each is a weighted sum: the first k cells count 1 - share, the others -share.
        """

        def added(cells: Floats, first: float, rest: float) -> Floats:
            every = np.broadcast_to(cells, self.values.shape)[:, order]
            up_to = np.cumsum(every, axis=1)
            return np.asarray(first * up_to + rest * (up_to[:, -1:] - up_to))

        own, other = 1 - share, share
        noise = added(self.variance, own**2, other**2)
        jump = np.broadcast_to(self.step, self.values.shape) * max(own, other)
        if self.covariances is not None:
            first = _of_first(self.covariances, order)
            with_all = np.cumsum(self.covariances.sum(axis=2)[:, order], axis=1)
            noise = np.maximum(first - 2 * share * with_all + share**2 * first[:, -1:], 0.0)
            jump = self._largest_jump(noise)
        return self._bounded(
            _Sums(
                value=added(self.values, own, -other),
                noise=noise,
                jump=jump,
                rms_error=added(self.rms_error, own, other),
                moved=added(self.moved, own, other),
                terms=None,
            ),
            level,
        )

    def better_known(self, other: SelectedCells) -> SelectedCells:
        """Return of each row whichever of two estimates has the less variance, over all its cells.

        All that there is to the error of the other one is independent noise; it is taken where of this one no
        more than bounds are known.
        """
        covariances = self.covariances
        if covariances is None:
            return other
        spread = np.broadcast_to(other.variance, other.values.shape)
        rows = spread.sum(axis=1) < self.variance.sum(axis=1)
        step = np.broadcast_to(other.step, other.values.shape)
        return replace(
            self,
            values=np.where(rows[:, None], other.values, self.values),
            variance=np.where(rows[:, None], spread, self.variance),
            step=np.where(rows[:, None], step, self.step),
            covariances=np.where(
                rows[:, None, None], spread[:, :, None] * np.eye(spread.shape[1]), covariances
            ),
        )

    def _largest_jump(self, noise: Floats) -> Floats:
        """Return by how much a whole number of noise may move sums of this variance, where it is shared."""
        return np.sqrt(noise / self.least_variance)

    def _bounded(self, sums: _Sums, level: float) -> WeightedSums:
        # Noise that is hardly ever anything but 0 is none.
        sums = replace(sums, noise=np.where(sums.noise < NOTHING, 0.0, sums.noise))
        return WeightedSums(
            value=sums.value,
            standard_error=np.sqrt(sums.noise) + sums.rms_error,
            half=self._noise_half(sums, level) + quantile(level) * sums.rms_error + sums.moved,
        )

    def _noise_half(self, sums: _Sums, level: float) -> Floats:
        if sums.terms is not None and self.scale is not None:
            numbers, of = np.unique(sums.terms, return_inverse=True)
            if len(numbers) <= MOST_DISTRIBUTIONS:
                halves = [_exact_half(self.scale, level, int(k)) if k else 0.0 for k in numbers]
                return np.asarray(halves)[of].reshape(sums.terms.shape)
        half = margins(sums.noise + sums.jump**2 / 12, level) + sums.jump / 2
        return np.where(sums.noise > 0, half, 0.0)


def laid_together(
    parts: Sequence[SelectedCells], rows: Sequence[Indices], cells: Sequence[Indices], shape: tuple[int, int]
) -> SelectedCells:
    """Return several selections that have no noise in common as one.

    Parameters
    ----------
    rows, cells
        Of each part, the row and the cell of the whole that its own are.
    shape
        Rows and cells of the whole.
    """
    places = [np.ix_(*each) for each in zip(rows, cells, strict=True)]

    def summed(arrays: Sequence[Floats | Integers]) -> Floats:
        whole = np.zeros(shape)
        for place, array in zip(places, arrays, strict=True):
            whole[place] += array
        return whole

    step = np.zeros(shape)
    for place, part in zip(places, parts, strict=True):
        step[place] = np.maximum(step[place], part.step)
    terms = [part.terms for part in parts if part.terms is not None]
    return SelectedCells(
        values=summed([part.values for part in parts]),
        variance=summed([part.variance for part in parts]),
        step=step,
        rms_error=summed([part.rms_error for part in parts]),
        moved=summed([part.moved for part in parts]),
        terms=summed(terms).astype(np.int64) if len(terms) == len(parts) else None,
        scale=parts[0].scale,
    )


@dataclass(frozen=True, eq=False)
class _Sums:
    """The parts of weighted sums: their value, the variance of independent noise in them, and the rest."""

    value: Floats
    noise: Floats
    jump: Floats
    rms_error: Floats
    moved: Floats
    terms: Integers | None


def _of_first(covariances: Floats, order: Indices) -> Floats:
    """Return (rows, cells) variances of the sums of the first k cells in an order, for k = 1, 2, ..., all."""
    ordered = covariances[:, order][:, :, order]
    sums = np.cumsum(np.cumsum(ordered, axis=1), axis=2)
    return np.asarray(np.maximum(np.einsum("rjj->rj", sums), 0.0))


@lru_cache(maxsize=1024)
def _exact_half(scale: float, level: float, terms: int) -> float:
    return float(laplace_margin(scale, level, terms))


def _added(size: Floats, parts: Floats) -> Floats:
    """Sum size·parts along the cells; a cell that is not asked for adds nothing even if it is unknown."""
    return np.asarray((size * np.where(size > 0, parts, 0.0)).sum(axis=1))
