"""Margins of sums, means, medians and rates over many seeded releases of numbers that are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tabularium.mechanisms.inference import Estimate, Hierarchy
from tabularium.mechanisms.inference.margins_of_error.quantile_margins import tree_over
from tabularium.mechanisms.noise.synthetic import generator
from tabularium.tasks.margins.measure_margins import measure_numbers
from tabularium.tasks.postprocess.agreement import Agreement
from tabularium.tasks.postprocess.table_layout import denominator_of
from tabularium.tasks.runtime.run import without_data
from tabularium.validations.release_spec.load import Loaded, load_spec
from tabularium.validations.release_spec.measures.measure import Measure
from tabularium.validations.release_spec.tables import array_of
from tests.flows.release.test_measures import MEASURES
from tests.sizes import runs
from tests.tasks.in_memory import one_release

AREAS = "code,label,parent\nN,Nation,\n" + "".join(
    f"P{p},P{p},N\n" + "".join(f"P{p}{a},P{p}{a},P{p}\n" for a in range(8)) for p in range(4)
)
SPEC = """\
product: pay
dataset: people
period: "2026"
source: {path: people.csv}
privacy: {unit: record, budget: "4"}
columns:
  area: {hierarchy: areas.csv, levels: [nation, province, place]}
  sex: {categories: [f, m]}
tables:
  - name: area_age_sex
    dimensions: [area, sex]
    levels: {nation: "1/4", province: "1/4", place: "1/2"}
"""
RATES = """\
      tested: {percent: "sex = f", share: "1/16"}
      per_head: {rate: "sex = f", over: area_age_sex, share: "1/16"}
      by_group: {mean: income, from: 0, to: {by: sex, values: {f: 100, m: 1000}}, step: 10, share: "1/16"}
"""
RELEASES = runs(3, 200)


def contributions(measure: Measure, rng: np.random.Generator, records: int, sex: int) -> NDArray[np.int64]:
    """What so many records add to the numbers of one cell."""
    width = measure.widths[sex % len(measure.widths)]
    steps = rng.binomial(width, 0.3, records)
    weight = rng.integers(1, measure.heaviest + 1, records)
    if measure.linear or measure.denominator:
        return np.array([((steps + measure.low) * weight).sum()])
    if measure.margin_method and measure.parts == 2:
        return np.array([(steps * weight).sum(), ((width - steps) * weight).sum()])
    nodes = tree_over(measure.width + 1).nodes_of(steps)
    return sum(np.bincount(each, weight, measure.parts) for each in nodes).astype(np.int64)


def known(loaded: Loaded) -> dict[str, NDArray[np.int64]]:
    """The true numbers of every array, (nodes, numbers), summed up the tree; cells of 1 to 300 records."""
    rng = generator(11)
    found = {}
    for name, layout in Agreement.of(loaded).layouts.items():
        tree = Hierarchy(layout.parents)
        values = np.zeros((layout.nodes, layout.cells), np.int64)
        measure = layout.table.measured
        for place, leaf in enumerate(np.flatnonzero(tree.leaf)):
            sizes = [1 + (place * 37) % 300, 1 + (place * 11) % 40]
            own = [
                [n] if measure is None else contributions(measure, rng, n, sex) for sex, n in enumerate(sizes)
            ]
            values[leaf] = np.concatenate(own)
        for node in range(layout.nodes - 1, 0, -1):
            values[layout.parents[node]] += values[node]
        found[name] = values
    return found


def shown_of(loaded: Loaded, layouts: Any, estimates: dict[str, Estimate], half: Any) -> Any:
    (table,) = loaded.spec.tables
    arrays = {name: array_of(table.measures, table.name, name) for name in table.measures}
    over = {name: denominator_of(loaded, layouts[array], estimates) for name, array in arrays.items()}
    wholes = {name: each.values for name, each in over.items() if each is not None}
    values = {name: each.values for name, each in estimates.items()}
    return measure_numbers(layouts, table, values, half, whole=True, denominators=wholes)


@pytest.fixture(scope="module")
def coverage(tmp_path_factory: pytest.TempPathFactory) -> dict[str, NDArray[np.float64]]:
    """Measure -> the share of its cells that held, release by release."""
    folder = tmp_path_factory.mktemp("coverage")
    (folder / "areas.csv").write_text(AREAS)
    (folder / "spec.yaml").write_text(SPEC + MEASURES + RATES)
    loaded = load_spec(folder / "spec.yaml")
    values = known(loaded)
    held: dict[str, list[float]] = {}
    layouts = Agreement.of(loaded).layouts
    counted = {
        name: {
            level: values[name][nodes].reshape(layouts[name].shape(level)) for level, nodes in each.items()
        }
        for name, each in ((name, layout.cuts) for name, layout in layouts.items())
    }
    nothing = {
        name: np.zeros(each.shape)
        if (measured := layouts[name].table.measured) is None or measured.linear
        else np.zeros((len(each), 1, len(layouts[name].table.measures)))
        for name, each in values.items()
    }
    exactly = {name: Estimate(each.astype(float), np.zeros((1, 1))) for name, each in values.items()}
    truth = shown_of(loaded, layouts, exactly, nothing)
    run = without_data(loaded)
    for seed in range(RELEASES):
        published, margins = one_release(run, counted, seed)
        half_widths = {name: each.half for name, each in margins.items()}
        shown = shown_of(loaded, layouts, published, half_widths)
        for name, (numbers, half) in shown.items():
            exact = truth[name][0].reshape(numbers.shape)
            some = np.isfinite(numbers)
            inside = np.abs(numbers - exact)[some] <= half.reshape(numbers.shape)[some] + 1e-6
            held.setdefault(name, []).append(float(inside.mean()))
    return {name: np.array(each) for name, each in held.items()}


@pytest.mark.parametrize(
    "name",
    ["income", "balance", "mean_income", "typical", "upper", "fine", "tested", "per_head", "by_group"],
)
def test_margins_hold_as_often_as_stated(coverage: dict[str, NDArray[np.float64]], name: str) -> None:
    """At 90 %: 88 % less two standard errors, over all cells of every release."""
    found = coverage[name]
    error = found.std(ddof=1) / np.sqrt(len(found)) + 0.02 * (len(found) < 50)
    assert found.mean() >= 0.88 - 2 * error, f"{found.mean():.3f} ± {error:.3f}"
