"""Counts of records: of a machine of our own, of the engine, and of Python's csv, over the same bytes."""

from __future__ import annotations

import csv
import gzip
import io
import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from tabularium.mechanisms.errors import InputRefused
from tabularium.tasks.ingest import csv_text
from tabularium.tasks.ingest.csv_text import RecordCounter
from tabularium.tasks.ingest.find_files import found_again
from tabularium.tasks.ingest.ingest import ingest_source
from tabularium.tasks.ingest.open_source import csv_tables, engine, opened, rows_of
from tabularium.validations.release_spec.load import load_spec
from tabularium.validations.release_spec.source import Files
from tests.sizes import runs
from tests.tasks import front

SPEC = """\
product: people
dataset: census
period: "2026"
source: {{path: {path}{more}}}
privacy: {{unit: record, budget: "1"}}
columns:
  sex: {{categories: [m, f]}}
tables:
  - {{name: t, dimensions: [sex]}}
"""


def counted(folder: Path, path: str, more: str = "") -> dict[str, int]:
    """How many records of each sex the engine reads."""
    (folder / "spec.yaml").write_text(SPEC.format(path=path, more=more))
    loaded = load_spec(folder / "spec.yaml")
    scratch = folder / "scratch"
    scratch.mkdir(exist_ok=True, mode=0o700)
    handle = ingest_source(loaded, front.SECRET, scratch)
    with opened(loaded, handle, scratch) as source:
        sexes = source.table.to_pyarrow().column(source.raw["sex"]).to_pylist()
    assert len(sexes) == rows_of(handle)
    return dict(Counter(sexes))


# --- the engine's borders --------------------------------------------------------------------------------


def _on_a_border(tail: int) -> bytes:
    """Regular rows of which one ends in CR and LF on both sides of byte 8 000 000, and the next is quoted."""
    head, row = "address,sex,x\r\n", '"12 High Street\nTown",f,1\r\n'
    number, rest = divmod(8_000_001 - len(head), len(row))
    first = '"' + "y" * (rest + len(row) - len('"",f,1\r\n')) + '",f,1\r\n'
    rows = first + row * (number - 1)
    assert len(head + rows) == 8_000_001
    return (head + rows + row.replace("f", "m") * tail).encode()


def _zstd(text: bytes) -> bytes:
    return pa.Codec("zstd").compress(text, asbytes=True)


WRITTEN = {"csv": bytes, "csv.gz": lambda text: gzip.compress(text, 1), "csv.zst": _zstd}


@pytest.mark.parametrize("ending", WRITTEN)
def test_no_record_is_lost_on_a_border(ending: str, tmp_path: Path) -> None:
    (tmp_path / f"people.{ending}").write_bytes(WRITTEN[ending](_on_a_border(250_000)))
    f = _on_a_border(0).count(b",f,1")
    assert counted(tmp_path, f"people.{ending}") == {"f": f, "m": 250_000}


def test_letters_of_many_lines_are_read(tmp_path: Path) -> None:
    letter = '"' + "Dear Sir,\n\n" * 900 + '"'
    (tmp_path / "people.csv").write_text("sex,letter\n" + f"f,{letter}\nm,{letter}\n" * 600)
    assert counted(tmp_path, "people.csv") == {"f": 600, "m": 600}


def test_a_source_without_quotes_is_read_in_parallel_and_counted(tmp_path: Path) -> None:
    rows = "Mr O'Neil, of 5' height,f\r\n".replace(", of", " of") * 300_000 + "x,m\r\n" * 500_000
    (tmp_path / "people.csv").write_text("name,sex\r\n" + rows, newline="")
    assert counted(tmp_path, "people.csv", ", quote: none") == {"f": 300_000, "m": 500_000}
    (tmp_path / "people.csv").write_text('name,sex\nx,f\n5" tall,m\n')
    with pytest.raises(InputRefused, match=r"people.csv, line 3: a quote, and source.quote is none"):
        counted(tmp_path, "people.csv", ", quote: none")
    assert counted(tmp_path, "people.csv") == {"f": 1, "m": 1}


# --- kinds of files in one source ------------------------------------------------------------------------


def test_plain_and_compressed_files_are_each_read_by_what_they_hold(tmp_path: Path) -> None:
    text, data = "sex\n" + "f\n" * 7, tmp_path / "data"
    data.mkdir()
    (data / "a.csv").write_text("sex\nm\nm\nf\n")
    for name, ending in (("b.csv.gz", "csv.gz"), ("c.csv.zst", "csv.zst"), ("d.csv", "csv.gz")):
        (data / name).write_bytes(WRITTEN[ending](text.encode()))
    (data / "e.csv.gz").write_text(text)
    assert counted(tmp_path, "data") == {"m": 2, "f": 1 + 4 * 7}
    assert counted(tmp_path, "data/*") == {"m": 2, "f": 1 + 4 * 7}


