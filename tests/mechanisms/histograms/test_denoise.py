"""The mechanism ``denoise``: parameters, what it leaves alone, and that it removes noise."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from tabularium.mechanisms import build
from tabularium.mechanisms.channel import SeededChannel
from tabularium.mechanisms.histograms.denoise import tables as made_together
from tabularium.mechanisms.histograms.denoise.boxes import Layout
from tabularium.mechanisms.histograms.denoise.tables import DenoiseOptions, denoise_table, denoise_tables
from tabularium.mechanisms.inference.family_projection import common_reduction
from tabularium.mechanisms.noise.synthetic import generator
from tabularium.mechanisms.noise_distributions import Noise
from tests.mechanisms.histograms import measuring

STEPS = np.repeat([40, 200, 5, 90], 100)
NOISE = Noise("laplace", 10.0, whole=True)


released = partial(measuring.released, "denoise")


# --- what it keeps, and what it leaves alone --------------------------------------------------------


def test_what_is_done_about_negative_levels() -> None:
    """Mostly zeros: the total of the noisy table is kept, or negative cells are cut off, or neither."""
    counts = np.zeros((30, 20), dtype=np.int64)
    counts[12:14, 5:9] = 60
    for form in ("mixture", "wavelet"):
        noisy = build("denoise").measure(counts, SeededChannel("1/10", seed=4)).arrays["cells"]
        free, total, cut = (
            released(counts, "1/10", seed=4, form=form, sign=sign, shifts=2, strength="1/2").values
            for sign in ("free", "total", "cut")
        )
        assert free.min() < 0
        assert total.sum() == pytest.approx(max(noisy.sum(), 0), abs=1e-6)
        assert total.min() == cut.min() == 0.0
        assert np.array_equal(cut, np.maximum(free, 0.0))


def test_nothing_is_averaged_across_an_axis_without_order() -> None:
    """One category is changed: the other two are released bit for bit as before."""
    rng = generator(5)
    noisy = rng.integers(-20, 200, (6, 3, 5))
    changed = noisy.copy()
    changed[:, 1, :] = rng.integers(0, 9, (6, 5))
    layout, options = Layout.of(noisy.shape, (1,)), DenoiseOptions("wavelet", 0.5, 2, "free")
    one, other = (denoise_table(table, NOISE, layout, options).values for table in (noisy, changed))
    assert np.array_equal(one[:, [0, 2]], other[:, [0, 2]])
    assert not np.array_equal(one[:, 1], other[:, 1])


def test_categories_may_come_in_any_order() -> None:
    rng = generator(6)
    noisy = rng.integers(-20, 40, (7, 8, 9)) + 100 * np.arange(8)[None, :, None]
    order = rng.permutation(8)
    layout, options = Layout.of(noisy.shape, (-2,)), DenoiseOptions("mixture", 0.6, 2, "total")
    one, other = (denoise_table(table, NOISE, layout, options).values for table in (noisy, noisy[:, order]))
    assert one[:, order] == pytest.approx(other, abs=1e-6)


@pytest.mark.parametrize("form", ["auto", "mixture", "wavelet"])
def test_axes_of_one_cell_do_not_matter(form: Any) -> None:
    noisy = STEPS + generator(7).integers(-20, 20, STEPS.size)
    flat = denoise_table(noisy, NOISE, Layout.of(noisy.shape, ()), DenoiseOptions(form, shifts=2))
    for shape in ((1, 400), (400, 1), (1, 1, 400, 1)):
        found = denoise_table(
            noisy.reshape(shape), NOISE, Layout.of(shape, ()), DenoiseOptions(form, shifts=2)
        )
        assert found.values.shape == shape
        assert np.array_equal(found.values.reshape(-1), flat.values)
        assert found.diagnostics == flat.diagnostics


# --- accuracy ---------------------------------------------------------------------------------------


def test_a_landscape_is_better_denoised_on_its_two_axes_than_row_by_row() -> None:
    x, y = np.meshgrid(np.arange(48), np.arange(40))
    counts = np.rint(300 * np.exp(-((x - 20) ** 2 + (y - 15) ** 2) / 90)).astype(np.int64)
    flat = np.abs(released(counts.reshape(-1), "1/10", shifts=4).values - counts.reshape(-1)).mean()
    plane = np.abs(released(counts, "1/10", shifts=4).values - counts).mean()
    assert plane < 0.75 * flat
    assert plane < 3.6


def test_the_prior_is_learned_from_the_table() -> None:
    """Every second cell is high: that pairs differ is known after a few hundred, unless they begin as flat."""
    counts = np.tile([30, 90], 300)
    found = released(counts, "1/10", shifts=4)
    assert np.abs(found.values - counts).mean() < 7.5  # noise on every cell: 10
    assert (found.diagnostics["form"], found.diagnostics["strength"]) == ("mixture", 0.5)
    tried = {(one["form"], one["strength"]): one["risk"] for one in found.diagnostics["candidates"]}
    assert tried["mixture", 0.9] > 4 * tried["mixture", 0.5], "it should have ended at flat pairs"


def test_a_large_table_is_tried_on_a_part_first() -> None:
    """Beyond 2^18 boxes; and in tiles, when there are too many for one."""
    counts = np.kron(generator(8).integers(0, 80, (10, 10)), np.ones((26, 26), dtype=np.int64))
    found = released(counts, "1/10", shifts=1)
    assert [one["form"] for one in found.diagnostics["candidates"]] == ["mixture", "mixture", "none"]
    assert np.abs(found.values - counts).mean() < 3
    error = ((found.values - counts) ** 2).mean()
    assert abs(found.diagnostics["risk"] - error) < 3 * found.diagnostics["risk_standard_error"]


# --- edges ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (1,), (2,), (1, 1, 1), (13,), (3, 5), (2, 1, 3, 2)], ids=str)
@pytest.mark.parametrize("form", ["auto", "mixture"])
def test_small_and_extreme_tables(shape: tuple[int, ...], form: str) -> None:
    for counts in (
        np.zeros(shape, np.int64),
        np.full(shape, 1 << 40),
        np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape),
    ):
        for budget, definition in (
            ("1/1000000000", "pure"),
            ("2", "pure"),
            ("1/1000000000", "zcdp"),
            ("2", "zcdp"),
        ):
            found = released(counts, budget, definition=definition, form=form, shifts=1)
            assert found.values.shape == shape
            assert found.values.dtype == np.float64
            assert np.isfinite(found.values).all()
            assert (found.values >= 0).all()
            assert np.isfinite([found.diagnostics["risk"], found.diagnostics["risk_standard_error"]]).all()


def test_a_peak_among_zeros_stays_where_it_is() -> None:
    counts = np.zeros(1000, dtype=np.int64)
    counts[617] = 1 << 40
    found = released(counts, "1", shifts=2).values
    assert found[617] == pytest.approx(1 << 40, abs=30)
    assert np.delete(found, 617).sum() < 200


def test_next_to_no_noise_is_left_alone() -> None:
    for definition in ("pure", "zcdp"):
        for budget in ("60", "5000"):
            found = released(STEPS, budget, definition=definition)
            assert np.array_equal(found.values, STEPS)
            assert found.diagnostics["form"] == "none"
            assert found.diagnostics["risk"] == pytest.approx(0.0, abs=1e-6)


# --- layout and projection --------------------------------------------------------------------------


@pytest.mark.parametrize(("shape", "apart"), [((37, 50), ()), ((3, 200), (0,)), ((9, 4, 11), (1,))], ids=str)
def test_tiles_cover_every_cell_once(shape: tuple[int, ...], apart: tuple[int, ...]) -> None:
    layout = Layout.of(shape, apart)
    seen = np.zeros((layout.tables, *layout.sides))
    tiles = layout.tiles(300)
    for tile in tiles:
        seen[tile] += 1
        assert np.prod([2 * n - 1 for n in seen[tile].shape[1:]]) <= 300
    assert len(tiles) > 1
    assert (seen == 1).all()
    table = generator(9).integers(0, 99, shape)
    assert np.array_equal(layout.unstack(layout.stack(table)), table)


def test_offsets_are_different_and_none_is_left_out() -> None:
    layout = Layout.of((3, 5), ())
    assert sorted(layout.offsets(100)) == [(a, b) for a in range(4) for b in range(8)]
    few = list(Layout.of((64, 100), ()).offsets(16))
    assert len(set(few)) == 16
    assert few[0] == (0, 0)


def test_the_reduction_that_keeps_the_total() -> None:
    """By hand: 5, 3, -2 is 6 in all: 1 off the two. Against the projection by sorting, otherwise."""
    assert common_reduction(np.array([[5.0, 3.0, -2.0], [1.0, 2.0, 3.0], [-1.0, -5.0, 2.0]])).tolist() == [
        1,
        0,
        2,
    ]
    rng = generator(10)
    tables = rng.normal(0.3, 1.0, (200, 12))
    for table, reduction in zip(tables, common_reduction(tables), strict=True):
        total = max(table.sum(), 0.0)
        descending = np.sort(table)[::-1]
        by_sorting = (np.cumsum(descending) - total) / np.arange(1, 13)
        wanted = max(0.0, by_sorting[np.flatnonzero(descending > by_sorting)[-1]]) if total else table.max()
        assert reduction == pytest.approx(max(wanted, 0.0))
        assert np.maximum(table - reduction, 0.0).sum() == pytest.approx(total, abs=1e-9)


# --- Many tables denoised together: each as ``denoise_table`` denoises it, in any company ------------


LAPLACE = Noise("laplace", 4.0, whole=True)


def noisy(shape: tuple[int, ...], tables: int, noise: Noise, seed: int = 0) -> Any:
    """Steps of many heights and lengths, a few peaks, and tables that hold nothing."""
    rng = generator(seed)
    heights = rng.gamma(0.5, 40, (tables, *(-(-side // 5) for side in shape)))
    for axis, side in enumerate(shape, 1):
        heights = np.repeat(heights, 5, axis=axis).take(range(side), axis=axis)
    heights *= np.where(rng.random(heights.shape) < 0.05, 9, 1)
    heights[::4] = 0
    spread = rng.laplace if noise.family == "laplace" else rng.normal
    return np.rint(heights + spread(0, noise.scale, heights.shape)).astype(np.int64)


@pytest.mark.parametrize(
    ("shape", "tables", "categorical", "noise", "options"),
    [
        ((40,), 9, (), LAPLACE, DenoiseOptions()),
        ((2,), 5, (), LAPLACE, DenoiseOptions()),
        ((33,), 5, (), Noise("gaussian", 9.0, whole=True), DenoiseOptions(shifts=3)),
        pytest.param(
            *((300,), 2, (), LAPLACE, DenoiseOptions(form="mixture", shifts=1)),
            marks=pytest.mark.audit,
            id="enough cells to learn from",
        ),
        ((7, 6), 4, (), LAPLACE, DenoiseOptions(shifts=4)),
        ((3, 12), 4, (0,), LAPLACE, DenoiseOptions(shifts=4)),
        ((20,), 4, (), LAPLACE, DenoiseOptions(form="wavelet", sign="cut")),
        ((20,), 4, (), LAPLACE, DenoiseOptions(form="mixture", strength=0.7, sign="free", shifts=2)),
        ((1,), 3, (), LAPLACE, DenoiseOptions()),
        ((9,), 3, (), Noise("laplace", 0.05, whole=True), DenoiseOptions()),  # no noise to remove
    ],
)
def test_every_table_is_denoised_as_if_it_were_alone(
    shape: tuple[int, ...], tables: int, categorical: tuple[int, ...], noise: Noise, options: DenoiseOptions
) -> None:
    given, layout = noisy(shape, tables, noise), Layout.of(shape, categorical)
    found = denoise_tables(given, noise, layout, options)
    assert len(found) == tables
    for table, one in zip(given, found, strict=True):
        alone = denoise_table(table, noise, layout, options)
        np.testing.assert_allclose(one.values, alone.values, atol=1e-9)
        assert one.diagnostics.keys() == alone.diagnostics.keys()
        for name, told in one.diagnostics.items():
            if name != "candidates":
                assert told == pytest.approx(alone.diagnostics[name], rel=1e-6, abs=1e-9), name


def test_nothing_depends_on_the_company(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit by bit: not on the other tables, their number or order, nor on groups and threads."""
    given, layout = noisy((24,), 7, LAPLACE), Layout.of((24,), ())

    def values(tables: Any) -> Any:
        made = denoise_tables(tables, LAPLACE, layout, DenoiseOptions(shifts=3))
        return np.stack([one.values for one in made])

    whole = values(given)
    assert np.array_equal(whole, values(given[::-1])[::-1])
    monkeypatch.setattr(made_together, "_TOGETHER", 2)
    assert np.array_equal(whole, values(given))
    assert np.array_equal(whole[3:4], values(given[3:4]))
