"""Many tables denoised together: each as ``denoise_table`` denoises it, in any company."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tabularium.mechanisms.histograms.denoise import tables as made_together
from tabularium.mechanisms.histograms.denoise.boxes import Layout
from tabularium.mechanisms.histograms.denoise.tables import DenoiseOptions, denoise_table, denoise_tables
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
