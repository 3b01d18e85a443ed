"""Forecasts: closed forms by hand, the margins that releases then state, and what is never asked."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tabularium as tb
from tabularium.mechanisms.errors import InputError
from tabularium.tasks.forecast.describe_check import warnings_of
from tabularium.tasks.forecast.forecast import Expected, forecast
from tabularium.tasks.runtime.home import Home
from tabularium.validations.release_spec.load import load_spec

SPEC = """\
product: pay
dataset: people
period: "1"
{size}
source: {{path: people.parquet}}
privacy: {{unit: record, {privacy}}}
columns:
  area: {{hierarchy: areas.csv, levels: [nation, province, place]}}
  sex: {{categories: ["1", "2"]}}
  work: {{categories: [yes_, no_]}}
tables:
  - name: pay
    dimensions: [area, sex]
    levels: {{province: "1/3", place: "2/3"}}
    measures:
      income: {{sum: income, from: 0, to: 1000, step: 10}}
      mean: {{mean: income, from: 0, to: 1000, step: 10}}
      typical: {{median: income, from: 0, to: 1000, step: 10}}
      chosen: {{median: income, from: 0, to: 1000, step: 10, method: choice}}
      working: {{percent: "work = yes_"}}
      of_people: {{percent: "work = yes_", over: people}}
  - {{name: people, dimensions: [area]}}
{more}
"""
AREAS = "code,label,parent\nN,Nation,\n" + "".join(
    f"{p},{p},N\n" + "".join(f"{p}{number},{p}{number},{p}\n" for number in range(3)) for p in "AB"
)
PURE = 'budget: "2"'
ZCDP = 'definition: zcdp, delta: "1/1000000", budget: "1/4"'
ALONE = """\
product: pay
dataset: people
period: "1"
size: 4000
source: {path: people.parquet}
privacy: {unit: record, budget: "1"}
columns:
  sex: {categories: ["1", "2"]}
tables:
  - name: pay
    dimensions: [sex]
    measures: {income: MEASURE}
