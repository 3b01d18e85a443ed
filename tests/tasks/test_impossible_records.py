"""Records in impossible cells: rejected or moved, each by itself, and no unit counts for more."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tabularium.mechanisms.errors import RuleFailed
from tabularium.tasks.count.count import count_tables
from tabularium.tasks.ingest.ingest import ingest_source
from tabularium.tasks.postprocess.table_layout import Layout
from tabularium.tasks.validate import measure_source, validate_microdata
from tabularium.validations.release_spec.load import Loaded, load_spec
from tests.sizes import runs
from tests.tasks import front

SPEC = """\
product: zeros
dataset: people
period: "2026"
source: {{path: people.parquet, max_rejected: {limit}}}
privacy: {{unit: {unit}, max_contributions: {most}, budget: "1"}}
columns:
  age: {{integer: {{from: 0, to: 99, edges: [15, 65]}}, nulls: other, other: unknown}}
  sex: {{categories: [f, m]}}
  veteran: {{categories: ["yes", "no", unknown], nulls: other, other: unknown}}
impossible:
  - {{cells: {{age: [0-14], veteran: ["yes"]}}, reason: "the draft act", records: {{veteran: unknown}}}}
  - {{cells: {{age: [0-14, unknown], sex: [m], veteran: [unknown]}}, reason: "they are asked"}}
tables:
  - {{name: age_veteran, dimensions: [age, veteran]}}
  - {{name: everything, dimensions: [sex, age, veteran]}}
  - {{name: unknowing, dimensions: [sex], where: "veteran = unknown"}}
