"""Instants are dated in a zone that the spec or the schema names, the same in every engine, or refused."""

from __future__ import annotations

import datetime as dt
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import ibis
import psycopg
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tabularium.mechanisms.errors import InputRefused
from tabularium.tasks.engines.spark import SparkRun
from tabularium.tasks.ingest.open_source import quietly
from tabularium.validations.derivation import coded_columns, is_utc, offsets_of, zone_names
from tabularium.validations.domains.domains import Domain, NumberDomain
from tabularium.validations.domains.encoding import coded_names
from tabularium.validations.release_spec.columns import DatePart, Derivation
from tests.ledger.storage.postgres import Server
from tests.sizes import runs
from tests.tasks.engines import one_spec

PARTS = {"year": "year", "month": "month", "iso_week": "week", "age": "old"}
SPEC = """\
product: births
dataset: births
period: "2026"
source: {{{source}, max_rejected: "100%"}}
privacy: {{unit: record, budget: "1"}}
columns:
  years: {{from: born, date: {{part: year ZONE}}, integer: {{from: 1890, to: 2110}}}}
  months: {{from: born, date: {{part: month ZONE}}, integer: {{from: 1, to: 12}}}}
  weeks: {{from: born, date: {{part: iso_week ZONE}}, integer: {{from: 1, to: 53}}}}
  ages: {{from: born, date: {{part: age, at: "2110-06-30" ZONE}}, integer: {{from: 0, to: 230}}}}
tables:
  - {{name: years, dimensions: [years]}}
  - {{name: months, dimensions: [months], where: "years >= 2000"}}
  - {{name: weeks, dimensions: [weeks]}}
  - {{name: ages, dimensions: [ages]}}
rules:
  - {{rule: range, column: years, min: 1892, max: 2101}}
"""
ROME = ZoneInfo("Europe/Rome")
# In Rome: midnight at the turn of years, of weeks and at a change of clocks; clocks by the sun until 1893; a zone
# other than that of today; and beyond the years of which the changes are listed.
CLOCKS = [
    *(dt.datetime(year, 1, 1) for year in (1893, 1894, 1900, 1950, 1999, 2000, 2026, 2100, 2101)),
    *(dt.datetime(year, 12, 31, 23, 59, 59) for year in (1892, 1943, 1999, 2024, 2099)),
    *(dt.datetime(2026, month, 1) for month in range(1, 13)),
    *(dt.datetime(2026, 3, day, hour) for day in (29, 30) for hour in (0, 1, 3)),
    *(dt.datetime(2100, 7, 1) for _ in range(3)),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999_000),
]
BORN = [clock.replace(tzinfo=ROME) for clock in CLOCKS]
FORMS = ("zone of the schema", "nanoseconds", "another zone", "UTC", "INT96", "texts with offsets", "duckdb")
TIMES = pa.timestamp("us", "UTC")
_LAST_OF_1999 = int(dt.datetime(1999, 12, 31, 23, 59, 59, tzinfo=ROME).timestamp()) * 10**9


def source(folder: Path, form: str) -> str:
    """Write the births in one form, and return the source of the spec."""
    folder.mkdir(exist_ok=True)
    kinds = {
        "zone of the schema": pa.timestamp("us", "Europe/Rome"),
        "nanoseconds": pa.timestamp("ns", "Europe/Rome"),
        "another zone": pa.timestamp("ms", "Pacific/Kiritimati"),
        "INT96": pa.timestamp("ns", "UTC"),
    }
    if form == "texts with offsets":
        texts = [each.astimezone(dt.UTC).isoformat(" ") for each in BORN[::2]] + [
            each.isoformat("T") for each in BORN[1::2]
        ]
        pa.csv.write_csv(pa.table({"born": texts}), folder / "births.csv")
        return "path: births.csv"
    if form == "duckdb":
        with duckdb.connect(str(folder / "births.duckdb")) as database:
            table = pa.table({"born": pa.array(BORN, TIMES)})
            database.register("births_of_2026", table)
            database.execute("CREATE TABLE births AS SELECT * FROM births_of_2026")
        return 'url: "duckdb:///births.duckdb", table: births'
    instants = pa.array(BORN, TIMES).cast(kinds.get(form, TIMES))
    if form == "nanoseconds":  # an engine that rounds to microseconds would find another day
        nanos = pa.compute.add(instants.cast(pa.int64()), pa.scalar(999))
        last = pa.compute.equal(instants.cast(pa.int64()), pa.scalar(_LAST_OF_1999))
        instants = pa.compute.if_else(last, pa.scalar(_LAST_OF_1999 + 999_999_999), nanos).cast(kinds[form])
    pq.write_table(
        pa.table({"born": instants}),
        folder / "births.parquet",
        use_deprecated_int96_timestamps=form == "INT96",
    )
    return "path: births.parquet"


