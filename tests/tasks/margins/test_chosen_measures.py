"""Quantiles by a private choice through the steps of a release: in order, within their margins, or blank."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tabularium.mechanisms.noise.synthetic import generator
from tabularium.tasks.margins.measure_margins import measure_numbers
from tabularium.tasks.postprocess.agreement import Agreement
from tabularium.tasks.runtime.run import without_data
from tabularium.validations.release_spec.load import load_spec
from tests.sizes import runs
from tests.tasks.in_memory import one_release
from tests.tasks.margins.test_measure_coverage import AREAS

SPEC = """\
product: pay
dataset: people
period: "2026"
source: {path: people.csv}
privacy: {unit: record, budget: "2"}
columns:
  area: {hierarchy: areas.csv, levels: [nation, province, place]}
  sex: {categories: [f, m]}
tables:
  - name: pay
    dimensions: [area, sex]
    levels: {province: "1/2", place: "1/2"}
    measures:
      high: {quantile: income, at: "75%", from: 0, to: 1000, step: 10, method: choice}
      middle: {median: income, from: 0, to: 1000, step: 10, method: choice}
      low: {quantile: income, at: "25%", from: 0, to: 1000, step: 10, method: choice}
"""
RANKS = {"low": Fraction(1, 4), "middle": Fraction(1, 2), "high": Fraction(3, 4)}
RELEASES = runs(3, 100)
Numbers = dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Numbers, dict[str, Any]]]:
    """What is published in each release, and the true quantiles of its cells, in nodes and cells."""
    folder: Path = tmp_path_factory.mktemp("chosen")
    (folder / "areas.csv").write_text(AREAS)
    (folder / "spec.yaml").write_text(SPEC)
    loaded = load_spec(folder / "spec.yaml")
    layouts, (table,) = Agreement.of(loaded).layouts, loaded.spec.tables
    rng = generator(8)
    places = np.array([rng.multinomial(1 + 9 * i, np.full(101, 1 / 101)) for i in range(64)]).reshape(
        32, 2, 101
    )
    bins = {"place": places, "province": places.reshape(4, 8, 2, 101).sum(axis=1)}
    counts = {level: each.sum(axis=-1) for level, each in bins.items()}
    counted = {"pay": counts} | {f"pay-{name}": bins for name in RANKS}
    upto = {level: np.cumsum(each, axis=-1) for level, each in bins.items()}
    true = {}
    for name, rank in RANKS.items():
        true[name] = np.full((37, 2), np.nan)
        for level, nodes in layouts[f"pay-{name}"].cuts.items():
            less = upto[level] * rank.denominator < rank.numerator * counts[level][..., None]
            true[name][nodes] = 10.0 * less.sum(axis=-1)
    found = []
    run = without_data(loaded)
    for seed in range(RELEASES):
        published, margins = one_release(run, counted, seed)
        values = {name: each.values for name, each in published.items()}
        half = {name: each.half for name, each in margins.items()}
        found.append((measure_numbers(layouts, table, values, half, whole=True), true))
    return found


def test_they_are_in_order_and_blank_where_nothing_was_measured(
    releases: list[tuple[Numbers, dict[str, Any]]],
) -> None:
    for shown, _ in releases:
        low, middle, high = (shown[name][0] for name in RANKS)
        assert np.isnan(middle[0]).all()  # the nation: nothing is added up
        assert np.isnan(shown["middle"][1][0]).all()
        assert (low[1:] <= middle[1:]).all()
        assert (middle[1:] <= high[1:]).all()


def test_margins_hold_as_often_as_stated(releases: list[tuple[Numbers, dict[str, Any]]]) -> None:
    for name in RANKS:
        inside = [
            np.abs(shown[name][0] - true[name])[1:] <= shown[name][1][1:] + 1e-6 for shown, true in releases
        ]
        assert np.mean(inside) >= 0.88
        narrow = [shown[name][1][1:5] < 400 for shown, _ in releases]  # provinces hold thousands
        assert np.mean(narrow) > 0.5, name
