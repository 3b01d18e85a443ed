"""A table of PostgreSQL is counted where it lies: as DuckDB counts it, in one snapshot, without the secret."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psycopg
import pytest
from hypothesis import example, given
from hypothesis import settings as how
from hypothesis import strategies as st

from tabularium.mechanisms.errors import InputError, InputRefused
from tabularium.tasks.count.count import count_tables
from tabularium.tasks.ingest.ingest import ingest_source
from tabularium.tasks.runtime.workspace import close_all
from tabularium.tasks.validate import measure_source
from tests.ledger.storage.postgres import Server
from tests.tasks import front
from tests.tasks.engines import one_spec
from tests.tasks.engines.made_records import RECORDS, many


@pytest.fixture(scope="module")
def database(server: Server) -> Iterator[str]:
    """A database of this module's own, of which the server logs every statement."""
    if not server.socket:
        pytest.skip("the folder of the server's socket has too long a name")
    name = server.new_database()
    with psycopg.connect(server.dsn("postgres"), autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name} SET log_statement = 'all'")  # type: ignore[call-overload]
    yield name
    server.drop_database(name)


def both(
    folder: Path, server: Server, database: str, rows: list[one_spec.Row], text: str = one_spec.SPEC
) -> one_spec.Found:
    one_spec.put(server, database, one_spec.write(folder, rows))
    here = one_spec.found(one_spec.spec(folder, one_spec.on_postgresql(server, database), text))
    one_spec.same(here, one_spec.found(one_spec.spec(folder, one_spec.ON_DUCKDB, text)))
    return here


def test_odd_records_are_counted_as_duckdb_counts_them(server: Server, database: str, tmp_path: Path) -> None:
    before, marked = len(server.log()), front.SENTINEL
    rows = [*one_spec.ROWS, (f"{marked} p", f"{marked} n", marked, marked, f"{marked} h", 17, 1.5)]
    both(tmp_path, server, database, rows * 3)
    said = server.log()[before:]
    assert "GROUPING SETS" in said and "arameters: " in said  # the log does have what it is searched for
    assert marked not in said
    encoded = base64.b64encode(front.SECRET).decode().rstrip("=")[:-1]
    assert not [form for form in (front.SECRET.decode(), front.SECRET.hex(), encoded) if form in said]


def test_different_values_are_counted_as_duckdb_counts_them(
    server: Server, database: str, tmp_path: Path
) -> None:
    rows = [*one_spec.ROWS * 3, *many(200)]
    found = both(tmp_path, server, database, rows, one_spec.DISTINCT).counts
    parts, whole = np.array(found["people-homes.place"]), np.array(found["people-homes.all"])
    assert 0 < whole.sum() < parts.sum()


