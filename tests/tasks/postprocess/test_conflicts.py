"""Invariants against measurements: what is told as a conflict, and how rarely by chance."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tabularium.mechanisms.inference import Estimate
from tabularium.tasks.postprocess.agreement import Agreement
from tabularium.tasks.postprocess.estimation import FALSE_ALARM, conflicts, deviations
from tabularium.tasks.postprocess.table_layout import measured_tree
from tabularium.validations.release_spec.load import load_spec
from tests.validations.release_spec.spec_samples import block, write_spec


@pytest.mark.parametrize("chance", [0.5, 1e-2, 1e-6, 1e-12])
def test_the_limit_solves_its_equation(chance: float) -> None:
    u = deviations(chance) * math.sqrt(2)
    assert (u + 1) * math.exp(1 - u) == pytest.approx(chance, rel=1e-4)


def tail(weights: np.ndarray[Any, Any], scale: float, limit: float) -> float:
    """Chernoff's bound of P(Σ w Z >= limit) for discrete Laplace Z, minimised over a fine grid, exactly."""
    p = math.exp(-1 / scale)
    best = 1.0
    for s in np.linspace(0.001, 0.999, 400) / (scale * np.abs(weights).max()):
        x = s * weights
        q = 1 - 2 * p * (np.cosh(x) - 1) / (1 - p) ** 2
        if (q > 0).all():
            best = min(best, math.exp(-s * limit - float(np.log(q).sum())))
    return best


@pytest.mark.parametrize("scale", [0.3, 1.0, 5.0, 50.0])
@pytest.mark.parametrize("weights", [[1.0], [1.0, 1.0, 0.5], [0.01] * 50, [1.0] * 100])
@pytest.mark.parametrize("number", [1, 20, 10**6])
def test_the_limit_keeps_the_false_alarm_rate(scale: float, weights: list[float], number: int) -> None:
    p, w = math.exp(-1 / scale), np.array(weights)
    variance = 2 * p / (1 - p) ** 2 * float((w**2).sum())
    limit = deviations(FALSE_ALARM / number) * math.sqrt(2 * (math.cosh(1) - 1) * max(variance, 2.0))
    assert 2 * tail(w, scale, limit) <= FALSE_ALARM / number


TABLE = """\
tables:
  - {name: people, dimensions: [area, age, sex], levels: {place: "1"}}
"""
CELLS = 3 * 100 * 2
VARIANCE = 8.0


def scene(folder: Path, invariants: str) -> tuple[Agreement, Estimate]:
    """600 cells of 10 records, measured at the places alone and hit exactly."""
    text = block("tables", TABLE).replace("edges: [5, 18, 65]", "width: 1")
    made = Agreement.of(load_spec(write_spec(folder, text + f"invariants:\n{invariants}")))
    layout = made.layouts["people"]
    return made, measured_tree(layout, {"place": (np.full(layout.shape("place"), 10), VARIANCE)})


@pytest.mark.parametrize("sign", [-1, 1])
def test_many_small_differences_are_a_large_one(tmp_path: Path, sign: int) -> None:
    """Each cell is half a standard deviation off, and the total fifteen: it is the total that is compared."""
    far = deviations(FALSE_ALARM) * math.sqrt(2 * (math.cosh(1) - 1) * VARIANCE * CELLS)
    for apart, beyond in ((math.floor(far), 0), (math.ceil(far), 1)):
        total = 10 * CELLS + sign * apart
        made, measured = scene(tmp_path / str(apart), f"  - {{name: all, count: {total}, reason: r}}\n")
        assert apart / CELLS < math.sqrt(VARIANCE)
        found = conflicts(made, {"people": measured})["all"]
        assert (found.compared, found.beyond_chance) == (1, beyond)


def test_each_number_of_each_table_is_compared_and_what_conflicts_is_counted(tmp_path: Path) -> None:
    (tmp_path / "sexes.csv").write_text("sex,count\n1,3000\n2,99999\n")
    (tmp_path / "regions.csv").write_text("area,sex,count\nN,1,2000\nN,2,2000\nS,1,1000\nS,2,97999\n")
    made, measured = scene(
        tmp_path,
        "  - {name: sexes, dimensions: [sex], values: sexes.csv, reason: r}\n"
        "  - {name: regions, dimensions: [area, sex], level: region, values: regions.csv, reason: r}\n",
    )
    found = conflicts(made, {"people": measured})
    assert found["sexes"].as_json() == {"compared": 2, "beyond_chance": 1}
    assert found["regions"].as_json() == {"compared": 4, "beyond_chance": 1}
    assert conflicts(made, {})["sexes"].compared == 0, "no table whose noise has a known variance"
