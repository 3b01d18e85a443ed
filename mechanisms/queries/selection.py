"""What a plan selects on the axes of a table: which cells are summed into which row."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from itertools import product

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.arrays import Bools, Floats, Indices, Integers
from tabularium.mechanisms.errors import InputError
from tabularium.mechanisms.inference import laplace_margin, margins
from tabularium.mechanisms.inference.margins_of_error.half_widths import quantile
from tabularium.mechanisms.noise_distributions import NOTHING
from tabularium.mechanisms.queries.attributes import AnyAttribute, Attribute, Groups, TreeAttribute
from tabularium.mechanisms.queries.query_plan import Plan

MOST_ROWS = 1_000_000
"""Rows of an answer."""


@dataclass(frozen=True, eq=False)
class Axes:
    """The attributes of a table: a hierarchy, if there is one, crossed with the others.

    Attributes
    ----------
    tree
        The hierarchy, whose nodes are the rows of the table; None for one row.
    others
        The other attributes, in the order of the axes.
    """

    tree: TreeAttribute | None
    others: tuple[Attribute | TreeAttribute, ...]

    @property
    def attributes(self) -> tuple[AnyAttribute, ...]:
        """All of them, the hierarchy first, as a plan numbers them."""
        return (*([] if self.tree is None else [self.tree]), *self.others)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of cells of each of the other attributes."""
        return tuple(attribute.cells for attribute in self.others)

    @property
    def parents(self) -> Integers:
        """(nodes,) of the hierarchy; a single root without one."""
        return np.array([-1]) if self.tree is None else self.tree.parents

    @property
    def depth(self) -> Integers:
        """(nodes,) of the hierarchy."""
        return np.array([0]) if self.tree is None else self.tree.depth

    @property
    def leaves(self) -> Indices:
        """Node numbers of the leaves."""
        return np.array([0]) if self.tree is None else self.tree.leaves


@dataclass(frozen=True, eq=False)
class Selection:
    """What a plan selects on the axes of a table.

    Attributes
    ----------
    chosen
        (nodes,) which leaves are summed.
    tops
        The nodes whose subtrees the groups are, ascending; the roots where all leaves are one group.
    groups
        (leaves,) the group of each leaf.
    grouped
        Whether there are several groups, or could be; otherwise all leaves are one.
    """

    plan: Plan
    axes: Axes
    chosen: Bools
    tops: Indices
    groups: Indices
    grouped: bool

    @classmethod
    def of(cls, plan: Plan, axes: Axes) -> Selection:
        """Lay ``plan`` over ``axes``.

        Raises
        ------
        InputError
            If the answer would have too many rows.
        """
        if math.prod(len(groups.codes) for _, groups in plan.by) > MOST_ROWS:
            hint = f"group by fewer attributes; {MOST_ROWS} rows are possible"
            raise InputError("the answer would have too many rows", where="query", hint=hint)
        chosen = np.zeros(len(axes.parents), bool)
        chosen[axes.leaves] = True if axes.tree is None else plan.masks[0]
        own = dict(plan.by).get(0) if axes.tree is not None else None
        if own is not None and own.nodes is not None:
            return cls(plan, axes, chosen, own.nodes, own.of, True)
        roots, together = np.flatnonzero(axes.parents < 0), np.zeros(len(axes.leaves), np.intp)
        return cls(plan, axes, chosen, roots, together, False)

    @property
    def number(self) -> int:
        """How many groups of leaves there are."""
        return len(self.tops) if self.grouped else 1

    @property
    def lowest_depth(self) -> int:
        """The smallest depth at which a node that is no leaf lies in one group."""
        return int(self.axes.depth[self.tops].max()) if self.grouped else 0

    def at_tops(self, variances: Floats) -> Floats:
        """Return (groups,) variances: different roots share no measurement, so theirs add up."""
        found = variances[self.tops]
        return found if self.grouped else found.sum(keepdims=True)

    def leaf_sums(self, estimates: Floats) -> Floats:
        """Sum (nodes, …) over the chosen leaves: (groups, …)."""
        leaves = self.axes.leaves
        kept = self.chosen[leaves]
        return self.sums(estimates[leaves[kept]], self.groups[kept])

    def sums(self, values: Floats, of: Indices) -> Floats:
        """Sum (m, …) into (groups, …)."""
        total = np.zeros((self.number, *values.shape[1:]))
        np.add.at(total, of, values)
        return total

    def groups_of(self, nodes: Indices) -> Indices:
        """Return the group of nodes that each lie in one."""
        if not self.grouped:
            return np.zeros(len(nodes), np.intp)
        above = nodes.astype(np.int64)
        at = np.zeros(len(self.axes.parents), bool)
        at[self.tops] = True
        while (outside := ~at[above]).any():
            above[outside] = self.axes.parents[above[outside]]
        return np.searchsorted(self.tops, above)

    def contract(self, array: NDArray[np.generic]) -> Floats:
        """Sum (m, *axes) to (m, *groups of each axis, cells).

        The last axis holds the chosen cells of the attribute that is measured, which has one group; a single
        cell for a count.
        """
        result: Floats = np.asarray(array, np.float64)
        for axis, place, mask, groups in self._others():
            if place == self.plan.of:
                continue
            if groups is None:
                result = np.compress(mask, result, axis=axis).sum(axis=axis, keepdims=True)
            else:
                result = _gathered(result, axis, mask, groups)
        if self.plan.of is None:
            return result[..., None]
        own = next(axis for axis, place, _, _ in self._others() if place == self.plan.of)
        kept = np.compress(self.plan.masks[self.plan.of], result, axis=own)
        return np.expand_dims(np.moveaxis(kept, own, -1), own)

    def rows(
        self,
        values: Floats,
        variance: Floats | None = None,
        step: Floats | None = None,
        *,
        moved: Floats | None = None,
        rms_error: Floats | None = None,
        scale: float | None = None,
        terms: Floats | None = None,
    ) -> SelectedCells:
        """Return contracted cells as rows in the order that the query's ``by`` says, without empty ones.

        Parameters
        ----------
        values, moved, rms_error
            (groups, *groups of each axis, cells).
        variance, step
            (groups,) variance of one cell summed over the chosen leaves, and by how much a whole number of
            noise may move it; or of all chosen cells, in the shape of values, where cells differ.
        scale
            Of the noise, where each chosen leaf has one draw of it and there is nothing else.
        terms
            How many draws there are in each sum, in the shape of values; None where every cell has one.
        """
        inside, others = self._counts()
        shape = (*inside.shape, *others.shape)
        sums = np.multiply.outer(inside, others)
        nothing = np.zeros(len(inside))
        one = np.ones_like(others)

        def ordered(array: Floats) -> Floats:
            whole = np.broadcast_to(array, (*shape, array.shape[-1]))
            return self._ordered(whole)[self._ordered(sums[..., None])[:, 0] > 0]

        def of_cells(each: Floats | None, number: Integers) -> Floats:
            if each is not None and each.ndim > 1:
                return ordered(each)
            return ordered(np.multiply.outer(nothing if each is None else each, number)[..., None])

        zeros = np.zeros((1, values.shape[-1]))
        return SelectedCells(
            values=ordered(values),
            variance=of_cells(variance, others),
            step=of_cells(step, one),
            rms_error=ordered(zeros if rms_error is None else rms_error),
            moved=ordered(zeros if moved is None else moved),
            terms=None
            if scale is None
            else ordered(sums[..., None] if terms is None else terms).astype(np.int64),
            scale=scale,
        )

    def cells(self) -> Integers:
        """Return how many cells each combination of groups sums, in the order that the query's ``by`` says.

        The attribute that is measured counts as one. ``rows`` leaves out the combinations without any cell.
        """
        return np.asarray(self._ordered(np.multiply.outer(*self._counts())[..., None])[:, 0])

    def labels(self) -> list[tuple[tuple[str, str], ...]]:
        """Return (code, label) of every group of each combination, in the order of ``cells``."""
        names = [tuple(zip(groups.codes, groups.labels, strict=True)) for _, groups in self.plan.by]
        return list(product(*names))

    def _ordered(self, array: Floats) -> Floats:
        """Bring the axes that are grouped by to the front, in the order asked for, and make rows of them."""
        first = self.axes.tree is not None
        wanted = [place - first + 1 for place, _ in self.plan.by]
        rest = [axis for axis in range(array.ndim - 1) if axis not in wanted]
        return array.transpose(*wanted, *rest, array.ndim - 1).reshape(-1, array.shape[-1])

    def _counts(self) -> tuple[Integers, Integers]:
        """Return how many leaves are summed in each group, and how many cells of the other axes (*groups)."""
        kept = self.chosen[self.axes.leaves]
        inside = np.bincount(self.groups[kept], minlength=self.number)
        others = np.ones((), np.int64)
        for _, place, mask, groups in self._others():
            if place == self.plan.of:
                own = np.array([int(mask.any())])
            elif groups is None:
                own = np.array([int(mask.sum())])
            else:
                own = np.bincount(groups.of[mask], minlength=len(groups.codes))
            others = np.multiply.outer(others, own)
        return inside, others

    def _others(self) -> Iterator[tuple[int, int, Bools, Groups | None]]:
        """Yield axis, number in the plan, chosen cells and groups of every attribute but the hierarchy."""
        first = int(self.axes.tree is not None)
        grouped = dict(self.plan.by)
        for place in range(first, len(self.plan.masks)):
            yield place - first + 1, place, self.plan.masks[place], grouped.get(place)