def test_look_ups_may_be_plain_and_compressed(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("person,home\np1,h1\np2,h2\n")
    (tmp_path / "homes").mkdir()
    (tmp_path / "homes" / "a.csv").write_text("home,person,sex\nh1,p1,f\n")
    (tmp_path / "homes" / "b.csv").write_bytes(gzip.compress(b"home,person,sex\nh2,p2,m\n"))
    text = SPEC.format(path="people.csv", more="").replace("sex: {", "sex: {from: homes.sex, ")
    text = text.replace("unit: record", "unit: {column: person}, max_contributions: 1")
    (tmp_path / "spec.yaml").write_text(text + "lookups: {homes: {path: homes, unit: person, key: home}}\n")
    loaded = load_spec(tmp_path / "spec.yaml")
    (tmp_path / "scratch").mkdir(mode=0o700)
    handle = ingest_source(loaded, front.SECRET, tmp_path / "scratch")
    with opened(loaded, handle, tmp_path / "scratch") as source:
        assert sorted(source.table.to_pyarrow().column(source.raw["homes.sex"]).to_pylist()) == ["f", "m"]


# --- two counts of the same bytes --------------------------------------------------------------------------


def test_another_number_than_the_text_holds_is_refused_and_told_at_home_alone(tmp_path: Path) -> None:
    """The engine takes spaces before a quote for nothing, Python's csv and a spreadsheet do not."""
    (tmp_path / "people.csv").write_text('sex\nf\n "m\nx"\n')
    with pytest.raises(InputRefused, match="another number of records than are there") as caught:
        counted(tmp_path, "people.csv")
    (found,) = caught.value.findings
    assert found.kind == "2 records were read, and there are 3"
    assert not any(digit in str(caught.value) for digit in "0123456789")
    assert "number" not in str(caught.value.in_public())


def by_csv(text: bytes, delimiter: str) -> tuple[int, int]:
    """Columns and records by Python's csv, of which an empty line is a record where there is one column."""
    lines = io.StringIO(text.decode().removeprefix("\ufeff"), newline="")
    rows = list(csv.reader(lines, delimiter=delimiter))
    return len(rows[0]), sum(bool(row) or len(rows[0]) == 1 for row in rows[1:])


def by_machine(text: bytes, delimiter: str, columns: int, size: int) -> int | tuple[int, str]:
    counter = RecordCounter(delimiter)
    for start in range(0, len(text), size):
        counter.add(text[start : start + size])
    found = counter.records(columns)
    counter.close()
    return found


def by_engine(connection: object, path: Path, delimiter: str) -> int | None:
    found = found_again("csv", "", [path])
    files = Files(delimiter=delimiter)
    ((_, table),) = csv_tables(connection, files, found, {"raw0": "a"}).values()
    try:
        return int(connection.execute(f"SELECT count(*) FROM ({table})").fetchone()[0])  # type: ignore[attr-defined]
    except Exception:
        return None


def regular(rng: random.Random, delimiter: str) -> bytes:
    """A regular table: one kind of line end, some values in quotes with anything in them, some empty lines."""
    end, columns = rng.choice(["\n", "\r\n", "\r"]), rng.randint(1, 3)
    inside = [*"ab1 é", "", "\n", "\r", "\r\n", '""', delimiter, f'{delimiter}""']
    rows = [delimiter.join("abc"[:columns])]
    for _ in range(rng.randint(0, 12)):
        values = [
            f'"{"".join(rng.choices(inside, k=rng.randint(0, 6)))}"'
            if rng.random() < 0.5
            else "".join(rng.choices(["x", "yy", "é", 'z"', "'"], k=rng.randint(1, 3)))
            for _ in range(columns)
        ]
        rows.append(delimiter.join(values))
        rows += [""] * (rng.random() < 0.1)
    last = end if rng.random() < 0.7 else ""
    mark = "\ufeff" if rng.random() < 0.2 else ""
    return (mark + end.join(rows) + last).encode()


def irregular(rng: random.Random, delimiter: str) -> bytes:
    """A header, and then anything."""
    columns = rng.randint(1, 2)
    marks = ["x", '"', "\n", "\r", "\r\n", delimiter, " ", '"\n']
    return (
        delimiter.join("ab"[:columns]) + "\n" + "".join(rng.choices(marks, k=rng.randint(0, 20)))
    ).encode()


@pytest.mark.parametrize("compiled", [False, True])
def test_three_readers_find_the_same_records(
    compiled: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks of one byte up to all: a border falls everywhere."""
    if compiled:
        monkeypatch.setattr(csv_text, "_PLAIN_BYTES", -1)
        monkeypatch.setattr(csv_text, "_AT_ONCE", 1)
    rng, path, refused = random.Random(f"records {compiled}"), tmp_path / "t.csv", 0
    with engine(tmp_path) as connection:
        for _ in range(runs(300, 10_000)):
            delimiter = rng.choice([",", ";", "\t", "|", "§"])
            text = regular(rng, delimiter)
            columns, rows = by_csv(text, delimiter)
            for size in (1, rng.randint(2, 40), len(text)):
                assert by_machine(text, delimiter, columns, size) == rows, (text, size)
            path.write_bytes(text)
            assert by_engine(connection.con, path, delimiter) == rows, text
        for _ in range(runs(300, 10_000)):
            text = irregular(rng, ",")
            columns, rows = by_csv(text, ",")
            found = {by_machine(text, ",", columns, size) for size in (1, rng.randint(2, 9), len(text))}
            assert len(found) == 1, text
            (here,) = found
            assert isinstance(here, tuple) or here == rows, text
            path.write_bytes(text)
            there = by_engine(connection.con, path, ",")
            refused += there is None or there != here
    assert refused  # there was something that is not regular


@pytest.mark.parametrize("step", [1, 3, 8, 4096])
def test_faults_are_found_wherever_blocks_end(step: int) -> None:
    for text, kind, at in (
        (b"a,b\r\r\n1,2\r\r\n", "two carriage returns before the line feed", 3),
        (b'a,b\n1,"2\n3,4\n', "a quote that is not closed", 4),
        (b"a,b\n" + b"1" * 2_000_001 + b"\n", "a row that is longer than 2 MB", 4),
    ):
        step_here = step if len(text) < 100 else 4096 + step
        assert by_machine(text, ",", 2, step_here) == (at, kind)


def test_rows_that_end_in_two_carriage_returns_are_named(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_bytes(b"sex,x\r\r\nf,1\r\r\n")
    with pytest.raises(InputRefused, match=r"people\.csv, line 1: two carriage returns before the line feed"):
        counted(tmp_path, "people.csv")
