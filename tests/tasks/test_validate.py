"""Validation of microdata, from a file to a verdict."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tabularium.mechanisms.errors import Finding, InputError, InputRefused, RuleFailed
from tabularium.tasks.ingest.ingest import ingest_source
from tabularium.tasks.validate import RuleResult, measure_source, validate_microdata
from tests.tasks import front

SENTINEL = "Zweckverband7319"


def validate(
    folder: Path, path: str = "people.csv", last: int | None = None, **options: Any
) -> tuple[RuleResult, ...]:
    scratch = folder / "scratch"
    scratch.mkdir(exist_ok=True, mode=0o700)
    loaded = front.spec(folder, path, **options)
    return validate_microdata(loaded, ingest_source(loaded, front.SECRET, scratch), scratch, last)


def test_good_microdata_pass_every_rule_and_leave_closed_files(tmp_path: Path) -> None:
    front.write_csv(tmp_path / "people.csv")
    rules = """\
rules:
  - {rule: row_count, min: 6, max: 6, change_from_last: "20%"}
  - {rule: range, column: age, min: 0, max: 99}
  - {rule: unique, columns: [person], severity: warn}
"""
    results = validate(tmp_path, rules=rules, last=5)
    assert [(r.name, r.passed) for r in results] == [
        ("max_rejected", True),
        ("row_count", True),
        ("change_from_last", True),
        ("range(age)", True),
        ("unique(person)", False),
    ]
    scratch = tmp_path / "scratch"
    assert json.loads((scratch / "metrics.json").read_text())["rows"] == 6
    for name in ("metrics.json", "microdata.json"):
        assert oct((scratch / name).stat().st_mode & 0o777) == "0o600"


def test_a_rule_of_severity_stop_stops_without_numbers(tmp_path: Path) -> None:
    front.write_csv(tmp_path / "people.csv")
    with pytest.raises(RuleFailed, match=r"the microdata break row_count \(too few\);") as caught:
        validate(tmp_path, rules="rules: [{rule: row_count, min: 7}]\n")
    assert not any(character.isdigit() for character in str(caught.value))


def test_a_change_from_last_period_stops(tmp_path: Path) -> None:
    front.write_csv(tmp_path / "people.csv")
    rules = 'rules: [{rule: row_count, change_from_last: "20%"}]\n'
    assert all(result.passed for result in validate(tmp_path, rules=rules, last=7))
    with pytest.raises(RuleFailed, match="break change_from_last"):
        validate(tmp_path, rules=rules, last=8)


@pytest.mark.parametrize(
    ("limit", "passes"),
    [
        ("", False),
        (", max_rejected: 1", True),
        (', max_rejected: "14%"', False),
        (', max_rejected: "15%"', True),
    ],
)
def test_rejected_records_over_the_limit_stop_and_name_their_columns(
    limit: str, passes: bool, tmp_path: Path
) -> None:
    front.write_csv(tmp_path / "people.csv", [*front.ROWS, ("p9", SENTINEL, "4", "f")])
    if passes:
        validate(tmp_path, source=limit)
        return
    with pytest.raises(RuleFailed, match="break max_rejected") as caught:
        validate(tmp_path, source=limit)
    assert SENTINEL not in str(caught.value)
    assert caught.value.findings == (Finding("max_rejected", "area", "not in the code list"),)


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_not_a_number_is_a_null_and_infinity_is_invalid(kind: pa.DataType, tmp_path: Path) -> None:
    """Beside numbers that a Parquet file keeps a least and greatest of, which leave not-a-number out."""

    def numbers(values: list[float | None]) -> tuple[int, int, int | None]:
        people = {"person": ["p"] * 3, "area": ["A1"] * 3, "age": pa.array(values, kind), "sex": ["f"] * 3}
        pq.write_table(pa.table(people), tmp_path / "people.parquet")
        loaded = front.spec(tmp_path, "people.parquet")
        found = measure_source(loaded, ingest_source(loaded, front.SECRET, tmp_path), tmp_path)
        assert found.kept == 3 - found.columns["age"].nulls - found.columns["age"].invalid
        return found.columns["age"].nulls, found.columns["age"].invalid, found.columns["age"].read

    assert numbers([17, math.nan, 3]) == (1, 0, 2)
    assert numbers([17, math.nan, None]) == (2, 0, 1)
    assert numbers([17, math.inf, -math.inf]) == (0, 2, 1)


def test_a_decimal_beyond_all_whole_numbers_is_invalid(tmp_path: Path) -> None:
    ages = pa.array([Decimal(17), Decimal(10) ** 30], pa.decimal128(38, 1))
    people = {"person": ["p"] * 2, "area": ["A1"] * 2, "age": ages, "sex": ["f"] * 2}
    pq.write_table(pa.table(people), tmp_path / "people.parquet")
    loaded = front.spec(tmp_path, "people.parquet")
    found = measure_source(loaded, ingest_source(loaded, front.SECRET, tmp_path), tmp_path)
    assert (found.columns["age"].nulls, found.columns["age"].invalid) == (0, 1)


def test_texts_that_mean_null_are_those_of_the_spec(tmp_path: Path) -> None:
    rows = [("p1", "A1", "N", "f"), ("p2", "A1", "", "f"), ("p3", "", "3", "N")]
    front.write_csv(tmp_path / "people.csv", rows)

    def numbers(nulls: str) -> tuple[list[int], list[int]]:
        loaded = front.spec(tmp_path, source=nulls)
        handle = ingest_source(loaded, front.SECRET, tmp_path)
        columns = measure_source(loaded, handle, tmp_path).columns.values()
        return [c.nulls for c in columns], [c.invalid for c in columns]

    assert numbers("") == ([1, 1, 0], [0, 1, 1])
    assert numbers(', nulls: ["", "N"]') == ([1, 2, 1], [0, 0, 0])
    assert numbers(', nulls: ["N"]') == ([0, 1, 1], [1, 1, 0])


@pytest.mark.parametrize("write", [front.write_csv, front.write_parquet])
def test_no_records_is_an_error(write: Any, tmp_path: Path) -> None:
    name = "people.csv" if write is front.write_csv else "people.parquet"
    if write is front.write_csv:
        write(tmp_path / name, [])
    else:
        kinds = {"area": pa.string(), "age": pa.int8(), "sex": pa.string()}
        pq.write_table(pa.schema(kinds).empty_table(), tmp_path / name)
    with pytest.raises(InputError, match="there are no records"):
        validate(tmp_path, name)


def test_a_column_of_text_where_numbers_are_declared_is_named(tmp_path: Path) -> None:
    front.write_csv(tmp_path / "people.csv", [("p1", "A1", SENTINEL, "f"), ("p2", "A2", "3,5", "m")])
    with pytest.raises(InputError, match="no value of column 'age' reads as a whole number") as caught:
        validate(tmp_path, source=", max_rejected: 100")
    assert SENTINEL not in str(caught.value)


IRREGULAR = {
    "a value too many": f"p9,A1,3,f,{SENTINEL}\n",
    "a value too few": f"{SENTINEL},A1\n",
    "an open quote": f'p9,A1,3,"{SENTINEL}\n',
    "another end": f"{SENTINEL},A1,3,f\r\n",
    "a record of two lines before it": f'"p9\n{SENTINEL}",A1,3,f\np9,A1\n',
}
LINE = dict.fromkeys(IRREGULAR, 2) | {"a record of two lines before it": 4}


@pytest.mark.parametrize("case", IRREGULAR)
@pytest.mark.parametrize("rows", [1, 30_000])
def test_an_irregular_row_is_told_without_being_quoted(case: str, rows: int, tmp_path: Path) -> None:
    text = front.csv_text(front.ROWS * rows) + IRREGULAR[case] + "p8,A1,3,f\n"
    (tmp_path / "people.csv").write_text(text)
    with pytest.raises(InputRefused, match="not a regular CSV table") as caught:
        validate(tmp_path)
    assert SENTINEL not in str(caught.value)
    (found,) = caught.value.findings
    assert (found.file, found.line) == ("people.csv", len(front.ROWS) * rows + LINE[case])
    assert caught.value.__context__ is None and caught.value.__cause__ is None


def test_a_parquet_file_damaged_inside_is_told_without_its_text(tmp_path: Path) -> None:
    path = front.write_parquet(tmp_path / "people.parquet", [(SENTINEL, "A1", "3", "f")] * 1000)
    content = bytearray(path.read_bytes())
    content[4:120] = b"\xff" * 116  # the first pages; the footer is whole
    path.write_bytes(content)
    with pytest.raises(InputError, match="damaged") as caught:
        validate(tmp_path, "people.parquet")
    assert SENTINEL not in str(caught.value) and "\n" not in str(caught.value)
    assert caught.value.__context__ is None


def test_of_several_files_those_that_are_not_regular_are_named(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    for name, more in {"a": "p9,A1\n", "b": "", "c": "p9\n"}.items():
        (tmp_path / "parts" / f"{name}.csv").write_text(front.csv_text() + more)
    with pytest.raises(InputRefused, match="not a regular CSV table") as caught:
        validate(tmp_path, "parts")
    assert [(each.file, each.line) for each in caught.value.findings] == [("a.csv", 8), ("c.csv", 8)]


@pytest.mark.parametrize(
    ("pay", "numbers"),
    [
        (["1,5"] * 6, None),
        ([dt.date(2020, 1, 1)] * 6, None),
        (["1,5"] * 5 + ["2"], (0, 1)),
        ([True, None] * 3, (3, 3)),
        (pa.array([None] * 6, pa.string()), (6, 0)),
    ],
)
def test_a_measured_column_without_a_number_is_refused(
    tmp_path: Path, pay: Any, numbers: tuple[int, int] | None
) -> None:
    sums = "  - {name: sexes, dimensions: [sex], measures: {m: {sum: pay, from: 0, to: 5}}}\n"
    columns = dict(zip(front.HEADER, map(list, zip(*front.ROWS, strict=True)), strict=True))
    columns["age"] = [int(age or 0) for age in columns["age"]]
    pq.write_table(pa.table({**columns, "pay": pay}), tmp_path / "people.parquet")
    last = "  - {name: sexes, dimensions: [sex]}\n"
    loaded = front.spec(tmp_path, "people.parquet", edit=lambda text: text.replace(last, sums))
    scratch = tmp_path / "scratch"
    scratch.mkdir(mode=0o700)
    handle = ingest_source(loaded, front.SECRET, scratch)
    if numbers is not None:
        assert measure_source(loaded, handle, scratch).numbers == {"pay": numbers}
        return
    with pytest.raises(RuleFailed, match=r"break numbers\(pay\) \(not a number\)"):
        validate_microdata(loaded, handle, scratch, None)
