"""Counts drawn towards a prior: nothing invented where it fits, nothing lost where it does not."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.inference.level_above import expected_below
from tabularium.mechanisms.inference.prior_shrinkage import (
    LEAST,
    Grid,
    Posterior,
    Shrunk,
    change_distributions,
    shrink_to_prior,
)
from tabularium.mechanisms.noise.synthetic import generator
from tabularium.mechanisms.noise_distributions import Noise

Floats = NDArray[np.float64]
NOISE = Noise("laplace", 10.0, whole=True)
ROOT = NOISE.variance**0.5


def noise_of(cells: int, seed: int, noise: Noise = NOISE) -> Floats:
    return np.rint(noise.part(1, cells, generator(seed)))


@lru_cache(maxsize=1)
def scene() -> tuple[Floats, Floats]:
    """4 000 counts of three sizes, of which one in fifty changed by 150, and what they were before."""
    rng = generator(1)
    before = np.repeat([0.0, 30.0, 400.0], [2000, 1000, 1000])
    now = before + np.where(rng.random(4000) < 0.02, 150.0, 0.0)
    return before, now


@lru_cache(maxsize=4)
def drawn(kind: str) -> tuple[Shrunk, Floats]:
    before, now = scene()
    prior = before if kind == "fits" else generator(2).permutation(before)
    noisy = now + noise_of(4000, 3)
    return shrink_to_prior(noisy, prior, NOISE, 0.9), noisy


def test_a_prior_that_fits_takes_most_of_the_error_away() -> None:
    before, now = scene()
    found, noisy = drawn("fits")
    assert np.abs(found.values - now).mean() < 0.25 * np.abs(noisy - now).mean()
    assert found.cells == 4000
    assert found.scale == pytest.approx(now.sum() / before.sum(), abs=0.01)
    still = now == before
    assert ((found.values - now)[still] ** 2).mean() < 0.1 * NOISE.variance


def test_large_changes_are_left_as_they_were_measured() -> None:
    before, now = scene()
    found, noisy = drawn("fits")
    changed = now != before
    assert np.abs(found.values - noisy)[changed].mean() < 0.6 * ROOT
    assert dict(found.shown)[113] > 0.9
    # A change as large as the noise is hardly seen: that is what is told of it.
    assert dict(found.shown)[14] < 0.3


def test_what_is_told_of_changes_is_what_happens_to_them() -> None:
    """Against a simulation of the very same law: changes of 3 deviations in every cell of a class."""
    before, _ = scene()
    found, _ = drawn("fits")
    moved = np.where(np.arange(4000) % 50 == 0, dict(enumerate(found.shown))[2][0], 0)
    shown = []
    for seed in range(2):
        again = shrink_to_prior(before + moved + noise_of(4000, 10 + seed), before, NOISE, 0.9)
        there = moved > 0
        happened = (again.values - again.scale * before)[there].mean() / moved.max()
        shown.append((happened, dict(again.shown)[int(moved.max())]))
    happened, told = np.mean(shown, axis=0)
    assert happened == pytest.approx(told, abs=0.12)


def test_an_unrelated_prior_does_no_harm_in_squared_error() -> None:
    _, now = scene()
    found, noisy = drawn("shuffled")
    assert ((found.values - now) ** 2).mean() < 1.02 * ((noisy - now) ** 2).mean()


@pytest.mark.parametrize("kind", ["fits", "shuffled"])
def test_intervals_hold_and_errors_are_what_is_said(kind: str) -> None:
    """Among cells of like size in what came out; a law 30 % too narrow would hold 80 %."""
    _, now = scene()
    found, _ = drawn(kind)
    error = np.abs(found.values - now)
    for low, high in ((-1e9, 10.0), (10.0, 200.0), (200.0, 1e9)):
        inside = (found.values >= low) & (found.values < high)
        assert (error <= found.half)[inside].mean() > 0.86
    assert (error**2).mean() < 1.5 * found.variances.mean()


@settings(max_examples=6, deadline=None)
@given(
    st.sampled_from(
        [("laplace", 0.4), ("laplace", 3.0), ("laplace", 400.0), ("gaussian", 1.5), ("gaussian", 50.0)]
    ),
    st.integers(0, 10_000),
    st.floats(0, 1),
)
def test_every_estimate_lies_between_measurement_and_expectation(
    law: tuple[str, float], seed: int, missing: float
) -> None:
    noise = Noise(law[0], law[1], whole=True)  # type: ignore[arg-type]
    rng = generator(seed)
    prior = rng.geometric(0.02, 600) * (rng.random(600) < 0.6).astype(float)
    noisy = prior + noise_of(600, seed + 1, noise)
    prior[rng.random(600) < missing] = np.nan
    found = shrink_to_prior(noisy, prior, noise, 0.9)
    left = np.isnan(prior)  # others may be drawn to zero, also where the prior itself stands nowhere
    np.testing.assert_array_equal(found.values[left], noisy[left])
    assert (
        np.abs(found.values - noisy) <= np.abs(noisy) + prior.max(initial=0, where=~np.isnan(prior)) * 2 + 9
    ).all()
    assert (found.half >= 0).all()
    assert np.isfinite(found.values).all()
    assert (found.variances <= (24 * noise.variance**0.5) ** 2).all()


def test_few_cells_are_left_as_they_are() -> None:
    noisy = 5.0 + noise_of(LEAST - 1, 4)
    found = shrink_to_prior(noisy, np.full(LEAST - 1, 5.0), NOISE, 0.9)
    assert found.cells == 0
    np.testing.assert_array_equal(found.values, noisy)


def test_growth_of_all_cells_is_taken_for_a_scale() -> None:
    before = np.resize([100.0, 300.0, 900.0], 900)
    found = shrink_to_prior(np.rint(1.25 * before) + noise_of(900, 5), before, NOISE, 0.9)
    assert found.scale == pytest.approx(1.25, abs=0.01)
    assert np.abs(found.values - 1.25 * before).mean() < 0.5 * NOISE.deviation


def test_empty_cells_of_a_sparse_table_are_drawn_to_zero_also_where_the_prior_is_wrong() -> None:
    rng = generator(6)
    now = np.where(rng.random(3000) < 0.9, 0.0, 500.0)
    noisy, wrong = now + noise_of(3000, 7), np.full(3000, 40.0)
    found = shrink_to_prior(noisy, wrong, NOISE, 0.9)
    assert np.abs(found.values - now)[now == 0].mean() < 0.4 * NOISE.deviation


@pytest.mark.parametrize(
    ("prior", "said"),
    [
        (np.full(300, -1.0), "counts that cannot be"),
        (np.full(300, np.inf), "counts that cannot be"),
        (np.zeros(299), "differ in shape"),
    ],
)
def test_what_is_no_prior_is_refused(prior: Floats, said: str) -> None:
    with pytest.raises(MechanismError, match=said):
        shrink_to_prior(np.zeros(300), prior, NOISE, 0.9)


def test_the_mean_given_a_residual_by_hand() -> None:
    """Noise of scale 1 and a law of two points: P(0) = P(4) = 1/2, residual 1."""
    noise = Noise("laplace", 1.0, whole=True)
    grid = Grid.of(noise)
    assert grid.step == 1
    law = np.zeros(len(grid.points))
    zero = len(law) // 2
    law[zero] = law[zero + 4] = 0.5
    made = Posterior.of(grid, law, 0.9)
    chance = np.exp(-3.0) / (np.exp(-1.0) + np.exp(-3.0))  # of 4: |1 - 4| = 3 against |1 - 0| = 1
    assert made.mean[zero + 1] == pytest.approx(4 * chance)
    assert made.variance[zero + 1] == pytest.approx(16 * chance * (1 - chance))
    # 0 alone has 88 % there: an interval around the mean that holds 90 % reaches to 4.
    assert made.half[zero + 1] == pytest.approx(4 - 4 * chance)


@pytest.mark.parametrize("family", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", [0.7, 5.0, 300.0])
def test_the_noise_on_the_grid_has_its_variance(family: str, scale: float) -> None:
    noise = Noise(family, scale, whole=True)  # type: ignore[arg-type]
    grid = Grid.of(noise)
    points = np.arange(-(len(grid.noise) // 2), len(grid.noise) // 2 + 1) * grid.step
    assert grid.noise.sum() == pytest.approx(1)
    assert (grid.noise * points**2).sum() == pytest.approx(noise.variance, rel=0.01)


def test_the_law_of_changes_is_found_behind_the_noise() -> None:
    """Nine in ten stay, one in ten rises by up to 200: the law found says so, and not that all move."""
    grid = Grid.of(NOISE)
    change = np.where(np.arange(20_000) % 10 == 0, np.resize(np.arange(200), 20_000), 0)
    seen = np.bincount(grid.places(change + noise_of(20_000, 8)), minlength=len(grid.points))
    ((law,), _) = change_distributions(grid, seen[None, :])
    assert law[np.abs(grid.points) <= 5].sum() == pytest.approx(0.9, abs=0.05)
    assert law[grid.points > 30].sum() == pytest.approx(0.085, abs=0.02)
    assert law[grid.points < -20].sum() < 0.01


# --- What the level above makes expect of cells: against plain loops, and free of each cell's own noise ---


def in_loops(noisy: Floats, above: Floats, parents: list[int], variance: float) -> Floats:
    """Return the same, cell by cell, as the page of the module says it."""
    nodes, cells = noisy.shape
    there = ~np.isnan(noisy)

    def others(node: int, cell: int) -> float:
        return sum(noisy[node, each] for each in range(cells) if each != cell and there[node, each])

    def noise(node: int, cell: int) -> float:
        return variance * sum(1 for each in range(cells) if each != cell and there[node, each])

    found = np.full(noisy.shape, np.nan)
    for cell in range(cells):
        families = [[node for node in range(nodes) if parents[node] == each] for each in range(len(above))]
        means = [np.mean([others(node, cell) for node in each]) if each else 0.0 for each in families]
        seen = sum((others(node, cell) - means[parents[node]]) ** 2 for node in range(nodes))
        chance = sum(noise(node, cell) * (1 - 1 / len(families[parents[node]])) for node in range(nodes))
        left = min(1.0, max(0.0, 1 - chance / max(seen, 1e-300)))
        for node in range(nodes):
            whole = sum(max(above[parents[node], each], 0) for each in range(cells) if there[node, each])
            own = max(above[parents[node], cell], 0.0)
            if not there[node, cell] or whole <= 0 or own / whole > 1 - 1e-6:
                continue
            mean = means[parents[node]]
            several = any(len(each) > 1 for each in families)
            records = mean + left * (others(node, cell) - mean) if several else others(node, cell)
            found[node, cell] = max(records, 0.0) * own / (whole - own)
    return found


@st.composite
def levels(draw: st.DrawFn) -> tuple[Floats, Floats, NDArray[np.int64]]:
    above, cells = draw(st.integers(1, 3)), draw(st.integers(2, 4))
    parents = np.array(draw(st.lists(st.integers(0, above - 1), min_size=1, max_size=6)))
    number = st.integers(-20, 60).map(float)
    noisy = np.array([[draw(number) for _ in range(cells)] for _ in parents])
    gone = np.array([[draw(st.sampled_from([False] * 7 + [True])) for _ in range(cells)] for _ in parents])
    return (
        np.where(gone, np.nan, noisy),
        np.array([[draw(number) for _ in range(cells)] for _ in range(above)]),
        parents,
    )


@given(levels(), st.sampled_from([0.0, 3.0, 50.0]))
def test_it_is_what_loops_say(found: tuple[Floats, Floats, NDArray[np.int64]], variance: float) -> None:
    noisy, above, parents = found
    made = expected_below(noisy, above, parents, variance)
    np.testing.assert_allclose(made, in_loops(noisy, above, parents.tolist(), variance), atol=1e-7)


@given(levels(), st.integers(0, 3), st.integers(0, 5), st.integers(-1000, 1000))
def test_noise_of_a_cell_never_comes_back_to_it(
    found: tuple[Floats, Floats, NDArray[np.int64]], cell: int, node: int, more: int
) -> None:
    """Whatever is drawn for a cell, the same is expected of it, and of that cell in its siblings."""
    noisy, above, parents = found
    cell, node = cell % noisy.shape[1], node % len(noisy)
    moved = noisy.copy()
    moved[node, cell] += more
    before, after = (expected_below(each, above, parents, 10.0)[:, cell] for each in (noisy, moved))
    np.testing.assert_allclose(before, after, atol=1e-7)


def test_intervals_hold_where_most_of_an_area_is_in_one_cell() -> None:
    """Were a cell's own noise in what is expected of it, hardly any would."""
    rng, epsilon = generator(7), 0.1
    sizes = rng.gamma(2.0, 200.0, 2000)
    truth = rng.poisson(sizes[:, None] * np.array([0.94, 0.03, 0.02, 0.01]))
    noise = Noise("laplace", 1 / epsilon, whole=True)

    def noisy(counts: NDArray[np.int64]) -> Floats:
        drawn = [rng.geometric(1 - np.exp(-epsilon), counts.shape) for _ in range(2)]
        return (counts + drawn[0] - drawn[1]).astype(np.float64)

    level, above = noisy(truth), noisy(truth.sum(axis=0, keepdims=True))
    parents = np.zeros(len(truth), np.int64)
    expected = expected_below(level, above, parents, noise.variance)
    spoiled = level.sum(axis=1, keepdims=True) * np.maximum(above, 0) / above.sum()
    held = []
    for each in (expected, np.maximum(spoiled, 0.0)):
        drawn = shrink_to_prior(level.reshape(-1), each.reshape(-1), noise, 0.9)
        within = np.abs(drawn.values - truth.reshape(-1)) <= drawn.half + 0.5
        held.append(within.reshape(truth.shape)[:, 0].mean())
    assert held[0] > 0.88
    assert held[1] < 0.8


def test_levels_of_other_cells_are_refused() -> None:
    with pytest.raises(MechanismError, match="differ in their cells"):
        expected_below(np.ones((2, 3)), np.ones((1, 2)), np.zeros(2, np.int64), 1.0)