"""
AGES, VETERANS = ["0-14", "15-64", "65-99", "unknown"], ["yes", "no", "unknown"]
Row = tuple[str, float | None, str, str | None]


def counted(
    folder: Path, rows: list[Row], *, unit: str = "record", most: int = 1, limit: str = '"100%"'
) -> tuple[Loaded, Any, dict[str, NDArray[np.int64]]]:
    folder.mkdir(exist_ok=True)
    (folder / "spec.yaml").write_text(SPEC.format(unit=unit, most=most, limit=limit))
    frame = pd.DataFrame(rows, columns=["person", "age", "sex", "veteran"])
    frame = frame.astype({"person": object, "age": "float64", "sex": object, "veteran": object})
    frame.to_parquet(folder / "people.parquet", index=False)
    made, scratch = load_spec(folder / "spec.yaml"), folder / "scratch"
    scratch.mkdir(exist_ok=True, mode=0o700)
    handle = ingest_source(made, front.SECRET, scratch)
    found = count_tables(made, handle, scratch, secret=front.SECRET, bounding=front.BOUNDING)
    return made, (handle, scratch), {name: np.array(a) for (name, _), a in front.arrays(found).items()}


def in_words(row: Row) -> tuple[str, str, str] | None:
    """What a record is counted as, by the words of the spec; None if it is rejected."""
    _, age, sex, veteran = row
    group = "unknown" if age is None else "0-14" if age < 15 else "15-64" if age < 65 else "65-99"
    status = veteran or "unknown"
    if group == "0-14" and status == "yes":
        status = "unknown"
    if group in ("0-14", "unknown") and sex == "m" and status == "unknown":
        return None
    return sex, group, status


ROWS = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.sampled_from([None, 3.0, 14.0, 15.0, 70.0]),
        st.sampled_from("fm"),
        st.sampled_from([None, "yes", "no", "unknown"]),
    ),
    min_size=1,
    max_size=12,
)


def test_records_go_where_the_spec_says(tmp_path: Path) -> None:
    kinds = product("a", [None, 3.0, 14.0, 15.0, 70.0], "fm", [None, "yes", "no", "unknown"])
    rows: list[Row] = [row for number, row in enumerate(kinds) for _ in range(1 + number % 7)]
    made, opened, found = counted(tmp_path, rows)
    kept = [each for each in map(in_words, rows) if each is not None]
    everything = np.zeros((2, 4, 3), np.int64)
    for sex, age, veteran in kept:
        everything["fm".index(sex), AGES.index(age), VETERANS.index(veteran)] += 1
    assert (found["everything"] == everything).all()
    assert (found["age_veteran"] == everything.sum(axis=0)).all()
    # A null is no value, so it passes no test; a record that was moved has the value that it was moved to.
    passes = [(*row, in_words(row)) for row in rows]
    named = [w[0] for *_, veteran, w in passes if w is not None and w[2] == "unknown" and veteran is not None]
    assert found["unknowing"].tolist() == [named.count("f"), named.count("m")]
    for table in made.spec.tables:
        impossible = Layout.of(made, table).impossible
        assert impossible is None or not found[table.name].reshape(1, -1)[impossible].any()
    metrics = measure_source(made, *opened)
    assert (metrics.rows, metrics.kept, metrics.impossible) == (
        len(rows),
        len(kept),
        len(rows) - len(kept),
    )


@settings(max_examples=runs(4, 100), deadline=None)
@given(rows=ROWS, most=st.integers(1, 3))
def test_a_unit_changes_what_is_measured_by_its_own_records(
    rows: list[Row], most: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    unit = "{entity: person, column: person}"
    made, _, full = counted(tmp_path_factory.mktemp("with"), rows, unit=unit, most=most)
    rest = [row for row in rows if row[0] != "a"] or [("z", 3.0, "m", None)]
    lost = [row for row in rows if row[0] == "a"]
    _, _, without = counted(tmp_path_factory.mktemp("without"), rest, unit=unit, most=most)
    own = min(most, sum(in_words(row) is not None for row in lost))
    for table in made.spec.tables:
        possible = Layout.of(made, table).possible("")
        pair = [
            each[table.name] if possible is None else each[table.name][possible] for each in (full, without)
        ]
        assert np.abs(pair[0] - pair[1]).sum() <= own
        if table.where is None:
            assert pair[0].sum() - pair[1].sum() == own


def test_too_many_of_them_stop_a_run_and_it_is_said_at_home_why(tmp_path: Path) -> None:
    rows: list[Row] = [("a", 3.0, "m", "unknown"), ("b", 20.0, "f", "no"), ("c", 3.0, "f", "yes")]
    made, opened, _ = counted(tmp_path, rows, limit="1")
    validate_microdata(made, *opened, None)
    made, opened, _ = counted(tmp_path, rows, limit="0")
    with pytest.raises(RuleFailed, match=r"max_rejected \(age, veteran, sex: impossible together\)"):
        validate_microdata(made, *opened, None)


def test_what_a_fact_gave_a_value_is_no_null_to_a_universe(tmp_path: Path) -> None:
    """A null that is counted elsewhere is tested as what it is counted as: tables of parts hold the parts."""
    text = SPEC.format(unit="record", most=1, limit=0).partition("impossible:")[0] + (
        'impossible:\n  - {cells: {veteran: [unknown], sex: [f]}, reason: a list, records: {veteran: "no"}}\n'
        "tables:\n  - {name: everybody, dimensions: [veteran, sex]}\n"
        "  - {name: civil, dimensions: [veteran, sex], where: \"veteran = 'no'\"}\n"
        '  - {name: unasked, dimensions: [veteran, sex], where: "veteran is null"}\n'
    )
    (tmp_path / "spec.yaml").write_text(text)
    rows = [(f"p{place}", 30.0, "fm"[place % 2], (None, "no", "yes")[place % 3]) for place in range(60)]
    frame = pd.DataFrame(rows, columns=["person", "age", "sex", "veteran"])
    frame.to_parquet(tmp_path / "people.parquet", index=False)
    made, scratch = load_spec(tmp_path / "spec.yaml"), tmp_path / "scratch"
    scratch.mkdir(mode=0o700)
    handle = ingest_source(made, front.SECRET, scratch)
    counts = count_tables(made, handle, scratch, secret=front.SECRET, bounding=front.BOUNDING)
    found = {name: np.array(cells) for (name, _), cells in front.arrays(counts).items()}
    assert found["everybody"].tolist() == [[10, 10], [20, 10], [0, 10]]
    assert found["civil"].tolist() == [[0, 0], [20, 10], [0, 0]]
    assert found["unasked"].tolist() == [[0, 0], [0, 0], [0, 10]]
