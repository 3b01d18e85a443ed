"""From raw values to cell codes: hand-worked cases, every policy, and a search that agrees with NumPy's."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabularium.validations.domains.domains import Domain
from tabularium.validations.domains.encoding import cell_number, coded, coded_names, kept
from tabularium.validations.release_spec.load import load_spec
from tests.validations.domains.encoding_bench import categories, code_all, integers, tree


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("3.0", 3),
        ("3.", 3),
        ("03", 3),
        (" 7 ", 7),
        ("+4", 4),
        ("-5", -5),
        ("999999999999999999", 999999999999999999),
        ("9007199254740993", 9007199254740993),  # not a double
        ("3.7", None),
        ("1e3", None),
        ("0x10", None),
        ("1_000", None),
        ("1,000", None),
        ("nan", None),
        ("inf", None),
        ("", None),
        (" ", None),
        ("- 5", None),
        ("3 4", None),
        ("99999999999999999999", None),
        ("٣", None),  # a digit, but not of these
    ],
)
def test_text_reads_as_a_whole_number_only_where_it_is_one(text: str, value: int | None) -> None:
    result = code_all([text], integers(-10, 10**18))
    assert result["value"] == [value]
    assert result["invalid"] == [value is None]
    assert result["null"] == [False]


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([1, None, 3], pa.int8(), [1, None, 3]),
        ([1, 2**63 + 5, 2**64 - 1], pa.uint64(), [1, None, None]),
        (
            [1.0, 2.5, float("inf"), -float("inf"), 1e300, 2.0**53],
            pa.float64(),
            [1, None, None, None, None, 2**53],
        ),
        ([1.0, 2.5, None], pa.float32(), [1, None, None]),
        ([Decimal("1.00"), Decimal("1.50"), Decimal("-2")], pa.decimal128(10, 2), [1, None, -2]),
        ([None, None], pa.null(), [None, None]),
        (["1", "x", None], pa.dictionary(pa.int32(), pa.string()), [1, None, None]),
    ],
)
def test_typed_columns_read_as_whole_numbers(
    values: list[Any], kind: pa.DataType, expected: list[Any]
) -> None:
    assert code_all(values, integers(0, 2), kind)["value"] == expected


def test_not_a_number_is_null_as_data_frames_write_it() -> None:
    result = code_all(pa.array([float("nan"), 1.0]), integers(0, 2))
    assert result["null"] == [True, False]
    assert result["invalid"] == [False, False]
    assert result["code"] == [None, 0]


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        (["1", "01", "1 ", "2", None], pa.string(), [0, None, None, 1, None]),
        ([1, 2, 3, None], pa.int64(), [0, 1, None, None]),
        ([1.0, 2.0, 1.5, float("nan")], pa.float64(), [0, 1, None, None]),
        ([Decimal("1.0"), Decimal("2.5")], pa.decimal128(5, 1), [0, None]),
        (["1", "2"], pa.large_string(), [0, 1]),
        (["2", "1", "2"], pa.dictionary(pa.int8(), pa.string()), [1, 0, 1]),
    ],
)
def test_categories_compare_as_text(values: list[Any], kind: pa.DataType, expected: list[Any]) -> None:
    assert code_all(pa.array(values, kind), categories("1", "2"))["code"] == expected


def test_truth_values_and_dates_compare_as_text() -> None:
    assert code_all([True, False], categories("false", "true"))["code"] == [1, 0]
    days = pa.array([dt.date(2026, 1, 2), dt.date(2026, 1, 3)])
    assert code_all(days, categories("2026-01-02"))["code"] == [0, None]


CELLS = ["a", None, "zzz"]  # in the domain, null, outside


@pytest.mark.parametrize(
    ("nulls", "invalid", "expected"),
    [
        ("reject", "reject", [0, None, None]),
        ("other", "reject", [0, 2, None]),
        ("reject", "other", [0, None, 2]),
        ("other", "other", [0, 2, 2]),
    ],
)
@pytest.mark.parametrize("size", [3, 40])
def test_nulls_and_invalid_values_follow_their_own_policy(
    nulls: str, invalid: str, expected: list[int | None], size: int
) -> None:
    codes = ("a", "b", "o", *(f"c{i}" for i in range(size - 3)))
    domain = categories(*codes, nulls=nulls, invalid=invalid, other="o")
    result = code_all(CELLS, domain)
    assert result["code"] == expected
    assert result["null"] == [False, True, False]
    assert result["invalid"] == [False, False, True]


@pytest.mark.parametrize(
    ("nulls", "invalid", "expected"),
    [
        ("reject", "reject", [1, None, None, None]),
        ("other", "reject", [1, 2, None, None]),
        ("reject", "other", [1, None, 2, 2]),
        ("other", "other", [1, 2, 2, 2]),
    ],
)
def test_an_integer_column_has_an_extra_cell_for_other(
    nulls: str, invalid: str, expected: list[int | None]
) -> None:
    domain = integers(0, 5, 10, nulls=nulls, invalid=invalid, other="unknown")
    result = code_all(["7", None, "10", "x"], domain)
    assert result["code"] == expected
    assert result["null"] == [False, True, False, False]
    assert result["invalid"] == [False, False, True, True]


def test_microdata_of_a_hierarchy_hold_leaves() -> None:
    # 0 ── 1, 2;  1 ── 3, 4;  leaves 2, 3, 4 are cells 0, 1, 2
    domain = tree([-1, 0, 0, 1, 1], ("top", "middle", "low"))
    result = code_all(["n2", "n3", "n4", "n1", "n0", "n5"], domain)
    assert result["code"] == [0, 1, 2, None, None, None]
    assert result["invalid"] == [False, False, False, True, True, True]


@given(
    edges=st.lists(st.integers(-50, 50), min_size=2, max_size=12, unique=True).map(sorted),
    values=st.lists(st.integers(-60, 60), min_size=1, max_size=30),
)
@settings(max_examples=40, deadline=None)
def test_any_bins_are_found_as_numpy_finds_them(edges: list[int], values: list[int]) -> None:
    codes = code_all(values, integers(*edges), pa.int64())["code"]
    places = np.searchsorted(edges, values, side="right") - 1
    expected = [int(p) if 0 <= p < len(edges) - 1 else None for p in places]
    assert codes == expected


@given(
    start=st.integers(-40, 40),
    width=st.integers(1, 9),
    bins=st.integers(1, 12),
    last=st.integers(1, 9),
    values=st.lists(st.integers(-60, 160), min_size=1, max_size=30),
)
@settings(max_examples=40, deadline=None)
def test_regular_bins_with_a_narrow_last_one(
    start: int, width: int, bins: int, last: int, values: list[int]
) -> None:
    edges = [start + width * i for i in range(bins + 1)]
    edges.append(edges[-1] + min(last, width))
    codes = code_all(values, integers(*edges), pa.int64())["code"]
    places = np.searchsorted(edges, values, side="right") - 1
    assert codes == [int(p) if 0 <= p < len(edges) - 1 else None for p in places]


@given(values=st.lists(st.one_of(st.none(), st.text(max_size=3), st.sampled_from(["c0", "c7", "c39"]))))
@settings(max_examples=30, deadline=None)
def test_a_long_list_is_joined_to_the_same_codes_as_a_dictionary_gives(values: list[str | None]) -> None:
    codes = [f"c{i}" for i in range(40)]
    lookup = {code: place for place, code in enumerate(codes)}
    result = code_all(pa.array(values, pa.string()), categories(*codes))
    assert result["code"] == [lookup.get(value) if value is not None else None for value in values]


def test_a_record_is_kept_when_every_code_and_the_unit_are_known() -> None:
    domains: dict[str, Domain] = {"a": categories("x", "y"), "b": integers(0, 10)}
    table = ibis.memtable(
        pa.table(
            {
                "r0": ["x", "x", "q", "y", None],
                "r1": pa.array([3, 99, 3, 9, 3]),
                "unit": ["u", "u", "u", None, "u"],
            }
        )
    )
    from tabularium.tasks.ingest.open_source import quietly

    rows = coded(table, {"a": "r0", "b": "r1"}, domains)
    with_unit = quietly(rows.mutate(keep=kept(rows, domains, "unit")).to_pyarrow)["keep"].to_pylist()
    without = quietly(rows.mutate(keep=kept(rows, domains, None)).to_pyarrow)["keep"].to_pylist()
    assert with_unit == [True, False, False, False, False]
    assert without == [True, False, False, True, False]


@pytest.mark.parametrize(("size", "kind"), [(7, "int32"), (70_000, "int64")])
def test_cell_numbers_are_row_major_and_wide_enough(size: int, kind: str) -> None:
    domains: dict[str, Domain] = {"a": integers(*range(size + 1)), "b": integers(*range(size + 1))}
    table = ibis.memtable(pa.table({"r0": [0, 0, size - 1], "r1": [0, 3, size - 1]}))
    from tabularium.tasks.ingest.open_source import quietly

    rows = coded(table, {"a": "r0", "b": "r1"}, domains)
    number = cell_number(rows, ["a", "b"], domains)
    result = quietly(rows.select(n=number).to_pyarrow)
    assert sorted(result["n"].to_pylist()) == [0, 3, size * size - 1]
    assert str(number.type()) == kind


@pytest.mark.parametrize("dialect", ["duckdb", "postgres", "pyspark", "snowflake", "bigquery", "trino"])
def test_the_same_expression_compiles_for_other_engines(dialect: str) -> None:
    domains: dict[str, Domain] = {
        "area": tree([-1, *[0] * 30], ("all", "area")),
        "age": integers(0, 5, 18, 65, 100, nulls="other", invalid="other", other="unknown"),
        "income": integers(0, 10, 20, 25),
        "sex": categories("1", "2"),
    }
    raw = {name: f"raw{place}" for place, name in enumerate(domains)}
    kinds = {"raw0": "string", "raw1": "string", "raw2": "int64", "raw3": "int64"}
    rows = coded(ibis.table(kinds, name="people"), raw, domains)
    counted = rows.filter(kept(rows, domains, None))
    number = cell_number(counted, ["area", "age", "income", "sex"], domains)
    sql = str(ibis.to_sql(counted.group_by(cell=number).aggregate(n=counted.count()), dialect=dialect))
    assert coded_names(domains)["age"].code in sql
    assert "GROUP BY" in sql


LABELS = {
    "{from: 10, to: 90, edges: [18.5, 25]}": ("10 to under 18.5", "18.5 to under 25", "25 to 90"),
    "{from: 0, to: 1, width: 0.4}": ("0 to under 0.4", "0.4 to under 0.8", "0.8 to 1"),
    '{from: "-0.5", to: 0.5, edges: [0, 0.5]}': ("-0.5 to under 0", "0 to under 0.5", "0.5"),
    "{from: 0.0, to: 9.0, width: 5}": ("0-4", "5-9"),
}


@pytest.mark.parametrize("integer", LABELS)
def test_labels_of_decimals_say_which_end_belongs(integer: str, tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(
        "product: p\ndataset: d\nperiod: '2026'\nsource: {path: x.csv}\nprivacy: {unit: record, budget: '1'}\n"
        f"columns: {{x: {{integer: {integer}}}}}\ntables: [{{name: t, dimensions: [x]}}]\n"
    )
    assert load_spec(tmp_path / "spec.yaml").domains["x"].labels == LABELS[integer]
