"""Dyadic boxes, the mixture over all partitions into them, and wavelets: against searches by hand."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from tabularium.mechanisms import build
from tabularium.mechanisms.channel import SeededChannel
from tabularium.mechanisms.histograms.denoise.boxes import Boxes, Layout, boxes_of, cells_of, means_of
from tabularium.mechanisms.histograms.denoise.forms import may_be_empty, mostly_empty, smooth
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
from tabularium.mechanisms.histograms.denoise.tables import DenoiseOptions, denoise_table
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


# --- The mixture in which halves may be empty, against all its trees; and when it is taken -----------


Tree = tuple[float, np.ndarray]


# --- the mixture, against all trees -----------------------------------------------------------------


def looked_up(table: np.ndarray, kind: int, place: float) -> float:
    assert place < table.shape[1] - 1
    return float(np.interp(place, np.arange(table.shape[1]), table[kind]))


def class_of(box: Box) -> int:
    return sum(int(np.ceil(np.log2(high - low))) for low, high in box)


def wide(part: np.ndarray) -> float:
    """The variance of a half's mean: that of the noise, or what its own cells say."""
    return max(NOISE.variance / part.size, float(((part - part.mean()) ** 2).sum()) / (2 * part.size**2))


def sparse_trees(
    table: np.ndarray,
    box: Box,
    offsets: tuple[int, ...],
    known: tuple[Prior, Sparse],
    level: float,
) -> list[Tree]:
    """Every recursive partition of a box at a level: its probability times likelihood, and its cells' levels."""
    here, found = cells(table, box), list(halves(box, offsets))
    prior, sparse = known
    if not found:
        return [(1.0, np.full(here.shape, level))]
    kind, axes = class_of(box), sum(1 << axis for axis, _, _ in found)
    trees = [(float(np.exp(prior.stop[kind])), np.full(here.shape, level))]
    for axis, one, other in found:
        a, b = cells(table, one), cells(table, other)
        gap, unit = a.mean() - b.mean(), DENSITY / np.sqrt(NOISE.variance)
        place = abs(gap) * np.sqrt(a.size * b.size / here.size) * unit
        loose = (wide(a) + wide(b)) / (NOISE.variance * (1 / a.size + 1 / b.size))
        alike = looked_up(sparse.alike, kind, place / np.sqrt(loose)) - np.log(loose) / 2
        base = prior.go[kind, axes, axis] - alike
        kept = gap * looked_up(prior.kept, kind, place) / place if place else 0.0
        up, down = level + kept * b.size / here.size, level - kept * a.size / here.size
        apart = np.exp(base + looked_up(sparse.apart, kind, place))
        for (w, m), (v, k) in product(
            sparse_trees(table, one, offsets, known, up), sparse_trees(table, other, offsets, known, down)
        ):
            trees.append((apart * w * v, np.concatenate([m, k], axis)))
        places = [abs(half.mean()) * np.sqrt(half.size) * unit for half in (a, b)]
        on_left = places[0] <= places[1]
        empty, beyond = (one, other) if on_left else (other, one)
        alone = base + sparse.empty[kind] + looked_up(sparse.alike, class_of(empty), min(places))
        nobody = np.zeros(cells(table, empty).shape)
        for w, m in sparse_trees(table, beyond, offsets, known, float(cells(table, beyond).mean())):
            trees.append((np.exp(alone) * w, np.concatenate([nobody, m] if on_left else [m, nobody], axis)))
    return trees


@pytest.mark.parametrize("shape", [(1,), (2,), (3,), (5,), (2, 2), (2, 3), (2, 1, 2)], ids=str)
def test_the_sparse_mixture_is_the_average_over_all_its_trees(shape: tuple[int, ...]) -> None:
    """With halves that are empty, and the whole table too; halves that are uneven inside count for less."""
    rng = generator(4)
    for number in range(6):
        table = rng.integers(0, 9, shape).astype(float)
        table.flat[number % table.size] += 9 * (number % 2)
        offsets = some_offsets(shape, rng)
        prior = TreePrior.of(float(rng.choice([0.3, 0.8])), 6, len(shape), sparse=True)
        boxes, means, (known, sparse) = weighed(table[None], offsets, prior)
        assert sparse is not None
        whole = the_whole(shape)
        trees = sparse_trees(table, whole, offsets, (known, sparse), float(table.mean()))
        weights = np.array([weight for weight, _ in trees])
        place = table.mean() * np.sqrt(table.size / NOISE.variance) * DENSITY
        full = weights.sum() * np.exp(looked_up(sparse.whole, class_of(whole), place))
        chance = full / (full + np.exp(looked_up(sparse.alike, class_of(whole), place)))
        wanted = np.tensordot(weights / weights.sum(), [levels for _, levels in trees], 1)
        assert mixture(table[None], offsets, prior)[0] == pytest.approx(chance * wanted, abs=1e-5)
        twice = mixture(np.stack([table, table + 3]), offsets, prior)[0]
        assert twice == pytest.approx(wanted, abs=1e-5), "of several tables none is taken to be empty"
        evidence, _ = ascend(boxes, means, known, sparse)
        assert evidence[-1] == pytest.approx(np.log(weights.sum()), abs=1e-6)


def test_a_peak_leaves_nothing_beside_it() -> None:
    """One cell of 300 among 64, noise of about 2: the others are empty, but for a trace."""
    table = np.rint(generator(12).laplace(0, 2, (1, 64)))
    table[0, 21] += 300
    found = mixture(table, (0,), TreePrior.of(0.9, 7, 1, sparse=True))[0]
    assert found[21] == pytest.approx(table[0, 21], abs=2)
    assert np.abs(np.delete(found, 21)).mean() < 0.1


# --- when it is taken -------------------------------------------------------------------------------


