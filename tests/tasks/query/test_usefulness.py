"""What could be promised of queries before anything was drawn."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.histograms.cellwise import xiao_bound
from tabularium.mechanisms.inference import laplace_margin
from tabularium.tasks.query.usefulness import (
    _chernoff,
    every_query_margin,
    posterior_bounds,
    usefulness,
)


def test_theorem_4_2_and_its_corollary() -> None:
    found = usefulness(0.5, 100, 4, 0.05)
    assert found.paper == xiao_bound(100, 0.5, 0.05) == pytest.approx(100 * math.log(2000) / 0.5)
    assert found.paper_cells == pytest.approx(4 * math.log(80) / 0.5)
    assert found.one_query == laplace_margin(2.0, 0.95, 4)
    assert usefulness(0.5, 1, 1, 0.05).one_query == laplace_margin(2.0, 0.95)
    assert found.one_query <= found.every_query <= found.paper


def test_all_queries_at_once_for_two_cells_by_enumeration() -> None:
    """P(max(sum of positive errors, sum of negative ones) > t), from every pair of errors."""
    scale, reach = 1.5, 60
    decay = math.exp(-1 / scale)
    errors = np.arange(-reach, reach + 1)
    chance = (1 - decay) / (1 + decay) * decay ** np.abs(errors)
    positive = np.maximum(errors, 0)[:, None] + np.maximum(errors, 0)[None, :]
    joint = np.outer(chance, chance)
    for delta in (0.2, 0.05, 0.001):
        found = every_query_margin(scale, 2, delta)
        assert joint[positive > found].sum() <= delta / 2
        assert joint[positive > found - 1].sum() > delta / 2
        worst = np.maximum(positive, np.maximum(-errors, 0)[:, None] + np.maximum(-errors, 0)[None, :])
        assert joint[worst > found].sum() <= delta


def test_beyond_the_transform_the_bound_is_chernoffs_and_not_below() -> None:
    for cells, wider in ((1, 2.3), (10, 1.45), (1000, 1.06)):
        exact = every_query_margin(4.0, cells, 0.1)
        assert exact <= _chernoff(4.0, cells, 0.05) <= wider * exact
    assert every_query_margin(1e5, 1000, 0.1) == math.ceil(_chernoff(1e5, 1000, 0.05))


def test_what_anyone_may_come_to_believe() -> None:
    found = posterior_bounds(0.1, 0.5, releases=2)
    odds = math.e / 9
    assert found["presence"] == pytest.approx(odds / (1 + odds))
    assert found["value"] == pytest.approx(math.e * odds / (1 + math.e * odds))
    assert found["paper"] == pytest.approx(0.1 * math.e)
    assert posterior_bounds(0.9, 5.0)["paper"] == 1
    assert posterior_bounds(0.0, 1.0) == {"paper": 0, "presence": 0, "value": 0}
    # The paper's bound is no bound for a value: this attacker has seen one record move between two cells.
    assert found["value"] > found["paper"]


@pytest.mark.parametrize(
    "wrong", [(0.0, 10, 1, 0.1), (1.0, 10, 11, 0.1), (1.0, 10, 0, 0.1), (1.0, 10, 1, 0.0), (1.0, 10, 1, 1.0)]
)
def test_impossible_numbers_are_refused(wrong: tuple[float, int, int, float]) -> None:
    with pytest.raises(MechanismError):
        usefulness(*wrong)
    with pytest.raises(MechanismError):
        posterior_bounds(0.1, 1.0, releases=0)