@pytest.mark.audit
@how(max_examples=20, deadline=None)
@example(rows=[])
@given(rows=st.lists(RECORDS, max_size=25))
def test_any_records_are_counted_as_duckdb_counts_them(
    rows: list[one_spec.Row], server: Server, database: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    both(tmp_path_factory.mktemp("any"), server, database, rows)


@pytest.mark.audit
def test_many_records_are_counted_as_duckdb_counts_them(
    server: Server, database: str, tmp_path: Path
) -> None:
    both(tmp_path, server, database, many(3000))


def test_digest_metrics_and_counts_are_of_one_snapshot(server: Server, database: str, tmp_path: Path) -> None:
    one_spec.put(server, database, one_spec.write(tmp_path, one_spec.ROWS))
    loaded = one_spec.spec(tmp_path, one_spec.on_postgresql(server, database), one_spec.SMALL)
    first, scratch = one_spec.found(loaded), tmp_path / "scratch"
    handle = ingest_source(loaded, front.SECRET, scratch)
    with psycopg.connect(server.dsn(database)) as other:
        other.execute("UPDATE people SET region = 's', income = 1")
        other.execute("INSERT INTO people SELECT * FROM people")
    assert handle.digest == first.digest
    assert measure_source(loaded, handle, scratch) == first.metrics
    made = count_tables(loaded, handle, scratch, secret=front.SECRET, bounding=front.BOUNDING)
    assert all(
        cells == first.counts[f"{table}.{level}"] for (table, level), cells in front.arrays(made).items()
    )
    close_all(scratch)
    assert one_spec.found(loaded).digest != first.digest
    with pytest.raises(InputError, match="the view of the records that the run began with is gone"):
        measure_source(loaded, handle, scratch)


def test_the_digest_is_of_records_and_not_of_their_order(
    server: Server, database: str, tmp_path: Path
) -> None:
    rows, digests = one_spec.ROWS, []
    swapped = [
        (*rows[0][:4], rows[3][4], *rows[0][5:]),
        *rows[1:3],
        (*rows[3][:4], rows[0][4], *rows[3][5:]),
        *rows[4:],
    ]
    empty = [
        tuple("" if value is None and i in (0, 4) else value for i, value in enumerate(row)) for row in rows
    ]
    for records in (rows, rows[::-1], rows + rows[:1], swapped, empty):
        one_spec.put(server, database, one_spec.write(tmp_path, records))
        loaded = one_spec.spec(tmp_path, one_spec.on_postgresql(server, database), one_spec.SMALL)
        digests.append(ingest_source(loaded, front.SECRET, tmp_path).digest)
        close_all(tmp_path)
    assert digests[0] == digests[1] and len(set(digests)) == len(digests) - 1


def test_units_are_compared_by_bytes_whatever_the_collation(
    server: Server, database: str, tmp_path: Path
) -> None:
    """To the collation p and P are one unit, of whose records two would be kept."""
    with psycopg.connect(server.dsn(database), autocommit=True) as connection:
        try:
            connection.execute(
                "CREATE COLLATION any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
            )
        except psycopg.errors.FeatureNotSupported:
            pytest.skip("this PostgreSQL has no ICU")
    rows = [(name, "n", "1", None, name, 17, 1.0) for name in ("p", "P", "p", "P")]
    types = {**one_spec.TYPES, one_spec.SCHEMA.field("person").type: "text COLLATE any_case"}
    one_spec.put(server, database, one_spec.write(tmp_path, rows), types=types)
    found = one_spec.found(one_spec.spec(tmp_path, one_spec.on_postgresql(server, database), one_spec.SMALL))
    assert sum(found.counts["people."]) == 4 and found.counts["homes"][0] == [2, 2]
    assert found.metrics.duplicates == {"unique(person, home)": 2}


def test_the_same_records_are_kept_whatever_the_collation_of_the_database(
    server: Server, tmp_path: Path
) -> None:
    """In Danish aa is the last letter: digests, by which records are kept, would be in another order."""
    name = f"t{secrets.token_hex(6)}"
    with psycopg.connect(server.dsn("postgres"), autocommit=True) as connection:
        try:
            connection.execute(
                f"CREATE DATABASE {name} TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'da'"  # type: ignore[call-overload]
            )
        except psycopg.Error:
            pytest.skip("this PostgreSQL has no databases of an ICU locale")
    rows = [(f"p{i // 3}", "ns"[i % 2], "1", None, f"h{i}", 17, float(i % 90)) for i in range(1800)]
    try:
        with psycopg.connect(server.dsn(name)) as connection:
            assert connection.execute("SELECT 'aa' < 'b'").fetchone() == (False,)
        one_spec.put(server, name, one_spec.write(tmp_path, rows))
        source = one_spec.on_postgresql(server, name)
        here = one_spec.found(one_spec.spec(tmp_path, source, one_spec.SMALL))
        one_spec.same(here, one_spec.found(one_spec.spec(tmp_path, one_spec.ON_DUCKDB, one_spec.SMALL)))
    finally:
        server.drop_database(name)


def test_numbers_in_text_are_read_as_duckdb_reads_them(server: Server, database: str, tmp_path: Path) -> None:
    one_spec.put(server, database, one_spec.write(tmp_path, one_spec.NUMBERS))
    source = one_spec.on_postgresql(server, database)
    here = one_spec.found(one_spec.spec(tmp_path, source, one_spec.WRITTEN))
    one_spec.see_written(here)
    one_spec.same(here, one_spec.found(one_spec.spec(tmp_path, one_spec.ON_DUCKDB, one_spec.WRITTEN)))


def test_decimals_of_any_size_are_read(server: Server, database: str, tmp_path: Path) -> None:
    one_spec.put(
        server,
        database,
        one_spec.write(tmp_path, [(f"p{i}", "n", "1", None, "h", 1, None) for i in range(6)]),
    )
    values = ("NULL", "'NaN'", "5.4", "1e400", "-1e400", "1e-400")
    with psycopg.connect(server.dsn(database), autocommit=True) as connection:
        connection.execute("ALTER TABLE people ALTER income TYPE numeric")
        for number, value in enumerate(values):
            connection.execute(f"UPDATE people SET income = {value} WHERE person = 'p{number}'")  # type: ignore[call-overload]
    found = one_spec.found(one_spec.spec(tmp_path, one_spec.on_postgresql(server, database), one_spec.SMALL))
    assert found.counts["people."] == [6, 0]
    assert found.counts["people-all."] == [5 + 90, 0]
    assert found.metrics.numbers["income"] == (2, 4)


def test_a_view_that_gives_other_records_each_time_is_refused(
    server: Server, database: str, tmp_path: Path
) -> None:
    one_spec.put(server, database, one_spec.write(tmp_path, one_spec.ROWS), "held")
    columns = "person, region, weight, born, home, age"
    with psycopg.connect(server.dsn(database), autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS people")
        connection.execute(f"CREATE VIEW people AS SELECT {columns}, random() AS income FROM held")  # type: ignore[call-overload]
    loaded = one_spec.spec(tmp_path, one_spec.on_postgresql(server, database), one_spec.SMALL)
    try:
        with pytest.raises(InputError, match="other records when it was read again"):
            one_spec.found(loaded)
    finally:
        with psycopg.connect(server.dsn(database), autocommit=True) as connection:
            connection.execute("DROP VIEW people")


def test_a_policy_that_hides_records_is_refused(server: Server, database: str, tmp_path: Path) -> None:
    one_spec.put(server, database, one_spec.write(tmp_path, one_spec.ROWS))
    with psycopg.connect(server.dsn(database), autocommit=True) as connection:
        connection.execute("CREATE ROLE reader LOGIN")
        try:
            connection.execute("GRANT SELECT ON people TO reader")
            connection.execute("ALTER TABLE people ENABLE ROW LEVEL SECURITY")
            connection.execute("CREATE POLICY half ON people USING (random() < 0.5)")
            source = one_spec.on_postgresql(server, database).replace("keeper@", "reader@")
            with pytest.raises(InputError, match="a row policy hides records from this user"):
                ingest_source(one_spec.spec(tmp_path, source, one_spec.SMALL), front.SECRET, tmp_path)
        finally:
            connection.execute("DROP OWNED BY reader")
            connection.execute("DROP ROLE reader")
            connection.execute("DROP TABLE people")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("ALTER TABLE people DROP COLUMN region", "the table lacks 'region'"),
        (
            "ALTER TABLE people ALTER person TYPE float8 USING 1.5",
            "units and items are distinguished by text",
        ),
        ("ALTER TABLE people ALTER region TYPE text[] USING ARRAY[region]", "no codes and no numbers"),
        ("DROP TABLE people", "there is no such table"),
    ],
)
def test_what_is_wrong_with_a_table_is_told_without_its_data(
    server: Server, database: str, tmp_path: Path, change: str, message: str
) -> None:
    one_spec.put(server, database, one_spec.write(tmp_path, one_spec.ROWS))
    with psycopg.connect(server.dsn(database), autocommit=True) as connection:
        connection.execute(change)  # type: ignore[call-overload]
    loaded = one_spec.spec(tmp_path, one_spec.on_postgresql(server, database), one_spec.SMALL)
    with pytest.raises((InputError, InputRefused), match=message) as caught:
        ingest_source(loaded, front.SECRET, tmp_path)
    assert caught.value.__context__ is None
