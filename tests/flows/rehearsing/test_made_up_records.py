"""Made-up records are in the domains of their spec, and like published tables where they are to be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest

from tabularium.flows.rehearsing.made_up_records import Cells, MadeUpRecords
from tabularium.mechanisms.noise.synthetic import generator
from tabularium.tasks.publish.read_release import Released
from tabularium.validations.release_spec.load import load_spec
from tests.flows.release.scene import AREAS, publish, write_scene

SPEC = """\
product: clinic
dataset: patients
period: "2026"
source: {path: nowhere.csv, delimiter: ";"}
lookups:
  homes: {path: nowhere.parquet, unit: patient, key: home}
privacy: {unit: {entity: patient, column: patient}, max_contributions: 3, budget: "1"}
columns:
  area: {hierarchy: areas.csv, levels: [nation, province, place], from: homes.place}
  sex: {map: {m: "1", f: "2", w: "2"}, categories: {"1": male, "2": female}}
  age:
    from: born
    date: {part: age, at: "2026-01-01"}
    integer: {from: 0, to: 99, edges: [20, 65]}
  month: {from: admitted, date: {part: month}, integer: {from: 1, to: 12}}
  quarter: {from: left, date: {part: quarter, zone: Europe/Rome}, integer: {from: 1, to: 4}}
  week: {from: seen, date: {part: iso_week}, integer: {from: 1, to: 53, edges: [27]}}
  bmi: {integer: {from: 10.5, to: 60.5, edges: [18.5, 25.0]}}
  status: {cases: [{when: "age >= 65", then: old}], else: young, categories: [old, young]}
tables:
  - name: by_area
    dimensions: [area, sex]
    measures: {pay: {mean: income, from: 0, to: 500, step: 10, weight: {column: w, to: 3}}}
  - {name: by_age, dimensions: [age, month, quarter, week, bmi, status]}
histograms:
  - {name: wards, of: ward, share: "1/10"}
rules:
  - {rule: unique, columns: [stay]}
"""


def test_every_column_of_the_source_is_in_its_domain(tmp_path: Path) -> None:
    (tmp_path / "areas.csv").write_text(AREAS)
    (tmp_path / "clinic.yaml").write_text(SPEC)
    loaded = load_spec(tmp_path / "clinic.yaml")
    made = MadeUpRecords(loaded, 4_000, seed=1)
    rows = made.source().to_pandas()
    assert set(rows["sex"]) == {"m", "f", "w"}
    assert set(np.unique(rows["income"])) == set(range(0, 501, 10))
    assert set(np.unique(rows["w"])) == {1, 2, 3}
    assert rows["patient"].value_counts().max() == 3
    assert rows["stay"].is_unique
    assert 1 < rows["ward"].value_counts().max() <= 5
    assert rows["bmi"].between(10.5, 60.5).all()
    assert ((rows["bmi"] * 10).round(9) % 1 == 0).all()  # as many digits as the edges have
    born = rows["born"].astype(str)
    ages = 2026 - born.str[:4].astype(int) - (born.str[5:] > "01-01")
    assert (ages.min(), ages.max()) == (0, 99)
    assert set(rows["admitted"].astype(str).str[5:7].astype(int)) == set(range(1, 13))
    assert rows["left"].str.endswith("T11:00:00Z").all()
    homes = made.look_up("homes").to_pandas()
    assert not homes.duplicated(["patient", "home"]).any()
    assert set(homes["place"]) == {"A1", "A2", "B1"}
    found = rows.merge(homes, on=["patient", "home"], how="left")
    assert len(found) == len(rows)
    assert found["place"].notna().all()


def test_the_same_seed_gives_the_same_records(tmp_path: Path) -> None:
    (tmp_path / "areas.csv").write_text(AREAS)
    (tmp_path / "clinic.yaml").write_text(SPEC)
    loaded = load_spec(tmp_path / "clinic.yaml")
    one, again, other = (MadeUpRecords(loaded, 50, seed).source() for seed in (1, 1, 2))
    assert one.equals(again)
    assert not one.equals(other)


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Released]:
    folder = tmp_path_factory.mktemp("like")
    spec, home = write_scene(folder)
    return spec, Released.open(Path(publish(spec, home).folder))


def test_records_are_as_many_in_each_cell_as_a_release_says(released: tuple[Path, Released]) -> None:
    """Against the published table, by the error that so many draws have."""
    spec, release = released
    made = MadeUpRecords(load_spec(spec), 60_000, seed=3, like=release).source()
    numbers = release.table("area_age_sex")
    counts = numbers.counts[numbers.layout.cuts["place"]].reshape(3, 3, 2)
    age = np.digitize(made["age"].to_numpy(), [20, 65])
    place = pc.index_in(made["area"], pc.unique(made["area"]).sort()).to_numpy()
    sex = made["sex"].to_numpy(zero_copy_only=False).astype(int) - 1
    drawn = np.zeros(counts.shape)
    np.add.at(drawn, (place, age, sex), 1)
    expected = 60_000 * counts / counts.sum()
    assert np.abs(drawn - expected).max() < 5 * np.sqrt(expected.max())
    assert (drawn[counts == 0] == 0).all()


def test_what_a_second_table_adds_hangs_on_what_the_first_one_drew(released: tuple[Path, Released]) -> None:
    """A column that both have is drawn once; where the second has nothing for it, evenly."""
    spec, release = released
    cells = Cells(load_spec(spec), 30_000, generator(1), {})
    cells.of["age"] = np.repeat([0, 1, 2], 10_000)
    cells._draw_table(release, "age_sex")
    counts = release.table("age_sex").counts.reshape(3, 2)
    part = [(cells.of["sex"][cells.of["age"] == age] == 0).mean() for age in range(3)]
    assert np.allclose(part, counts[:, 0] / counts.sum(axis=1), atol=0.03)


def test_where_nulls_have_a_category_records_of_it_have_no_value(tmp_path: Path) -> None:
    """So that a rate, which counts whose value is known, has the base that a release has."""
    spec = tmp_path / "s.yaml"
    spec.write_text(
        'product: p\ndataset: d\nperiod: "1"\nsource: {path: none.csv}\nprivacy: {unit: record, budget: "1"}\n'
        "columns:\n  a: {nulls: other, other: N, categories: [N, yes_, no_]}\n"
        "tables:\n  - {name: t, dimensions: [a]}\n"
    )
    made = MadeUpRecords(load_spec(spec), 3_000, seed=1).source()["a"]
    assert set(made.unique().to_pylist()) == {None, "yes_", "no_"}
    assert 800 < made.null_count < 1_200
