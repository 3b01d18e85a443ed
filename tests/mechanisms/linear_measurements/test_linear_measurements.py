"""What mechanisms say that they measured: against dense least squares, and against seeded draws of all of them."""

from __future__ import annotations

from fractions import Fraction
from functools import reduce
from math import prod, sqrt
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from tabularium.mechanisms import MECHANISMS, build
from tabularium.mechanisms.channel import SeededChannel
from tabularium.mechanisms.histograms.privelet import NoisyWavelets, sums_and_differences
from tabularium.mechanisms.inference import Hierarchy
from tabularium.mechanisms.linear_measurements.linear_measurement import LinearMeasurement, Sums
from tabularium.mechanisms.linear_measurements.noisy_tree import NoisyTree, side_by_side
from tabularium.mechanisms.noise.synthetic import generator
from tabularium.mechanisms.noise_distributions import noise_of
from tests.dense import leaf_matrix

Floats = NDArray[np.float64]


# --- every sum and covariance against dense least squares


def dense_tree(rng: np.random.Generator) -> tuple[NoisyTree, Floats, Floats]:
    """A forest of leaves with one cell and with several, and its weights and variances."""
    parents = np.array([-1, -1, 0, 0, 0, 1, 1, 2, 2, 3, 3, 3, 7, 7])
    tree = Hierarchy(parents)
    leaves = np.flatnonzero(tree.leaf)
    leaf = rng.permutation(np.concatenate([leaves, rng.choice(leaves, 9)]))
    drawn = np.where(tree.leaf, 0, rng.choice([-1, 0, 1], len(parents)))
    noise = noise_of("laplace", 3, whole=True), noise_of("laplace", 1, whole=True)
    weights = leaf_matrix(parents)[:, np.searchsorted(leaves, leaf)]
    found = NoisyTree(rng.integers(-9, 30, len(parents)), noise, tree=tree, drawn=drawn, leaf=leaf)
    return found, weights[drawn >= 0], np.array([each.variance for each in noise])[drawn[drawn >= 0]]


def dense_wavelets(
    rng: np.random.Generator, shape: tuple[int, ...], axes: tuple[int, ...]
) -> tuple[NoisyWavelets, Floats, Floats]:
    """Coefficients of a table, and their weights."""
    noise = noise_of("laplace", 4, whole=True)
    cells = np.eye(prod(shape), dtype=np.int64).reshape(-1, *shape)
    weights = reduce(sums_and_differences, [axis + 1 for axis in axes], cells).reshape(len(cells), -1).T
    found = NoisyWavelets(rng.integers(-9, 30, shape), (noise,), axes=axes)
    return found, weights.astype(float), np.full(len(cells), noise.variance)


def dense_side_by_side(rng: np.random.Generator) -> tuple[LinearMeasurement, Floats, Floats]:
    """A tree and wavelets on cells that lie among each other."""
    parts = dense_tree(rng), dense_wavelets(rng, (5,), (0,))
    sizes = [part[0].cells for part in parts]
    places = np.split(rng.permutation(sum(sizes)), sizes[:1])
    weights = np.zeros((sum(len(part[1]) for part in parts), sum(sizes)))
    row = 0
    for (_, own, _), place in zip(parts, places, strict=True):
        weights[row : row + len(own), place] = own
        row += len(own)
    found = side_by_side([part[0] for part in parts], places, (sum(sizes),))
    assert found is not None
    return found, weights, np.concatenate([part[2] for part in parts])


def dense_forests(rng: np.random.Generator) -> tuple[LinearMeasurement, Floats, Floats]:
    """Two trees, which become one forest."""
    parts = dense_tree(rng), dense_tree(rng)
    number = [part[0].cells for part in parts]
    places = [np.arange(number[0]) * 2, np.arange(number[1]) * 2 + 1]
    weights = np.zeros((sum(len(part[1]) for part in parts), sum(number)))
    weights[: len(parts[0][1]), places[0]] = parts[0][1]
    weights[len(parts[0][1]) :, places[1]] = parts[1][1]
    found = side_by_side([part[0] for part in parts], places, (sum(number),))
    assert isinstance(found, NoisyTree)
    return found, weights, np.concatenate([part[2] for part in parts])


