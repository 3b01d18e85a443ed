"""Simulated margins: by hand where everything is known, and by count where it is not."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabularium.mechanisms.inference import (
    Estimate,
    Hierarchy,
    TreeLeastSquares,
    consistency,
    laplace_variance,
    margins,
    nonnegativity,
    rounding,
)
from tabularium.mechanisms.inference.margins_of_error.opened_families import (
    Part,
    some_opened,
)
from tabularium.mechanisms.inference.margins_of_error.simulated_releases import (
    Assumed,
    Made,
    Runs,
    Tally,
    _bin,
    _upper,
    replicates,
)
from tabularium.mechanisms.inference.margins_of_error.simulation import (
    Simulated,
    Strata,
    linear_half,
    simulate,
)
from tabularium.mechanisms.noise.synthetic import generator

Values = Any
FALLBACK = 77.0


def laplace(seed: int, scale: float, shape: tuple[int, ...]) -> Values:
    rng, decay = generator(seed), -math.expm1(-1 / scale)
    return (rng.geometric(decay, size=shape) - rng.geometric(decay, size=shape)).astype(float)


def simulated(truth: Values, measure: Callable[[int], Values], *, whole: bool = True) -> Simulated:
    """One table of variance 4, published as measured, in twelve simulated releases; 77 where too few are alike."""
    assumed = Assumed(Hierarchy([-1]), truth, np.array([[4.0]]))
    return simulate(
        {"t": assumed},
        lambda run: {"t": assumed.whole(measure(run))},
        {"t": np.full(truth.shape, FALLBACK)},
        level=0.9,
        whole=whole,
        runs=Runs.of(12),
    )["t"]


def of_fixed_errors(errors: list[float], *, whole: bool = True, size: float = 200.0) -> Simulated:
    """One table of 60 cells, far from zero; the errors go round its cells, a full turn in each release."""
    truth, pattern = np.full((1, 60), size), np.resize(np.array(errors), 60)
    return simulated(truth, lambda run: truth + np.roll(pattern, run), whole=whole)


def test_the_half_width_is_the_smallest_that_holds_the_share() -> None:
    """Nine checks' worth of 60 cells each; one error in twenty is 7, two are 5, the others at most 3."""
    errors = [0.0, 1, -1, 2, -2, 3, -3, 1, 0, 1, 2, -1, 0, 0, 3, -2, 1, -5, 5, 7]
    made = of_fixed_errors(errors)
    # 17 of 20 within 3, 19 within 5: 90 % and one standard error (1.3 %) lie between.
    assert made.replicates == (9, 3)
    assert (made.half == 5).all()
    (line,) = made.tally.lines()
    assert (line.size, line.cells, line.median, line.ninety, line.largest) == ((100, 999), 60, 1, 5, 7)
    assert (line.held, line.held_of_true) == (pytest.approx(0.95), pytest.approx(0.95))
    assert made.tally.overall()[:2] == (pytest.approx(0.95), pytest.approx(5))


def test_half_widths_of_numbers_that_are_not_whole_are_not_rounded() -> None:
    errors = [0.25] * 9 + [0.75]
    half = of_fixed_errors(errors, whole=False).half
    assert 0.75 <= half[0, 0] < 0.80


def test_near_zero_the_root_mean_square_counts() -> None:
    """One cell in 25 holds 50 and everything comes out as 0: right in 96 %, and 1.645 · √(50² / 25) is 16.4."""
    truth = np.where(np.arange(100) % 25 == 0, 50.0, 0.0)[None]
    made = simulated(truth, lambda run: np.zeros((1, 100)))
    assert (made.half[truth == 0] == 16).all()
    assert (made.half[truth > 0] == FALLBACK).all(), "nothing was published that looks like these"
    (line,) = made.tally.lines()
    assert (line.held, line.held_of_true, line.largest) == (0.96, 1.0, 50)


def test_classes_that_hardly_occur_are_left_to_the_analytic_interval() -> None:
    truth = np.full((1, 60), 100.0)
    truth[0, :3] = 0.0
    made = simulated(truth, lambda run: truth)
    assert (made.half[0, :3] == FALLBACK).all()
    assert (made.half[0, 3:] == 0).all()
    assert made.tally.overall()[1] == pytest.approx(FALLBACK * 3 / 60)


def test_numbers_of_simulated_releases() -> None:
    assert [replicates(cells) for cells in (1, 500, 20_000, 2_000_000, 10_000_000)] == [100, 100, 10, 8, 4]


