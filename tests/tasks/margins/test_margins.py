"""Margins of whole releases in memory: every kind of table, and cells that are named where something is off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tabularium.mechanisms.noise.synthetic import generator
from tabularium.tasks.postprocess.agreement import Agreement
from tabularium.tasks.postprocess.estimation import failed_cells
from tabularium.tasks.postprocess.table_layout import Layout
from tabularium.tasks.runtime.run import Request, Run
from tests.tasks.in_memory import Truth, one_release

AREAS = ["code,label,parent", "N,Nation,"] + [f"{p},{p},N" for p in "AB"]
AREAS += [f"{p}{n},{p}{n},{p}" for p in "AB" for n in range(12)]

SPEC = """\
product: small
dataset: people
period: "1"
source: {{path: nowhere.csv}}
privacy: {{unit: record, relation: add-remove, {privacy}}}
columns:
  area: {{hierarchy: areas.csv, levels: [nation, province, place]}}
  age: {{integer: {{from: 0, to: 99, edges: [10, 20, 30, 40, 50, 60, 70]}}}}
  sex: {{categories: {{"1": male, "2": female}}}}
tables:
  - {{name: places, dimensions: [area, age], share: "2/3", levels: {levels}{first}}}
  - {{name: ages, dimensions: [age, sex], share: "1/3"{second}}}
{post}
"""
ALL = '{nation: "1/4", province: "1/4", place: "1/2"}'


def run(folder: Path, **changes: str) -> Run:
    """A run over two tables that share ages."""
    words = {"privacy": 'budget: "1/2"', "levels": ALL, "first": "", "second": "", "post": ""} | changes
    (folder / "areas.csv").write_text("\n".join(AREAS) + "\n")
    (folder / "spec.yaml").write_text(SPEC.format(**words))
    return Run(Request(str(folder / "spec.yaml"), None, None, str(folder)), str(folder))


def truth_of(made: Run) -> Truth:
    """Mostly empty places; every level is a sum of theirs, and ages of both sexes are the sums over places."""
    rng = generator(8)
    cells = np.where(rng.random((24, 8)) < 0.7, 0, rng.geometric(1 / 40, (24, 8)))
    sums = {
        "place": cells,
        "province": cells.reshape(2, 12, 8).sum(axis=1),
        "nation": cells.sum(axis=0)[None],
    }
    ages = cells.sum(axis=0)
    table = next(table for table in made.loaded.spec.tables if table.name == "places")
    return {
        "places": {level: sums[level].astype(np.int64) for level in table.levels},
        "ages": {"": np.stack([ages // 3, ages - ages // 3], axis=1).astype(np.int64)},
    }


@pytest.fixture(autouse=True)
def _few_simulated_releases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tabularium.tasks.margins.margins.replicates", lambda cells: 24)


@pytest.mark.parametrize(
    ("changes", "methods"),
    [
        ({}, ("simulated", "simulated")),
        ({"levels": '{place: "1"}'}, ("simulated", "simulated")),
        ({"privacy": 'budget: "1/8", definition: zcdp, delta: "1/1000000"'}, ("simulated", "simulated")),
        ({"second": ", mechanism: boost"}, ("simulated", "simulated")),
        ({"first": ", mechanism: privelet"}, ("simulated", "simulated")),
        ({"second": ", mechanism: noise_first"}, ("simulated", "measured")),
        (
            {"post": "postprocessing: {consistency: true, nonnegativity: false, rounding: false}"},
            ("exact", "exact"),
        ),
        (
            {"post": "postprocessing: {consistency: true, nonnegativity: true, rounding: false}"},
            ("simulated", "simulated"),
        ),
        (
            {"post": "postprocessing: {consistency: false, nonnegativity: false, rounding: false}"},
            ("exact", "exact"),
        ),
    ],
)
def test_margins_of_every_kind_of_table(
    tmp_path: Path, changes: dict[str, str], methods: tuple[str, str]
) -> None:
    made = run(tmp_path, **changes)
    true, promised = truth_of(made), made.loaded.spec.postprocessing
    held: list[Any] = []
    for seed in range(2):
        published, margins = one_release(made, true, seed)
        for table, method in zip(made.loaded.spec.tables, methods, strict=True):
            about, half = margins[table.name].about["margins"], margins[table.name].half
            assert about["method"] == method
            if promised.rounding:
                assert (half == np.rint(half)).all()
            for level, nodes in Layout.of(made.loaded, table).cuts.items():
                assert np.isfinite(half[nodes]).all()
                assert (half[nodes] >= 0).all()
                error = published[table.name].values[nodes] - true[table.name][level].reshape(len(nodes), -1)
                held.append((np.abs(error) <= half[nodes] + 1e-9).ravel())
        if promised.consistency:
            values = {name: each.values for name, each in published.items()}
            assert (
                failed_cells(
                    made,
                    Agreement.of(made.loaded),
                    values,
                    {name: each.half for name, each in margins.items()},
                )
                == []
            )
    # 200 cells and more, whose errors go together: 90 % less a good deal.
    assert np.concatenate(held).mean() >= 0.82


def test_a_simulation_can_be_repeated_and_says_what_it_found(tmp_path: Path) -> None:
    made = run(tmp_path)
    true = truth_of(made)
    (_, one), (_, again), (_, other) = (one_release(made, true, seed) for seed in (1, 1, 2))
    for name, margins in one.items():
        assert (margins.half == again[name].half).all()
        assert margins.about == again[name].about
    assert any((margins.half != other[name].half).any() for name, margins in one.items())
    about = one["places"].about["margins"]
    assert about["checked"]["held"] >= 0.85
    assert {line["level"] for line in about["errors"]} == {"nation", "province", "place"}
    place = [line for line in about["errors"] if line["level"] == "place"]
    assert sum(line["cells"] for line in place) == pytest.approx(24 * 8, rel=1e-3)
    assert all(line["median"] <= line["ninety_percent"] for line in place)
    assert max(line["largest"] for line in place) > max(line["median"] for line in place)


def test_cells_that_fail_are_named_by_their_codes(tmp_path: Path) -> None:
    made = run(tmp_path)
    published, margins = one_release(made, truth_of(made), 3)
    values = {name: each.values.copy() for name, each in published.items()}
    half = {name: each.half.copy() for name, each in margins.items()}
    values["ages"][0, 3] += 1  # 10-19, female
    half["places"][4, 7] = np.inf  # the second place of A, 70 and over
    found = {
        (each.table, each.check): each.cells
        for each in failed_cells(made, Agreement.of(made.loaded), values, half)
    }
    assert found == {
        ("places", "no margin of error"): ({"area": "A1", "age": "70-99"},),
        ("places", "differs from table ages"): ({"age": "10-19"},),
    }


def test_margins_hold_where_people_are_although_most_cells_are_empty(tmp_path: Path) -> None:
    """Non-negativity pulls the few populated cells down; their margins must say so."""
    made = run(tmp_path, privacy='budget: "1/4"', first="", levels=ALL)
    place = np.zeros((24, 8), np.int64)
    place[0, 4] = 60
    sums = {
        "place": place,
        "province": place.reshape(2, 12, 8).sum(axis=1),
        "nation": place.sum(axis=0)[None],
    }
    ages = np.stack([place.sum(axis=0), np.zeros(8, np.int64)], axis=1)
    held = []
    for seed in range(30):
        published, margins = one_release(made, {"places": sums, "ages": {"": ages}}, seed)
        for node in (0, 1, 3):  # nation, province and place of the sixty
            error = abs(published["places"].values[node, 4] - 60)
            held.append(error <= margins["places"].half[node, 4])
    # Margins of the linear estimate alone hold two cells in three of these.
    assert np.mean(held) >= 0.8
