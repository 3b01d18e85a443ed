"""What a release promises in words: only what holds, and the numbers in it are bounds."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import pytest

from tasks.publish.guarantee import best_test, promise, rho_epsilon
from validations.spec.exact_facts import Neighbours
from validations.spec.model import Privacy


def privacy(**given: Any) -> Privacy:
    return Privacy.model_validate({"unit": "record", "budget": "1", **given})


def plain(given: Privacy) -> list[str]:
    """What is promised where no total is fixed."""
    return promise(given, Neighbours(given.relation, 1, given.loss))


@pytest.mark.parametrize(
    "rho", [Fraction(1, 1000), Fraction(1, 8), Fraction(1, 2), Fraction(2), Fraction(50)]
)
@pytest.mark.parametrize("alarm", [0.01, 0.05, 0.3])
def test_no_gaussian_test_beats_the_bound(rho: Fraction, alarm: float) -> None:
    """The best test on Gaussian noise of ρ has power Φ(Φ⁻¹(a) + √2ρ); randomised response has less."""
    normal = NormalDist()
    power = normal.cdf(normal.inv_cdf(alarm) + math.sqrt(2 * rho))
    bound = best_test(rho, alarm)
    assert power <= bound <= 1
    if rho <= Fraction(1, 8):
        assert bound < 2.2 * power, "a bound that says nothing would pass too"


def test_rho_epsilon_is_above_the_exact_one_for_gaussian_noise() -> None:
    # Φ(-ε/μ + μ/2) - e^ε Φ(-ε/μ - μ/2) <= δ for μ = √2ρ = 1/2
    epsilon, mu = rho_epsilon(Fraction(1, 8), Fraction(1, 10**6)), 0.5
    cdf = NormalDist().cdf
    assert cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * cdf(-epsilon / mu - mu / 2) <= 1e-6


def test_pure_add_remove_speaks_of_presence_and_of_values() -> None:
    said = " ".join(plain(privacy()))
    assert "was in the data with probability 10 %" in said
    assert "23.2 %" in said  # 0.1 e / (0.9 + 0.1 e) = 0.23196
    assert "45.1 %" in said  # 0.1 e² / (0.9 + 0.1 e²) = 0.45085


def test_pure_replace_promises_nothing_about_presence() -> None:
    said = " ".join(plain(privacy(relation="replace")))
    assert "23.2 %" in said, "one exchange of values is one step under replace"
    assert "45" not in said
    assert "nothing is promised about whether somebody is in them" in said


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_zcdp_speaks_of_tests_and_not_of_odds(relation: str) -> None:
    given = privacy(definition="zcdp", budget="1/8", delta="1/1000000", relation=relation)
    said = " ".join(plain(given))
    bound = 100 * best_test(Fraction(1, 8), 0.05)
    (number,) = (float(n) for n in re.findall(r"at most ([\d.]+) %", said) if float(n) != 5)
    assert bound <= number <= bound * 1.01
    assert "no bound that holds without exception" in said
    assert ("with and without" in said) == (relation == "add-remove")
