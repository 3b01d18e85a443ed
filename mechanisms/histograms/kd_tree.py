"""kd_tree: noisy cells draw a map of boxes, and the boxes are measured afresh (two phases, "DPCube").

Sensitivity and privacy: one record changes the total by 1 and one cell by 1, at ε_t and ε_1. The partition is
computed only from these outputs; its boxes are disjoint, so their sums cost ε_2. ε_t + ε_1 + ε_2 = ε, or
shares of ρ. Clipping at 2^60/cells in tables of more than 2^20 cells keeps neighbours.

O(n log n) time, O(n) memory. Source: Xiao, Xiong, Yuan 2010, Algorithms 2 and 3, Theorem 4.3; what differs:
docs/reference/mechanisms/kd_tree.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from typing import Any, ClassVar, Literal

import numpy as np

from tabularium.mechanisms.arrays import LARGEST_COUNT, LARGEST_SUM, Floats
from tabularium.mechanisms.channel import Channel
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.histograms.kd_boxes import (
    box_sizes,
    box_sums,
    boxes_of_cells,
    fill_boxes,
    grow_tree,
)
from tabularium.mechanisms.histograms.parameter_checks import exact_number, one_of, share_of_budget, switch
from tabularium.mechanisms.inference.hierarchy import Hierarchy
from tabularium.mechanisms.linear_measurements.linear_measurement import (
    LinearMeasurement,
    draws,
)
from tabularium.mechanisms.linear_measurements.noisy_tree import NoisyTree
from tabularium.mechanisms.measured import Array, Measured, Release
from tabularium.mechanisms.mechanism import Counts, Mechanism
from tabularium.mechanisms.noise_distributions import Noise, noise_in

DEFAULT_MOST = 8.0  # ξ0 in units of s = √(v2/2), the scale of the noise in a part's sum


@dataclass(frozen=True)
class KdTree(Mechanism):
    """Boxes grown on noisy cells, then one fresh noisy sum per box.

    Parameters
    ----------
    cells
        Share of the budget for the noisy cells.
    total
        Share for the total; the sums of boxes get what ``cells`` and ``total`` leave. ``"0"``: the total is
        not measured, and ξ0 is compared with noisy sums, as in the paper.
    xi0
        ξ0: a box with more records is cut. A whole number or exact text. By default 8 times the scale of the
        noise in a box's sum, and without a total ``tolerance`` standard deviations of the noisy sum more.
    xi1
        ξ1: a box is cut if the deviations of its cells from their mean add up to more. By default what is
        expected of equal counts, and ``tolerance`` standard deviations more; then one cell that stands out is
        enough too.
    tolerance
        Standard deviations of noise that the default thresholds allow for.
    split
        ``"contrast"``: cuts look for edges. ``"median"``: as many records on both sides, as in the paper.
    combine
        Release what both phases show of a box. ``false``: what the second shows, as in the paper.
    risk
        Estimate the mean squared error per cell from the measurements. It costs no budget, but is imprecise
        at a small one.
    """

    cells: Fraction = Fraction(1, 5)
    total: Fraction = Fraction(1, 20)
    xi0: Fraction | None = None
    xi1: Fraction | None = None
    tolerance: Fraction = Fraction(3)
    split: Literal["contrast", "median"] = "contrast"
    combine: bool = True
    risk: bool = False

    name: ClassVar[str] = "kd_tree"
    noisy_cells_purpose: ClassVar = "cells"

    def __post_init__(self) -> None:
        cells, total = share_of_budget(self.cells, "cells"), share_of_budget(self.total, "total", zero=True)
        if cells + total >= 1:
            raise MechanismError(
                "nothing would remain for the sums of the boxes",
                where="cells",
                hint="let cells + total stay below 1",
            )
        object.__setattr__(self, "cells", cells)
        object.__setattr__(self, "total", total)
        for name, value in (("xi0", self.xi0), ("xi1", self.xi1)):
            object.__setattr__(self, name, None if value is None else _threshold(value, name))
        object.__setattr__(self, "tolerance", _threshold(self.tolerance, "tolerance"))
        one_of(self.split, ("contrast", "median"), "split")
        switch(self.combine, "combine")
        switch(self.risk, "risk")

    def draw(self, counts: Counts, channel: Channel) -> tuple[dict[str, Array], dict[str, Any]]:
        """Measure the total and the cells, grow the boxes on them, and measure the boxes."""
        clipped = within_sums(counts)
        budget = channel.remaining
        arrays: dict[str, Array] = {}
        if self.total:
            arrays["total"] = channel.add_noise(clipped.sum(), budget * self.total, purpose="total")
        arrays["cells"] = channel.add_noise(clipped, budget * self.cells, purpose="cells")
        fresh = Noise.for_loss(channel.remaining, channel.definition)
        first = Noise.for_loss(budget * self.cells, channel.definition)
        lows, highs = self._grow(arrays, first, fresh)
        sums = box_sums(clipped.reshape(-1), sides(counts.shape), lows, highs)
        arrays["sums"] = channel.add_noise(sums, channel.remaining, purpose="sums")
        return {**arrays, "lows": lows, "highs": highs}, {"shape": list(counts.shape)}

    def finish(self, measured: Measured) -> Release:
        """Return the cells of the boxes, float64, in the shape of the counts."""
        shape = tuple(measured.meta["shape"])
        lows, highs, sums = (measured.arrays[key] for key in ("lows", "highs", "sums"))
        cells = measured.arrays["cells"].reshape(-1).astype(np.float64)
        first, fresh = (noise_in(draws(measured, name)[0]) for name in ("cells", "sums"))
        sizes = box_sizes(lows, highs)
        before = box_sums(cells, sides(shape), lows, highs)
        parts = (combined if self.combine else second_only)(
            sizes, before, sums.astype(np.float64), (first.variance, fresh.variance)
        )
        values = np.empty(cells.size)
        fill_boxes(parts.means, sides(shape), lows, highs, values)
        return measured.release(
            values.reshape(shape),
            parts=int(sizes.size),
            largest_part=int(sizes.max()),
            scale_cells=first.scale,
            scale_sums=fresh.scale,
            **(estimated_risk(cells, values, parts) if self.risk else {}),
        )

    def linear_measurements(self, measured: Measured) -> LinearMeasurement | None:
        """Return the boxes' sums of phase two; the boxes were chosen by the cells and total of phase one."""
        first, noise = self._phase_one(measured), noise_in(draws(measured, "sums")[0])
        return NoisyTree.flat(boxes_of_cells(measured), measured.arrays["sums"], noise, chosen_by=first)

    def _phase_one(self, measured: Measured) -> LinearMeasurement | None:
        cells = self.noisy_cells(measured)
        if cells is None or not self.total:
            return cells
        return NoisyTree(
            np.append(measured.arrays["total"].reshape(1), cells.values),
            (noise_in(draws(measured, "total")[0]), *cells.noise),
            tree=Hierarchy(np.repeat([-1, 0], [1, cells.cells])),
            drawn=np.repeat([0, 1], [1, cells.cells]),
            leaf=1 + np.arange(cells.cells),
        )

    def _grow(self, noisy: dict[str, Array], first: Noise, fresh: Noise) -> tuple[Array, Array]:
        """Return the corners of the boxes; sees outputs of the channel only."""
        most = DEFAULT_MOST * sqrt(fresh.variance / 2) if self.xi0 is None else float(self.xi0)
        return grow_tree(
            noisy["cells"].reshape(-1).astype(np.float64),
            sides(noisy["cells"].shape),
            first.variance,
            first.deviation,
            max(0.0, float(noisy["total"])) if self.total else -1.0,
            most,
            0.0 if self.xi0 is not None else float(self.tolerance),
            -1.0 if self.xi1 is None else float(self.xi1),
            float(self.tolerance),
            self.split == "contrast",
        )


