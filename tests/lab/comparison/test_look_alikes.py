"""Look-alikes have what is published of the originals; measures agree with sums by hand."""

from __future__ import annotations

import math
from math import prod

import numpy as np
import pytest

from tabularium.lab.comparison.data_sets import LIKENESSES, lookalike
from tabularium.lab.comparison.error_measures import divergence, mean_absolute, mean_relative, mean_squared
from tabularium.mechanisms.errors import MechanismError


@pytest.mark.parametrize("name", LIKENESSES)
def test_a_lookalike_has_the_published_characteristics(name: str) -> None:
    likeness, counts = LIKENESSES[name], lookalike(name)
    assert counts.shape == likeness.shape
    assert counts.sum() == likeness.total
    assert counts.max() == likeness.largest
    assert (counts == 0).sum() == likeness.empty
    assert counts[counts > 0].min() >= likeness.smallest
    assert counts.var() == pytest.approx(likeness.variance, rel=0.05)


def test_lookalikes_lie_as_their_originals_do() -> None:
    """Correlation of neighbours: high on a map and in a time series, none where there is no order."""
    beside = {
        name: np.corrcoef(flat[:-1], flat[1:])[0, 1]
        for name in LIKENESSES
        if (flat := lookalike(name).reshape(-1)).size == prod(LIKENESSES[name].shape)
    }
    assert beside["location"] > 0.6
    assert beside["search_log"] > 0.8
    assert abs(beside["rochdale"]) < 0.2
    trace = lookalike("nettrace")
    assert trace[: trace.size // 10].sum() > 0.95 * trace.sum()


def test_a_lookalike_is_the_same_every_time_and_another_for_another_seed() -> None:
    assert np.array_equal(lookalike("rochdale"), lookalike("rochdale"))
    other = lookalike("rochdale", seed=7)
    assert not np.array_equal(lookalike("rochdale"), other)
    assert np.array_equal(np.sort(lookalike("rochdale").ravel()), np.sort(other.ravel()))


def test_a_name_that_is_not_known() -> None:
    with pytest.raises(MechanismError, match="known are age, location"):
        lookalike("narnia")


def test_measures_by_hand() -> None:
    truth, release = np.array([0.0, 4.0, 4.0]), np.array([-2.0, 5.0, 4.0])
    assert mean_absolute(truth, release) == 1.0
    assert mean_squared(truth, release) == pytest.approx(5 / 3)
    assert mean_relative(truth, release) == pytest.approx((2 / 1 + 1 / 4 + 0) / 3)
    # The release is floored at 1: (1, 5, 4) / 10 against (0, 1/2, 1/2).
    assert divergence(truth, release) == pytest.approx(0.5 * math.log(0.5 / 0.5) + 0.5 * math.log(0.5 / 0.4))
