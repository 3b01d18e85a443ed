"""Ingestion: what names an input, and every way in which it can be wrong."""

from __future__ import annotations

import gzip
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tabularium.mechanisms.errors import DataRefused, InputError, InputRefused
from tabularium.tasks.ingest import snapshot
from tabularium.tasks.ingest.open_source import check_unchanged, engine, rows_of
from tests.tasks import front
from tests.tasks.front import SENTINEL, ingest

# --- what the digest names -------------------------------------------------------------------------------


def test_the_same_content_elsewhere_is_the_same_input(tmp_path: Path) -> None:
    front.write_csv(tmp_path / "one" / "people.csv")
    front.write_csv(tmp_path / "two" / "deeper" / "renamed.csv")
    first = ingest(tmp_path / "one")
    second = ingest(tmp_path / "two", "deeper/renamed.csv")
    assert first.digest == second.digest
    assert first.files[0].digest == second.files[0].digest


def test_any_change_of_content_or_secret_is_another_input(tmp_path: Path) -> None:
    path = front.write_csv(tmp_path / "people.csv")
    first = ingest(tmp_path)
    assert ingest(tmp_path, secret=b"t" * 32).digest != first.digest
    path.write_bytes(path.read_bytes() + b"p9,A1,3,f\r\n")
    assert ingest(tmp_path).digest != first.digest


def test_a_handle_holds_no_bare_digest_and_no_value(tmp_path: Path) -> None:
    path = front.write_csv(tmp_path / "people.csv", [(SENTINEL, "A1", "7", "f")])
    text = front.plain(ingest(tmp_path))
    assert hashlib.sha256(path.read_bytes()).hexdigest() not in text
    assert SENTINEL not in text


def test_files_of_a_glob_make_one_input_whatever_their_order(tmp_path: Path) -> None:
    front.write_csv(tmp_path / "one" / "a.csv", front.ROWS[:3])
    front.write_csv(tmp_path / "one" / "b.csv", front.ROWS[3:])
    front.write_csv(tmp_path / "two" / "a.csv", front.ROWS[3:])
    front.write_csv(tmp_path / "two" / "b.csv", front.ROWS[:3])
    (tmp_path / "two" / "_SUCCESS").touch()
    first, second = ingest(tmp_path / "one", "*.csv"), ingest(tmp_path / "two", "?.csv")
    assert [Path(file.name).name for file in first.files] == ["a.csv", "b.csv"]
    assert first.digest == second.digest


def test_the_same_file_twice_is_another_input(tmp_path: Path) -> None:
    front.write_csv(tmp_path / "one" / "a.csv")
    front.write_csv(tmp_path / "two" / "a.csv")
    front.write_csv(tmp_path / "two" / "b.csv")
    assert ingest(tmp_path / "one", "*.csv").digest != ingest(tmp_path / "two", "*.csv").digest


def test_the_folders_of_partitions_are_content(tmp_path: Path) -> None:
    header, rows = front.HEADER[:3], [row[:3] for row in front.ROWS]
    for name, sex in (("one", "f"), ("two", "m"), ("three/elsewhere", "f")):
        front.write_parquet(tmp_path / name / "data" / f"sex={sex}" / "part.parquet", rows, header)
    one, two, three = (ingest(tmp_path / name, "data") for name in ("one", "two", "three/elsewhere"))
    assert one.digest == three.digest != two.digest
    assert one.kind == "parquet"


def test_an_empty_text_and_a_null_have_different_digests(tmp_path: Path) -> None:
    digests = []
    for value in (None, "", "a"):
        pq.write_table(pa.table({"raw0": pa.array([value], pa.string())}), tmp_path / "rows.parquet")
        digests.append(snapshot.snapshot_digest(tmp_path / "rows.parquet", ("a",), front.SECRET, tmp_path))
        digests.append(snapshot.snapshot_digest(tmp_path / "rows.parquet", ("b",), front.SECRET, tmp_path))
    assert len(set(digests)) == 6


def test_a_change_after_ingestion_is_noticed(tmp_path: Path) -> None:
    path = front.write_csv(tmp_path / "people.csv")
    handle = ingest(tmp_path)
    check_unchanged(handle)
    os.utime(path, ns=(1, 1))
    with pytest.raises(InputError, match="changed while it was read"):
        check_unchanged(handle)
    path.unlink()
    with pytest.raises(InputError, match="changed while it was read"):
        check_unchanged(handle)


# --- what is refused -------------------------------------------------------------------------------------


