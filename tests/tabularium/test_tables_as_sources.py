"""``publish`` takes a table in memory: what stands in it is counted, whoever holds it, and nothing else."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tabularium as tb
from tabularium.mechanisms.errors import InputError, InputRefused
from tabularium.tasks.ingest.ingest import handed_over, needed_of, table_of
from tests.flows.release.scene import write_scene

BERLIN = "Europe/Berlin"


@pytest.fixture
def people(tmp_path: Path) -> tuple[Path, Any, pd.DataFrame]:
    """A spec, its home, and its people; their file is gone."""
    spec, home = write_scene(tmp_path)
    file = tmp_path / "people.csv"
    frame = pd.read_csv(file, dtype={"sex": str, "area": str})
    file.unlink()
    return spec, home, frame


def test_a_table_is_one_input_whoever_holds_it_and_is_paid_once(
    people: tuple[Path, Any, pd.DataFrame],
) -> None:
    spec, home, frame = people
    first = tb.publish(spec, source=frame, home=home.path)
    # Backwards, in chunks, with categories that nobody has, and as floats where a value could be missing.
    other = frame.iloc[::-1].astype({"age": float})
    other["sex"] = pd.Categorical(other["sex"], categories=["3", "2", "1"])
    arrow = pa.Table.from_pandas(other, preserve_index=False)
    halves = pa.concat_tables([arrow.slice(0, 100), arrow.slice(100)])
    polars = pl.from_pandas(frame).with_columns(pl.col("sex").cast(pl.Enum(["1", "2", "3"])))
    for table in (other, halves, polars):
        assert tb.publish(spec, source=table, home=home.path).id == first.id
        # For another period the same people are refused, as a file of them would be.
        with pytest.raises(tb.DataRefused, match="the same input was charged for period 2026"):
            tb.publish(spec, source=table, home=home.path, period="2027")
    assert len(tb.open_ledger(home.path).history("people")) == 1
    with pytest.raises(tb.DataRefused, match="another input was bound to this release"):
        tb.publish(spec, source=frame.iloc[:-1], home=home.path)


def test_it_counts_as_its_file_does(tmp_path: Path) -> None:
    """Under a budget that leaves no noise."""
    spec, home = write_scene(tmp_path, budget="2000", cap="9000")
    frame = pd.read_csv(tmp_path / "people.csv", dtype={"sex": str, "area": str})
    read = tb.publish(spec, home=home.path)
    given = tb.publish(spec, source=frame, home=home.path, period="2027")
    for name in read:
        assert given[name].to_pandas().equals(read[name].to_pandas())
    ages = frame["age"].between(20, 64).sum()
    assert given["age_sex"].to_pandas().query("age == '20-64'")["count"].sum() == ages


def test_nothing_of_it_stays(people: tuple[Path, Any, pd.DataFrame], tmp_path: Path) -> None:
    spec, home, frame = people
    tb.publish(spec, source=frame.assign(note="SECRET-4711"), home=home.path)
    assert not [
        each for each in tmp_path.rglob("*") if each.is_file() and b"SECRET-4711" in each.read_bytes()
    ]
    with pytest.raises(tb.DataRefused):
        tb.publish(spec, source=frame.assign(age=4711), home=home.path, period="2027")
    assert not list(tmp_path.rglob("table.parquet")) + list(tmp_path.rglob("values.parquet"))
    assert "a table in memory" not in tb.open(next(tmp_path.rglob("current"))).certificate.written().decode()


@pytest.mark.parametrize(
    ("column", "kind", "value"),
    [
        (pd.Series([1.5, None]), pa.float64(), 1.5),
        (pd.Series([True, None]), pa.bool_(), True),
        (pd.Series(["a", None], dtype="category"), pa.string(), "a"),
        (pd.Series([None, None]), pa.string(), None),
        (pd.Series([dt.date(2020, 1, 31), None]), pa.date32(), dt.date(2020, 1, 31)),
        # A thousandth of a microsecond before midnight stays before it, also before 1970.
        (
            pd.Series([pd.Timestamp("1960-05-05 23:59:59.999999999")]),
            pa.timestamp("us"),
            dt.datetime(1960, 5, 5, 23, 59, 59, 999999),
        ),
        (
            pd.Series([pd.Timestamp("2020-01-01 00:30", tz=BERLIN)]),
            pa.timestamp("us", BERLIN),
            pd.Timestamp("2020-01-01 00:30", tz=BERLIN).to_pydatetime(),
        ),
    ],
)
def test_values_are_as_they_stand(column: pd.Series[Any], kind: pa.DataType, value: Any) -> None:
    found = needed_of(pd.DataFrame({"x": column}), ("x",))["x"]
    assert found.type == kind or (kind == pa.string() and found.type == pa.large_string())
    assert found[0].as_py() == value


def test_an_hour_that_clocks_show_twice_stays_two() -> None:
    night = pd.to_datetime(["2020-10-25 00:30:00", "2020-10-25 01:30:00"]).tz_localize("UTC")
    for unit in ("ns", "us"):
        shown = pd.Series(night.tz_convert(BERLIN)).astype(f"datetime64[{unit}, {BERLIN}]")
        assert [str(each)[11:16] for each in shown] == ["02:30", "02:30"]
        found = needed_of(pd.DataFrame({"x": shown}), ("x",))["x"]
        assert found.to_pandas().dt.tz_convert("UTC").tolist() == night.tolist()


def test_a_missing_number_and_a_time_of_day_are_the_same_from_everywhere() -> None:
    noon = dt.time(12, 0, 0, 1)
    frame = pd.DataFrame({"x": [1.5, None], "at": [noon, None]})
    polars = pl.DataFrame({"x": [1.5, float("nan")], "at": [noon, None]})
    arrow = pa.table(
        {"x": pa.array([1.5, float("nan")]), "at": pa.array([43_200_000_001_999, None], pa.time64("ns"))}
    )
    found = [needed_of(table, ("x", "at")) for table in (frame, pa.table(polars), arrow)]
    assert [each["x"].to_pylist() for each in found] == [[1.5, None]] * 3
    assert [each["at"].to_pylist() for each in found] == [[noon, None]] * 3
    assert {each["at"].type for each in found} == {pa.time64("us")}


@pytest.mark.parametrize(
    ("column", "what"),
    [
        (pd.Series([4711, "two"]), "values of several kinds"),
        (pd.Series([pd.Timedelta("4711s")]), "duration"),
        (pd.Series([b"4711"]), "binary"),
        (pd.Series([[4711]]), "list"),
        (pd.Series([{"4711": 1}]), "struct"),
        (pd.Series(pd.period_range("2020", periods=1, freq="D")), "extension"),
        (pd.Series([object()]), "values of several kinds, or of one that no file has"),
    ],
)
def test_what_no_file_holds_is_refused_by_its_column(column: pd.Series[Any], what: str) -> None:
    with pytest.raises(InputRefused, match=what) as caught:
        needed_of(pd.DataFrame({"x": column, "y": 1}), ("x",))
    assert "'x'" in str(caught.value)
    assert "4711" not in str(caught.value)
    assert caught.value.__cause__ is None and caught.value.__context__ is None
    assert needed_of(pd.DataFrame({"x": column, "y": 1}), ("y",)).num_columns == 1, "nobody asked for x"


@pytest.mark.parametrize(
    ("table", "what"),
    [
        (pd.DataFrame({0: [1]}), "a column is named by a int"),
        (pd.DataFrame([[1, 2]], columns=["x", "x"]), "two columns have one name"),
        (
            pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([("x", "y")])),
            "a column is named by a tuple",
        ),
        (pl.DataFrame({"x": [1]}).lazy(), "LazyFrame is no table; collect it first"),
        ([{"x": 1}], "list is no table; give a DataFrame of pandas or Polars"),
        (pl.Series("x", [1]), "Series could not be read"),
    ],
)
def test_what_is_no_table_is_refused(table: Any, what: str) -> None:
    with pytest.raises(InputError, match=what), handed_over(table):
        pass


def test_an_index_is_no_column() -> None:
    frame = pd.DataFrame({"x": [1]}, index=pd.Index(["a"], name="area"))
    with pytest.raises(InputRefused, match=r"lacks 'area'.*reset_index"):
        needed_of(frame, ("area", "x"))
    with pytest.raises(InputRefused, match=r"lacks 'sex'.*the names under columns"):
        needed_of(frame, ("sex",))


def test_it_is_forgotten() -> None:
    with handed_over(pd.DataFrame({"x": [1]})) as name:
        assert len(table_of(name)) == 1
    with pytest.raises(InputError, match="not in the memory of this process"):
        table_of(name)
