"""Counting: exact arrays from every kind of source, and contribution bounding that is what it claims."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabularium.mechanisms.errors import InputError, InternalError
from tabularium.mechanisms.noise.synthetic import generator
from tabularium.tasks.count import count
from tabularium.tasks.count.contributions import bounded
from tabularium.tasks.count.count import count_tables
from tabularium.tasks.count.count_files import CountsHandle
from tabularium.tasks.ingest.ingest import ingest_source
from tabularium.tasks.ingest.open_source import engine, quietly, stream
from tabularium.validations.redaction import redacted
from tests.tasks import front

SENTINEL = "Zweckverband7319"
EXPECTED = {
    ("people", "region"): front.REGIONS,
    ("people", "place"): front.PLACES,
    ("sexes", ""): front.SEXES,
}


def counts(
    folder: Path, path: str = "people.csv", bounding: str = front.BOUNDING, **options: Any
) -> CountsHandle:
    scratch = folder / "scratch"
    scratch.mkdir(exist_ok=True, mode=0o700)
    loaded = front.spec(folder, path, **options)
    handle = ingest_source(loaded, front.SECRET, scratch)
    return count_tables(loaded, handle, scratch, secret=front.SECRET, bounding=bounding)


def test_counts_worked_by_hand(tmp_path: Path) -> None:
    front.write_csv(tmp_path / "people.csv")
    handle = counts(tmp_path)
    assert front.arrays(handle) == EXPECTED
    assert handle.tables["people"]["region"].shape == (2, 3)


def _partitioned(folder: Path, write: Any, suffix: str) -> str:
    for sex in ("f", "m"):
        rows = [row[:3] for row in front.ROWS if row[3] == sex]
        write(folder / "data" / f"sex={sex}" / f"part.{suffix}", rows, front.HEADER[:3])
    return "data"


def _split(folder: Path, write: Any, suffix: str) -> str:
    for place in range(3):
        write(folder / f"part{place}.{suffix}", front.ROWS[2 * place : 2 * place + 2])
    return f"part*.{suffix}"


def _odd_names(folder: Path, write: Any, suffix: str) -> str:
    write(folder / "it's [1] *.csv", front.ROWS)
    return "it's [1] *.csv"


SOURCES = {
    "gzip": lambda folder: front.write_csv(folder / "people.csv.gz").name,
    "parquet": lambda folder: front.write_parquet(folder / "people.parquet").name,
    "csv files": lambda folder: _split(folder, front.write_csv, "csv"),
    "gzip files": lambda folder: _split(folder, front.write_csv, "csv.gz"),
    "parquet files": lambda folder: _split(folder, front.write_parquet, "parquet"),
    "partitioned csv": lambda folder: _partitioned(folder, front.write_csv, "csv"),
    "partitioned parquet": lambda folder: _partitioned(folder, front.write_parquet, "parquet"),
    "a name with signs": lambda folder: _odd_names(folder, front.write_csv, "csv"),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_every_kind_of_file_gives_the_same_counts(kind: str, tmp_path: Path) -> None:
    assert front.arrays(counts(tmp_path, SOURCES[kind](tmp_path))) == EXPECTED


@pytest.mark.parametrize(
    "content",
    [
        front.csv_text().encode("utf-8-sig"),
        front.csv_text().replace("\n", "\r\n").encode(),
        front.csv_text().strip().encode(),
        b'"person","area","age","sex"\n'
        + front.csv_text().encode().split(b"\n", 1)[1].replace(b"B3", b'"B3"'),
    ],
)
def test_marks_line_ends_and_quotes_do_not_matter(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_bytes(content)
    assert front.arrays(counts(tmp_path)) == EXPECTED


def test_a_delimiter_and_values_with_it_in_quotes(tmp_path: Path) -> None:
    text = front.csv_text(delimiter=";").replace("p1", '"p;1"').replace("p2", '"p""2\nx"')
    (tmp_path / "people.csv").write_text(text)
    assert front.arrays(counts(tmp_path, source=', delimiter: ";"')) == EXPECTED


def test_partitions_above_which_the_folder_is_missing_a_value_are_null(tmp_path: Path) -> None:
    header, rows = front.HEADER[:3], [row[:3] for row in front.ROWS]
    front.write_csv(tmp_path / "data" / "sex=f" / "a.csv", rows, header)
    front.write_csv(tmp_path / "data" / "sex=__HIVE_DEFAULT_PARTITION__" / "a.csv", rows, header)
    handle = counts(tmp_path, "data", source=', max_rejected: "50%"')
    assert front.arrays(handle)["sexes", ""] == [6, 0]


def test_a_table_behind_a_url_gives_the_same_counts(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "people.db") as connection:
        connection.execute("create table people (person text, area text, age integer, sex text)")
        connection.executemany("insert into people values (?, ?, ?, ?)", front.ROWS)
    connection.close()

    def edit(text: str) -> str:
        return text.replace('path: "people.csv"', 'url: "sqlite:///people.db", table: people')

    assert front.arrays(counts(tmp_path, edit=edit)) == EXPECTED


def test_rejected_records_are_in_no_table(tmp_path: Path) -> None:
    rows = [*front.ROWS, ("p8", "A1", "40", None), ("p8", "A", "40", "f"), ("p8", "A1", "100", "f")]
    front.write_csv(tmp_path / "people.csv", rows)
    assert front.arrays(counts(tmp_path)) == EXPECTED


def test_a_level_alone_is_counted_without_the_leaves(tmp_path: Path) -> None:
    front.write_csv(tmp_path / "people.csv")
    handle = counts(
        tmp_path, edit=lambda text: text.replace('{region: "1/2", place: "1/2"}', '{region: "1"}')
    )
    assert front.arrays(handle)["people", "region"] == front.REGIONS
    assert list(handle.tables["people"]) == ["region"]


def test_a_level_of_as_many_nodes_as_leaves_keeps_their_order(tmp_path: Path) -> None:
    # The first root goes on to one child, the second is a leaf: at the top they stand the other way round.
    front.write_csv(
        tmp_path / "people.csv", [("p", "X1", "3", "f"), ("p", "X1", "3", "f"), ("p", "Y", "3", "f")]
    )
    (tmp_path / "chain.csv").write_text("code,label,parent\nX,X,\nY,Y,\nX1,X1,X\n")

    def top(levels: str) -> Any:
        def edit(text: str) -> str:
            return text.replace("lists/areas.csv", "chain.csv").replace(
                '{region: "1/2", place: "1/2"}', levels
            )

        return front.arrays(counts(tmp_path, edit=edit))

    assert top('{region: "1"}')["people", "region"] == [[2, 0, 0], [1, 0, 0]]  # X, Y
    both = top('{region: "1/2", place: "1/2"}')
    assert both["people", "place"] == [[1, 0, 0], [2, 0, 0]]  # Y, X1
    assert both["people", "region"] == [[2, 0, 0], [1, 0, 0]]


def test_arrays_are_closed_files_with_keyed_digests(tmp_path: Path) -> None:
    front.write_csv(tmp_path / "people.csv")
    first = counts(tmp_path)
    for levels in first.tables.values():
        for file in levels.values():
            path = Path(file.path)
            assert oct(path.stat().st_mode & 0o777) == "0o600"
            assert oct(path.parent.stat().st_mode & 0o777) == "0o700"
            array = np.load(path)
            assert array.dtype == np.int64
            for content in (path.read_bytes(), array.tobytes()):
                assert file.digest != hashlib.sha256(content).hexdigest()
    assert counts(tmp_path) == first  # the same stage run again
    digests = [file.digest for levels in first.tables.values() for file in levels.values()]
    assert len(set(digests)) == len(digests)
    front.write_csv(tmp_path / "people.csv", front.ROWS[:-1])
    assert counts(tmp_path).tables["people"]["place"].digest != first.tables["people"]["place"].digest


def test_many_tables_are_counted_in_several_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    front.write_csv(tmp_path / "people.csv")
    monkeypatch.setattr(count, "_CELLS_PER_PASS", 4)
    assert front.arrays(counts(tmp_path)) == EXPECTED


@given(seed=st.integers(0, 10**6), batch=st.sampled_from([1, 7, 1000]))
@settings(max_examples=6, deadline=None)
def test_any_records_are_counted_as_a_plain_loop_counts_them(
    seed: int, batch: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("loop")
    random = generator(seed)
    areas, sexes = [*front.LEAVES, "A", "", "Z9"], ["f", "m", "", "x"]
    rows = [
        (
            "p",
            areas[random.integers(len(areas))],
            str(random.integers(-20, 120)),
            sexes[random.integers(len(sexes))],
        )
        for _ in range(200)
    ]
    front.write_csv(folder / "people.csv", rows)
    places = np.zeros((5, 3), int)
    both = [0, 0]
    for _, area, age, sex in rows:
        if area in front.LEAVES and 0 <= int(age) < 100 and sex in ("f", "m"):
            places[front.LEAVES.index(area), 0 if int(age) < 18 else 1 if int(age) < 65 else 2] += 1
            both[sex == "m"] += 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream, "__defaults__", (batch,))
        result = front.arrays(counts(folder))
    assert result["people", "place"] == places.tolist()
    assert result["people", "region"] == [places[:2].sum(0).tolist(), places[2:].sum(0).tolist()]
    assert result["sexes", ""] == both


# --- a source that does not stay as it was ---------------------------------------------------------------


def test_a_source_that_changes_under_the_count_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = front.write_csv(tmp_path / "people.csv")
    loaded = front.spec(tmp_path)
    handle = ingest_source(loaded, front.SECRET, tmp_path)
    real = count.counted_levels

    def meanwhile(*args: Any) -> Any:
        os.utime(path, ns=(1, 1))
        return real(*args)

    monkeypatch.setattr(count, "counted_levels", meanwhile)
    with pytest.raises(InputError, match="changed while it was read"):
        count_tables(loaded, handle, tmp_path, secret=front.SECRET, bounding=front.BOUNDING)
    monkeypatch.undo()
    with pytest.raises(InputError, match="changed while it was read"):
        count_tables(loaded, handle, tmp_path, secret=front.SECRET, bounding=front.BOUNDING)


def test_an_irregular_row_is_told_without_being_quoted(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text(front.csv_text() + f"{SENTINEL},A1\n")
    with pytest.raises(InputError, match="not a regular CSV table") as caught:
        counts(tmp_path)
    assert SENTINEL not in str(caught.value)
    assert caught.value.__context__ is None


def test_a_lack_of_room_is_told_apart_from_bad_input() -> None:
    import duckdb

    no_room = duckdb.IOException(f"Could not write {SENTINEL}: {os.strerror(28)}")
    for error in (
        OSError(28, SENTINEL),
        duckdb.OutOfMemoryException(SENTINEL),
        MemoryError(SENTINEL),
        no_room,
    ):

        def fail(error: BaseException = error) -> None:
            raise error

        with pytest.raises(InternalError, match=r"disk is full|not enough memory") as caught:
            redacted(fail, InputError("bad"))
        assert SENTINEL not in str(caught.value) and caught.value.__context__ is None


def test_our_own_errors_pass_without_what_they_were_raised_from() -> None:
    def fail() -> None:
        try:
            raise ValueError(SENTINEL)
        except ValueError as error:
            raise InputError("ours") from error

    with pytest.raises(InputError, match="ours") as caught:
        redacted(fail, InputError("bad"))
    assert caught.value.__context__ is None and caught.value.__cause__ is None


# --- bounding --------------------------------------------------------------------------------------------

Records = list[tuple[str, int]]


def keep(records: Records, most: int, key: str, folder: Path) -> Counter[tuple[str, int]]:
    """The records that bounding keeps, as a multiset."""
    units, cells = zip(*records, strict=True) if records else ((), ())
    with engine(folder) as connection:
        columns = {"unit": pa.array(units, pa.string()), "cell": pa.array(cells, pa.int64())}
        connection.con.register("records", pa.table(columns))
        table = quietly(lambda: connection.table("records"))
        rows = quietly(bounded(table, "unit", ["cell"], most, key).to_pyarrow)
    return Counter(zip(rows["unit"].to_pylist(), rows["cell"].to_pylist(), strict=True))


units = st.lists(st.tuples(st.sampled_from("abcde"), st.integers(0, 3)), min_size=1, max_size=40)


@given(records=units, most=st.integers(1, 4), key=st.integers(0, 10**9))
@settings(max_examples=15, deadline=None)
def test_a_unit_keeps_as_many_records_as_it_may_and_changes_nobody_elses(
    records: Records, most: int, key: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp()
    kept = keep(records, most, f"{key:032x}", folder)
    have = Counter(records)
    assert kept <= have
    for unit, total in Counter(unit for unit, _ in records).items():
        assert sum(n for (who, _), n in kept.items() if who == unit) == min(total, most)
    # the neighbour: the same data without one unit, in another order
    gone = records[0][0]
    neighbour = [record for record in reversed(records) if record[0] != gone]
    assert keep(neighbour, most, f"{key:032x}", folder) == Counter(
        {record: n for record, n in kept.items() if record[0] != gone}
    )


@pytest.mark.parametrize("most", [1, 3])
def test_every_record_of_a_unit_is_as_likely_to_be_kept(most: int, tmp_path: Path) -> None:
    # Each of 4 000 units has six records, four of them in cell 0: each record is kept with chance
    # most / 6, hence cell 0 gets 4 most / 6 of a record per unit. Four standard errors of the mean.
    units = 4000
    records = [(f"u{i}", cell) for i in range(units) for cell in (0, 0, 0, 0, 1, 2)]
    kept = keep(records, most, "5eed" * 8, tmp_path)
    per_cell = [sum(n for (_, cell), n in kept.items() if cell == c) / units for c in range(3)]
    for mean, equal in zip(per_cell, (4, 1, 1), strict=True):
        # hypergeometric variance
        variance = most * (equal / 6) * (1 - equal / 6) * (6 - most) / 5
        assert abs(mean - most * equal / 6) < 4 * (variance / units) ** 0.5


def test_another_key_keeps_other_records(tmp_path: Path) -> None:
    records = [(f"u{i}", cell) for i in range(200) for cell in range(5)]
    first, second = (keep(records, 1, key * 32, tmp_path) for key in "ab")
    same = sum((first & second).values())
    # Two independent choices of one in five agree for 40 units of 200, give or take 5.7.
    assert 15 < same < 65
    assert keep(records, 1, "a" * 32, tmp_path) == first


def test_bounding_holds_over_all_tables_at_once(tmp_path: Path) -> None:
    rows = [(f"p{i % 7}", front.LEAVES[i % 5], str(i % 100), "fm"[i % 2]) for i in range(70)]
    rows += [(None, "A1", "3", "f")] * 5
    front.write_csv(tmp_path / "people.csv", rows)
    for most in (1, 4, 100):
        handle = counts(tmp_path, unit="{column: person}", most=most)
        for array in front.arrays(handle).values():
            assert np.sum(array) == min(most, 10) * 7


def test_the_same_key_keeps_the_same_records_and_another_keeps_others(tmp_path: Path) -> None:
    rows = [(f"p{i % 50}", front.LEAVES[i // 50 % 5], str(i % 100), "f") for i in range(2000)]

    def kept(rows: list[tuple[str, str, str, str]], key: str) -> Any:
        front.write_csv(tmp_path / "people.csv", rows)
        return front.arrays(counts(tmp_path, bounding=key, unit="{column: person}"))["people", "place"]

    first = kept(rows, front.BOUNDING)
    assert kept(rows[::-1], front.BOUNDING) == first
    assert kept(rows, "a5" * 16) != first


def test_a_column_called_part_stands_beside_measures(tmp_path: Path) -> None:
    """The arrays of means and medians have a dimension of that name, which is no column."""
    columns = "  sex: {categories: [f, m]}\n"
    more = "  - {name: sexes, dimensions: [sex], measures: {m: {mean: age, from: 0, to: 99}}}\n"
    edits = {
        columns: columns + "  part: {categories: [p, q, r]}\n",
        "  - {name: sexes, dimensions: [sex]}\n": more + "  - {name: parts, dimensions: [part]}\n",
    }

    def edit(text: str) -> str:
        for old, new in edits.items():
            text = text.replace(old, new)
        return text

    loaded = front.spec(tmp_path, edit=edit)
    rows = [(*row, "pqr"[place % 3]) for place, row in enumerate(front.ROWS)]
    front.write_csv(tmp_path / "people.csv", rows, (*front.HEADER, "part"))
    scratch = tmp_path / "scratch"
    scratch.mkdir(mode=0o700)
    handle = ingest_source(loaded, front.SECRET, scratch)
    counted = count_tables(loaded, handle, scratch, secret=front.SECRET, bounding=front.BOUNDING)
    found = front.arrays(counted)
    assert found["parts", ""] == [2, 2, 2]
    assert found["sexes-m", ""] == [[17 + 64, 297 - 81], [18 + 65 + 99, 297 - 182]]
    parts = next(table for table in loaded.spec.tables if table.name == "parts")
    assert loaded.level_cells(parts) == {"": 3}
