"""Distinct counts of a source: each level counted by itself, among the records that bounding kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tabularium.mechanisms.errors import RuleFailed
from tabularium.mechanisms.noise.synthetic import generator
from tabularium.tasks.count.count import count_tables
from tabularium.tasks.ingest.ingest import ingest_source
from tabularium.validations.release_spec.load import load_spec
from tabularium.validations.suites.published_tables import CountedTable, check_sums

AREAS = "code,label,parent\nN,Nation,\nA,Alpha,N\nB,Beta,N\nA1,Alpha one,A\nA2,Alpha two,A\nB1,Beta one,B\n"
SPEC = """\
product: stays
dataset: people
period: "2026"
source: {{path: stays.parquet}}
privacy: {{unit: {{column: patient}}, max_contributions: {most}, budget: "1"}}
columns:
  area: {{hierarchy: areas.csv, levels: [nation, region, district]}}
  sex: {{categories: [f, m]}}
tables:
  - name: stays
    dimensions: [sex, area]
    levels: {{nation: "1/4", region: "1/4", district: "1/2"}}
    measures: {{patients: {{distinct: patient}}, hospitals: {{distinct: hospital}}}}
  - {{name: beta, dimensions: [sex], where: "area = B1", measures: {{hospitals: {{distinct: hospital}}}}}}
  - {{name: whole, dimensions: [area], levels: {{nation: 1}}, measures: {{hospitals: {{distinct: hospital}}}}}}
"""
Counts = dict[tuple[str, str], np.ndarray]
HAND = [
    # area, sex, patient, hospital
    ("A1", "f", "p1", "h1"),
    ("A2", "f", "p1", "h1"),  # the same patient and hospital elsewhere in the region
    ("A2", "f", "p2", "h2"),
    ("A2", "m", "p3", None),  # counted, and in no hospital
    ("B1", "f", "p1", "h1"),
    ("B1", "m", "p4", "H1"),  # another one: text is compared as it stands
    ("B1", "m", "p4", "H1"),
]


def counted(folder: Path, rows: pd.DataFrame, most: int = 100) -> Counts:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "areas.csv").write_text(AREAS)
    (folder / "spec.yaml").write_text(SPEC.format(most=most))
    pq.write_table(pa.Table.from_pandas(rows, preserve_index=False), folder / "stays.parquet")
    loaded = load_spec(folder / "spec.yaml")
    handle = ingest_source(loaded, bytes(32), folder)
    found = count_tables(loaded, handle, folder, secret=bytes(32), bounding="5e" * 16)
    return {
        (table, level): np.load(file.path)
        for table, levels in found.tables.items()
        for level, file in levels.items()
    }


def frame(rows: list[tuple[str, str, str, str | None]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["area", "sex", "patient", "hospital"])


def drawn(records: int, seed: int) -> pd.DataFrame:
    rng = generator(seed)
    return pd.DataFrame(
        {
            "area": rng.choice(["A1", "A2", "B1"], records),
            "sex": rng.choice(["f", "m"], records),
            "patient": [f"p{number}" for number in rng.integers(0, records // 5, records)],
            "hospital": rng.choice(["h1", "h2", "H1", "", "h,2", "-", None], records),
        }
    )


def test_by_hand(tmp_path: Path) -> None:
    found = counted(tmp_path, frame(HAND))
    assert found["stays-patients", "district"].tolist() == [[1, 0], [2, 1], [1, 1]]
    assert found["stays-patients", "region"].tolist() == [
        [2, 1],
        [1, 1],
    ]  # p1 once in Alpha, where it is twice
    assert found["stays-patients", "nation"].tolist() == [[2, 2]]
    assert found["stays-hospitals", "district"].tolist() == [[1, 0], [2, 0], [1, 1]]
    assert found["stays-hospitals", "nation"].tolist() == [[2, 1]]
    assert found["beta-hospitals", ""].tolist() == [1, 1]
    assert found["whole-hospitals", "nation"].tolist() == [3]
    assert found["stays", "nation"].tolist() == [[4, 3]]


def test_they_are_those_of_pandas_and_within_the_bounds_of_their_parts(tmp_path: Path) -> None:
    rows = drawn(400, 1)
    found = counted(tmp_path, rows)
    rows = rows.assign(district=rows.area, region=rows.area.str[0], nation="N")
    for column in ("patient", "hospital"):
        for level in ("nation", "region", "district"):
            wanted = rows.groupby([level, "sex"])[column].nunique().unstack().to_numpy()
            assert (found[f"stays-{column}s", level] == wanted).all()
        parts = found[f"stays-{column}s", "district"]
        whole = found[f"stays-{column}s", "nation"][0]
        assert (parts.max(axis=0) <= whole).all() and (whole <= parts.sum(axis=0)).all()
        assert (whole < parts.sum(axis=0)).any()  # to add them up would be wrong here
    assert (
        found["beta-hospitals", ""].tolist()
        == rows[rows.area == "B1"].groupby("sex").hospital.nunique().tolist()
    )
    assert found["whole-hospitals", "nation"].tolist() == [rows.hospital.nunique()]


@pytest.mark.parametrize("most", [1, 3])
def test_a_unit_changes_each_level_by_at_most_its_kept_records(tmp_path: Path, most: int) -> None:
    """Of p0 all records are taken away, or other ones put in their place, in any order."""
    rows = drawn(120, 2)
    rest = rows[rows.patient != "p0"]
    other = drawn(120, 3).head(7).assign(patient="p0")
    base = counted(tmp_path / "rest", rest, most)
    for name, changed in (("had", rows), ("other", pd.concat([other, rest]).sample(frac=1, random_state=4))):
        found = counted(tmp_path / name, changed, most)
        for key in (key for key in base if "-" in key[0]):
            assert np.abs(found[key] - base[key]).sum() <= most
        assert np.abs(found["stays-patients", "district"] - base["stays-patients", "district"]).sum() >= 1


def test_records_that_bounding_drops_are_not_counted(tmp_path: Path) -> None:
    found = counted(tmp_path, frame([("A1", "f", "p1", f"h{n}") for n in range(9)]), most=2)
    assert found["stays-hospitals", "nation"].tolist() == [[2, 0]]
    assert found["stays-patients", "nation"].tolist() == [[1, 0]]


def test_no_records_are_no_values(tmp_path: Path) -> None:
    empty = pd.DataFrame(
        {name: pd.Series([], dtype="str") for name in ("area", "sex", "patient", "hospital")}
    )
    assert not any(numbers.any() for numbers in counted(tmp_path, empty).values())


def test_a_level_with_fewer_values_than_the_one_above_is_refused() -> None:
    def level(total: int) -> CountedTable:
        return CountedTable(total, 0, (2,), (2,), adds_up=False)

    tables = {("stays", "a"): CountedTable(9, 0, (1,), (1,))}
    check_sums({"stays-p": 1}, tables, {("stays-p", "a"): level(5), ("stays-p", "b"): level(7)})
    with pytest.raises(RuleFailed, match="levels add to the same"):
        check_sums({"stays-p": 1}, tables, {("stays-p", "a"): level(7), ("stays-p", "b"): level(5)})
    with pytest.raises(RuleFailed, match="sums within their bounds"):
        check_sums({"stays-p": 1}, tables, {("stays-p", "a"): level(10)})
