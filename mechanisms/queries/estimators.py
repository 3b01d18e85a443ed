"""Estimators: weighted sums of the cells of an answer, with the errors that their noise gives them."""

from __future__ import annotations

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
    """Weighted sums, one per row, the root mean square of their errors or a bound of it, and half-widths.

    The last two are infinite where nothing is known.
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

    @classmethod
    def joint(cls, values: Floats, covariances: Floats, least_variance: float) -> SelectedCells:
        """Return cells whose errors are only noise, which they share in part."""
        variance = np.maximum(np.einsum("ijj->ij", covariances), 0.0)
        step, none = np.minimum(1.0, np.sqrt(variance / least_variance)), np.zeros_like(values)
        return cls(values, variance, step, none, none, covariances=covariances, least_variance=least_variance)

    @classmethod
    def at_worst(cls, values: Floats, rms_error: Floats, moved: Floats | None = None) -> SelectedCells:
        """Return cells whose errors may go together in any way."""
        none = np.zeros_like(values)
        return cls(values, none, none, rms_error, none if moved is None else moved)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.values)

    def weighted(self, weights: Floats, level: float) -> WeightedSums:
        """Return Σ w·cells for every row, with weights (cells,) or (rows, cells)."""
        weight = np.broadcast_to(np.asarray(weights, float), self.values.shape)
        size = np.abs(weight)
        zero_one = bool(((size == 0) | (size == 1)).all())
        if self.covariances is None:
            noise, jump = (self.variance * weight**2).sum(axis=1), (self.step * size).max(axis=1, initial=0.0)
        else:
            noise = np.maximum(np.einsum("ri,rij,rj->r", weight, self.covariances, weight), 0.0)
            jump = np.minimum(self._largest_jump(noise), (self.step * size).sum(axis=1))
        return self._bounded(
            level,
            value=(weight * self.values).sum(axis=1),
            noise=noise,
            jump=jump,
            rms_error=_added(size, self.rms_error),
            moved=_added(size, self.moved),
            terms=(self.terms * (size > 0)).sum(axis=1) if self.terms is not None and zero_one else None,
        )

    def tails(self, order: Indices, level: float) -> WeightedSums:
        """Return the sums of the last k cells in an order, for k = all, ..., 2, 1: (rows, cells) each."""
        result = self.excess(order[::-1], 0.0, level)
        return WeightedSums(*(item[:, ::-1] for item in (result.value, result.standard_error, result.half)))

    def excess(self, order: Indices, share: float, level: float) -> WeightedSums:
        """Return the first k cells in an order less a share of all, for k = 1, 2, ..., all: (rows, cells).

        Each is a weighted sum: the first k cells count 1 - share, the others -share.
        """
        own, other = 1 - share, share

        def added(cells: Floats | Integers, first: float, rest: float) -> Floats:
            up_to = np.cumsum(np.broadcast_to(cells, self.values.shape)[:, order], axis=1)
            return np.asarray(first * up_to + rest * (up_to[:, -1:] - up_to) if rest else first * up_to)

        noise = added(self.variance, own**2, other**2)
        jump = np.broadcast_to(self.step, self.values.shape) * max(own, other)
        if self.covariances is not None:
            first = _of_first(self.covariances, order)
            with_all = np.cumsum(self.covariances.sum(axis=2)[:, order], axis=1)
            noise = np.maximum(first - 2 * share * with_all + share**2 * first[:, -1:], 0.0)
            jump = self._largest_jump(noise)
        plain = self.terms if not share else None
        return self._bounded(
            level,
            value=added(self.values, own, -other),
            noise=noise,
            jump=jump,
            rms_error=added(self.rms_error, own, other),
            moved=added(self.moved, own, other),
            terms=None if plain is None else added(plain, 1, 0).astype(np.int64),
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

    def _bounded(
        self,
        level: float,
        *,
        value: Floats,
        noise: Floats,
        jump: Floats,
        rms_error: Floats,
        moved: Floats,
        terms: Integers | None,
    ) -> WeightedSums:
        """Return weighted sums from the parts of their errors, as on the page on errors of answers."""
        noise = np.where(noise < NOTHING, 0.0, noise)  # noise that is hardly ever anything but 0 is none
        half = np.where(noise > 0, margins(noise + jump**2 / 12, level) + jump / 2, 0.0)
        if terms is not None and self.scale is not None:
            numbers, of = np.unique(terms, return_inverse=True)
            if len(numbers) <= MOST_DISTRIBUTIONS:
                exact = [_exact_half(self.scale, level, int(k)) if k else 0.0 for k in numbers]
                half = np.asarray(exact)[of].reshape(terms.shape)
        return WeightedSums(
            value=value,
            standard_error=np.sqrt(noise) + rms_error,
            half=half + quantile(level) * rms_error + moved,
        )


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
