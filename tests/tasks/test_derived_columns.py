"""Columns made from columns: what comes out is what Python makes of the raw values, whatever these are."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabularium.tasks.count.count import count_tables
from tabularium.tasks.ingest.ingest import ingest_source
from tabularium.tasks.ingest.open_source import quietly
from tabularium.tasks.validate import validate_microdata
from tabularium.validations.derivation import coded_columns
from tabularium.validations.domains.domains import CategoryDomain, Domain, NumberDomain
from tabularium.validations.domains.encoding import coded_names
from tabularium.validations.release_spec.columns import DatePart, Derivation
from tabularium.validations.release_spec.load import load_spec
from tests.sizes import runs
from tests.tasks import front

SPEC = """\
product: people
dataset: survey
period: "2026"
source: {path: people.parquet, max_rejected: "100%"}
privacy: {unit: record, budget: "1"}
columns:
  years: {from: AGEP, integer: {from: 0, to: 99}}
  fives: {from: AGEP, integer: {from: 0, to: 99, width: 5}}
  marital:
    from: MAR
    map: {"1": together, "2": alone, "3": alone}
    categories: [together, alone, unknown]
    nulls: other
    invalid: other
    other: unknown
  quarter: {from: BORN, date: {part: quarter}, categories: ["1", "2", "3", "4"], nulls: other, other: "1"}
  grown: {from: BORN, date: {part: age, at: "2026-06-30"}, integer: {from: 0, to: 120, edges: [18]}, nulls: other, other: unknown}
  place:
    cases:
      - {when: "fives = 0-4", then: child}
      - {when: "marital = together and years >= 30", then: settled}
    else: rest
    categories: [child, settled, rest]
tables:
  - {name: by_years, dimensions: [years]}
  - {name: by_fives, dimensions: [fives, marital]}
  - {name: by_place, dimensions: [place, quarter, grown]}
