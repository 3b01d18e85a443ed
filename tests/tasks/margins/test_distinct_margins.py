"""Distinct counts after their measurement: margins that hold, levels that stay apart, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tabularium.tasks.forecast.forecast import forecast
from tabularium.tasks.margins.margins import of_known
from tabularium.tasks.postprocess.agreement import Agreement
from tabularium.tasks.runtime.run import without_data
from tabularium.validations.release_spec.load import Loaded, examine
from tests.sizes import runs
from tests.tasks.in_memory import one_release

AREAS = "code,label,parent\nN,Nation,\nA,Alpha,N\nB,Beta,N\nC,Gamma,N\nA1,Alpha one,A\nA2,Alpha two,A\nB1,Beta one,B\n"
SPEC = """\
product: stays
dataset: people
period: "1"
source: {path: nowhere.csv}
privacy: {unit: record, PRIVACY}
columns:
  area: {hierarchy: areas.csv, levels: [nation, region, district]}
  sex: {categories: [f, m]}
invariants:
  - {name: everybody, count: 100, reason: register}
tables:
  - name: stays
    dimensions: [area, sex]
    levels: {nation: "1/2", district: "1/2"}
    measures: {patients: {distinct: patient}}
  - {name: sexes, dimensions: [sex], measures: {patients: {distinct: patient}}}
"""
PURE = 'budget: "1"'
ZCDP = 'definition: zcdp, delta: "1/1000000", budget: "1/4"'
NAME = "stays-patients"
NATION, DISTRICT = np.array([[60, 3]]), np.array([[0, 1], [40, 0], [50, 2], [30, 1]])  # C, A1, A2, B1


def loaded_of(folder: Path, text: str) -> Loaded:
    (folder / "areas.csv").write_text(AREAS)
    (folder / "spec.yaml").write_text(text)
    found = examine(folder / "spec.yaml")
    assert found.loaded is not None, found.problems
    return found.loaded


@pytest.mark.parametrize("privacy", [PURE, ZCDP])
def test_margins_hold_and_are_those_that_were_expected(tmp_path: Path, privacy: str) -> None:
    loaded = loaded_of(tmp_path, SPEC.replace("PRIVACY", privacy))
    layouts = Agreement.of(loaded).layouts
    truth = {
        name: {level: np.ones(each.shape(level), np.int64) for level in each.cuts}
        for name, each in layouts.items()
    }
    truth[NAME] = {"nation": NATION, "district": DISTRICT}
    held, number = [], runs(12, 1000)
    where = layouts[NAME].cuts["district"]
    for seed in range(number):
        with without_data(loaded) as run:
            estimates, margins = one_release(run, truth, seed)
            half = of_known(run, margins, estimates, {})[NAME].half
        values = estimates[NAME].values
        assert (values >= 0).all() and (values == np.round(values)).all()
        measured = np.isfinite(estimates[NAME].variances[:, 0])
        assert measured.tolist() == [True, False, False, True, True, True, True]  # not Alpha and Beta
        assert np.isinf(half[~measured]).all() and (half[measured] >= 1).all()
        held += (np.abs(values[where] - DISTRICT) <= half[where]).ravel().tolist()
        held += (np.abs(values[:1] - NATION) <= half[:1]).ravel().tolist()
    assert np.mean(held) >= 0.9 - 2 * np.sqrt(0.09 / len(held))
    expected = {
        each.level: each for each in forecast(loaded) if each.table == "stays" and each.name == "patients"
    }
    assert expected.keys() == {"nation", "district"}  # of the level between nothing is told
    big = half[where][DISTRICT > 25]
    assert (big <= expected["district"].of_noise).all() and (big >= expected["district"].of_noise - 1).all()


def test_nothing_agrees_with_them_and_they_agree_with_nothing(tmp_path: Path) -> None:
    """Numbers as wrong as can be stand as they were drawn, and move no count."""
    loaded = loaded_of(tmp_path, SPEC.replace("PRIVACY", 'budget: "100000"'))
    layouts = Agreement.of(loaded).layouts
    found = []
    for patients in (0, 70):
        truth = {
            name: {level: np.full(each.shape(level), 10, np.int64) for level in each.cuts}
            for name, each in layouts.items()
        }
        truth[NAME] = {"nation": np.full((1, 2), patients), "district": np.full((4, 2), 7)}
        with without_data(loaded) as run:
            found.append(one_release(run, truth, 1)[0])
    for patients, each in zip((0, 70), found, strict=True):
        assert each[NAME].values[0].tolist() == [patients] * 2
        assert (each[NAME].values[layouts[NAME].cuts["district"]] == 7).all()
        assert (each["sexes-patients"].values == 10).all()
    assert (found[0]["stays"].values == found[1]["stays"].values).all()


@pytest.mark.parametrize(
    ("measure", "said"),
    [
        (
            "{distinct: patient, weight: {column: w, to: 4}}",
            "weight: values that are counted once have no weight",
        ),
        ("{distinct: patient, from: 0}", "from: "),
        ("{distinct: patient, sum: fee}", "patients: has `sum` and `distinct`"),
    ],
)
def test_what_makes_no_sense_is_refused_by_its_field(tmp_path: Path, measure: str, said: str) -> None:
    (tmp_path / "areas.csv").write_text(AREAS)
    text = SPEC.replace("PRIVACY", PURE).replace(
        "sexes, dimensions: [sex], measures: {patients: {distinct: patient}",
        f"sexes, dimensions: [sex], measures: {{patients: {measure}",
    )
    (tmp_path / "spec.yaml").write_text(text)
    problems = [str(each) for each in examine(tmp_path / "spec.yaml").problems]
    assert any(said in each for each in problems), problems


def test_cells_that_nobody_can_be_in_are_not_measured(tmp_path: Path) -> None:
    fact = "impossible:\n  - {cells: {area: [B1], sex: [m]}, reason: for women alone}\ntables:\n"
    text = SPEC.replace("PRIVACY", PURE).replace("tables:\n", fact)
    loaded = loaded_of(tmp_path, text[: text.index("invariants:")] + text[text.index("impossible:") :])
    layout = Agreement.of(loaded).layouts[NAME]
    truth = {
        name: {level: np.ones(each.shape(level), np.int64) for level in each.cuts}
        for name, each in Agreement.of(loaded).layouts.items()
    }
    with without_data(loaded) as run:
        estimates, margins = one_release(run, truth, 3)
        half = of_known(run, margins, estimates, {})[NAME].half
    assert layout.impossible is not None and layout.impossible[6, 1]
    assert estimates[NAME].values[6, 1] == half[6, 1] == 0


def test_a_node_of_two_levels_has_the_margin_of_the_better_measurement(tmp_path: Path) -> None:
    """Gamma has no districts: it is measured with both levels, of which the regions have more."""
    text = SPEC.replace("PRIVACY", PURE).replace('{nation: "1/2", district', '{region: "9/10", district')
    text = text.replace('district: "1/2"', 'district: "1/10"') + "publication: {confidence: 99%}\n"
    loaded = loaded_of(tmp_path, text)
    layouts = Agreement.of(loaded).layouts
    truth = {
        name: {level: np.full(each.shape(level), 10**6, np.int64) for level in each.cuts}
        for name, each in layouts.items()
    }
    with without_data(loaded) as run:
        half = one_release(run, truth, 5)[1][NAME].half
    alpha, gamma, district = half[1], half[3], half[4]
    assert (gamma == alpha).all() and (alpha < district).all()
    assert np.isinf(half[0]).all()
