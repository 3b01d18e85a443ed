"""Shares of levels: the closed form against matrices, and what the shares are worth."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tabularium.mechanisms.histograms.dawa import (
    _covering,
    _factors,
    _measured,
    _parents,
    buckets,
    shares_of_levels,
)

BUCKETS = [0, 1, 4, 5, 6, 10, 11, 17]
CELLS = 20


def ranges_over(starts: list[int], cells: int) -> np.ndarray:
    """Return a row for each range of cells: which part of each bucket it covers."""
    edges = np.append(starts, cells)
    rows = []
    for first in range(cells):
        for stop in range(first + 1, cells + 1):
            inside = np.minimum(stop, edges[1:]) - np.maximum(first, edges[:-1])
            rows.append(np.maximum(inside, 0) / np.diff(edges))
    return np.array(rows)


def covariance(buckets: int, branching: int, shares: list[float], power: int) -> np.ndarray:
    """Return the covariance of least squares on a tree, where all of the budget gives the variance 1."""
    precision = np.zeros((buckets, buckets))
    for level, share in enumerate(shares):
        for first in range(0, buckets, branching**level):
            node = np.zeros(buckets)
            node[first : first + branching**level] = 1
            precision += share**power * np.outer(node, node)
    return np.linalg.inv(precision)


def total_error(starts: list[int], cells: int, branching: int, shares: list[float], power: int) -> float:
    rows = ranges_over(starts, cells)
    return float(np.trace(rows @ covariance(len(starts), branching, shares, power) @ rows.T))


@pytest.mark.parametrize(("noise", "power"), [("laplace", 2), ("gaussian", 1)])
@pytest.mark.parametrize("branching", [2, 3])
@pytest.mark.parametrize("starts", [BUCKETS, BUCKETS[:5], list(range(CELLS))], ids=len)
def test_the_error_is_that_of_the_matrices(starts: list[int], branching: int, noise: str, power: int) -> None:
    nodes = buckets(np.array(starts), CELLS)
    own = [1.0]
    assert nodes.a.sum() == pytest.approx(total_error_of_leaves(starts))
    for share in (0.25, 0.5, 0.0, 0.125, 0.25, 0.1):
        if nodes.a.size > 1:
            nodes = _measured(_parents(nodes, branching), *_factors(share, noise))
            own = [*(part * (1 - share) for part in own), share]
    assert nodes.a.size == 1
    assert nodes.a[0] == pytest.approx(total_error(starts, CELLS, branching, own, power))
    assert nodes.t[0] == pytest.approx(covariance(len(starts), branching, own, power).sum())


def total_error_of_leaves(starts: list[int]) -> float:
    return float((ranges_over(starts, CELLS) ** 2).sum())


def test_ranges_that_cover_a_parent() -> None:
    """Six cells in five buckets; the parents have the cells 0-2, 3-4 and 5."""
    edges = np.array([0, 1, 3, 4, 5, 6])
    assert _covering(edges, 2).tolist() == [4, 4, 8, 8, 6]
    assert _covering(np.array([0, 6]), 2).tolist() == [0]


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("cells", [1, 2, 3, 64, 77])
def test_shares_add_up_and_leaves_are_measured(cells: int, noise: str) -> None:
    shares = shares_of_levels(np.arange(cells), cells, 2, noise)  # type: ignore[arg-type]
    assert sum(shares) == 1
    assert len(shares) == (cells - 1).bit_length() + 1
    assert shares[0] > 0
    assert min(shares) >= 0
    assert all(isinstance(share, Fraction) for share in shares)


@pytest.mark.parametrize(("noise", "power"), [("laplace", 2), ("gaussian", 1)])
def test_they_beat_even_shares_and_leaves_alone(noise: str, power: int) -> None:
    starts, cells = list(range(64)), 64
    shares = [float(share) for share in shares_of_levels(np.arange(64), 64, 2, noise)]  # type: ignore[arg-type]
    found = total_error(starts, cells, 2, shares, power)
    assert found < 0.9 * total_error(starts, cells, 2, [1 / 7] * 7, power)
    assert found < 0.9 * total_error(starts, cells, 2, [1.0] + [0.0] * 6, power)