TREE = Hierarchy(np.r_[-1, np.zeros(5, int), 1 + np.arange(400) // 80])


def sparse(seed: int) -> Values:
    rng = generator(seed)
    truth = np.zeros((TREE.nodes, 4))
    shape = (400, 4)
    truth[TREE.leaf] = np.where(rng.random(shape) < 0.9, 0, rng.geometric(1 / 60, size=shape))
    for block in TREE.up():
        truth[block.parents] = block.total(truth[block.children])
    return truth


def finish(tree: Hierarchy, scale: float) -> Callable[[Any], Any]:
    def chain(tables: Any) -> Any:
        est = consistency(tree, tables["t"].values, laplace_variance(scale))
        est = nonnegativity(tree, est)
        return {"t": Estimate(rounding(tree, est).astype(float), est.variances)}

    return chain


@lru_cache(maxsize=4)
def released(kind: str, scale: float, runs: int = 4) -> list[tuple[Values, Values, Values]]:
    """(truth, published, half) of some releases."""
    if kind == "sparse":
        tree, truth = TREE, sparse(5)
    else:
        # Three records in every cell: 40 families of 60, and nothing stands out.
        tree = Hierarchy(np.r_[-1, np.zeros(40, int), 1 + np.arange(2400) // 60])
        truth = np.zeros((tree.nodes, 1))
        truth[tree.leaf] = generator(6).poisson(3.0, (2400, 1))
        for block in tree.up():
            truth[block.parents] = block.total(truth[block.children])
    chain, made = finish(tree, scale), []
    variance = consistency(tree, truth, laplace_variance(scale)).variances

    for run in range(runs):
        measured = Estimate(truth + laplace(run, scale, truth.shape), variance)
        published = chain({"t": measured})["t"].values

        assumed = Assumed(tree, published, variance)

        def release(number: int, run: int = run, assumed: Assumed = assumed) -> dict[str, Made]:
            noise = laplace(1000 * (run + 1) + number, scale, assumed.values.shape)
            measured = Estimate(assumed.values + noise, assumed.variances)
            return {"t": assumed.whole(chain({"t": measured})["t"].values)}

        fallback = {"t": np.ceil(np.broadcast_to(1.7 * np.sqrt(variance), published.shape))}
        half = simulate({"t": assumed}, release, fallback, level=0.9, whole=True, runs=Runs.of(40))["t"].half
        made.append((truth, published, np.where(np.isnan(half), fallback["t"], half)))
    return made


@pytest.mark.parametrize(("kind", "scale"), [("sparse", 30.0), ("sparse", 3.0), ("thin", 30.0)])
def test_intervals_hold_and_are_not_too_wide(kind: str, scale: float) -> None:
    made = released(kind, scale)
    held = np.mean([(np.abs(p - t) <= h).mean() for t, p, h in made])
    error = math.sqrt(np.mean([((p - t) ** 2).mean() for t, p, _ in made]))
    width = np.mean([h.mean() for _, _, h in made])
    assert held >= 0.9
    assert 0.2 < width / (1.645 * error) < 1.5
    assert all((h == np.rint(h)).all() for _, _, h in made)


@pytest.mark.parametrize(("kind", "scale"), [("sparse", 30.0), ("sparse", 3.0), ("thin", 30.0)])
def test_intervals_hold_for_every_size_that_is_published(kind: str, scale: float) -> None:
    made = released(kind, scale)
    for low, high in ((0, 0), (1, 20), (21, 100), (101, 10**9)):
        held = [(np.abs(p - t) <= h)[(p >= low) & (p <= high)] for t, p, h in made]
        if sum(map(len, held)) >= 100:
            assert np.concatenate(held).mean() >= 0.83, (low, high)


def test_quantiles_alone_would_not_hold() -> None:
    """What the module says of cells that hold less than the noise, found again: 60 % where 90 are asked."""
    truth, published, half = released("thin", 30.0)[0]
    tree = Hierarchy(np.r_[-1, np.zeros(40, int), 1 + np.arange(2400) // 60])
    again = finish(tree, 30.0)(
        {"t": Estimate(published + laplace(99, 30.0, truth.shape), np.ones((len(truth), 1)))}
    )
    zeros = (again["t"].values == 0) & tree.leaf[:, None]
    quantile = np.quantile(np.abs(published[zeros]), 0.9, method="higher")
    real = (published == 0) & tree.leaf[:, None]
    assert (truth[real] <= quantile).mean() < 0.75
    assert (truth[real] <= half[real]).mean() >= 0.9


def test_half_widths_of_linear_estimates_are_those_of_their_law() -> None:
    """A tree of three levels: coverage within three standard errors of 90 %, where the bound has more."""
    tree = Hierarchy(np.r_[-1, np.zeros(4, int), 1 + np.arange(20) // 5])
    est = consistency(tree, laplace(1, 3.0, (tree.nodes, 40_000)), laplace_variance(3.0))
    errors = [Made(each, tree.parents) for each in est.values.reshape(25, 40, 1000).swapaxes(0, 1)]
    half = linear_half(tree, est.variances, (25, 1000), errors, level=0.9)
    fresh = consistency(tree, laplace(2, 3.0, (tree.nodes, 40_000)), laplace_variance(3.0)).values
    held = (np.abs(fresh) <= half[:, :1]).mean(axis=1)
    for nodes in ([0], range(1, 5), range(5, 25)):
        share = held[list(nodes)].mean()
        # Errors of leaves of one family have little in common.
        assert abs(share - 0.9) < 3 * math.sqrt(2 * 0.09 / (40_000 * len(nodes))) + 0.002
    assert (half[:, 0] < 1.6448 * np.sqrt(est.variances[:, 0])).all()


def test_a_nation_s_one_cell_in_eight_releases_has_the_bound() -> None:
    """The largest of eight errors is no 90 % quantile: it would be anything from a half to thrice of it."""
    tree = Hierarchy(np.r_[-1, np.zeros(9_000, int)])
    spread = np.full((tree.nodes, 1), laplace_variance(3.0))
    simulated = [consistency(tree, laplace(seed, 3.0, (tree.nodes, 1)), spread).values for seed in range(8)]
    errors = [Made(each, tree.parents) for each in simulated]
    est = consistency(tree, np.zeros((tree.nodes, 1)), spread)
    half = linear_half(tree, est.variances, (tree.nodes, 1), errors, level=0.9)
    assert half[0] == margins(est.variances[0], 0.9)
    assert 0.97 < half[1, 0] / float(margins(est.variances[1], 0.9)[0]) < 1.02


def test_errors_are_kept_to_one_per_cent() -> None:
    errors = np.r_[np.arange(0, 3000.0), 10.0 ** np.arange(4, 9)]
    upper = np.array([_upper(int(index)) for index in _bin(errors)])
    assert (upper >= errors).all()
    assert (upper <= errors * (1 + 1 / 127)).all()
    assert (upper[:257] == errors[:257]).all()


def test_a_tally_by_hand() -> None:
    tree = Hierarchy([-1, 0])
    tally = Tally(tree)
    published, truth = np.array([[5.0, 0.0], [2000.0, 0.0]]), np.array([[7.0, 3.0], [1990.0, 0.0]])
    tally.add(Made(published, tree.parents), truth, np.array([[2.0, 1.0], [9.0, 1.0]]))
    lines = {(line.depth, line.size): line for line in tally.lines()}
    assert set(lines) == {(0, (0, 0)), (0, (1, 9)), (1, (0, 0)), (1, (1000, None))}
    empty = lines[0, (0, 0)]
    assert (empty.median, empty.largest, empty.held, empty.held_of_true) == (3, 3, 0, None)
    assert lines[0, (1, 9)].held_of_true == 0.5
    assert (lines[1, (1000, None)].held, lines[1, (1000, None)].width) == (0, 9)
    assert tally.overall() == (0.5, 3.25, pytest.approx(math.sqrt((4 + 9 + 100) / 4)))


def test_strata_are_never_too_many() -> None:
    one = Hierarchy([-1])
    few = Strata.among(one, np.array([[1.0, 1.01, 4.0, 4.1]]))
    assert few.of.tolist() == [[0, 0, 1, 1]]
    assert few.deviation.tolist() == pytest.approx([math.sqrt(1.005), math.sqrt(4.05)])
    many = Strata.among(one, np.exp(np.linspace(0, 20, 500))[None])
    assert 20 <= len(many.deviation) <= 64
    assert len(np.unique(many.of)) == len(many.deviation)


# --- Parts of hierarchies that stand for the whole: by hand, by their weights, and beside whole simulations ---


# A nation, three provinces of 2, 3 and 1 places; the first place has two quarters.
FAMILIES = Hierarchy([-1, 0, 0, 0, 1, 1, 2, 2, 2, 3, 4, 4])


def test_a_part_by_hand() -> None:
    chances = np.zeros(12)
    chances[[0, 1, 2]] = 1.0, 0.5, 0.25
    part = Part.of(FAMILIES, chances)
    assert part.nodes.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8]
    assert part.tree.parents.tolist() == [-1, 0, 0, 0, 1, 1, 2, 2, 2]
    assert np.flatnonzero(part.cut).tolist() == [3, 4], "a province and a place whose own were left out"
    assert part.weights.tolist() == [1, 1, 1, 1, 2, 2, 4, 4, 4]
    provinces = part.first(Hierarchy(FAMILIES.parents[:4]))
    assert provinces.nodes.tolist() == [0, 1, 2, 3]
    assert not provinces.cut.any(), "in a table of provinces nothing is left out"


@given(st.integers(0, 2**32 - 1), st.integers(1, 3))
def test_what_is_left_out_says_the_same_of_all_above_and_beside(seed: int, province: int) -> None:
    """Least squares over the whole, and over a part in which nodes have the estimate from all below them."""
    rng = generator(seed)
    spread = rng.choice([0.5, 1.0, 4.0, np.inf], (FAMILIES.nodes, 1), p=[0.3, 0.3, 0.3, 0.1])
    spread[FAMILIES.leaf] = np.minimum(spread[FAMILIES.leaf], 9.0)
    measured = rng.normal(0, 5, (FAMILIES.nodes, 2))
    whole = consistency(FAMILIES, measured, spread)
    chances = np.zeros(FAMILIES.nodes)
    chances[[0, province]] = 1.0
    part, below = Part.of(FAMILIES, chances), TreeLeastSquares(FAMILIES, spread).below
    # What a subtree says of its root: the subtree by itself.
    values, variances = measured[part.nodes], spread[part.nodes]
    for place in np.flatnonzero(part.cut):
        own = _subtree(int(part.nodes[place]))
        parents = np.array([own.index(int(FAMILIES.parents[node])) if node != own[0] else -1 for node in own])
        alone = consistency(Hierarchy(parents), measured[own], spread[own])
        assert below[part.nodes[place]] == pytest.approx(alone.variances[0])
        values[place], variances[place] = alone.values[0], below[part.nodes[place]]
    some = consistency(part.tree, values, variances)
    np.testing.assert_allclose(some.values, whole.values[part.nodes], atol=1e-9)
    np.testing.assert_allclose(some.variances, whole.variances[part.nodes], atol=1e-9)


def _subtree(node: int) -> list[int]:
    found = [node]
    for each in found:
        found += np.flatnonzero(FAMILIES.parents == each).tolist()
    return found


def test_weights_add_up_to_the_whole_over_releases() -> None:
    """1 000 families of which a few are huge: nodes and published numbers, estimated by weights."""
    rng = generator(3)
    families = np.repeat(np.arange(1000), rng.integers(1, 9, 1000))
    tree = Hierarchy(np.concatenate(([-1], np.zeros(1000, int), 1 + families)))
    values = np.zeros(tree.nodes)
    values[1:1001] = rng.pareto(1.1, 1000)

    def size(nodes: np.ndarray) -> np.ndarray:
        return values[nodes]

    nodes, sums, seen = [], [], np.zeros(tree.nodes, bool)
    for run in range(200):
        part = some_opened(tree, size, np.array([1.0, 1.0, 1.0]), 400, run)
        leaves = part.nodes > 1000
        assert 100 < leaves.sum() < 800
        nodes.append(part.weights[leaves].sum())
        sums.append(part.weights[leaves] @ values[tree.parents[part.nodes[leaves]]])
        seen[part.nodes] = True
    exact = values[tree.parents[1001:]].sum()
    assert np.mean(nodes) == pytest.approx(len(families), rel=0.02)
    assert np.mean(sums) == pytest.approx(exact, rel=0.02)
    assert np.std(sums) < 0.25 * exact, "huge families are in every release, and do not come and go"
    assert seen[1001:].mean() > 0.99


def test_small_hierarchies_are_opened_whole() -> None:
    part = some_opened(FAMILIES, lambda nodes: np.zeros(len(nodes)), np.ones(4), 100, 5)
    assert part.nodes.tolist() == list(range(12))
    assert not part.cut.any()
    assert (part.weights == 1).all()
