"""Spark counts as DuckDB does; nothing of its session is left, and files that change end the run.

A session takes some ten seconds to start and PySpark is no small thing to install: at full size only, where it
and Java are there.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as how
from hypothesis import strategies as st

from mechanisms.errors import InputError
from tasks.engines import in_place
from tasks.engines.spark_session import SparkRun
from tasks.ingest.ingest import ingest_source
from tasks.runtime.kept_open import close_within
from tasks.validate import measure_source
from tests.tasks import front
from tests.tasks.engines import one_spec
from tests.tasks.engines.made_records import RECORDS

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
        patch.setattr("tasks.engines.spark.SparkRun", lambda master, scratch: run)
        yield run
    end()
    assert not [path for path in place.rglob("*") if path.is_file()]


def both(folder: Path, rows: list[one_spec.Row]) -> None:
    one_spec.write(folder, rows)
    here = one_spec.found(one_spec.spec(folder, one_spec.ON_SPARK))
    one_spec.same(here, one_spec.found(one_spec.spec(folder, one_spec.ON_DUCKDB)))


def test_odd_records_are_counted_as_duckdb_counts_them(session: SparkRun, tmp_path: Path) -> None:
    del session
    both(tmp_path, one_spec.ROWS * 3)


@how(max_examples=6, deadline=None)
@given(rows=st.lists(RECORDS, max_size=40))
def test_any_records_are_counted_as_duckdb_counts_them(
    rows: list[one_spec.Row], session: SparkRun, tmp_path_factory: pytest.TempPathFactory
) -> None:
    del session
    both(tmp_path_factory.mktemp("any"), rows)


def test_files_that_change_end_the_run(session: SparkRun, tmp_path: Path) -> None:
    del session
    one_spec.write(tmp_path, one_spec.ROWS)
    loaded = one_spec.spec(tmp_path, one_spec.ON_SPARK, one_spec.SMALL)
    handle = ingest_source(loaded, front.SECRET, tmp_path)
    one_spec.write(tmp_path, one_spec.ROWS[1:])
    with pytest.raises(InputError, match="changed while it was read"):
        measure_source(loaded, handle, tmp_path)
    close_within(tmp_path)
    other = ingest_source(loaded, front.SECRET, tmp_path)
    assert other.digest != handle.digest
    one_spec.write(tmp_path, one_spec.ROWS[::-1])
    close_within(tmp_path)
    in_order = ingest_source(loaded, front.SECRET, tmp_path).digest
    assert in_order == handle.digest  # of records, not of bytes or of their order
    assert in_place.IN_PLACE == ("postgresql", "spark")


def test_the_session_keeps_to_itself(session: SparkRun) -> None:
    conf = dict(session.session.sparkContext.getConf().getAll())
    for name in ("spark.authenticate", "spark.io.encryption.enabled", "spark.network.crypto.enabled"):
        assert conf[name] == "true", name
    assert conf["spark.ui.enabled"] == conf["spark.eventLog.enabled"] == "false"
    assert session.session.sparkContext.uiWebUrl is None
    assert Path(conf["spark.local.dir"]).stat().st_mode & 0o077 == 0