def years_found(folder: Path, source: str, zone: str | None) -> one_spec.Found:
    text = SPEC.replace(" ZONE", "" if zone is None else f", zone: {zone}")
    return one_spec.found(one_spec.spec(folder, source, text))


def check(found: one_spec.Found, place: ZoneInfo = ROME) -> None:
    """See that the counts are those of Python's calendar in a place."""
    dates = [each.astimezone(place).date() for each in BORN]
    at = (110, 6, 30)
    expected = {
        "years": Counter(day.year - 1890 for day in dates),
        "months": Counter(day.month - 1 for day in dates if day.year >= 2000),
        "weeks": Counter(day.isocalendar().week - 1 for day in dates),
        "ages": Counter(2000 + at[0] - day.year - ((day.month, day.day) > at[1:]) for day in dates),
    }
    for name, cells in expected.items():
        counted = next(counts for table, counts in found.counts.items() if table.startswith(name))
        flat = counted[0] if isinstance(counted[0], list) else counted
        assert {cell: number for cell, number in enumerate(flat) if number} == dict(cells), name


@pytest.fixture(autouse=True)
def session_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have DuckDB's sessions in a zone that decides nothing."""
    connect = ibis.duckdb.connect

    def far_away(*args: Any, **settings: Any) -> Any:
        connection = connect(*args, **settings)
        connection.con.execute("SET TimeZone = 'Pacific/Kiritimati'")
        return connection

    monkeypatch.setattr("tabularium.tasks.ingest.open_source.ibis.duckdb.connect", far_away)


@pytest.mark.parametrize(
    ("form", "zone"), [*((form, "Europe/Rome") for form in FORMS), (FORMS[0], "Asia/Tokyo")]
)
def test_births_are_dated_in_the_zone_of_the_spec(form: str, zone: str, tmp_path: Path) -> None:
    check(years_found(tmp_path, source(tmp_path, form), zone), ZoneInfo(zone))


@pytest.mark.parametrize(
    ("form", "zone"), [(FORMS[0], ROME), (FORMS[1], ROME), (FORMS[2], ZoneInfo("Pacific/Kiritimati"))]
)
def test_births_are_dated_in_the_zone_of_the_schema(form: str, zone: ZoneInfo, tmp_path: Path) -> None:
    check(years_found(tmp_path, source(tmp_path, form), None), zone)


@pytest.mark.parametrize("form", ["UTC", "INT96", "duckdb"])
def test_instants_without_a_zone_are_refused(form: str, tmp_path: Path) -> None:
    place = source(tmp_path, form)
    with pytest.raises(InputRefused) as caught:
        years_found(tmp_path, place, None)
    assert caught.value.where == "columns.years.date"
    assert "zone: Europe/Rome" in caught.value.hint
    check(years_found(tmp_path, place, "UTC"), ZoneInfo("UTC"))


def test_text_keeps_its_own_clock_until_a_zone_is_named(tmp_path: Path) -> None:
    texts = ["2000-01-01T00:00:00+01:00", "2000-01-01", "2000-01-01 00:30", "1999-12-31T23:59:59Z"]
    pa.csv.write_csv(pa.table({"born": texts}), tmp_path / "births.csv")
    for zone, years in ((None, [1, 3]), ("Europe/Rome", [0, 4]), ("America/New_York", [2, 2])):
        counts = years_found(tmp_path, "path: births.csv", zone).counts
        (cells,) = (cells for name, cells in counts.items() if name.startswith("years"))
        flat = cells[0] if isinstance(cells[0], list) else cells
        assert flat[109:111] == years, zone


# ---- engines that hold the records


@pytest.fixture(scope="module")
def database(server: Server) -> Iterator[str]:
    """A database whose sessions are in Tokyo."""
    if not server.socket:
        pytest.skip("the folder of the server's socket has too long a name")
    name = server.new_database()
    with psycopg.connect(server.dsn("postgres"), autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name} SET timezone = 'Asia/Tokyo'")  # type: ignore[call-overload]
    types = {TIMES: "timestamptz", **one_spec.TYPES}
    one_spec.put(server, name, pa.table({"born": pa.array(BORN, TIMES)}), "births", types)
    yield name
    server.drop_database(name)


@pytest.mark.parametrize("engine", [", engine: postgresql", ""])
def test_postgresql_dates_as_duckdb_does(server: Server, database: str, engine: str, tmp_path: Path) -> None:
    if not engine:
        pytest.importorskip("ibis.backends.postgres")
    place = f'url: "{server.socket_url(database)}", table: births{engine}'
    for zone in ("Europe/Rome", "America/New_York"):
        check(years_found(tmp_path, place, zone), ZoneInfo(zone))
    with pytest.raises(InputRefused, match="depends on a time zone"):
        years_found(tmp_path, place, None)