def _gathered(array: Floats, axis: int, mask: Bools, groups: Groups) -> Floats:
    """Sum the chosen cells of an axis group by group; every group has cells, chosen or not."""
    shape = [1] * array.ndim
    shape[axis] = len(mask)
    kept: Floats = np.where(mask.reshape(shape), array, 0.0)
    if len(groups.codes) == len(mask):
        return kept
    order = np.argsort(groups.of, kind="stable")
    starts = np.searchsorted(groups.of[order], np.arange(len(groups.codes)))
    summed: Floats = np.add.reduceat(np.take(kept, order, axis=axis), starts, axis=axis)
    return summed


def named_rows(axes: Axes, made: Sequence[Plan]) -> tuple[list[tuple[tuple[str, str], ...]], Integers]:
    """Return (code, label) of the groups of each row that has cells, and how many cells each has."""
    selections = [Selection.of(each, axes) for each in made]
    number = np.sum([each.cells() for each in selections], axis=0)
    labels = [each for each, some in zip(selections[0].labels(), number > 0, strict=True) if some]
    return labels, number[number > 0]


def cells_of_rows(axes: Axes, made: Sequence[Plan]) -> Iterator[Bools]:
    """Yield the cells, (leaves, *axes), that plans choose for each row that has any, as ``named_rows``."""
    first = int(axes.tree is None)  # a table without a hierarchy has one leaf

    def outer(masks: Sequence[Bools]) -> Bools:
        whole = reduce(np.logical_and.outer, masks)
        return whole.reshape((1,) * first + whole.shape)

    chosen = reduce(np.logical_or, (outer(plan.masks) for plan in made))
    by = made[0].by
    for groups in product(*(range(len(each.codes)) for _, each in by)):
        masks = [np.ones(len(mask), bool) for mask in made[0].masks]
        for (place, each), group in zip(by, groups, strict=True):
            masks[place] &= each.of == group
        row = chosen & outer(masks)
        if row.any():
            yield row


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
