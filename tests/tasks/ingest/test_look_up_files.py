"""Files of look-ups: types, formats, what is refused by name, and no record lost or doubled."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tabularium.mechanisms.errors import InputError, InputMissing, InputRefused
from tabularium.tasks.ingest.ingest import ingest_source
from tabularium.tasks.ingest.open_source import check_unchanged, opened
from tabularium.tasks.validate import measure_source
from tabularium.validations.release_spec.load import Loaded, load_spec
from tests.tasks import front

SPEC = """\
product: homes
dataset: census
period: "2026"
source: {{path: people.parquet}}
lookups:
  found: {{{found}}}
privacy: {{unit: {{column: person}}, max_contributions: 9, budget: "1"}}
columns:
  seen: {{from: found.seen, categories: [a, b], nulls: other, other: b}}
tables:
  - {{name: t, dimensions: [seen]}}
"""
OF_UNIT, PUBLIC = (
    "path: found.parquet, unit: person, key: key",
    "path: found.parquet, key: key, public: known",
)


def made(folder: Path, people: dict[str, Any], found: dict[str, Any] | None, said: str = OF_UNIT) -> Loaded:
    (folder / "scratch").mkdir(exist_ok=True, mode=0o700)
    pq.write_table(pa.table(people), folder / "people.parquet")
    if found is not None:
        pq.write_table(pa.table(found), folder / "found.parquet")
    (folder / "spec.yaml").write_text(SPEC.format(found=said))
    return load_spec(folder / "spec.yaml")


def seen(loaded: Loaded) -> list[Any]:
    """What each record found, in the order of people."""
    scratch = loaded.folder / "scratch"
    with opened(loaded, ingest_source(loaded, front.SECRET, scratch), scratch) as source:
        rows = source.table.to_pyarrow()
    whole = dict(
        zip(rows[source.raw["person"]].to_pylist(), rows[source.raw["found.seen"]].to_pylist(), strict=True)
    )
    assert len(whole) == rows.num_rows
    return [whole[name] for name in sorted(whole)]


@pytest.mark.parametrize(
    ("keys", "there"),
    [
        ([1, 2, None], ["1", "02", ""]),
        ([1.0, 2.5, float("nan")], [1, 2, 3]),
        (["1", "2.0", "x"], [1.0, 2.0, float("nan")]),
        ([Decimal("1.00"), Decimal("2.50"), None], ["1", "2.50", None]),
        (["1", "A", " B"], ["1", "a", "B"]),
        ([True, False, None], ["true", "False", "0"]),
        ([date(2026, 1, 2), None, date(2026, 1, 3)], ["2026-01-02", "2026-01-03 ", "3"]),
        (["\x00'\"ü", "u\u0308", "\u00fc"], ["\x00'\"ü", "ü", "u\u0308"]),
    ],
)
def test_keys_are_compared_as_codes_are(keys: list[Any], there: list[Any], tmp_path: Path) -> None:
    """The first of each is the same text; of the others none is, or it is no whole number."""
    names = ["p1", "p2", "p3"]
    if keys[1] == "u\u0308":
        names, keys = names[:1], keys[:1]
    people = {"person": names, "key": keys}
    rows = {"person": ["p1", "p2", "p3"], "key": there, "seen": ["a", "a", "a"]}
    assert seen(made(tmp_path, people, rows)) == ["a", None, None][: len(names)]
    if len(set(map(str, there))) == len(there):
        assert seen(made(tmp_path, people, rows, PUBLIC))[:1] == ["a"]


def test_many_rows_of_a_key_give_nothing_and_multiply_nothing(tmp_path: Path) -> None:
    people = {"person": [f"p{i:05}" for i in range(5000)], "key": ["k"] * 5000}
    rows = {"person": ["p00001"] * 3000 + ["p00002"], "key": ["k"] * 3001, "seen": ["a"] * 3001}
    found = seen(made(tmp_path, people, rows))
    assert (len(found), found[2], sum(value is not None for value in found)) == (5000, "a", 1)


def test_several_files_of_text_for_a_period(tmp_path: Path) -> None:
    for name, rows in (("1", "p1;k;a"), ("2", "p2;NA;a")):
        (tmp_path / f"found-2026-{name}.txt").write_text(f"person;key;seen\n{rows}\n")
    said = 'path: "found-{period}-*.txt", unit: person, key: key, delimiter: ";", nulls: [NA]'
    loaded = made(tmp_path, {"person": ["p1", "p2"], "key": ["k", "NA"]}, None, said)
    assert seen(loaded) == ["a", None]
    before = ingest_source(loaded, front.SECRET, tmp_path / "scratch")
    assert before.digest != before.main
    assert "digest" in front.plain(before)
    (tmp_path / "found-2026-2.txt").unlink()
    after = ingest_source(loaded, front.SECRET, tmp_path / "scratch")
    assert (after.digest != before.digest, after.main == before.main) == (True, True)


def test_a_public_look_up_is_no_part_of_the_input(tmp_path: Path) -> None:
    people = {"person": ["p1"], "key": ["k"]}
    loaded = made(tmp_path, people, {"key": ["k"], "seen": ["a"]}, PUBLIC)
    handle = ingest_source(loaded, front.SECRET, tmp_path / "scratch")
    assert handle.digest == handle.main
    assert handle.lookups["found"].digest == loaded.public_files["lookups.found"]
    pq.write_table(pa.table({"key": ["k"], "seen": ["b"]}), tmp_path / "found.parquet")
    with pytest.raises(InputError, match=r"lookups\.found: changed since the spec was read"):
        ingest_source(loaded, front.SECRET, tmp_path / "scratch")


def test_a_look_up_that_changes_under_the_run_is_noticed(tmp_path: Path) -> None:
    people = {"person": ["p1"], "key": ["k"]}
    loaded = made(tmp_path, people, {"person": ["p1"], "key": ["k"], "seen": ["a"]})
    handle = ingest_source(loaded, front.SECRET, tmp_path / "scratch")
    os.utime(tmp_path / "found.parquet", ns=(1, 1))
    with pytest.raises(InputError, match="changed while it was read"):
        check_unchanged(handle)


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("person,key\np1,k\n", InputRefused, "found.csv: the header lacks the column 'seen'"),
        ("person,key,seen\np1,k\n", InputRefused, "found.csv, line 2: fewer values than the header"),
        ("", InputRefused, "found.csv: the file is empty"),
        (None, InputMissing, "there is no such file; check lookups.found.path in the spec"),
    ],
)
def test_what_is_wrong_with_its_file_is_said_of_its_file(
    text: str | None, kind: type[InputError], said: str, tmp_path: Path
) -> None:
    if text is not None:
        (tmp_path / "found.csv").write_text(text)
    loaded = made(tmp_path, {"person": ["p1"], "key": ["k"]}, None, OF_UNIT.replace("parquet", "csv"))
    with pytest.raises(kind) as caught:
        measure_source(
            loaded, ingest_source(loaded, front.SECRET, tmp_path / "scratch"), tmp_path / "scratch"
        )
    assert said in str(caught.value)


def test_a_source_in_a_database_finds_its_rows_in_files(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "people.db")) as books:
        books.execute("CREATE TABLE people (spare TEXT, key TEXT, person INTEGER)")
        books.executemany("INSERT INTO people VALUES ('x', ?, ?)", [("k", 1), ("l", 2)])
        books.commit()
    made(tmp_path, {"person": ["p1"]}, {"person": [1, 2], "key": ["k", "k"], "seen": ["a", "a"]})
    spec = tmp_path / "spec.yaml"
    text = spec.read_text().replace("path: people.parquet", "url: sqlite:///people.db, table: people")
    spec.write_text(text)
    assert seen(load_spec(spec)) == ["a", None]


def test_an_empty_look_up_finds_nothing(tmp_path: Path) -> None:
    (tmp_path / "found.csv").write_text("person,key,seen\n")
    loaded = made(tmp_path, {"person": ["p1"], "key": ["k"]}, None, OF_UNIT.replace("parquet", "csv"))
    assert seen(loaded) == [None]
