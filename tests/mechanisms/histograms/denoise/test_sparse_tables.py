"""The mixture in which halves may be empty, against all its trees; and when it is taken."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from tabularium.mechanisms import build
from tabularium.mechanisms.channel import SeededChannel
from tabularium.mechanisms.histograms.denoise.boxes import Layout
from tabularium.mechanisms.histograms.denoise.forms import may_be_empty, mostly_empty
from tabularium.mechanisms.histograms.denoise.mixture import Prior, Sparse, ascend
from tabularium.mechanisms.histograms.denoise.prior import DENSITY, TreePrior
from tabularium.mechanisms.histograms.denoise.tables import DenoiseOptions, denoise_table
from tabularium.mechanisms.noise.synthetic import generator
from tabularium.mechanisms.noise_distributions import Noise
from tests.mechanisms.histograms.denoise.test_denoise_kernels import (
    NOISE,
    Box,
    cells,
    halves,
    mixture,
    some_offsets,
    the_whole,
    weighed,
)

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


def all_trees(
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
            all_trees(table, one, offsets, known, up), all_trees(table, other, offsets, known, down)
        ):
            trees.append((apart * w * v, np.concatenate([m, k], axis)))
        places = [abs(half.mean()) * np.sqrt(half.size) * unit for half in (a, b)]
        on_left = places[0] <= places[1]
        empty, beyond = (one, other) if on_left else (other, one)
        alone = base + sparse.empty[kind] + looked_up(sparse.alike, class_of(empty), min(places))
        nobody = np.zeros(cells(table, empty).shape)
        for w, m in all_trees(table, beyond, offsets, known, float(cells(table, beyond).mean())):
            trees.append((np.exp(alone) * w, np.concatenate([nobody, m] if on_left else [m, nobody], axis)))
    return trees


@pytest.mark.parametrize("shape", [(1,), (2,), (3,), (5,), (2, 2), (2, 3), (2, 1, 2)], ids=str)
def test_the_mixture_is_the_average_over_all_trees(shape: tuple[int, ...]) -> None:
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
        trees = all_trees(table, whole, offsets, (known, sparse), float(table.mean()))
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
