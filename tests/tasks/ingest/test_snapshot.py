"""Ingestion from databases: snapshots, and what is wrong with a database or its driver."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabularium.mechanisms.errors import InputError
from tabularium.tasks.ingest import snapshot
from tabularium.tasks.ingest.ingest import ingest_source
from tests.tasks import front
from tests.tasks.front import SENTINEL


def test_a_snapshot_of_a_table_is_one_input_in_every_database_and_order(tmp_path: Path) -> None:
    rows = [*front.ROWS, ("p9", None, "5", "ü"), ("p9", "", "5", "f")]
    scratch = tmp_path / "scratch"
    digests = set()
    for name, order in (("first", rows), ("second", rows[::-1])):
        _make_databases(tmp_path / name, order)
        for kind in ("sqlite", "duckdb"):
            handle = ingest_source(_database_spec(tmp_path / name, kind), front.SECRET, _made(scratch))
            digests.add(handle.digest)
            assert handle.kind == "snapshot"
            assert oct(Path(handle.files[0].name).stat().st_mode & 0o777) == "0o600"
    assert len(digests) == 1
    # an empty text is not a null, a value belongs to its row, and a row counts as often as it is there
    empty = [tuple("" if value is None else value for value in row) for row in rows]
    for changed in (empty, _swapped(rows), [*rows, rows[0]]):
        _make_databases(tmp_path / "third", changed)
        spec = _database_spec(tmp_path / "third", "sqlite")
        assert ingest_source(spec, front.SECRET, scratch).digest not in digests


@given(rows=st.lists(st.tuples(st.one_of(st.none(), st.text(max_size=3)), st.text(max_size=3)), max_size=25))
@settings(max_examples=10, deadline=None)
def test_a_snapshot_digest_does_not_depend_on_batches(
    rows: list[tuple[str | None, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("batches")
    path = folder / "rows.parquet"
    left, right = ([row[i] for row in rows] for i in (0, 1))
    pq.write_table(
        pa.table({"raw0": pa.array(left, pa.string()), "raw1": pa.array(right, pa.string())}), path
    )
    digests = set()
    for size in (1, 7, 2048):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(snapshot, "BATCH_ROWS", size)
            digests.add(snapshot.snapshot_digest(path, ("a", "b"), front.SECRET, folder))
    assert len(digests) == 1


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_what_is_wrong_with_a_database_is_told_without_its_data(kind: str, tmp_path: Path) -> None:
    scratch = _made(tmp_path / "scratch")
    _make_databases(tmp_path, [(SENTINEL, "A1", "17", "f")])
    for wrong, message in (
        ({"table": "nobody"}, "no such table"),
        ({"file": "nowhere.db"}, "no such database file"),
        ({"column": "grade"}, "the table lacks 'grade'"),
    ):
        with pytest.raises(InputError, match=message) as caught:
            ingest_source(_database_spec(tmp_path, kind, **wrong), front.SECRET, scratch)
        assert SENTINEL not in str(caught.value)
        assert caught.value.__context__ is None
    assert not (tmp_path / "nowhere.db").exists()
    (tmp_path / f"people.{kind}").write_bytes(SENTINEL.encode() * 1000)
    with pytest.raises(InputError) as caught:
        ingest_source(_database_spec(tmp_path, kind), front.SECRET, scratch)
    assert SENTINEL not in str(caught.value)


def test_a_driver_that_is_not_there_is_named(tmp_path: Path) -> None:
    loaded = _database_spec(tmp_path, "postgresql", url="postgresql://127.0.0.1:1/none")
    with pytest.raises(InputError, match="driver for postgresql"):
        ingest_source(loaded, front.SECRET, _made(tmp_path / "scratch"))


def test_numbers_of_a_database_are_read_as_text(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "people.sqlite") as connection:
        connection.execute("create table people (person integer, area text, age real, sex text)")
        connection.execute("insert into people values (1, 'A1', 17.0, 'f'), (2, 'A1', 17.5, 'f')")
    connection.close()
    handle = ingest_source(_database_spec(tmp_path, "sqlite"), front.SECRET, _made(tmp_path / "scratch"))
    rows = pq.read_table(handle.files[0].name).to_pydict()
    assert rows == {"raw0": ["A1", "A1"], "raw1": ["17", "17.5"], "raw2": ["f", "f"]}


def _swapped(rows: list[front.Row]) -> list[front.Row]:
    """The same values in every column, two of them in each other's row."""
    (a, *first), (b, *second), *rest = rows
    first[2], second[2] = second[2], first[2]
    assert first[2] != second[2]
    return [(a, *first), (b, *second), *rest]


def _make_databases(folder: Path, rows: list[front.Row]) -> None:
    shutil.rmtree(folder, ignore_errors=True) if folder.name in {"third"} else None
    folder.mkdir(parents=True, exist_ok=True)
    create = "create table people (person varchar, area varchar, age varchar, sex varchar)"
    with sqlite3.connect(folder / "people.sqlite") as light:
        light.execute(create)
        light.executemany("insert into people values (?, ?, ?, ?)", rows)
    light.close()
    with duckdb.connect(str(folder / "people.duckdb")) as duck:
        duck.execute(create)
        duck.executemany("insert into people values (?, ?, ?, ?)", rows)


def _database_spec(folder: Path, kind: str, table: str = "people", column: str = "sex", **other: str):  # type: ignore[no-untyped-def]
    url = other.get("url", f"{kind}:///{other.get('file', f'people.{kind}')}")

    def edit(text: str) -> str:
        text = text.replace('path: "people.csv"', f'url: "{url}", table: {table}')
        return text.replace("  sex:", f"  {column}:").replace("[sex]", f"[{column}]")

    return front.spec(folder, edit=edit)


def _made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True, mode=0o700)
    return folder
