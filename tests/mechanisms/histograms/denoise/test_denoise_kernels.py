"""Dyadic boxes, the mixture over all partitions into them, and wavelets: against searches by hand."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest

from tabularium.mechanisms.histograms.denoise.boxes import Boxes, boxes_of, cells_of, means_of
from tabularium.mechanisms.histograms.denoise.forms import smooth
from tabularium.mechanisms.histograms.denoise.mixture import (
    Prior,
    Sparse,
    ascend,
    descend,
    fast_exp,
    fast_log,
    perturbed_levels,
)
from tabularium.mechanisms.histograms.denoise.prior import DENSITY, TreePrior
from tabularium.mechanisms.histograms.denoise.wavelet import haar_shrinkage
from tabularium.mechanisms.noise.synthetic import generator
from tabularium.mechanisms.noise_distributions import Noise

Box = tuple[tuple[int, int], ...]
SHAPES = [(1,), (2,), (3,), (5,), (8,), (1, 1), (2, 3), (3, 3), (1, 4), (2, 4), (2, 1, 3), (2, 2, 2)]
NOISE = Noise("laplace", 2.0, whole=True)


def cut(low: int, high: int, offset: int) -> int:
    """Where a dyadic interval is halved: at the number inside that is divisible by the highest power of 2."""
    return max(range(low + 1, high), key=lambda c: (c + offset) & -(c + offset))


def halves(box: Box, offsets: tuple[int, ...]) -> Iterator[tuple[int, Box, Box]]:
    for axis, (low, high) in enumerate(box):
        if high - low > 1:
            middle = cut(low, high, offsets[axis])
            parts = [(*box[:axis], part, *box[axis + 1 :]) for part in ((low, middle), (middle, high))]
            yield axis, parts[0], parts[1]


def cells(table: np.ndarray, box: Box) -> np.ndarray:
    return table[tuple(slice(*side) for side in box)]


def some_offsets(shape: tuple[int, ...], rng: np.random.Generator) -> tuple[int, ...]:
    return tuple(int(rng.integers(0, 2 * side)) for side in shape)


def the_whole(shape: tuple[int, ...]) -> Box:
    return tuple((0, side) for side in shape)


# --- boxes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [*SHAPES, (17,), (6, 11), (3, 5, 7)], ids=str)
def test_boxes_are_those_that_halving_comes_to(shape: tuple[int, ...]) -> None:
    rng = generator(1)
    table = rng.integers(-50, 50, (2, *shape)).astype(float)
    for _ in range(3):
        offsets = some_offsets(shape, rng)
        boxes = boxes_of((2, *shape), offsets)
        means = means_of(table, boxes).reshape(boxes.sides)
        assert boxes.sides == (2, *(2 * side - 1 for side in shape))
        for place in np.ndindex(*boxes.sides[1:]):
            nodes = [boxes.first[a] + k for a, k in enumerate(place, 1)]
            box = tuple((boxes.start[n], boxes.start[n] + boxes.size[n]) for n in nodes)
            for number in range(2):
                assert means[(number, *place)] == pytest.approx(cells(table[number], box).mean())
            for axis, one, other in halves(box, offsets):
                left, right = boxes.left[nodes[axis]], boxes.right[nodes[axis]]
                first = boxes.first[axis + 1]
                assert (boxes.start[first + left], boxes.size[first + left]) == (
                    one[axis][0],
                    one[axis][1] - one[axis][0],
                )
                assert boxes.start[first + right] == other[axis][0]
                assert boxes.parent[first + left] == boxes.parent[first + right] == place[axis]


def test_sums_of_large_counts_are_exact() -> None:
    boxes = boxes_of((1, 64, 128), (3, 5))
    table = np.full((1, 64, 128), float(1 << 40))
    table[0, 7, 9] += 1
    means = means_of(table, boxes)
    assert means[-1] * table.size == (1 << 40) * table.size + 1


# --- the mixture ------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1,), (7,), (33,), (5, 6), (3, 4, 5)], ids=str)
@pytest.mark.parametrize("sparse", [False, True])
def test_a_cell_measured_differently_is_as_if_all_were_done_again(
    shape: tuple[int, ...], sparse: bool
) -> None:
    rng = generator(3)
    prior = TreePrior.of(0.6, 10, len(shape), sparse=sparse)
    for _ in range(20):
        sides = (int(rng.integers(1, 3)), *shape)
        table = rng.uniform(0, 9, sides) if sparse else rng.integers(0, 9, sides).astype(float)
        offsets = some_offsets(shape, rng)
        boxes, means, known = weighed(table, offsets, prior)
        evidence, _ = ascend(boxes, means, *known)
        places = np.stack([rng.integers(0, side, 6) for side in table.shape], axis=1)
        changes = rng.integers(-12, 12, 6).astype(float)
        mixed = perturbed_levels(boxes, means, evidence, *known, places, changes)
        for k, place in enumerate(map(tuple, places)):
            changed = table.copy()
            changed[place] += changes[k]
            again = mixture(changed, offsets, prior)
            # Unlikely boxes are left out there.
            assert mixed[k] == pytest.approx(again[place], abs=1e-4 if sparse else 1e-5)


def weighed(
    table: np.ndarray, offsets: tuple[int, ...], prior: TreePrior
) -> tuple[Boxes, np.ndarray, tuple[Prior, Sparse | None]]:
    """What the passes over tables (tables, sides...) begin with."""
    boxes = boxes_of(table.shape, offsets)
    means = means_of(table, boxes)
    return boxes, means, prior.tables(NOISE, prior.inflation(boxes, means, NOISE))


def mixture(table: np.ndarray, offsets: tuple[int, ...], prior: TreePrior) -> np.ndarray:
    """Smooth tables (tables, sides...)."""
    boxes = boxes_of(table.shape, offsets)
    return cells_of(boxes, smooth(boxes, means_of(table, boxes), prior, NOISE, adapt=False)[0])


def all_trees(
    table: np.ndarray, box: Box, offsets: tuple[int, ...], prior: TreePrior
) -> list[tuple[float, np.ndarray]]:
    """Every recursive partition of a box with its probability times likelihood, and the moves of its cells."""
    (known, _), size = prior.tables(NOISE, np.zeros(0)), cells(table, box).size
    kind = sum(int(np.ceil(np.log2(high - low))) for low, high in box)
    found = list(halves(box, offsets))
    if not found:
        return [(1.0, np.zeros_like(table))]
    trees = [(float(np.exp(known.stop[kind])), np.zeros_like(table))]
    axes = sum(1 << axis for axis, _, _ in found)
    for axis, one, other in found:
        a, b = cells(table, one), cells(table, other)
        gap = a.mean() - b.mean()
        place = abs(gap) * np.sqrt(a.size * b.size / size / NOISE.variance) * DENSITY
        points = np.arange(known.ratio.shape[1])
        assert place < points[-1]
        likely = np.exp(np.interp(place, points, known.ratio[kind]) + known.go[kind, axes, axis])
        kept = gap * np.interp(place, points, known.kept[kind]) / place if place else 0.0
        move = np.zeros_like(table)
        cells(move, one)[...], cells(move, other)[...] = kept * b.size / size, -kept * a.size / size
        left, right = (all_trees(table, half, offsets, prior) for half in (one, other))
        trees += [(likely * w * v, move + m + k) for (w, m), (v, k) in product(left, right)]
    return trees


@pytest.mark.parametrize("shape", [(1,), (2,), (3,), (5,), (2, 2), (2, 3), (2, 1, 2)], ids=str)
def test_the_mixture_is_the_average_over_all_trees(shape: tuple[int, ...]) -> None:
    rng = generator(4)
    for _ in range(15):
        table = rng.integers(0, 9, shape).astype(float)
        offsets = some_offsets(shape, rng)
        prior = TreePrior.of(float(rng.choice([0.3, 0.8])), 6, len(shape))
        trees = all_trees(table, the_whole(shape), offsets, prior)
        weights = np.array([weight for weight, _ in trees])
        wanted = table.mean() + np.tensordot(weights / weights.sum(), [move for _, move in trees], 1)
        assert mixture(table[None], offsets, prior)[0] == pytest.approx(wanted, abs=1e-5)
        boxes, means, known = weighed(table[None], offsets, prior)
        evidence, _ = ascend(boxes, means, *known)
        assert evidence[-1] == pytest.approx(np.log(weights.sum()), abs=1e-6)


@pytest.mark.parametrize("sparse", [False, True])
def test_what_is_counted_on_the_way_down_adds_up(sparse: bool) -> None:
    """Each box that is come to is either left flat or halved once; and a table is one such box."""
    table = generator(5).integers(0, 40, (3, 8, 16)).astype(float)
    prior = TreePrior.of(0.5, 8, 2, sparse=sparse)
    boxes, means, known = weighed(table, (0, 0), prior)
    counts = prior.empty_counts()
    descend(boxes, means, *ascend(boxes, means, *known), *known, counts)
    assert counts.gaps.sum() + counts.empties.sum() == pytest.approx(counts.splits[:, :, :2].sum())
    assert counts.splits[7].sum() == pytest.approx(3.0, abs=1e-4)
    assert bool(counts.empties.any()) is sparse


def test_a_gap_of_any_size_can_be_looked_at() -> None:
    """Far beyond all tables, where a place in them would not fit into an integer."""
    table = np.array([[0.0, 2.0**62, -(2.0**62), 1.0]])
    assert mixture(table, (0,), TreePrior.of(0.9, 3, 1)) == pytest.approx(table, abs=2.0**13)


def test_fast_functions() -> None:
    x = np.linspace(-41.9, 0, 5001)
    assert [fast_exp(v) for v in x] == pytest.approx(np.exp(x), rel=1e-8)
    assert fast_exp(-50.0) == 0.0
    y = np.linspace(1, 15.99, 5001)
    assert [fast_log(v) for v in y] == pytest.approx(np.log(y), abs=1e-8)


# --- wavelets ---------------------------------------------------------------------------------------


def shrunk(table: np.ndarray, threshold: float) -> np.ndarray:
    return haar_shrinkage(table[None], lambda cells: threshold, lambda d, t, cells: np.zeros_like(d))[0][0]


def shrunk_by_hand(means: np.ndarray, step: int, threshold: float) -> np.ndarray:
    """One axis, loop by loop."""
    n = means.size
    if n < 2 * step:
        return means
    pairs = [(means[i], means[i + step]) for i in range(n - step)]
    sums = shrunk_by_hand(np.array([(a + b) / 2 for a, b in pairs]), 2 * step, threshold)
    halves = [(a - b) / 2 if abs(a - b) / 2 > threshold else 0.0 for a, b in pairs]
    found: list[list[float]] = [[] for _ in range(n)]
    for i, (level, half) in enumerate(zip(sums, halves, strict=True)):
        found[i].append(level + half)
        found[i + step].append(level - half)
    return np.array([np.mean(values) for values in found])


@pytest.mark.parametrize("side", [1, 2, 3, 4, 7, 8, 19])
def test_wavelets_along_one_axis(side: int) -> None:
    rng = generator(6)
    for threshold in (0.0, 1.0, 3.0, 1e9):
        table = rng.integers(0, 15, side).astype(float)
        assert shrunk(table, threshold) == pytest.approx(shrunk_by_hand(table, 1, threshold))


@pytest.mark.parametrize("shape", [(4, 4), (5, 7), (3, 1, 6), (2, 3, 4)], ids=str)
def test_wavelets_without_thresholds_change_nothing(shape: tuple[int, ...]) -> None:
    table = generator(7).integers(0, 99, shape).astype(float)
    assert shrunk(table, 0.0) == pytest.approx(table)


def test_wavelets_on_two_axes_by_hand() -> None:
    """Mean 4, differences (1 + 3 - 5 - 7)/4 = -2, (1 - 3 + 5 - 7)/4 = -1, (1 - 3 - 5 + 7)/4 = 0."""
    table = np.array([[1.0, 3.0], [5.0, 7.0]])
    assert shrunk(table, 0.5).tolist() == table.tolist()
    assert shrunk(table, 1.5).tolist() == [[2.0, 2.0], [6.0, 6.0]]
    assert shrunk(table, 2.5).tolist() == [[4.0, 4.0], [4.0, 4.0]]