def within_sums(counts: Counts) -> Counts:
    """Return the counts, clipped at a public number where sums of them could pass 2^60."""
    largest = min(LARGEST_COUNT, LARGEST_SUM // counts.size)
    return counts if largest == LARGEST_COUNT else np.minimum(counts, largest)


def sides(shape: tuple[int, ...]) -> Counts:
    """Return a table's shape as the kernels take it; a table of no dimensions is a row of one cell."""
    return np.array(shape or (1,), dtype=np.int64)


def _threshold(value: Any, where: str) -> Fraction:
    """Return a number from 0 to 2^60, from ``"2.5"``, an integer or a fraction; never a float."""
    hint = 'write a number of at least 0 as text, such as "2.5"'
    number = exact_number(value, where, called="a threshold", hint=hint)
    if not 0 <= number <= LARGEST_SUM:
        raise MechanismError("this number is out of bounds", where=where, hint=hint)
    return number


@dataclass(frozen=True, eq=False)
class Combined:
    """The parts' sums from both phases.

    Attributes
    ----------
    sizes
        Cells of each part, shape (parts,).
    sums
        T.
    before, fresh
        Y and S.
    share
        How much T changes with S, summed over parts of one size and divided by their number.
    variances
        v1 of a cell and v2 of a sum.
    """

    sizes: Floats
    sums: Floats
    before: Floats
    fresh: Floats
    share: Floats
    variances: tuple[float, float]

    @property
    def means(self) -> Floats:
        """T/m, what each cell of a part is released as."""
        return self.sums / self.sizes


def second_only(sizes: Floats, before: Floats, fresh: Floats, variances: tuple[float, float]) -> Combined:
    """Return the sums of phase two as they are."""
    return Combined(sizes, fresh, before, fresh, np.ones(sizes.size), variances)


def combined(sizes: Floats, before: Floats, fresh: Floats, variances: tuple[float, float]) -> Combined:
    """Return the combination of both phases; parts are alike if their sizes have as many binary digits."""
    first, second = variances
    kind = np.frexp(sizes)[1]
    number = np.maximum(np.bincount(kind), 1)
    gaps = before - fresh
    gaps -= (np.bincount(kind, weights=gaps) / number)[kind]
    squares = np.bincount(kind, weights=gaps * gaps)
    enough = (number > 3) & (squares > 0)
    shrunk = np.where(enough, (number - 3) * second / np.where(enough, squares, 1.0), 0.0)[kind]
    if second > 0:  # at a vast budget both variances are 0
        known = np.where(enough[kind], second / (sizes * first + second), 0.0)
    else:
        known = np.zeros(sizes.size)
    weight = np.minimum(known, shrunk)
    lost = np.where(shrunk < known, 3, 1) / number[kind]
    return Combined(sizes, fresh + weight * gaps, before, fresh, 1 - weight * (1 - lost), variances)


def estimated_risk(cells: Floats, values: Floats, parts: Combined) -> dict[str, float]:
    """Return an estimate of the squared error per cell, with its standard error.

    With x the true cells, y the noisy ones and t = T/m the released ones,
    Σ(x - t)² = Σx² - 2Σ_P t·X + Σ_P m·t². Phase one has E Σy² = Σx² + n·v1, whatever is done with y
    afterwards. Given phase one, S is X without bias, and t and S share the noise c·v2/m where T changes by c
    with S. Hence, written with residuals,

        Σ(y - t)² - n·v1 + 2Σ_P [t·(Y - S) + c·v2/m]

    has the right mean, choice of the partition and all: without bias if a is fixed, after Stein (1981) if it
    is shrunk (exact for normal noise). The standard error takes t for given; the two random terms may go
    together, so their deviations are added, not their variances.

    ``cells``, ``values``: Noisy and released cells, shape (n,).
    """
    first, second = parts.variances
    size, means = cells.size, parts.means
    rest = (cells - values) ** 2
    cross = means * (parts.before - parts.fresh) + parts.share * second / parts.sizes
    spread = means**2 * (parts.sizes * first + second)
    return {
        "risk": float(rest.mean()) - first + 2 * float(cross.sum()) / size,
        "risk_standard_error": sqrt(float(rest.var()) / size) + 2 * sqrt(float(spread.sum())) / size,
    }