FORMS: tuple[Any, ...] = ("sparse", "auto")


def noisy(counts: np.ndarray, noise: Noise, seed: int) -> np.ndarray:
    drawn = np.rint(noise.part(1, counts.size, generator(seed))).astype(np.int64)
    return np.asarray(counts + drawn.reshape(counts.shape))


def few_peaks(sides: tuple[int, ...] = (1024,)) -> np.ndarray:
    counts = np.zeros(sides, dtype=np.int64)
    counts.flat[100:104] = 900
    counts.flat[700] = 4000
    return counts


def test_most_of_a_table_is_taken_for_empty_only_where_its_total_agrees() -> None:
    """1 024 cells, noise of variance 7.835: the total has a standard deviation of 89.6."""
    levels = np.zeros((1, 1024))
    levels[0, :512] = 1.0
    for more, holds in ((179, True), (180, False), (-5000, True)):
        tables = levels.copy()
        tables[0, 3] += more
        assert mostly_empty(tables, levels, NOISE) is holds
    fuller = levels.copy()
    fuller[0, 512] = 0.06  # just more than a fiftieth of the noise
    assert not mostly_empty(fuller, fuller, NOISE)


def test_a_table_that_is_clearly_full_is_not_looked_at_twice() -> None:
    layout = Layout.of((1000,), ())
    half = np.repeat([0, 500], 500) + generator(2).integers(-9, 10, 1000)
    assert may_be_empty(half[None].astype(np.float64), layout)
    assert not may_be_empty(half[None].astype(np.float64) + 12.0, layout)
    assert not may_be_empty(np.zeros((1, 255)), Layout.of((255,), ())), "too few cells to learn from"


@pytest.mark.parametrize(("name", "sides"), [("laplace", (1024,)), ("gaussian", (32, 32))], ids=str)
def test_peaks_are_kept_and_the_noise_beside_them_is_not(name: Any, sides: tuple[int, ...]) -> None:
    """Less than half of the error there is without, on cells and on the total; stated about rightly."""
    truth, noise, layout = few_peaks(sides), Noise(name, 40.0, whole=True), Layout.of(sides, ())
    errors, stated = [], []
    for seed in range(4):
        table = noisy(truth, noise, seed)
        found, plain = (
            denoise_table(table, noise, layout, DenoiseOptions(form=form, shifts=2)) for form in FORMS
        )
        assert found.diagnostics["form"] == "sparse"
        assert plain.diagnostics["form"] != "sparse"
        errors.append(
            [[np.abs(one.values - truth).mean(), abs((one.values - truth).sum())] for one in (found, plain)]
        )
        mean_square = ((found.values - truth) ** 2).mean()
        bound = found.diagnostics["risk"] + 1.645 * found.diagnostics["risk_standard_error"]
        stated.append(mean_square <= bound)
    with_empties, without = np.mean(errors, axis=0)
    assert (with_empties < without / 2).all()
    assert sum(stated) >= 3


@pytest.mark.parametrize("form", ["sparse", "mixture"])
def test_errors_are_stated_apart_for_high_levels(form: Any) -> None:
    """Apart they add up to the error of the table. A hundredth of the cells has nearly all of it, and says so."""
    noise, layout, sides = Noise("laplace", 20.0, whole=True), Layout.of((2048,), ()), (2048,)
    truth = np.zeros(sides, dtype=np.int64)
    truth[40:60] = np.arange(20) * 37 % 900 + 200
    highest = []
    for seed in range(12):
        found = denoise_table(noisy(truth, noise, seed), noise, layout, DenoiseOptions(form=form, shifts=2))
        apart = found.diagnostics["risk_by_level"]
        above = [part["above"] for part in apart]
        assert above == sorted(above)
        assert sum(part["cells"] for part in apart) == truth.size
        whole = sum(part["cells"] * part["risk"] for part in apart) / truth.size
        assert whole + found.diagnostics["risk_optimism"] == pytest.approx(
            found.diagnostics["risk"], rel=1e-9
        )
        high = found.values >= above[-1]
        assert apart[-1]["cells"] == high.sum()
        square = (found.values - truth) ** 2
        highest.append((apart[-1]["risk"], square[high].mean(), square.mean()))
    stated, true, of_all = np.mean(highest, axis=0)
    assert 0.6 < stated / true < 1.6
    assert true > 20 * of_all


def test_thin_counts_everywhere_stay() -> None:
    """Ten in every cell, noise of about 20: no cell shows it, all together do. As before, to the bit."""
    noise, layout = Noise("laplace", 20.0, whole=True), Layout.of((1024,), ())
    table = noisy(np.full(1024, 10), noise, 1)
    found, plain = (
        denoise_table(table, noise, layout, DenoiseOptions(form=form, shifts=2)) for form in FORMS
    )
    assert np.array_equal(found.values, plain.values)
    assert found.diagnostics == plain.diagnostics
    assert found.values.sum() == pytest.approx(table.sum(), rel=1e-9)


def test_where_totals_count_they_are_kept() -> None:
    """Unless it is asked for; and in regions, whose totals are added up."""
    truth = few_peaks((9000,))
    measured = build("denoise", form="sparse", shifts=1).measure(
        truth, SeededChannel(Fraction(1, 40), seed=3)
    )
    noisy_cells, event = measured.arrays["cells"], measured.transcript[0]
    plain = build("denoise", shifts=1).finish(measured)
    assert plain.diagnostics["form"] != "sparse"
    mechanism = build("denoise", form="sparse", shifts=1)
    assert mechanism.finish(measured).diagnostics["form"] == "sparse"
    found = mechanism.finish_tables(noisy_cells[None], event)
    assert found is not None
    assert found[1][0]["form"] != "sparse"
