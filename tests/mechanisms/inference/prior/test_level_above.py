"""What the level above makes expect of cells: against plain loops, and free of each cell's own noise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.inference.level_above import expected_below
from tabularium.mechanisms.inference.prior_shrinkage import shrink_to_prior
from tabularium.mechanisms.noise.synthetic import generator
from tabularium.mechanisms.noise_distributions import Noise

Floats = NDArray[np.float64]


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
