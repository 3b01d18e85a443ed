"""FPA, SPA and EFPA: what is kept, what it costs, and what is refused."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import isqrt, prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabularium.mechanisms.accounting.losses import root_above, rounded_up
from tabularium.mechanisms.channel import SeededChannel
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.histograms import double_fourier
from tabularium.mechanisms.histograms.cellwise import Identity
from tabularium.mechanisms.histograms.double_fourier import (
    BITS,
    complex_multiply,
    double_word,
    pi,
    plus,
    root,
    square_root,
    table,
    tail_energies,
    times,
)
from tabularium.mechanisms.histograms.spectral import (
    TRANSFORMS,
    Efpa,
    Fpa,
    Layout,
    Plan,
    Spa,
    _floor,
    coordinates,
    corner,
    growing,
    inverse,
    layout,
    plan_for,
)
from tabularium.mechanisms.mechanism import Mechanism
from tabularium.mechanisms.noise.synthetic import generator

RICH = Fraction(10**9)  # a budget so large that the noise is below 0.001
SHAPES = [(1,), (2,), (7,), (8,), (2, 3), (3, 2, 4), ()]
ALL = [Fpa(1 << 20, "tight"), Spa("tight"), Efpa(), Efpa(score="paper", sensitivity="paper")]


def run(
    mechanism: Mechanism, counts: Any, budget: Any = RICH, seed: int = 1, definition: str = "pure"
) -> Any:
    channel = SeededChannel(budget, seed=seed, definition=definition)  # type: ignore[arg-type]
    release = mechanism.release(np.asarray(counts), channel)
    assert channel.remaining == 0
    return release


# --- with hardly any noise --------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("definition", ["pure", "zcdp"])
def test_all_coefficients_give_the_table_back(
    shape: tuple[int, ...], transform: str, definition: str
) -> None:
    counts = generator(3).integers(0, 1000, shape)
    for mechanism in (
        Fpa(1 << 20, "tight", transform),
        Spa("tight", transform=transform),
        Efpa(transform=transform),
        Efpa(transform=transform, score="paper", sensitivity="paper"),
    ):
        release = run(mechanism, counts, definition=definition)
        assert release.values.shape == shape
        assert release.values.dtype == np.float64
        np.testing.assert_allclose(release.values, counts, atol=0.05)
        assert release.diagnostics["coefficients"] == prod(shape)
        assert release.variances is None


def test_one_frequency_is_the_mean() -> None:
    counts = np.array([[4, 9], [1, 2], [0, 5]])
    np.testing.assert_allclose(run(Fpa(1), counts).values, np.full((3, 2), 3.5), atol=0.01)


def test_two_frequencies_by_hand() -> None:
    """(7, 1, 3, 5) has mean 4; its first cosine weighs (7 - 3)/2 = 2, its first sine (1 - 5)/2 = -2."""
    np.testing.assert_allclose(run(Fpa(2), [7, 1, 3, 5]).values, [6, 2, 2, 6], atol=0.01)


def test_two_cosines_by_hand() -> None:
    """(6, 3, 0): mean 3, and half a turn of cosine, √3/2, 0, -√3/2 times 2√3."""
    np.testing.assert_allclose(run(Fpa(2, transform="dct"), [6, 3, 0]).values, [6, 3, 0], atol=0.01)
    np.testing.assert_allclose(run(Fpa(2, transform="dct"), [6, 0, 0]).values, [5, 2, -1], atol=0.01)


@pytest.mark.parametrize("shape", [(7,), (2, 3)], ids=str)
def test_unattributed_counts_come_in_ascending_order(shape: tuple[int, ...]) -> None:
    counts = generator(4).integers(0, 50, shape)
    for mechanism in (Fpa(99, unattributed=True), Spa(unattributed=True), Efpa(unattributed=True)):
        values = run(mechanism, counts).values
        np.testing.assert_allclose(values, np.sort(counts.reshape(-1)).reshape(shape), atol=0.05)


def test_counts_are_cut_off_at_the_cap() -> None:
    counts = np.array([3, 1 << 40, 8, 7])
    np.testing.assert_allclose(run(Fpa(9, count_cap=7), counts).values, [3, 7, 7, 7], atol=0.01)
    assert run(Efpa(), np.full(6, 1 << 40)).values == pytest.approx(np.full(6, 1 << 30), abs=0.1)


# --- the choice -------------------------------------------------------------------------------------


def test_a_wave_needs_its_own_frequency_and_no_more() -> None:
    """1000 + 800·cos(2πj·2/16): frequency 2 counted from 0, so three frequencies, five coefficients."""
    counts = np.round(1000 + 800 * np.cos(2 * np.pi * np.arange(16) / 8)).astype(np.int64)
    sure = Efpa(share="9/10")
    assert {run(sure, counts, "1", seed).diagnostics["coefficients"] for seed in range(10)} == {5}


def test_it_finds_the_best_number_when_the_choice_is_nearly_free() -> None:
    """With almost all of the budget for the choice, that is the one with the least score, by brute force."""
    counts = generator(7).poisson(np.linspace(0, 300, 24))
    share, budget = Fraction(999_999, 10**6), Fraction(10**6)
    plan = layout((24,), "dft")
    columns = np.fft.rfft(counts, norm="ortho")
    energies = np.abs(columns) ** 2 * np.where(np.isin(np.arange(13), (0, 12)), 1, 2)
    kept = plan.ends.astype(float)
    noise = 2 * kept * np.minimum(kept / np.sqrt(24), 1) ** 2  # from five coefficients on, on the cells
    dropped = energies.sum() - np.cumsum(energies)
    for mechanism, candidates, scores in (
        (Efpa(share=share), growing(plan.ends), np.sqrt(dropped + 2 * noise)),
        (Efpa(score="paper", share=share), slice(None), np.sqrt(np.maximum(dropped, 0)) + 1.5e-6 * kept),
        (Spa("tight", share), slice(None), np.sqrt(np.maximum(dropped, 0)) + 1e-6 * kept * np.sqrt(24)),
    ):
        best = plan.ends[candidates][scores[candidates].argmin()]
        assert run(mechanism, counts, budget).diagnostics["coefficients"] == best


def test_candidates_grow_by_a_root_of_two() -> None:
    ends = layout((257,), "dft").ends
    assert ends[growing(ends)].tolist() == [1, 3, 5, 9, 11, 17, 23, 33, 45, 65, 91, 129, 181, 257]
    for shape in ((1,), (2,), (3, 3), (40, 2)):
        ends = layout(shape, "dct").ends
        marked = growing(ends)
        assert marked[0]
        assert marked[-1]


def test_the_tight_forms_need_less_noise_than_the_paper_and_less_than_every_cell() -> None:
    """A smooth curve of 2000 cells at ε = 0.01, mean absolute errors over five runs."""
    place = np.linspace(-3, 3, 2000)
    counts = np.round(400 * np.exp(-(place**2))).astype(np.int64)
    errors = {
        mechanism: np.mean(
            [np.abs(run(mechanism, counts, "1/100", seed).values - counts).mean() for seed in range(5)]
        )
        for mechanism in (Efpa(), Efpa("paper", "paper", "1/2", False), Spa(), Identity())
    }
    tight, paper, spa, identity = errors.values()
    assert tight < paper < spa
    assert 10 * tight < identity


# --- what the channel is told -----------------------------------------------------------------------


@pytest.mark.parametrize("definition", ["pure", "zcdp"])
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("sensitivity", ["tight", "paper"])
def test_the_declared_sensitivity(definition: Any, transform: str, sensitivity: str) -> None:
    """In units of counts, and not more than 0.3 % above what the columns of the transform need."""
    for shape in ((64,), (5, 6)):
        for k in (1, 4, 9):
            release = run(Fpa(k, sensitivity, transform), np.zeros(shape, int), "1/2", definition=definition)
            event = release.transcript[0]
            z, size = release.diagnostics["coefficients"], prod(shape)
            column = np.array([1.0]) if transform == "dft" else first_cell(shape, z)
            needed = {
                ("tight", "pure"): z / size**0.5 if transform == "dft" else np.abs(column).sum(),
                ("tight", "zcdp"): (z / size) ** 0.5 if transform == "dft" else (column**2).sum() ** 0.5,
                ("paper", "pure"): z**0.5,
                ("paper", "zcdp"): 1.0,
            }[sensitivity, definition]
            if release.diagnostics["noise_on"] == "cells":
                assert needed > 1
                assert (event.sensitivity, event.width, event.shape) == (1, 1, shape)
                continue
            assert (sensitivity, definition) != ("tight", "pure") or needed <= 1
            assert event.shape == (z,)
            assert needed < float(event.sensitivity * event.width) < 1.003 * needed


def first_cell(shape: tuple[int, ...], kept: int) -> np.ndarray:
    """The kept cosine waves at the first cell, by SciPy."""
    from scipy import fft

    cell = np.zeros(shape)
    cell.flat[0] = 1
    waves = fft.dctn(cell, norm="ortho").reshape(-1)
    radii = sum(np.square(index) for index in np.indices(shape)).reshape(-1)
    return waves[np.argsort(radii, kind="stable")][:kept]


def test_the_choice_is_told_an_error_and_costs_its_share() -> None:
    release = run(Efpa("paper"), np.arange(100), "1/2")
    choice, noise = release.transcript
    assert (choice.purpose, noise.purpose) == ("frequencies", "coefficients")
    assert (choice.loss, noise.loss) == (Fraction(1, 16), Fraction(7, 16))
    assert 1 < choice.sensitivity < Fraction(1001, 1000)
    release = run(Efpa(share="1/3"), np.arange(100), "1/2", definition="zcdp")
    choice, noise = release.transcript
    assert choice.loss + noise.loss == Fraction(1, 2)
    assert float(choice.loss) == pytest.approx(1 / 6, rel=1e-9)
    assert choice.loss <= Fraction(1, 6)


def test_the_noise_is_what_the_diagnostics_say() -> None:
    for k, sensitivity, transform, definition, place in (
        (1 << 20, "tight", "dft", "pure", "cells"),
        (1500, "tight", "dct", "pure", "cells"),
        (1500, "paper", "dft", "pure", "coefficients"),
        (1500, "tight", "dct", "zcdp", "coefficients"),
    ):
        mechanism = Fpa(k, sensitivity, transform)
        release = run(mechanism, np.zeros(4000, int), "1/50", definition=definition)
        shown = release.diagnostics
        assert shown["noise_on"] == place
        assert release.values.std() == pytest.approx(shown["noise_per_cell"], rel=0.08)
        share = shown["coefficients"] / 4000
        assert shown["noise_per_cell"] == pytest.approx(shown["noise_per_coefficient"] * share**0.5)


def test_noise_on_all_cells_is_the_noise_of_identity() -> None:
    counts = np.arange(50)
    release = run(Fpa(99, "tight"), counts, "1/3")
    np.testing.assert_allclose(release.values, run(Identity(), counts, "1/3").values, atol=1e-12)


# --- shrinking --------------------------------------------------------------------------------------


def test_shrinking_by_hand() -> None:
    """Eight cells have bands of 1, 2, 2 and 3 coefficients. Band energies 9, 50, 4 and 36, noise 4 each."""
    plan = layout((8,), "dft")
    noisy = np.array([3.0, 5, -5, 0, 2, 4, 4, 2])
    two, three = 4 * (2 + 2 * 2**0.5), 4 * (3 + 2 * 3**0.5)
    expected = [1, *[1 - two / 50] * 2, 0, 0, *[1 - three / 36] * 3]
    np.testing.assert_allclose(Efpa()._weights(noisy, 4.0, plan), expected)
    np.testing.assert_allclose(Efpa()._weights(noisy[:5], 4.0, plan), expected[:5])
    assert Efpa()._weights(noisy[:1], 4.0, plan).tolist() == [1]
    assert Efpa()._weights(np.zeros(8), 4.0, plan).tolist() == [0] * 8
    assert Efpa(shrink=False)._weights(noisy, 4.0, plan).tolist() == [1] * 8


def test_shrinking_drops_what_is_noise_and_keeps_what_is_not() -> None:
    """A wave of ten turns in flat noise: only its band stays."""
    counts = np.round(1000 + 900 * np.cos(2 * np.pi * 10 * np.arange(512) / 512)).astype(np.int64)
    errors = []
    for shrink in (True, False):
        mechanism = Efpa(shrink=shrink)
        errors.append(
            np.mean([np.square(run(mechanism, counts, "1/20", s).values - counts).mean() for s in range(10)])
        )
    assert errors[0] < 0.6 * errors[1]
    flat = max(
        (run(Efpa(share="1/1000"), np.full(512, 50), "1/50", seed) for seed in range(9)),
        key=lambda release: release.diagnostics["coefficients"],
    )
    assert flat.diagnostics["coefficients"] > 50
    assert flat.values.std() < 0.3 * flat.diagnostics["noise_per_coefficient"]


# --- limits -----------------------------------------------------------------------------------------


def refused(mechanism: Mechanism, counts: np.ndarray, budget: Any = 1, definition: str = "pure") -> str:
    channel = SeededChannel(budget, seed=1, definition=definition)  # type: ignore[arg-type]
    with pytest.raises(MechanismError) as caught:
        mechanism.release(counts, channel)
    assert channel.remaining == channel.budget, "nothing may have been drawn"
    assert channel.transcript == ()
    return str(caught.value)


def test_a_cap_beyond_the_precision_of_scores_is_refused_whatever_the_counts() -> None:
    for cells in (64, 4000):
        for mechanism in (Efpa(count_cap=1 << 40), Spa(count_cap=1 << 40)):
            message = refused(mechanism, np.zeros(cells, dtype=np.int64))
            assert message == refused(mechanism, np.full(cells, 1 << 40))
            assert "the scores could add more than 1 % to the noise; lower count_cap" in message
    run(Efpa(count_cap=1 << 36), np.full(64, 1 << 36))
    run(Fpa(9, count_cap=1 << 40), np.full(64, 1 << 40))  # no scores


def test_a_transform_that_errs_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """No table that fits in memory does; so with the precision of plain floats."""
    from tabularium.mechanisms.histograms import spectral

    monkeypatch.setattr(spectral, "relative_error", lambda shape: Fraction(1, 1 << 43))
    assert "the error of the coefficients" in refused(Fpa(3), np.zeros(5000, dtype=np.int64))
    plan_for((4999,), "dft", "tight", "pure", 1 << 15, "fpa")


@pytest.mark.parametrize("cells", [7725, 1 << 20, 999_983])
def test_the_error_is_a_tiny_part_of_what_a_record_changes(cells: int) -> None:
    """At the default cap, up to 2^20 cells, for lengths with any prime factor."""
    from tabularium.mechanisms.histograms.double_fourier import relative_error

    apart = 2 * relative_error((cells,)) * (1 << 30) * cells
    assert apart < Fraction(1, 1 << 10)


def test_a_budget_too_small_for_any_noise_is_refused() -> None:
    for mechanism in (Fpa(1), Spa(), Efpa()):
        for definition, budget in (("pure", Fraction(1, 10**12)), ("zcdp", Fraction(1, 10**15))):
            assert "larger" in refused(
                mechanism, np.arange(9), budget, definition
            ) or "spend more" in refused(mechanism, np.arange(9), budget, definition)


def test_small_budgets_leave_out_what_cannot_be_drawn() -> None:
    """At ε = 10^-7 the noise on all 4096 coefficients would be too wide; the choice is among the others."""
    release = run(Efpa("paper"), np.full(4096, 10**6), Fraction(1, 10**7))
    assert release.diagnostics["coefficients"] < 4096


def test_extreme_counts() -> None:
    for counts in (np.full(9, 1 << 40), np.array([1 << 40, *[0] * 15]), np.zeros(5, dtype=np.int64)):
        for mechanism in ALL:
            assert np.isfinite(run(mechanism, counts, "1/10").values).all()


# --- small parts ------------------------------------------------------------------------------------


def test_floors_of_double_words() -> None:
    whole = 1 << 60
    for exact in (
        Fraction(7, 2),
        Fraction(-7, 2),
        Fraction(5),
        Fraction(-5),
        Fraction((5 << 70) - 1, 1 << 70),
    ):
        value = exact * whole
        word = np.array(double_word(int(exact * (1 << 80)), 80))[:, None]
        assert _floor(word)[0] == exact.__floor__(), value


def test_roots_and_rounding_go_up() -> None:
    for value in (Fraction(1, 7), 2, 4, 1 << 20, Fraction(3, 1 << 40)):
        root = root_above(value)
        assert root**2 >= value
        assert root**2 <= Fraction(value) * (1 + Fraction(1, 1 << 18))
    assert root_above(9) == 3
    for value in (Fraction(1, 3), Fraction(10**30 + 1, 7), Fraction(1, 10**30)):
        assert 0 <= rounded_up(value) - value <= value / (1 << 38)
        number = rounded_up(value).numerator
        assert (number // (number & -number)).bit_length() <= 41


def test_the_bound_is_never_below_the_float_it_was_computed_with() -> None:
    for transform in TRANSFORMS:
        for definition in ("pure", "zcdp"):
            for sensitivity in ("tight", "paper"):
                plan: Plan = plan_for((6, 5), transform, sensitivity, definition, 9, "fpa")  # type: ignore[arg-type]
                for radii in range(1, plan.ends.size + 1):
                    assert float(plan.bound(radii)) == pytest.approx(plan.bounds[radii - 1], rel=1e-6)
                    assert plan.bound(radii) >= Fraction(
                        isqrt(int(2**60 * plan.bounds[radii - 1] ** 2)), 1 << 30
                    )


# --- Transforms in double words: against whole-number arithmetic, and against what the privacy proofs claim ---


SMALL = [(n,) for n in range(1, 41)]
FLAT = [*SMALL, (61,), (64,), (67,), (100,), (134,), (149,)]
DEEP = [
    (1, 1),
    (2, 2),
    (2, 3),
    (3, 2),
    (4, 4),
    (2, 1, 3),
    (4, 6, 2),
    (2, 2, 2, 2),
    (5, 3, 4),
    (3, 67),
    (6, 1),
]
U2 = Fraction(1, 1 << 106)


# --- arithmetic -------------------------------------------------------------------------------------


def test_pi_to_57_digits() -> None:
    digits = 314159265358979323846264338327950288419716939937510582097
    assert pi() * 10**56 >> BITS == digits


def test_roots_that_have_a_closed_form() -> None:
    one = 1 << BITS
    closed = {(0, 7): (one, 0), (1, 4): (0, -one), (1, 2): (-one, 0), (3, 4): (0, one)}
    half, root_half, root_three = one // 2, isqrt(one * one // 2), isqrt(3 * one * one) // 2
    closed |= {(1, 8): (root_half, -root_half), (1, 6): (half, -root_three), (5, 12): (-root_three, -half)}
    for (numerator, denominator), expected in closed.items():
        for got, wanted in zip(root(numerator, denominator), expected, strict=True):
            assert abs(got - wanted) < 1 << 8


def test_a_long_table_of_roots_stays_on_the_circle() -> None:
    made = table(1 << 20, 1, 1 << 12)
    for place in (1, 1000, 4095):
        cosine, sine = root(place, 1 << 20)
        for got, wanted in ((made[:2, place], cosine), (made[2:, place], sine)):
            assert abs(exactly(*got) - Fraction(wanted, 1 << BITS)) < U2


def test_square_roots() -> None:
    assert square_root(1, 4) == (0.5, 0.0)
    high, low = square_root(1, 2)
    assert abs(exactly(high, low) ** 2 - Fraction(1, 2)) < 3 * U2


def exactly(high: float, low: float) -> Fraction:
    return Fraction(float(high)) + Fraction(float(low))


words = st.builds(
    lambda mantissa, exponent: double_word(mantissa, 120 - exponent),
    st.integers(-(1 << 120), 1 << 120),
    st.integers(-20, 60),
)


@given(words, words)
@settings(max_examples=300, deadline=None)
def test_sums_and_products_err_no_more_than_is_claimed(
    a: tuple[float, float], b: tuple[float, float]
) -> None:
    x, y = exactly(*a), exactly(*b)
    assert abs(exactly(*plus(*a, *b)) - (x + y)) <= 4 * U2 * (abs(x) + abs(y))
    assert abs(exactly(*times(*a, *b)) - x * y) <= 9 * U2 * abs(x * y)


@given(st.tuples(words, words, words, words))
@settings(max_examples=200, deadline=None)
def test_complex_products_err_no_more_than_is_claimed(parts: tuple[tuple[float, float], ...]) -> None:
    x, y, c, s = (exactly(*part) for part in parts)
    got = complex_multiply(*(number for part in parts for number in part))
    real, imaginary = exactly(*got[:2]) - (x * c - y * s), exactly(*got[2:]) - (x * s + y * c)
    assert real**2 + imaginary**2 <= (20 * U2) ** 2 * (x * x + y * y) * (c * c + s * s)


# --- transforms -------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(n,) for n in (1, 2, 3, 8, 9, 30, 61, 64, 67, 100)] + DEEP[1:9], ids=str)
def test_the_error_is_within_its_bound(shape: tuple[int, ...]) -> None:
    """Against sums of whole numbers that are right to 2^-170. The DCT has three passes more."""
    counts = generator(len(shape)).integers(0, 1 << 40, shape)
    norm = isqrt(sum(int(count) ** 2 for count in counts.flat)) * isqrt(counts.size) + 1
    allowed = double_fourier.relative_error(shape) * norm
    values = np.stack([counts.astype(np.float64), np.zeros(shape)])
    found = double_fourier.spectrum(values)
    waves = double_fourier.cosine_spectrum(values)
    far = near = Fraction(0)
    for place in product(*(range(min(size, 5)) for size in shape)):
        real, imaginary, cosine = exact_sums(counts, place)
        if place[-1] <= shape[-1] // 2:
            far += (exactly(*found[:2, *place]) - real) ** 2 + (exactly(*found[2:, *place]) - imaginary) ** 2
        near += (exactly(*waves[:, *place]) - cosine) ** 2
    assert far <= allowed**2
    assert near <= allowed**2


def exact_sums(counts: np.ndarray, place: tuple[int, ...]) -> tuple[Fraction, Fraction, Fraction]:
    """Return the Fourier and the cosine sum at one place."""
    real = imaginary = cosine = Fraction(0)
    unit = Fraction(1, 1 << BITS)
    for cell in product(*(range(size) for size in counts.shape)):
        count = int(counts[cell])
        turns = sum(Fraction(j * k, n) for j, k, n in zip(cell, place, counts.shape, strict=True))
        c, s = root(turns.numerator % turns.denominator, turns.denominator)
        real, imaginary = real + count * c * unit, imaginary + count * s * unit
        wave = Fraction(count)
        for j, k, n in zip(cell, place, counts.shape, strict=True):
            wave *= root(k * (2 * j + 1), 4 * n)[0] * unit
        cosine += wave
    return real, imaginary, cosine


def test_long_transforms_against_scipy() -> None:
    """Lengths of one large prime, of small factors, and a table; in plain floats."""
    from scipy import fft

    for shape in ((4099,), (5000,), (75, 103)):
        counts = generator(2).integers(0, 1000, shape)
        values = np.stack([counts.astype(np.float64), np.zeros(shape)])
        found, wanted = double_fourier.spectrum(values), fft.rfftn(counts)
        np.testing.assert_allclose(found[0] + 1j * found[2], wanted, atol=1e-8)
        waves = fft.dctn(counts, type=2) / 2 ** len(shape)
        np.testing.assert_allclose(double_fourier.cosine_spectrum(values)[0], waves, atol=1e-8)


def test_the_bound_adds_up_passes() -> None:
    assert double_fourier.factors(720) == [4, 4, 3, 3, 5]
    assert double_fourier.factors(2 * 67) is None
    assert double_fourier.relative_error((8,)) == Fraction(2 * (108 * 4 + 100 * 2 + 512), 1 << 106)
    assert double_fourier.relative_error((67,)) == 2 * U2 * (16 * 67 * (46 + 4 * 108 * 4) + 512)
    assert double_fourier.relative_error((1 << 20,)) < Fraction(1, 1 << 92)
    assert double_fourier.relative_error((999_983,)) < Fraction(1, 1 << 65)


# --- coordinates ------------------------------------------------------------------------------------


def matrix(plan: Layout) -> np.ndarray:
    """One row for each coordinate, one column for each cell; from the inverse alone."""
    return np.array([inverse(row, plan).reshape(-1) for row in np.eye(plan.size)])


@pytest.mark.parametrize("shape", FLAT[:20] + DEEP, ids=str)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_the_transform_is_an_isometry_and_its_inverse_undoes_it(shape: tuple[int, ...], transform) -> None:  # type: ignore[no-untyped-def]
    plan = layout(shape, transform)
    rows = matrix(plan)
    np.testing.assert_allclose(rows @ rows.T, np.eye(plan.size), atol=1e-12)
    counts = generator(1).integers(0, 100, shape)
    np.testing.assert_allclose(coordinates(counts, plan)[0], rows @ counts.reshape(-1), atol=1e-10)


@pytest.mark.parametrize("shape", [(1,), (2,), (7,), (8,), (3, 4), (4, 4), (2, 3, 2)], ids=str)
def test_coordinates_come_from_slow_to_fast(shape: tuple[int, ...]) -> None:
    """The squared turns of each row, found from the row itself, are the same between two ends, and ascend."""
    for transform in TRANSFORMS:
        plan = layout(shape, transform)
        radii = [squared_turns(row.reshape(shape), transform) for row in matrix(plan)]
        groups = np.split(np.array(radii), plan.ends[:-1])
        assert all(len(set(group.tolist())) == 1 for group in groups)
        assert [group[0] for group in groups] == sorted({*radii})


def squared_turns(wave: np.ndarray, transform: str) -> int:
    from scipy import fft

    if transform == "dct":
        peak = np.unravel_index(np.abs(fft.dctn(wave, norm="ortho")).argmax(), wave.shape)
        return sum(int(k) ** 2 for k in peak)
    peak = np.unravel_index(np.abs(fft.fftn(wave)).argmax(), wave.shape)
    return sum(min(int(k), n - int(k)) ** 2 for k, n in zip(peak, wave.shape, strict=True))


def test_a_wave_by_hand() -> None:
    """Four cells: the constant, cosine and sine of one complex_multiply, the alternating wave."""
    got = coordinates(np.array([7, 1, 3, 5]), layout((4,), "dft"))[0]
    half_root = np.sqrt(0.5)
    np.testing.assert_allclose(got, [8, half_root * 4, half_root * 4, 2], atol=1e-14)


# --- what the privacy proofs claim ------------------------------------------------------------------


@pytest.mark.parametrize("shape", FLAT + DEEP, ids=str)
def test_columns_of_the_real_fourier_transform(shape: tuple[int, ...]) -> None:
    """Up to each radius: L1 norm at most z/√N, L2 norm √(z/N), for every cell."""
    plan = layout(shape, "dft")
    columns = matrix(plan)
    absolute = np.cumsum(np.abs(columns), axis=0)[plan.ends - 1]
    squared = np.cumsum(columns**2, axis=0)[plan.ends - 1]
    assert (absolute <= (plan.ends / np.sqrt(plan.size) + 1e-12)[:, None]).all()
    np.testing.assert_allclose(squared, np.repeat((plan.ends / plan.size)[:, None], plan.size, 1), atol=1e-12)


@pytest.mark.parametrize("shape", FLAT + DEEP, ids=str)
def test_the_first_cell_is_the_worst_for_cosines(shape: tuple[int, ...]) -> None:
    """Up to each radius, in L1 and L2. Lengths with odd divisors are the hard case of the proof."""
    plan = layout(shape, "dct")
    columns = matrix(plan)
    np.testing.assert_allclose(columns[:, 0], corner(plan), atol=1e-12)
    for norms in (np.cumsum(np.abs(columns), axis=0), np.cumsum(columns**2, axis=0)):
        kept = norms[plan.ends - 1]
        assert (kept.max(axis=1) <= kept[:, 0] + 1e-12).all()


def test_the_first_cell_is_the_worst_for_every_number_of_waves() -> None:
    for size in range(1, 130):
        angles = np.pi / (2 * size) * np.outer(np.arange(size), 2 * np.arange(size) + 1)
        for norms in (np.cumsum(np.abs(np.cos(angles)), axis=0), np.cumsum(np.cos(angles) ** 2, axis=0)):
            assert (norms <= norms[:, :1] + 1e-11).all()


def test_energies_of_what_is_dropped() -> None:
    values = np.array([[5.0, 3.0, 2.0, 1.0], [0.0, 0.0, 0.0, 0.0]])
    assert tail_energies(values, np.array([1, 3, 4])).tolist() == [14.0, 1.0, 0.0]