@pytest.mark.audit
@pytest.mark.filterwarnings("ignore")
def test_spark_dates_as_duckdb_does(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason='PySpark is not installed: pip install "tabularium-dp[spark]"')
    if shutil.which("java") is None:
        pytest.skip("there is no Java")
    run = SparkRun("local[2]", tmp_path)
    end, run.close = run.close, lambda: None  # type: ignore[method-assign]
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("tabularium.tasks.engines.spark.SparkRun", lambda master, scratch: run)
            for form in ("zone of the schema", "UTC", "INT96"):
                place = source(tmp_path, form) + ", engine: spark, master: 'local[2]'"
                for zone in ("Europe/Rome", "America/New_York"):
                    check(years_found(tmp_path, place, zone), ZoneInfo(zone))
                with pytest.raises(InputRefused, match="depends on a time zone"):
                    years_found(tmp_path, place, None)
    finally:
        end()


# ---- what else reads times


KEYS = """\
product: births
dataset: births
period: "2026"
source: {{path: births.parquet}}
lookups: {{days: {{path: days.parquet, key: born, public: "the list of days"}}}}
privacy: {{unit: record, budget: "1"}}
columns:
  kind: {{from: days.kind, categories: [a, b]}}
tables: [{{name: kinds, dimensions: [kind]}}]
"""


@pytest.mark.parametrize(
    ("days", "fits"),
    [
        (pa.timestamp("us", "Asia/Tokyo"), True),
        (TIMES, True),
        (pa.timestamp("us"), False),
        (pa.string(), False),
    ],
)
def test_instants_are_keys_among_instants_only(days: pa.DataType, fits: bool, tmp_path: Path) -> None:
    source(tmp_path, "zone of the schema")
    born = pa.array(list(dict.fromkeys(BORN)), TIMES)
    kinds = ["ab"[place % 2] for place in range(len(born))]
    pq.write_table(pa.table({"born": born.cast(days), "kind": kinds}), tmp_path / "days.parquet")
    if fits:
        found = one_spec.found(one_spec.spec(tmp_path, "", KEYS))
        assert (found.metrics.rows, found.metrics.kept) == (len(BORN), len(BORN))
        return
    with pytest.raises(InputRefused, match="looked up among what are no such times"):
        one_spec.found(one_spec.spec(tmp_path, "", KEYS))


def test_instants_are_no_codes(tmp_path: Path) -> None:
    spec = SPEC.replace(" ZONE", "").replace("date: {{part: year}}", 'map: {{"2000": "2000"}}')
    with pytest.raises(InputRefused, match="whose text is no code"):
        one_spec.found(one_spec.spec(tmp_path, source(tmp_path, "zone of the schema"), spec))


# ---- the zones themselves


INSTANTS = st.datetimes(dt.datetime(1, 1, 3), dt.datetime(9999, 12, 28), timezones=st.just(dt.UTC))


@settings(max_examples=runs(4, 60), deadline=None)
@example(zone="Europe/Rome", instants=[], ahead=0)
@example(zone="Africa/Casablanca", instants=[], ahead=-120)
@given(
    zone=st.sampled_from([name for name in zone_names() if "/" in name]),
    instants=st.lists(INSTANTS, max_size=100),
    ahead=st.integers(-1439, 1439),
)
def test_any_instant_has_the_date_of_python(zone: str, instants: list[dt.datetime], ahead: int) -> None:
    place, clock = ZoneInfo(zone), dt.timezone(dt.timedelta(minutes=ahead))
    changes = [
        dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=change - 719_468 * 86_400 + step)
        for change in offsets_of(zone).changes
        for step in (-1, 0)
    ]
    whens = [*instants, *changes, dt.datetime(9000, 7, 1, tzinfo=dt.UTC)]
    table = ibis.memtable(
        pa.table({"row": range(len(whens)), "raw": [when.astimezone(clock).isoformat() for when in whens]})
    )
    columns = {
        part: Derivation(source_column="born", date=DatePart(part=part, zone=zone))
        for part in ("year", "month")
    }
    domains: dict[str, Domain] = {
        name: NumberDomain(name, (-9000, 0, 20_000), ("a", "b")) for name in columns
    }
    made = coded_columns(table, {"born": "raw"}, columns, domains).order_by("row")
    rows = quietly(made.to_pyarrow).to_pydict()
    there = [when.astimezone(place) for when in whens]
    names = coded_names(domains)
    assert rows[names["year"].value or ""] == [each.year for each in there]
    assert rows[names["month"].value or ""] == [each.month for each in there]


def test_utc_under_any_name_is_no_place() -> None:
    assert all(map(is_utc, ("UTC", "Etc/UTC", "Zulu", "GMT", "+00:00", "-00:00", "Z")))
    assert not any(map(is_utc, ("Europe/London", "Africa/Abidjan", "+01:00", "Nowhere")))
