"""Many tables denoised together: each as ``denoise_table`` denoises it, in any company."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tabularium.mechanisms.histograms.denoise import many_tables
from tabularium.mechanisms.histograms.denoise.denoise_table import Wishes, denoise_table
from tabularium.mechanisms.histograms.denoise.dyadic_boxes import Layout
from tabularium.mechanisms.histograms.denoise.many_tables import denoise_tables
from tabularium.mechanisms.noise.synthetic import generator
from tabularium.mechanisms.noise_distributions import Noise

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
    ("shape", "tables", "categorical", "noise", "wishes"),
    [
        ((40,), 9, (), LAPLACE, Wishes()),
        ((2,), 5, (), LAPLACE, Wishes()),
        ((33,), 5, (), Noise("gaussian", 9.0, whole=True), Wishes(shifts=3)),
        pytest.param(
            *((300,), 2, (), LAPLACE, Wishes(form="mixture", shifts=1)),
            marks=pytest.mark.audit,
            id="enough cells to learn from",
        ),
        ((7, 6), 4, (), LAPLACE, Wishes(shifts=4)),
        ((3, 12), 4, (0,), LAPLACE, Wishes(shifts=4)),
        ((20,), 4, (), LAPLACE, Wishes(form="wavelet", sign="cut")),
        ((20,), 4, (), LAPLACE, Wishes(form="mixture", strength=0.7, sign="free", shifts=2)),
        ((1,), 3, (), LAPLACE, Wishes()),
        ((9,), 3, (), Noise("laplace", 0.05, whole=True), Wishes()),  # no noise to remove
    ],
)
def test_every_table_is_denoised_as_if_it_were_alone(
    shape: tuple[int, ...], tables: int, categorical: tuple[int, ...], noise: Noise, wishes: Wishes
) -> None:
    given, layout = noisy(shape, tables, noise), Layout.of(shape, categorical)
    found = denoise_tables(given, noise, layout, wishes)
    assert found.values.shape == given.shape and len(found.diagnostics) == tables
    for table, values, about in zip(given, found.values, found.diagnostics, strict=True):
        alone = denoise_table(table, noise, layout, wishes)
        np.testing.assert_allclose(values, alone.values, atol=1e-9)
        for name, told in about.items():
            if name != "candidates":
                assert told == pytest.approx(alone.diagnostics[name], rel=1e-6, abs=1e-9), name


def test_nothing_depends_on_the_company(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit by bit: not on the other tables, their number or order, nor on groups and threads."""
    given, layout = noisy((24,), 7, LAPLACE), Layout.of((24,), ())
    whole = denoise_tables(given, LAPLACE, layout, Wishes(shifts=3)).values
    backwards = denoise_tables(given[::-1], LAPLACE, layout, Wishes(shifts=3)).values
    assert np.array_equal(whole, backwards[::-1])
    monkeypatch.setattr(many_tables, "_TOGETHER", 2)
    assert np.array_equal(whole, denoise_tables(given, LAPLACE, layout, Wishes(shifts=3)).values)
    alone = denoise_tables(given[3:4], LAPLACE, layout, Wishes(shifts=3)).values
    assert np.array_equal(whole[3:4], alone)
