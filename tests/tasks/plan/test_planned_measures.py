"""Plans of tables with measures: closed forms, exact variances, releases, and shares in a spec file."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from tabularium.mechanisms.inference import Estimate
from tabularium.mechanisms.noise.synthetic import generator
from tabularium.tasks.margins.measure_margins import measure_half, measure_values
from tabularium.tasks.plan.finished_plan import check_written, planned_text
from tabularium.tasks.plan.planned_model import ArrayMargin, PlannedModel, array_shares
from tabularium.tasks.plan.planning import _Planner, plan
from tabularium.tasks.plan.targets import aims_of
from tabularium.validations.release_spec.load import Loaded, load_spec
from tabularium.validations.release_spec.measures.kinds import AnyMeasure
from tests.sizes import runs
from tests.tasks.plan.planned_specs import (
    PURE,
    ZCDP,
    errors_of_releases,
    exact_variances,
    published,
    rows_of,
    true_counts,
)

AREAS = ["code,label,parent", "N,Nation,", *(f"{p},{p},N" for p in "ABC")]
AREAS += [f"{p}{number},{p}{number},{p}" for p in "ABC" for number in range(3)]

SPEC = """\
product: pay
dataset: people
period: "1"
source: {{path: nowhere.csv}}
privacy: {{unit: record, {privacy}}}
columns:
  area: {{hierarchy: areas.csv, levels: [nation, province, place]}}
  sex: {{categories: ["1", "2"]}}
  work: {{categories: [a, b, c]}}
tables:
  - name: pay
    dimensions: [area, sex]
    measures:
      income: {{sum: income, from: 0, to: 150000, step: 1000}}
      mean: {{mean: income, from: 0, to: 150000, step: 1000}}   # of the same column
      typical: {{median: income, from: 0, to: 150000, step: 30000}}
  - name: jobs
    dimensions: [sex, work]
    measures:
      income:
        sum: income
        from: 0
        to: 150000
        step: 1000
