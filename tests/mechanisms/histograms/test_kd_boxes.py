"""The kernels of the kd-trees against definitions in plain NumPy: growing boxes, sums over them, two phases."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import log, prod, sqrt
from typing import Any

import numpy as np
import pytest

from tabularium.mechanisms.histograms.kd_boxes import (
    OUTLIER,
    SPREAD,
    box_sizes,
    box_sums,
    fill_boxes,
    grow_tree,
    line_sums,
)
from tabularium.mechanisms.histograms.kd_tree import combined, estimated_risk, second_only
from tabularium.mechanisms.noise.synthetic import generator

Box = tuple[tuple[int, int], ...]


def inside(box: Box) -> tuple[slice, ...]:
    return tuple(slice(*sides) for sides in box)


def as_boxes(lows: Any, highs: Any) -> list[Box]:
    return [
        tuple(zip(low, high, strict=True)) for low, high in zip(lows.tolist(), highs.tolist(), strict=True)
    ]


def side_by_side(shape: tuple[int, ...], boxes: list[Box]) -> bool:
    seen = np.zeros(shape, int)
    for box in boxes:
        seen[inside(box)] += 1
    return bool((seen == 1).all())


# --- growing --------------------------------------------------------------------------------------------


@dataclass
class Reference:
    """The tree by its definition: one slice of the table per box, recursion, no stack."""

    table: np.ndarray
    variance: float
    deviation: float
    total: float
    most: float
    allowance: float
    uneven: float
    tolerance: float
    contrast: bool
    boxes: list[Box] = field(default_factory=list)

    def grow(self, box: Box, count: float) -> None:
        cells = self.table[inside(box)].astype(float)
        widths = [high - low for low, high in box]
        axis = int(np.argmax(widths))
        if not self.cuts(cells, count):
            self.boxes.append(box)
            return
        lines = cells.sum(axis=tuple(other for other in range(cells.ndim) if other != axis))
        cut = self.contrast_cut(lines, cells.size) if self.contrast else median_cut(lines)
        share = cut / lines.size
        excess = lines[:cut].sum() - share * lines.sum()
        noise = cells.size * self.variance * share * (1 - share)
        prior = 4 * share * (1 - share) * (SPREAD * count) ** 2
        trust = prior / (prior + noise) if prior else 0.0
        if excess:
            trust = max(trust, 1 - 4 * log(lines.size) * noise / excess**2)
        left = float(np.clip(share * count + trust * excess, 0, max(count, 0)))
        low, high = box[axis]
        self.grow((*box[:axis], (low, low + cut), *box[axis + 1 :]), left)
        self.grow((*box[:axis], (low + cut, high), *box[axis + 1 :]), count - left)

    def cuts(self, cells: np.ndarray, count: float) -> bool:
        size = cells.size
        if size == 1:
            return False
        if self.total < 0:
            many = cells.sum() > self.most + self.allowance * sqrt(size * self.variance)
        else:
            many = count > self.most
        gaps = np.abs(cells - cells.mean())
        if self.uneven >= 0:
            return bool(many or gaps.sum() > self.uneven)
        spread = sqrt(max(self.variance - self.deviation**2, 0))
        limit = self.deviation * sqrt(size * (size - 1)) + self.tolerance * spread * sqrt(size)
        outlier = gaps.max() > sqrt(self.variance / 2) * (log(size) + OUTLIER)
        return bool(many or gaps.sum() > limit or outlier)

    def contrast_cut(self, lines: np.ndarray, size: int) -> int:
        if ((lines - lines.mean()) ** 2).sum() <= (lines.size - 1) * self.variance * size / lines.size:
            return lines.size // 2
        merits = [
            lines[:cut].size * lines[cut:].size * (lines[:cut].mean() - lines[cut:].mean()) ** 2
            for cut in range(1, lines.size)
        ]
        return 1 + int(np.argmax(np.round(merits, 6)))


def median_cut(lines: np.ndarray) -> int:
    return 1 + int(np.argmin([abs(lines[:cut].sum() - lines[cut:].sum()) for cut in range(1, lines.size)]))


SHAPES = ((1,), (2,), (13,), (5, 6), (1, 7), (3, 1, 4), (2, 3, 2, 2))


@pytest.mark.parametrize("contrast", [True, False])
@pytest.mark.parametrize("total", [-1.0, 0.0, 60.0])
def test_boxes_are_what_the_definition_says(contrast: bool, total: float) -> None:
    """Real-valued cells, so that no two cuts are equally good but for their rounding."""
    rng = generator(7)
    cut = 0
    for number in range(420):
        shape = SHAPES[number % len(SHAPES)]
        table = np.rint(rng.exponential(4, shape)) * rng.integers(0, 2, shape) + rng.normal(0, 2, shape)
        numbers = (
            4.0,
            1.6,
            total,
            float(rng.choice([0.5, 8.0, 30.0])),
            float(rng.choice([0.0, 1.0])),
            float(rng.choice([-1.0, -1.0, 7.0])),
            float(rng.choice([0.0, 2.0])),
        )
        boxes = as_boxes(*grow_tree(table.reshape(-1), np.array(shape), *numbers, contrast))
        reference = Reference(table, *numbers, contrast)
        reference.grow(tuple((0, side) for side in shape), total)
        assert boxes == reference.boxes
        assert side_by_side(shape, boxes)
        cut += 1 < len(boxes) < table.size
    assert cut > 90


def test_equal_cells_under_a_known_total_are_cut_like_a_grid() -> None:
    """64 records in 8 x 8 cells and at most 4 in a box: 2 x 2 cells each, whatever little the noise says."""
    rng = generator(1)
    lows, highs = grow_tree(
        1 + rng.normal(0, 100, 64), np.array([8, 8]), 1e4, 80.0, 64.0, 4.5, 0.0, 1e9, 0.0, False
    )
    assert 10 < lows.shape[0] < 40
    lows, highs = grow_tree(np.ones(64), np.array([8, 8]), 1e4, 80.0, 64.0, 4.0, 0.0, -1.0, 3.0, True)
    assert set(box_sizes(lows, highs).tolist()) == {4.0}
    assert lows.shape[0] == 16


def test_one_full_cell_is_cut_out() -> None:
    """Noise of 100 a cell, one cell with 30 000: it stands alone, and there are few other boxes."""
    table = generator(2).normal(0, 100, (64, 64))
    table[40, 9] += 30_000
    lows, highs = grow_tree(
        table.reshape(-1), np.array([64, 64]), 1e4, 80.0, 30_000.0, 700.0, 0.0, -1.0, 3.0, True
    )
    assert ((40, 41), (9, 10)) in as_boxes(lows, highs)
    assert lows.shape[0] < 60


def test_a_cell_that_h_would_hide_is_cut_out_too() -> None:
    """Few records are expected in all, so ξ0 cuts nothing; 2 500 in one of 4 096 cells are not seen in H."""
    table = np.clip(generator(2).normal(0, 100, (64, 64)), -300, 300)
    for full, cut in ((0, False), (1000, False), (2500, True)):
        table[40, 9] = full
        lows, highs = grow_tree(
            table.reshape(-1), np.array([64, 64]), 1e4, 80.0, 0.0, 700.0, 0.0, -1.0, 3.0, True
        )
        assert (lows.shape[0] > 1) == cut
        assert (((40, 41), (9, 10)) in as_boxes(lows, highs)) == cut


@pytest.mark.parametrize("contrast", [True, False])
def test_a_tree_that_would_be_a_chain_goes_on_by_halves(contrast: bool) -> None:
    """Every cell outweighs all before it, and each cut takes one cell off: 1 000 levels without the limit."""
    cells = np.asarray(1.9 ** np.arange(1000), np.float64)
    lows, highs = grow_tree(cells, np.array([1000]), 1e-9, 1e-9, -1.0, 0.0, 0.0, -1.0, 3.0, contrast)
    assert lows[:, 0].tolist() == list(range(1000))
    assert highs[:, 0].tolist() == list(range(1, 1001))


# --- boxes ----------------------------------------------------------------------------------------------


def test_sums_over_boxes_and_slices() -> None:
    rng = generator(3)
    for number in range(200):
        shape = SHAPES[number % len(SHAPES)]
        table = rng.integers(0, 1 << 40, shape)
        ends = np.sort(
            [[rng.choice(side + 1, 2, replace=False) for side in shape] for _ in range(5)], axis=-1
        )
        lows, highs = ends[..., 0].astype(np.int32), ends[..., 1].astype(np.int32)
        boxes = as_boxes(lows, highs)
        given = (table.reshape(-1), np.array(shape), lows, highs)
        assert box_sums(*given).tolist() == [table[inside(box)].sum() for box in boxes]
        assert box_sizes(lows, highs).tolist() == [table[inside(box)].size for box in boxes]
        axes = rng.integers(0, len(shape), 5)
        widths = (highs - lows)[np.arange(5), axes]
        starts = np.concatenate([[0], np.cumsum(widths)])
        wanted = [
            table[inside(box)].sum(axis=tuple(other for other in range(len(shape)) if other != axis))
            for box, axis in zip(boxes, axes.tolist(), strict=True)
        ]
        assert line_sums(*given, axes, starts).tolist() == np.concatenate(wanted).tolist()
        filled = np.full(prod(shape), -1.0)
        fill_boxes(np.array([7.5]), np.array(shape), lows[:1], highs[:1], filled)
        by_hand = np.full(shape, -1.0)
        by_hand[inside(boxes[0])] = 7.5
        assert filled.tolist() == by_hand.reshape(-1).tolist()


# --- two phases -----------------------------------------------------------------------------------------


def test_few_parts_of_a_size_are_left_as_phase_two_measured_them() -> None:
    sizes, before, fresh = np.array([1.0, 1, 1, 4]), np.array([3.0, 9, 9, 7]), np.array([1.0, 2, 3, 4])
    made = combined(sizes, before, fresh, (2.0, 2.0))
    assert made.sums.tolist() == fresh.tolist()
    assert made.share.tolist() == [1, 1, 1, 1]
    assert second_only(sizes, before, fresh, (2.0, 2.0)).means.tolist() == [1, 2, 3, 1]


def test_weights_by_hand() -> None:
    """Five parts of one cell, Y - S = 10, 11, 12, 13, 14: offset 12, squares 4 + 1 + 0 + 1 + 4 = 10.

    v1 = v2 = 3: known weight 1/2, shrinkage (5 - 3)·3/10 = 3/5, so 1/2; at v1 = 1, v2 = 3 it is min(3/4, 3/5).
    """
    fresh = np.array([5.0, 0, 1, 2, 3])
    before = fresh + np.arange(10.0, 15.0)
    for first, weight, lost in ((3.0, 0.5, 1), (1.0, 0.6, 3)):
        made = combined(np.ones(5), before, fresh, (first, 3.0))
        assert made.sums == pytest.approx(fresh + weight * np.array([-2, -1, 0, 1, 2]))
        assert made.share == pytest.approx([1 - weight * (1 - lost / 5)] * 5)


def test_both_phases_are_better_than_one_and_a_biased_first_phase_does_no_harm() -> None:
    rng = generator(5)
    truth = rng.normal(50, 20, (400, 40))
    fresh = truth + rng.normal(0, 3, truth.shape)
    for bias, within_of_best in ((0.0, 1.06), (100.0, 1.06), (rng.normal(0, 60, truth.shape), 1.01)):
        before = truth + rng.normal(0, 4, truth.shape) + bias
        errors = [
            ((combined(np.full(40, 1.0), y, s, (16.0, 9.0)).sums - x) ** 2).mean()
            for y, s, x in zip(before, fresh, truth, strict=True)
        ]
        spread = 16.0 + np.var(bias)
        assert np.mean(errors) < within_of_best * 9 * spread / (9 + spread) * 1.05


@pytest.mark.parametrize("uses", [combined, second_only], ids=lambda uses: uses.__name__)
def test_the_risk_is_right_on_average_even_where_parts_are_chosen_by_the_first_phase(uses: Any) -> None:
    """Pairs of cells are kept apart where phase one sees them apart. Normal noise, for which it is unbiased.

    Residuals less the noise, which is right for a partition that was fixed beforehand, would be far off.
    """
    rng = generator(6)
    truth = rng.choice([-1.5, 1.5], (60, 2))
    claimed, naive, found = [], [], []
    for _ in range(1500):
        cells = truth + rng.normal(0, 2, truth.shape)
        apart = np.abs(cells[:, 0] - cells[:, 1]) > 3
        copies = np.where(apart, 2, 1)
        sizes = np.repeat(3.0 - copies, copies)
        lows = (np.cumsum(sizes) - sizes).astype(int)
        before, exact = np.add.reduceat(cells.reshape(-1), lows), np.add.reduceat(truth.reshape(-1), lows)
        made = uses(sizes, before, exact + rng.normal(0, 1.5, sizes.size), (4.0, 2.25))
        values = np.repeat(made.means, sizes.astype(int))
        claimed.append(list(estimated_risk(cells.reshape(-1), values, made).values()))
        naive.append(((values - cells.reshape(-1)) ** 2).mean() - 4)
        found.append(((values - truth.reshape(-1)) ** 2).mean())
    claims = np.array(claimed)
    gaps = claims[:, 0] - found
    error = gaps.std() / sqrt(gaps.size)
    assert abs(gaps.mean()) < 5 * error
    assert abs(np.mean(naive) - np.mean(found)) > 20 * error
    assert gaps.std() < claims[:, 1].mean() < 4 * gaps.std()