FORMS = {
    "tree": dense_tree,
    "row": lambda rng: dense_wavelets(rng, (13,), (0,)),
    "wavelets": lambda rng: dense_wavelets(rng, (5, 2, 7), (0, 2)),
    "all axes": lambda rng: dense_wavelets(rng, (6, 7), (0, 1)),
    "cells": lambda rng: dense_wavelets(rng, (3, 4), ()),
    "side by side": dense_side_by_side,
    "forests": dense_forests,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("columns", [1, 3])
def test_sums_are_those_of_dense_least_squares(form: str, columns: int) -> None:
    rng = generator(columns)
    for _ in range(4):
        measured, weights, variances = FORMS[form](rng)
        values = _drawn_values(measured)
        root = np.sqrt(variances)[:, None]
        inverse = np.linalg.pinv(weights / root)
        rows = 4
        of = rng.integers(-1, rows * columns, measured.cells)
        if isinstance(measured, NoisyTree):  # half of the time whole leaves, which are known
            leaves = rng.integers(-1, rows * columns, measured.tree.nodes)[measured.leaf]
            of = np.where(rng.random(rows * columns + 1)[leaves] < 0.8, leaves, of)
        sums = Sums(of, rows, columns)
        indicators = np.array([of == number for number in range(sums.number)], float)
        spanned = np.abs(indicators @ (inverse @ (weights / root)) - indicators).max(axis=1) < 1e-9
        known = measured.known(sums)
        assert known.tolist() == spanned.tolist()
        estimates = measured.estimates()
        exact = indicators @ inverse @ (values / root[:, 0])
        assert (indicators @ estimates)[known] == pytest.approx(exact[known])
        covariances = indicators @ inverse @ inverse.T @ indicators.T
        found = measured.covariances(sums)
        for row in range(rows):
            here = slice(row * columns, (row + 1) * columns)
            if known[here].all():
                assert found[row] == pytest.approx(covariances[here, here], abs=1e-9)


def _drawn_values(measured: LinearMeasurement) -> Floats:
    if isinstance(measured, NoisyTree):
        return measured.values[measured.drawn >= 0].astype(float)
    if isinstance(measured, NoisyWavelets):
        return measured.values.reshape(-1).astype(float)
    parts = measured.parts  # type: ignore[attr-defined]
    return np.concatenate([_drawn_values(part) for part in parts])


def test_many_errors_in_common_are_added_up_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    measured, _, _ = dense_wavelets(generator(1), (40, 30), (0, 1))
    sums = Sums(generator(2).integers(-1, 60, 1200), 6, 10)
    whole = measured.covariances(sums)
    monkeypatch.setattr("tabularium.mechanisms.linear_measurements.linear_measurement._PAIRS", 50)
    monkeypatch.setattr("tabularium.mechanisms.histograms.privelet._ENTRIES", 100)
    assert measured.covariances(sums) == pytest.approx(whole)


# --- the standard deviation stated is the one seen, for every mechanism

SHAPES = ((64,), (12, 10))
PARAMETERS: dict[str, list[dict[str, Any]]] = {
    "boost": [{}, {"branching": 3}, {"root": True}],
    "privelet": [{}, {"axes": [0]}],
    "denoise": [{}, {"workload": "ranges"}, {"workload": "ranges", "longest": 4}],
    "kd_tree": [{}, {"total": "0"}],
    "hierarchical_kd_tree": [{"height": 3}, {"height": 2, "medians": "chosen"}],
    "structure_first": [
        {"largest_count": 60, "bins": 6, "candidates": 12},
        {"largest_count": 60, "bins": 6, "candidates": 12, "boost": True},
        {"largest_count": 60, "centre": "median"},
    ],
    "dawa": [{}, {"workload": "ranges"}],
    "p_hpartition": [{}, {"unattributed": True}],
    "per_region": [
        {"mechanism": "denoise", "parameters_of_each": {"workload": "ranges"}},
        {"mechanism": "boost"},
        {"mechanism": "privelet", "axis": 1},
        {"mechanism": "identity"},
    ],
}
NOT_LINEAR = {"fpa", "spa", "efpa", "mwem", "privhist", "sorted_isotonic"}
CASES = [
    (name, given, SHAPES[1 if name in {"per_region", "privelet"} else number % 2])
    for name in [*MECHANISMS, "per_region"]
    if name not in NOT_LINEAR
    for number, given in enumerate(PARAMETERS.get(name, [{}]))
]
UNKNOWN = [{"largest_count": 60, "centre": "median"}, {"unattributed": True}]
ERRORS = 640
"""Errors that a test looks at."""
CHANCE = 1e-3
"""That errors of the right scale are refused, in one test."""
SQUARES = 5
"""Variance of the square of a Laplace variable of variance 1; of sums of several it is less, down to 2."""


def standard_errors(name: str, given: dict[str, Any], shape: tuple[int, ...]) -> Floats:
    """Return errors of sums over their stated standard deviations.

    Each draw is asked, at every stage, for a partition of the cells into four or, where it measured groups of
    cells, of these groups.
    """
    mechanism = build(name, **given)
    rng = generator(len(shape))
    counts = rng.poisson(np.repeat([0.3, 4, 25, 6], prod(shape) // 4)).reshape(shape)
    zcdp = "pure" not in mechanism.definitions
    found: list[float] = []
    for seed in range(ERRORS):
        if len(found) >= ERRORS:
            break
        channel = SeededChannel(Fraction(1), seed=seed, definition="zcdp" if zcdp else "pure")
        measured = mechanism.linear_measurements(mechanism.measure(counts, channel))
        assert measured is not None
        for stage in measured.stages():
            # The same ranges, if it knows them; they were fixed before anything was drawn.
            of = np.arange(counts.size) * 4 // counts.size
            if isinstance(stage, NoisyTree):
                groups = stage.leaf if not stage.known(Sums(of, 4)).all() else None
                if groups is not None:
                    _, of = np.unique(groups, return_inverse=True)
                    of = of * 4 // (of.max() + 1)
            sums = Sums(of, 4)
            assert stage.known(sums).all()
            covariances = stage.covariances(sums)[:, 0, 0]
            true = np.bincount(of, counts.reshape(-1), 4)
            error = np.bincount(of, stage.estimates(), 4) - true
            here = covariances > 0  # of few groups, some of the four sums have none
            found += (error[here] / np.sqrt(covariances[here])).tolist()
    return np.array(found)


@pytest.mark.parametrize(("name", "given", "shape"), CASES)
def test_the_standard_deviation_stated_is_the_one_seen(
    name: str, given: dict[str, Any], shape: tuple[int, ...]
) -> None:
    """And one that is 30 % off is refused: too small and too large."""
    mechanism = build(name, **given)
    if given in UNKNOWN:
        measured = mechanism.measure(np.ones(shape, np.int64), SeededChannel(Fraction(1), seed=1))
        assert mechanism.linear_measurements(measured) is None
        return
    errors = standard_errors(name, given, shape)
    assert refused(errors) == ""
    assert refused(errors / 1.3) == "scale"
    assert refused(errors * 1.3) == "scale"


def refused(errors: Floats) -> str:
    """Return what speaks against errors of mean 0 and variance 1: their ``mean``, their ``scale``, or nothing.

    Means of so many are taken for normal.
    """
    limit = float(norm.isf(CHANCE / 2)) / sqrt(len(errors))
    if abs(errors.mean()) > limit:
        return "mean"
    return "scale" if abs((errors**2).mean() - 1) > limit * sqrt(SQUARES) else ""


@pytest.mark.parametrize("name", sorted(NOT_LINEAR))
def test_other_mechanisms_say_that_they_measured_no_sums_of_cells(name: str) -> None:
    mechanism = build(name, **({"k": 5} if name == "fpa" else {}))
    measured = mechanism.measure(np.arange(64), SeededChannel(Fraction(1), seed=1))
    assert mechanism.linear_measurements(measured) is None
