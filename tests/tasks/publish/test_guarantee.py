"""What a release promises in words: only what holds, and the numbers in it are bounds."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from pathlib import Path
from statistics import NormalDist
from typing import Any, Literal

import pytest

from tabularium.tasks.publish.certificate.spending import conversion
from tabularium.tasks.publish.guarantee import at_most, best_test, privacy_section, promise, rho_epsilon
from tabularium.validations.certificate import AtDelta
from tabularium.validations.certificate import Privacy as Promised
from tabularium.validations.release_spec.exact_facts import Neighbours
from tabularium.validations.release_spec.privacy import Privacy
from tests.validations.release_spec.spec_samples import SPEC, changed, load


def privacy(**given: Any) -> Privacy:
    return Privacy.model_validate({"unit": "record", "budget": "1", **given})


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        (4.123456, "4.124"),
        (4.123, "4.124"),
        (0.5, "0.5"),
        (1.0, "1"),
        (0.99991, "1"),
        (1e-7 / 3, "3.334e-08"),
        (12345.6, "1.235e+04"),
    ],
)
def test_a_bound_is_rounded_up(loss: float, said: str) -> None:
    assert at_most(loss) == said
    assert Fraction(said) >= Fraction(loss)


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


def test_where_a_total_is_fixed_epsilon_and_delta_are_those_of_the_neighbours_that_exist(
    tmp_path: Path,
) -> None:
    text = changed('budget: "1"', 'budget: "1", definition: zcdp, delta: "1/1000000"', SPEC)
    spec, delta = load(tmp_path, text).spec, Fraction(1, 10**6)
    near = Neighbours("replace", 1, spec.privacy.loss.for_unit(2), "total")

    def told(near: Neighbours) -> Promised:
        how = conversion(spec)
        return privacy_section(spec, near, [], [delta], population="everybody", conversion=how)

    assert told(near).neighbours.epsilon_delta == (
        AtDelta(epsilon=rho_epsilon(Fraction(4), delta), delta=Fraction(1, 10**6)),
    )
    assert told(near).neighbours.epsilon_delta[0].epsilon > told(near).epsilon_delta[0].epsilon
    free = Neighbours("add-remove", 1, spec.privacy.loss)
    assert told(free).neighbours.epsilon_delta is None


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


def fixed(given: Privacy, units: int | None, what: Literal["total", "marginals"] = "total") -> str:
    fold = (1 if given.relation == "replace" else 2) * (units or 1)
    return " ".join(promise(given, Neighbours("replace", units, given.loss.for_unit(fold), what)))


def test_the_inputs_that_are_compared_are_named_before_any_number() -> None:
    for said in (plain(privacy()), plain(privacy(relation="replace"))):
        assert "both satisfy the exact rules, limits and invariants" in said[0]


def test_a_fixed_total_is_read_for_replacement_at_twice_the_budget() -> None:
    said = fixed(privacy(), 1)
    assert "no record can be added or removed" in said
    assert "which costs ε = 2" in said
    assert "45.1 %" in said  # 0.1 e² / (0.9 + 0.1 e²)
    assert "23.2" not in said, "nobody can be absent, so nothing is said of presence"
    assert "nothing is promised about whether somebody is in them" in said
    assert "23.2 %" in fixed(privacy(relation="replace"), 1), "already a replacement"
    assert "another record must change with it" in fixed(privacy(), 1, "marginals")


def test_the_smallest_change_that_is_allowed_is_named_with_its_cost() -> None:
    said = fixed(privacy(), 2, "marginals")
    assert "replaces 2 at once, which costs ε = 4" in said
    assert "85.9 %" in said  # 0.1 e⁴ / (0.9 + 0.1 e⁴) = 0.85848
    assert "cannot be stated" in fixed(privacy(), None, "marginals")
    assert "%" not in fixed(privacy(), 0, "marginals"), "nothing is protected, so nothing is promised"
    zcdp = privacy(definition="zcdp", budget="1/8", delta="1/1000000")
    said = fixed(zcdp, 1)
    assert "costs ρ = 1/2" in said
    assert f"{100 * best_test(Fraction(1, 2), 0.05):.2g}"[:2] in said


@pytest.mark.parametrize("given", [{}, {"relation": "replace"}, {"definition": "zcdp", "delta": "1/9"}])
def test_what_the_promise_rests_on_is_said(given: dict[str, str]) -> None:
    said = " ".join(plain(privacy(**given)))
    assert "AES-256" in said
    assert "HMAC-SHA-256" in said
    assert "however much they compute" not in said