targets:
{targets}
postprocessing: {{nonnegativity: false, rounding: false}}
"""
TARGETS = """\
  - {table: pay, level: place, margin: 60}
  - {table: pay, measure: income, level: province, margin: 4000000}
  - {table: pay, measure: mean, level: place, margin: 2500, at: 300, value: 30000}
  - {table: jobs, margin: 30}
  - {table: jobs, measure: income, relative: "5%", at: 40000000}"""
COUNTS = "  - {table: pay, level: place, margin: 60}\n  - {table: jobs, margin: 30}"


def loaded(folder: Path, privacy: str = PURE, targets: str = TARGETS) -> Loaded:
    """Return the spec with these targets."""
    (folder / "areas.csv").write_text("\n".join(AREAS) + "\n")
    path = folder / "spec.yaml"
    path.write_text(SPEC.format(privacy=privacy, targets=targets))
    return load_spec(path)


MEAN = TypeAdapter(AnyMeasure).validate_python({"mean": "x", "from": 100, "to": 1100, "step": 10})


@given(
    st.floats(1, 999),
    st.floats(5, 5000),
    st.one_of(st.none(), st.floats(100, 1100)),
)
def test_margin_and_variance_of_a_mean_are_inverse(half: float, at: float, value: float | None) -> None:
    reading = ArrayMargin(MEAN, whole=True, level=0.9)
    made = reading.half(reading.variance(half, at, value), at, value)
    reach = max(value - 100, 1100 - value) if value is not None else 1000
    assert made == pytest.approx(min(half, reach), rel=1e-6) or half >= min(reach, 1200 - reach)
    assert reading.half(reading.variance(half, at), at) <= half * (1 + 1e-9)
    if value is not None:  # a mean that is not known is taken for the worst
        assert reading.variance(half, at) <= reading.variance(half, at, value) * (1 + 1e-9)


def test_the_margin_of_a_mean_is_the_test_of_its_two_numbers() -> None:
    """By hand: 100 records of mean 300 on a grid of 100 steps, q·√V = 164 steps."""
    reading = ArrayMargin(MEAN, whole=True, level=0.9)
    made = reading.half((164 / 1.6448536) ** 2, at=100, value=300)
    # p = .2; h·10 000 = 164·√((.8 + h)² + (.2 - h)²), on the side of the bound that is nearer
    h = made / 1000
    assert h * 10_000 == pytest.approx(164 * math.hypot(0.8 + h, 0.2 - h), rel=1e-4)


@pytest.mark.parametrize("told", ["mean: income, from: 0, to: 200, step: 2", 'rate: "work = a"'])
@pytest.mark.parametrize("part", [0.0, 0.13, 0.5, 1.0])
def test_margins_of_means_and_rates_are_those_that_a_release_states(
    tmp_path: Path, told: str, part: float
) -> None:
    """Of numbers without noise, where the test of their ratio knows the variances."""
    made = loaded(tmp_path)
    text = made.path.read_text().replace("sum: income\n        from", "PAIR\n        from")
    text = re.sub(r"PAIR(\n.*){3}", "{told}", text).replace("income:\n        {told}", f"income: {{{told}}}")
    made.path.write_text(text.replace('relative: "5%", at: 40000000', "margin: 5, at: 300"))
    model = PlannedModel.of(load_spec(made.path))
    layout, reading = model.agreement.layouts["jobs-income"], model.reading("jobs-income")
    measure = layout.table.measured
    assert measure is not None
    pair = 300 * measure.width * np.array([part, 1 - part])
    numbers = np.tile(pair, layout.cells // 2)[None]
    for variance in (1.0, 400.0, 1000.0 * measure.width**2):
        stated = measure_half(layout, numbers, Estimate(numbers, np.array([[variance]])), 0.9)[0][..., 0]
        reach = max(measure.spans)
        value = measure.bottom + part * float(reach)
        np.testing.assert_allclose(stated, reading.half(variance, 300, value))


@pytest.mark.parametrize("privacy", [PURE, ZCDP])
def test_one_sum_alone_is_the_closed_form(tmp_path: Path, privacy: str) -> None:
    """The count, of which nothing is wanted, goes with it: as much of the budget, as the spec has it."""
    made = loaded(tmp_path, privacy, "  - {table: jobs, measure: income, margin: 3000000}")
    jobs = made.spec.tables[1]
    alone = replace(made, spec=made.spec.model_copy(update={"tables": (jobs,)}))
    alone.spec.tables[0].__dict__["share"] = Fraction(1)
    found = plan(alone)
    variance = (3000 / 1.6448536) ** 2
    exact = 2 * 150 * math.asinh(1 / math.sqrt(2 * variance)) if privacy == PURE else 150**2 / 2 / variance
    assert 2 * exact <= found.budget <= 1.006 * 2 * exact
    assert found.kept == ("jobs",)
    assert found.loaded.spec.tables[0].measures["income"].share == Fraction(1, 2)


@pytest.mark.parametrize("privacy", [PURE, ZCDP])
def test_variances_are_those_of_consistency(tmp_path: Path, privacy: str) -> None:
    """Sums of one column agree between tables, pairs of a mean along the hierarchy, counts with counts."""
    found = plan(loaded(tmp_path, privacy))
    exact = exact_variances(found.loaded)
    model = PlannedModel.of(found.loaded)
    losses = found.loaded.spec.losses
    made = model.variances(np.array([float(losses.get(each, 0)) for each in model.linear.measurements]))
    for name, variances in exact.items():
        np.testing.assert_allclose(np.broadcast_to(made[name], variances.shape), variances, rtol=1e-6)


@pytest.mark.parametrize("privacy", [PURE, ZCDP])
def test_no_other_shares_are_cheaper(tmp_path: Path, privacy: str) -> None:
    """Of many plans not far away, with other shares of tables, counts, measures and levels."""
    model = PlannedModel.of(loaded(tmp_path, privacy))
    planner = _Planner(model, aims_of(model, None), None)
    planner.fit()
    problem, draw = planner._problem(1.0), generator(3)
    best = problem.scale_to_feasible(planner._near).sum()  # type: ignore[arg-type]
    assert problem.feasibility(planner.losses) >= 1
    assert planner.losses.sum() <= best * 1.006
    for _ in range(runs(60, 200)):
        moved = draw.normal(0, draw.choice([0.01, 0.1, 1.0]), model.ties.factors.shape[1])
        other = planner._near * np.exp(model.ties.factors @ moved)
        assert problem.scale_to_feasible(other).sum() >= best * (1 - 1e-4)


@pytest.mark.parametrize("privacy", [PURE, ZCDP])
def test_margins_of_measures_are_those_of_releases(tmp_path: Path, privacy: str) -> None:
    made = plan(loaded(tmp_path, privacy))
    counts = true_counts(made.loaded, 6_000)
    layouts = PlannedModel.of(made.loaded).agreement.layouts
    errors = list(errors_of_releases(made.loaded, counts, runs(60, 200)))
    for each in made.margins:
        layout = layouts[each.table]
        rows = rows_of(made.loaded, each.table.partition("-")[0], each.level)
        true = counts[each.table]
        if layout.table.measured is None or layout.table.measured.linear:
            step = 1 if layout.table.measured is None else 1000
            apart = [step * np.abs(error[each.table][rows]) for error in errors]
        else:
            # Of n records the margin is about 300/n of that of 300.
            records = true.reshape(len(true), -1, 2).sum(axis=2)[rows] / 150
            before = measure_values(layout, layout.table.measured, true)[rows]
            after = [
                measure_values(layout, layout.table.measured, true + error[each.table])[rows]
                for error in errors
            ]
            apart = [np.abs(own - before) * records / 300 for own in after]
        within = np.quantile(apart, 0.9)
        assert each.margin == pytest.approx(within, rel=0.1 if runs(0, 1) else 0.15), each


def test_measures_without_targets_keep_their_shares(tmp_path: Path) -> None:
    made = loaded(tmp_path, targets=COUNTS)
    found = plan(made)
    assert found.kept == ("pay: income", "pay: mean", "pay: typical", "jobs: income")
    for before, after in zip(made.spec.tables, found.loaded.spec.tables, strict=True):
        assert array_shares(before) == array_shares(after)
    assert not found.missed
    # The counts have a quarter of pay and half of jobs: they are as precise as without measures.
    blind = made.spec.model_copy(
        update={"tables": tuple(t.model_copy(update={"measures": {}}) for t in made.spec.tables)}
    )
    counts = plan(replace(made, spec=blind))
    ratio = float(found.budget / counts.budget)
    assert 2 < ratio < 4
    text = planned_text(found)
    assert "income: {sum: income, from: 0, to: 150000, step: 1000}" in text


def test_shares_of_measures_are_written(tmp_path: Path) -> None:
    made = loaded(tmp_path)
    found = plan(made)
    assert found.kept == ("pay: typical",)
    text = planned_text(found)
    made.path.write_text(text)
    check_written(made.path, found)
    assert "# of the same column" in text
    assert text.count("share") == 2 + 4
    again = load_spec(made.path)
    pay, planned = again.spec.tables[0], found.loaded.spec.tables[0]
    assert array_shares(pay) == array_shares(planned)
    margins = {each.where: each.margin for each in plan(again, budget=found.budget).margins}
    assert margins == pytest.approx({each.where: each.margin for each in found.margins}, rel=0.02)


def test_counts_are_simulated_beside_measures(tmp_path: Path) -> None:
    made = loaded(tmp_path)
    options = made.spec.postprocessing.model_copy(update={"nonnegativity": True, "rounding": True})
    made = replace(made, spec=made.spec.model_copy(update={"postprocessing": options}))
    found = plan(made, like=published(tmp_path / "like", made, true_counts(made, 3_000)))
    assert found.simulated
    assert not found.missed
    sums = next(each for each in found.margins if each.where == "pay: income, province")
    assert sums.margin % 1000 == 0


@pytest.mark.parametrize(
    "kind", ["{{distinct: hospital}}", "{{median: pay, from: 0, to: 9, method: choice}}"]
)
def test_a_level_of_numbers_that_do_not_add_up_is_not_left_out(kind: str, tmp_path: Path) -> None:
    """Where only places are wanted all goes there, but what distinct counts or choices would lose stays."""
    measures = f"    measures: {{{{hospitals: {kind}}}}}\n"
    tables = "tables:\n  - name: pay\n    dimensions: [area, sex]\n    levels: {{nation: 1/2, place: 1/2}}\n"
    wanted = "targets:\n  - {{table: pay, level: place, margin: 20}}\n"
    found = {}
    for name, text in (("without", tables + wanted), ("with", tables + measures + wanted)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "areas.csv").write_text("\n".join(AREAS) + "\n")
        written = SPEC.partition("tables:\n")[0] + text
        (folder / "spec.yaml").write_text(written.replace("1/2", '"1/2"').format(privacy=PURE))
        found[name] = plan(load_spec(folder / "spec.yaml")).loaded.spec.tables[0].levels
    assert "nation" not in found["without"]
    assert found["with"].keys() == {"nation", "place"}
