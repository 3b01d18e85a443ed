"""Spark counts as DuckDB does; nothing of its session is left, and files that change end the run.

A session takes some ten seconds to start and PySpark is no small thing to install: at full size only, where it
and Java are there.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import settings as how
from hypothesis import strategies as st

from tabularium.mechanisms.errors import InputError, InputRefused
from tabularium.tasks.engines import in_place
from tabularium.tasks.engines.spark import SparkRun, SparkSource
from tabularium.tasks.ingest.ingest import ingest_source
from tabularium.tasks.runtime.workspace import close_all
from tabularium.tasks.validate import measure_source
from tabularium.validations.release_spec.load import Loaded
from tests.tasks import front
from tests.tasks.engines import one_spec
from tests.tasks.engines.made_records import RECORDS, many

# PySpark warns of libraries of its own and leaves sockets to Python's collector.
pytestmark = [pytest.mark.audit, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkRun]:
    """One session for all tests, since each takes long to start; it is not ended with a source."""
    pytest.importorskip("pyspark", reason='PySpark is not installed: pip install "tabularium-dp[spark]"')
    if shutil.which("java") is None:
        pytest.skip("there is no Java")
    place = tmp_path_factory.mktemp("session")
    run = SparkRun("local[2]", place)
    end, run.close = run.close, lambda: None  # type: ignore[method-assign]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tabularium.tasks.engines.spark.SparkRun", lambda master, scratch: run)
        yield run
    end()
    assert not [path for path in place.rglob("*") if path.is_file()]


def both(folder: Path, rows: list[one_spec.Row], text: str = one_spec.SPEC) -> None:
    one_spec.write(folder, rows)
    here = one_spec.found(one_spec.spec(folder, one_spec.ON_SPARK, text))
    one_spec.same(here, one_spec.found(one_spec.spec(folder, one_spec.ON_DUCKDB, text)))


def test_odd_records_are_counted_as_duckdb_counts_them(session: SparkRun, tmp_path: Path) -> None:
    del session
    both(tmp_path, one_spec.ROWS * 3)


def test_different_values_are_counted_as_duckdb_counts_them(session: SparkRun, tmp_path: Path) -> None:
    del session
    both(tmp_path, [*one_spec.ROWS * 3, *many(200)], one_spec.DISTINCT)


def test_numbers_in_text_are_read_as_the_source_writes_them(session: SparkRun, tmp_path: Path) -> None:
    del session
    one_spec.write(tmp_path, one_spec.NUMBERS)
    one_spec.see_written(one_spec.found(one_spec.spec(tmp_path, one_spec.ON_SPARK, one_spec.WRITTEN)))


@how(max_examples=6, deadline=None)
@example(rows=[])
@given(rows=st.lists(RECORDS, max_size=40))
def test_any_records_are_counted_as_duckdb_counts_them(
    rows: list[one_spec.Row], session: SparkRun, tmp_path_factory: pytest.TempPathFactory
) -> None:
    del session
    both(tmp_path_factory.mktemp("any"), rows)


def test_many_records_are_counted_as_duckdb_counts_them(session: SparkRun, tmp_path: Path) -> None:
    del session
    both(tmp_path, many(1500))


def test_files_that_change_end_the_run(session: SparkRun, tmp_path: Path) -> None:
    del session
    one_spec.write(tmp_path, one_spec.ROWS)
    loaded = one_spec.spec(tmp_path, one_spec.ON_SPARK, one_spec.SMALL)
    handle = ingest_source(loaded, front.SECRET, tmp_path)
    one_spec.write(tmp_path, one_spec.ROWS[1:])
    with pytest.raises(InputError, match="changed while it was read"):
        measure_source(loaded, handle, tmp_path)
    close_all(tmp_path)
    other = ingest_source(loaded, front.SECRET, tmp_path)
    assert other.digest != handle.digest
    one_spec.write(tmp_path, one_spec.ROWS[::-1])
    close_all(tmp_path)
    in_order = ingest_source(loaded, front.SECRET, tmp_path).digest
    assert in_order == handle.digest  # of records, not of bytes or of their order
    assert in_place.IN_PLACE == ("postgresql", "spark")


IN_FOLDER = "path: people, format: parquet, engine: spark, master: 'local[2]'"


def several(folder: Path, *tables: pa.Table) -> Loaded:
    """Write tables as files of one folder, and the spec that reads the folder."""
    place = folder / "people"
    place.mkdir()
    for number, table in enumerate(tables):
        pq.write_table(table, place / f"part-{number}.parquet")
    return one_spec.spec(folder, IN_FOLDER, one_spec.SMALL)


def changed(table: pa.Table, column: str, values: list[object]) -> pa.Table:
    return table.set_column(table.schema.names.index(column), column, pa.array(values))


def test_files_of_one_schema_are_one_table(session: SparkRun, tmp_path: Path) -> None:
    """Columns that the spec does not use may differ, and the order of all."""
    del session
    table = one_spec.write(tmp_path, one_spec.ROWS)
    whole = one_spec.spec(tmp_path, one_spec.ON_SPARK, one_spec.SMALL)
    digest = ingest_source(whole, front.SECRET, tmp_path).digest
    close_all(tmp_path)
    other = (
        changed(table[4:], "age", ["a"] * 5)
        .drop_columns(["born"])
        .select(["home", "income", "person", "region"])
    )
    parts = several(tmp_path, table[:4], other, table[:0])
    assert ingest_source(parts, front.SECRET, tmp_path).digest == digest
    close_all(tmp_path)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table.drop_columns(["income"]), "the file lacks 'income'"),
        (
            lambda table: changed(table, "person", [1] * 9),
            "'person' is of type (bigint|string) here, and (bigint|string)",
        ),
        (
            lambda table: changed(table, "income", [{"secret": 1.5}] * 9),
            "'income' is of type (struct|double) here, and (struct|double) in another file",
        ),
    ],
)
def test_files_of_different_schemas_are_refused_before_they_are_read(
    session: SparkRun,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    first: bool,
    change: Callable[[pa.Table], pa.Table],
    message: str,
) -> None:
    """Spark would read all by the schema of one, and give nulls for what another lacks."""
    del session
    monkeypatch.setattr(SparkSource, "batches", lambda *_: pytest.fail("records were read"))
    table = one_spec.write(tmp_path, one_spec.ROWS)
    tables = [table, table, change(table)]
    loaded = several(tmp_path, *(tables[::-1] if first else tables))
    with pytest.raises(InputRefused, match=message) as caught:
        ingest_source(loaded, front.SECRET, tmp_path)
    assert "part-" in str(caught.value) and "\n" not in str(caught.value)


def test_an_empty_file_is_refused(session: SparkRun, tmp_path: Path) -> None:
    """Spark passes over a file of no bytes, as one that was cut off may be."""
    del session
    loaded = several(tmp_path, one_spec.write(tmp_path, one_spec.ROWS))
    (tmp_path / "people" / "part-1.parquet").touch()
    with pytest.raises(InputRefused, match=r"part-1\.parquet: the file is empty"):
        ingest_source(loaded, front.SECRET, tmp_path)


def test_a_column_of_folders_is_one_of_every_file(session: SparkRun, tmp_path: Path) -> None:
    del session
    table = one_spec.write(tmp_path, one_spec.ROWS)
    for region in ("n", "s"):
        (tmp_path / "people" / f"region={region}").mkdir(parents=True)
        pq.write_table(table.drop_columns(["region"]), tmp_path / "people" / f"region={region}" / "a.parquet")
    loaded = one_spec.spec(tmp_path, IN_FOLDER, one_spec.SMALL)
    found = one_spec.found(loaded)
    assert found.metrics.rows == 2 * len(one_spec.ROWS) and found.metrics.columns["region"].nulls == 0
    pq.write_table(table.drop_columns(["region"]), tmp_path / "people" / "b.parquet")
    with pytest.raises(InputRefused, match=r"b\.parquet: the file lacks 'region'"):
        ingest_source(loaded, front.SECRET, tmp_path)


def test_the_session_keeps_to_itself(session: SparkRun) -> None:
    conf = dict(session.session.sparkContext.getConf().getAll())
    for name in ("spark.authenticate", "spark.io.encryption.enabled", "spark.network.crypto.enabled"):
        assert conf[name] == "true", name
    assert conf["spark.ui.enabled"] == conf["spark.eventLog.enabled"] == "false"
    assert session.session.sparkContext.uiWebUrl is None
    assert Path(conf["spark.local.dir"]).stat().st_mode & 0o077 == 0


def test_a_column_in_a_file_and_in_its_folder_is_refused(session: SparkRun, tmp_path: Path) -> None:
    del session
    table = one_spec.write(tmp_path, one_spec.ROWS)
    place = tmp_path / "people" / "region=n"
    place.mkdir(parents=True)
    pq.write_table(table, place / "part.parquet")
    with pytest.raises(InputRefused, match="column 'region' stands in the file and in the names"):
        ingest_source(one_spec.spec(tmp_path, IN_FOLDER, one_spec.SMALL), front.SECRET, tmp_path)
    close_all(tmp_path)