"""


def table_of(frame: pd.DataFrame, folder: Path) -> dict[str, np.ndarray]:
    (folder / "spec.yaml").write_text(SPEC)
    frame.to_parquet(folder / "people.parquet", index=False)
    scratch = folder / "scratch"
    scratch.mkdir(mode=0o700)
    loaded = load_spec(folder / "spec.yaml")
    handle = ingest_source(loaded, front.SECRET, scratch)
    results = validate_microdata(loaded, handle, scratch, None)
    assert {r.name for r in results} >= {"codes of marital", "codes of place"} and all(
        r.passed for r in results
    )
    found = count_tables(loaded, handle, scratch, secret=front.SECRET, bounding=front.BOUNDING)
    return {name: np.array(cells) for (name, _), cells in front.arrays(found).items()}


AGE = st.one_of(st.integers(-2, 105).map(float), st.sampled_from([None, float("nan"), 3.5, float("inf")]))
MARITAL = st.sampled_from(["1", "2", "3", "4", None, "", " 1", "\u0661", "1.0"])
BORN = st.sampled_from(
    ["2020-02-29", "2020-02-30", "1999-12-31", "2008-07-01", "2008-06-30", None, "x", "1999-1-1"]
)


@settings(max_examples=runs(8, 100), deadline=None)
@given(rows=st.lists(st.tuples(AGE, MARITAL, BORN), min_size=1, max_size=25))
def test_the_cells_are_those_of_a_plain_loop(
    rows: list[tuple[Any, ...]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    rows = [*rows, (40.0, "1", "2000-01-01")]  # so that every column holds something
    # As objects from the start: of texts alone a column would be made whose nulls are not a number.
    frame = pd.DataFrame(rows, columns=["AGEP", "MAR", "BORN"], dtype=object).astype({"AGEP": "float64"})
    found = table_of(frame, tmp_path_factory.mktemp("made"))
    expected = {name: np.zeros_like(cells) for name, cells in found.items()}
    for age, marital, born in frame.itertuples(index=False):
        day = _date(born)
        if not (0 <= age <= 99 and age % 1 == 0) or (born is not None and day is None):
            continue
        years = int(age)
        married = {"1": 0, "2": 1, "3": 1}.get(marital, 2)
        grown = 2 if day is None else int(_age(day, dt.date(2026, 6, 30)) >= 18)
        place = 0 if years < 5 else 1 if married == 0 and years >= 30 else 2
        expected["by_years"][years] += 1
        expected["by_fives"][years // 5, married] += 1
        expected["by_place"][place, 0 if day is None else (day.month - 1) // 3, grown] += 1
    for name, cells in expected.items():
        assert found[name].tolist() == cells.tolist(), name


def _date(text: Any) -> dt.date | None:
    try:
        return dt.date.fromisoformat(text) if isinstance(text, str) and len(text) == 10 else None
    except ValueError:
        return None


def _age(born: dt.date, at: dt.date) -> int:
    return at.year - born.year - ((at.month, at.day) < (born.month, born.day))


@pytest.mark.parametrize("typed", [False, True])
def test_parts_of_dates_are_those_of_the_calendar(typed: bool) -> None:
    days = [
        dt.date(year, 1, 1) + dt.timedelta(d)
        for year in range(1999, 2029)
        for d in (*range(6), *range(357, 367))
    ]
    days += [dt.date(1900, 2, 28), dt.date(2000, 2, 29), dt.date(1, 1, 1), dt.date(9999, 12, 31)]
    parts = {part: Derivation(source_column="born", date=DatePart(part=part)) for part in _CALENDAR}
    parts["age"] = Derivation(source_column="born", date=DatePart(part="age", at="2024-02-29"))
    domains: dict[str, Domain] = {
        name: NumberDomain(name, tuple(range(-8000, 10002, 9001)), ("a", "b")) for name in parts
    }
    values = (
        pa.array(days) if typed else pa.array([day.isoformat() + "T10:00:00" * (day.day % 2) for day in days])
    )
    table = ibis.memtable(pa.table({"row": range(len(days)), "raw": values}))
    made = coded_columns(table, {"born": "raw"}, parts, domains).order_by("row")
    rows = quietly(made.to_pyarrow).to_pydict()
    for name, names in coded_names(domains).items():
        expected = [
            _age(day, dt.date(2024, 2, 29)) if name == "age" else _CALENDAR[name](day) for day in days
        ]
        assert rows[names.value or ""] == expected, name


_CALENDAR: dict[Any, Any] = {
    "year": lambda day: day.year,
    "quarter": lambda day: (day.month + 2) // 3,
    "month": lambda day: day.month,
    "iso_year": lambda day: day.isocalendar().year,
    "iso_week": lambda day: day.isocalendar().week,
}


@pytest.mark.parametrize(
    "text",
    [
        "2023-02-29",
        "1900-02-29",
        "2023-00-10",
        "2023-13-01",
        "2023-04-31",
        "0000-01-01",
        "2023-04-3",
        "",
        "2023-04-03x",
        "20230403",
    ],
)
def test_what_is_no_date_is_invalid_and_not_null(text: str) -> None:
    column = {"d": Derivation(date=DatePart(part="month"))}
    domains: dict[str, Domain] = {"d": NumberDomain("d", (1, 13), ("any",))}
    table = ibis.memtable(pa.table({"raw": pa.array([text, None])}))
    names = coded_names(domains)["d"]
    rows = quietly(coded_columns(table, {"d": "raw"}, column, domains).to_pyarrow).to_pydict()
    assert sorted(zip(rows[names.null], rows[names.invalid], strict=True)) == [(False, True), (True, False)]
    assert rows[names.code] == [None, None]


@pytest.mark.parametrize("dialect", ["duckdb", "postgres", "pyspark"])
@pytest.mark.parametrize("kind", ["string", "date", "timestamp"])
def test_the_same_expressions_compile_for_other_engines(dialect: str, kind: str, tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(SPEC)
    loaded = load_spec(tmp_path / "spec.yaml")
    table = ibis.table({"raw0": "int64", "raw1": "string", "raw2": kind}, name="people")
    raw = {"AGEP": "raw0", "MAR": "raw1", "BORN": "raw2"}
    rows = coded_columns(table, raw, loaded.spec.columns, loaded.domains)
    sql = str(ibis.to_sql(rows, dialect=dialect))
    assert "CASE" in sql and "code5" in sql


def test_a_category_of_four_codes_and_one_of_forty_code_a_made_column_alike() -> None:
    column = {"c": Derivation(source_column="s", map={f"v{i}": f"k{i}" for i in range(40)})}
    table = ibis.memtable(pa.table({"raw": pa.array(["v1", "v39", "k1", None])}))
    for size in (4, 40):
        codes = tuple(f"k{i}" for i in range(size))
        domains: dict[str, Domain] = {"c": CategoryDomain("c", codes, codes)}
        names = coded_names(domains)["c"]
        rows = quietly(coded_columns(table, {"s": "raw"}, column, domains).to_pyarrow).to_pydict()
        assert sorted(x for x in rows[names.code] if x is not None) == ([1] if size == 4 else [1, 39])
        assert sum(rows[names.invalid]) == (2 if size == 4 else 1) and sum(rows[names.null]) == 1