def _cut_gzip(folder: Path) -> str:
    whole = gzip.compress((front.csv_text() + f"{SENTINEL},A1,1,f\n" * 20_000).encode(), mtime=0)
    (folder / "people.csv.gz").write_bytes(whole[: len(whole) // 2])
    return "people.csv.gz"


def _damaged_gzip(folder: Path) -> str:
    whole = bytearray(gzip.compress(front.csv_text().encode() * 200, mtime=0))
    whole[len(whole) // 2] ^= 0xFF
    (folder / "people.csv.gz").write_bytes(bytes(whole))
    return "people.csv.gz"


def _bytes(content: bytes, name: str = "people.csv") -> Callable[[Path], str]:
    def write(folder: Path) -> str:
        (folder / name).write_bytes(content)
        return name

    return write


def _cut_parquet(folder: Path) -> str:
    path = front.write_parquet(folder / "people.parquet")
    path.write_bytes(path.read_bytes()[:-20])
    return path.name


def _text_age(folder: Path) -> str:
    columns = {
        name: list(values) for name, values in zip(front.HEADER, zip(*front.ROWS, strict=True), strict=True)
    }
    pq.write_table(pa.table(columns), folder / "people.parquet")
    return "people.parquet"


def _nested_sex(folder: Path) -> str:
    table = pa.table({"area": ["A1"], "age": [1], "sex": [{SENTINEL: 1}]})
    pq.write_table(table, folder / "people.parquet")
    return "people.parquet"


def _case_twins(folder: Path) -> str:
    pq.write_table(
        pa.table({"area": ["A1"], "age": [1], "sex": ["f"], "SEX": ["m"]}), folder / "people.parquet"
    )
    return "people.parquet"


def _mixed_types(folder: Path) -> str:
    for name, kind in (("a", pa.int32()), ("b", pa.int64())):
        table = pa.table({"area": ["A1"], "age": pa.array([1], kind), "sex": ["f"]})
        pq.write_table(table, folder / f"{name}.parquet")
    return "*.parquet"


def _mixed_headers(folder: Path) -> str:
    front.write_csv(folder / "a.csv")
    front.write_csv(folder / "b.csv", [row[::-1] for row in front.ROWS], front.HEADER[::-1])
    return "*.csv"


def _uneven_partitions(folder: Path) -> str:
    front.write_csv(folder / "data" / "sex=f" / "a.csv")
    front.write_csv(folder / "data" / "b.csv")
    return "data"


def _headed(*header: str) -> Callable[[Path], str]:
    return _bytes(front.csv_text(header=header).encode())


def _folder(name: str) -> Callable[[Path], str]:
    def make(folder: Path) -> str:
        (folder / name).mkdir()
        return name

    return make


TEXT = front.csv_text()
UNKNOWN_TWICE = TEXT.replace("person", f"{SENTINEL},{SENTINEL}").encode()
REFUSED: dict[str, tuple[Callable[[Path], str], str]] = {
    "missing": (lambda folder: "people.csv", "there is no such file"),
    "empty glob": (lambda folder: "*.csv", "no file is found"),
    "empty folder": (_folder("data"), "no file is found"),
    "a folder called csv": (_folder("people.csv"), "no file is found"),
    "empty": (_bytes(b""), "the file is empty"),
    "empty parquet": (_bytes(b"", "people.parquet"), "the file is empty"),
    "blank": (_bytes(b"\n\n"), "the file is empty"),
    "no header line": (_bytes(b"\n" + TEXT.encode()), "no header line"),
    "latin-1": (_bytes(TEXT.encode() + f"{SENTINEL}é,A1,1,f\n".encode("latin-1")), "not UTF-8"),
    "utf-16": (_bytes(TEXT.encode("utf-16")), "not UTF-8"),
    "cut in a character": (_bytes(TEXT.encode() + "é".encode()[:1]), "not UTF-8"),
    "latin-1 header": (_bytes(TEXT.replace("sex", "séx").encode("latin-1")), "not UTF-8"),
    "cut gzip": (_cut_gzip, "gzip file is damaged or cut off"),
    "damaged gzip": (_damaged_gzip, "gzip file is damaged or cut off"),
    "junk gzip": (_bytes(b"\x1f\x8bnot gzip", "people.csv.gz"), "gzip file is damaged or cut off"),
    "missing column": (_headed("person", "area", "AGE", "sex"), "lacks the column 'age'"),
    "no header": (_headed(SENTINEL, "A1", "17", "f"), "lacks the columns 'area', 'age', 'sex'"),
    "wrong delimiter": (_bytes(TEXT.replace(",", ";").encode()), "is source.delimiter right"),
    "twice": (_headed("sex", "area", "age", "sex"), "has the column 'sex' twice"),
    "twice, unknown": (_bytes(UNKNOWN_TWICE), "has a name twice"),
    "parquet called csv": (lambda folder: front.write_parquet(folder / "p.csv").name, "is a Parquet file"),
    "csv called parquet": (_bytes(TEXT.encode(), "people.parquet"), "is not a Parquet file"),
    "cut parquet": (_cut_parquet, "is not a Parquet file, or is damaged"),
    "text where numbers are declared": (_text_age, "column 'age' is of type string"),
    "nested": (_nested_sex, "column 'sex' is of type struct, list or map"),
    "names but for case": (_case_twins, "but for capital letters"),
    "types differ": (_mixed_types, "column 'age' in different types"),
    "headers differ": (_mixed_headers, "different headers"),
    "partitions differ": (_uneven_partitions, "folders of different columns"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_source_that_cannot_be_counted_is_refused_in_one_line(case: str, tmp_path: Path) -> None:
    make, message = REFUSED[case]
    path = make(tmp_path)
    with pytest.raises(InputError, match=message) as caught:
        ingest(tmp_path, path)
    assert "\n" not in str(caught.value)
    assert SENTINEL not in str(caught.value)
    assert caught.value.__context__ is None and caught.value.__cause__ is None


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    front.write_csv(tmp_path / "people.csv").chmod(0)
    with pytest.raises(InputError, match="cannot be read"):
        ingest(tmp_path)


def test_a_file_that_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "people.csv")
    with pytest.raises(InputError, match="not a regular file"):
        ingest(tmp_path)


@pytest.mark.parametrize("source", ["data", "data/*.csv", "data/Miller.csv"])
def test_no_name_of_a_file_that_the_spec_does_not_name_leaves_the_home(tmp_path: Path, source: str) -> None:
    front.write_csv(tmp_path / "data" / "a.csv")
    os.mkfifo(tmp_path / "data" / "Miller.csv")
    with pytest.raises(InputError, match=r"Miller.csv: is not a regular file") as caught:
        ingest(tmp_path, source)
    assert isinstance(caught.value, DataRefused) == (source != "data/Miller.csv")


def test_a_partition_folder_above_the_source_means_nothing(tmp_path: Path) -> None:
    inner = tmp_path / "year=2026"
    front.write_csv(inner / "data" / "sex=f" / "a.csv", [row[:3] for row in front.ROWS], front.HEADER[:3])
    assert ingest(inner, "data").base == str(inner / "data")
    front.write_csv(inner / "people.csv")
    assert ingest(inner).base == ""


def test_a_character_across_two_blocks_is_whole(tmp_path: Path) -> None:
    head = TEXT.encode()
    padding = (1 << 20) - len(head) - 1
    (tmp_path / "people.csv").write_bytes(head + b"x" * padding + "é".encode() + b",A1,1,f\n")
    assert ingest(tmp_path).kind == "csv"


def test_compressed_files_may_have_several_members(tmp_path: Path) -> None:
    whole = gzip.compress(TEXT.encode()) + gzip.compress(b"p9,A1,3,f\n")
    (tmp_path / "people.csv.gz").write_bytes(whole)
    handle = ingest(tmp_path, "people.csv.gz")
    assert rows_of(handle) == len(front.ROWS) + 1
    (tmp_path / "people.csv.gz").write_bytes(whole + b"\0" * 8)  # padding, as tapes leave it
    with pytest.raises(InputRefused, match="after its last member"):
        ingest(tmp_path, "people.csv.gz")


# --- the engine ----------------------------------------------------------------------------------------


def test_the_engine_loads_no_extension_and_spills_into_the_workspace(tmp_path: Path) -> None:
    with engine(tmp_path) as connection:
        settings = {
            name: connection.con.execute(f"select current_setting('{name}')").fetchone()[0]
            for name in ("autoload_known_extensions", "autoinstall_known_extensions", "temp_directory")
        }
    assert settings == {
        "autoload_known_extensions": False,
        "autoinstall_known_extensions": False,
        "temp_directory": str(tmp_path / "spill"),
    }
    assert oct((tmp_path / "spill").stat().st_mode & 0o777) == "0o700"


def test_a_wrong_memory_setting_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TABULARIUM_ENGINE_MEMORY", "plenty")
    with pytest.raises(InputError, match="TABULARIUM_ENGINE_MEMORY"), engine(tmp_path):
        pass