"""


def spec(folder: Path, privacy: str = PURE, *, size: str = "size: 12000", more: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "areas.csv").write_text(AREAS)
    path = folder / "pay.yaml"
    path.write_text(SPEC.format(privacy=privacy, size=size, more=more))
    return path


def alone(folder: Path, measure: str, text: str = ALONE) -> Expected:
    """Return what is expected of the one measure of a table of two cells."""
    path = folder / "alone.yaml"
    path.write_text(text.replace("MEASURE", measure))
    return forecast(load_spec(path))[1]


def people(each: int) -> pd.DataFrame:
    """So many people in every place and sex, whose incomes lie evenly between the bounds."""
    places = [f"{p}{number}" for p in "AB" for number in range(3)]
    return pd.DataFrame(
        [
            (place, sex, "yes_" if n % 2 else "no_", round(1000 * n / (each - 1)))
            for place in places
            for sex in "12"
            for n in range(each)
        ],
        columns=["area", "sex", "work", "income"],
    )


def margin_of(found: Expected) -> float:
    assert found.in_cells is not None
    return found.in_cells[0].margin


def test_margins_by_hand(tmp_path: Path) -> None:
    """Of 2 000 records in a cell, half of ε = 1 for counts and half for the measure."""
    # One Laplace error of scale 1000/(1/2) on a grid of 1: P(|Z| > m) = 10 % at m = scale·ln 10.
    total = alone(tmp_path, "{sum: income, from: 0, to: 1000}")
    assert total.of_noise == pytest.approx(2000 * math.log(10), abs=2)
    # A mean at a bound: h·n·T = q·√V·√((1 - h)² + h²), with √V = √2·2000, T = 1000, n = 2000
    mean = margin_of(alone(tmp_path, "{mean: income, from: 0, to: 1000}"))
    h = mean / 1000
    assert h * 2000 * 1000 == pytest.approx(1.6448536 * math.sqrt(2) * 2000 * math.hypot(1 - h, h), rel=0.005)
    # A rate over public figures: q·√V/n, V that of one error of scale 2, in percent.
    rate = "{percent: 'sex = 1', over: all}"
    figures = ALONE + "figures: [{name: all, count: 500, reason: register}]\n"
    size = margin_of(alone(tmp_path, rate, figures))
    p = math.exp(-1 / 2)
    assert size == pytest.approx(100 * 1.6448536 * math.sqrt(2 * p) / (1 - p) / 500, abs=0.01)


def test_a_small_cell_has_a_tenth_and_is_told_from_noise_or_not_shown(tmp_path: Path) -> None:
    mean = alone(tmp_path, "{mean: income, from: 0, to: 1000}")
    assert mean.in_cells is not None
    typical, small = mean.in_cells
    assert (typical.records, small.records) == (2000, 200)
    assert small.margin == pytest.approx(10 * typical.margin, rel=0.05)
    few = alone(tmp_path, "{mean: income, from: 0, to: 1000}", ALONE.replace("4000", "80"))
    assert few.in_cells is not None
    assert [(cell.records, cell.shown) for cell in few.in_cells] == [(40, True), (4, False)]


@pytest.mark.parametrize("privacy", [PURE, ZCDP])
def test_a_release_states_what_was_expected(tmp_path: Path, privacy: str) -> None:
    """Of equal cells, with values that lie evenly between the bounds and half of the people at work."""
    each = 1000
    path = spec(tmp_path, privacy)
    home = Home.at(tmp_path / "home")
    terms = {"unit": "record", "relation": "add-remove", "cap": Fraction(10)}
    terms |= (
        {"definition": "zcdp", "delta": Fraction(1, 10**6)} if privacy == ZCDP else {"definition": "pure"}
    )
    from tabularium.ledger import Ledger

    with Ledger.connect(home.ledger_url) as ledger:
        ledger.open_account("people", **terms)
    release = tb.publish(path, source=people(each), home=home.path, notes=lambda _: None)
    found = {(e.table, e.level, e.name): e for e in forecast(load_spec(path))}
    for level, cells in (("province", 4), ("place", 12)):
        frame = release["pay"].to_pandas(level=level)
        assert len(frame) == cells
        for name in ("income", "mean", "typical", "chosen", "working", "of_people", "count"):
            expected = found["pay", level, name]
            stated = float(frame["margin" if name == "count" else f"{name}_margin"].median())
            assert expected.in_cells is not None
            if name != "of_people":
                assert expected.in_cells[0].records == 12 * each / cells
            size = expected.in_cells[0].margin
            if name in ("mean", "working"):  # those in the middle have 1/√2 of the worst
                assert stated == pytest.approx(size / math.sqrt(2), rel=0.1), (level, name)
            elif (
                name == "of_people"
            ):  # a half; one that is all of them has √(V + V') over √(V + V'/4) times more
                assert 0.45 * size < stated < 1.05 * size, (level, name)
            elif name in ("typical", "chosen"):  # on a grid of ten, and as noise would have it
                assert stated == pytest.approx(size, rel=0.5, abs=10), (level, name)
            else:  # few cells, whose margins a release simulates
                assert stated == pytest.approx(size, rel=0.2), (level, name)


def test_a_release_gives_sizes_and_the_source_is_never_opened(tmp_path: Path) -> None:
    path = spec(tmp_path, size="")
    home = Home.at(tmp_path / "home")
    from tabularium.ledger import Ledger

    with Ledger.connect(home.ledger_url) as ledger:
        ledger.open_account(
            "people", unit="record", relation="add-remove", cap=Fraction(10), definition="pure"
        )
    release = tb.publish(path, source=people(500), home=home.path, notes=lambda _: None)
    (tmp_path / "people.parquet").mkdir()  # who opened it would fail
    assert "needs size:" in repr(tb.check(path))
    checked = tb.check(path, like=release)
    assert "needs size:" not in repr(checked)
    assert "median of the release's cells that hold something" in repr(checked)
    rows = checked.as_dict()["summary"]["expected_margins"]
    (mean,) = (each for each in rows if (each["number"], each["level"]) == ("mean", "place"))
    assert mean["typical_cell"]["records"] == pytest.approx(500, rel=0.05)
    other = spec(tmp_path / "other", size="", more="").read_text().replace('["1", "2"]', '["1", "2", "3"]')
    (tmp_path / "other" / "pay.yaml").write_text(other.replace("dimensions: [area]}", "dimensions: [sex]}"))
    with pytest.raises(InputError, match="no table with the columns"):
        tb.check(tmp_path / "other" / "pay.yaml", like=release)


def test_a_size_is_that_of_all_records_alone(tmp_path: Path) -> None:
    """A table of some records has its own; public totals are one as well."""
    more = '  - {name: workers, dimensions: [sex], where: "work = yes_", SIZE}'
    found = forecast(load_spec(spec(tmp_path, more=more.replace(", SIZE", ""))))
    assert found[-1].in_cells is None
    found = forecast(load_spec(spec(tmp_path, more=more.replace("SIZE", "size: 300"))))
    assert found[-1].typical == 150
    known = "invariants: [{name: all, count: 6000, reason: register}]"
    found = forecast(load_spec(spec(tmp_path, size="", more=known)))
    assert found[0].typical == 6000 / 2  # of the nation, by sex


def test_an_error_that_depends_on_the_data_is_not_forecast(tmp_path: Path) -> None:
    path = spec(tmp_path)
    text = path.read_text().replace("{name: people,", "{name: people, mechanism: denoise,")
    path.write_text(re.sub("      of_people.*\n", "", text))
    found = {(each.table, each.level, each.name): each for each in forecast(load_spec(path))}
    assert found["people", "place", "count"].number is None
    assert found["people", "place", "count"].as_json()["depends_on_data"]
    assert np.isfinite(margin_of(found["pay", "place", "count"]))  # by its own noise
    assert "depends on data" in repr(tb.check(path))


@pytest.mark.parametrize(
    ("measure", "size", "said"),
    [
        ("{mean: income, from: 0, to: 1000}", 4000, None),
        ("{mean: income, from: 0, to: 1000}", 16, "in a typical cell of 8, and its bounds are 1,000 apart"),
        ("{sum: income, from: 0, to: 1000}", 400, None),
        ("{sum: income, from: 0, to: 1000}", 40, "±4,605 in a typical cell of 20; what helps: about 2 times"),
        ("{percent: 'sex = 1'}", 4000, None),
        ("{percent: 'sex = 1'}", 30, "±30.7 percent in a typical cell of 15; what helps: about 1.3 times"),
        ("{median: income, from: 0, to: 1000, step: 100}", 12, "fewer cells or narrower bounds"),
        ("{median: income, from: 0, to: 1000, step: 100, method: choice}", 12, "fewer cells or narrower"),
        ("{mean: income, from: 0, to: 1000}", 4, "not even shown in a typical cell of 2"),
    ],
)
def test_what_noise_drowns_is_named_with_what_helps(
    tmp_path: Path, measure: str, size: int, said: str | None
) -> None:
    own = alone(tmp_path, measure, ALONE.replace("4000", str(size)))
    found = list(warnings_of([own], "pure"))
    assert len(found) == (said is not None)
    assert all(line.startswith("table pay, income: ") and (said or "") in line for line in found)


def test_more_budget_helps_as_much_as_is_said(tmp_path: Path) -> None:
    """Twice the budget halves noise under ε; under ρ it takes four times."""
    measure, small = "{sum: income, from: 0, to: 1000}", ALONE.replace("4000", "40")
    assert list(warnings_of([alone(tmp_path, measure, small)], "pure"))
    twice = small.replace('budget: "1"', 'budget: "2"')
    assert not list(warnings_of([alone(tmp_path, measure, twice)], "pure"))


def test_bounds_by_group_have_margins_of_their_own(tmp_path: Path) -> None:
    bounds = '{sum: income, from: 0, to: {by: sex, values: {"1": 1000, "2": 100}}}'
    path = tmp_path / "alone.yaml"
    path.write_text(ALONE.replace("MEASURE", bounds))
    first, second = forecast(load_spec(path))[1:]
    assert (first.group, second.group) == ("1", "2")
    assert first.of_noise == pytest.approx(10 * (second.of_noise or 0), rel=0.02)
