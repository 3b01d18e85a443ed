"""What lies where a source is: read, or refused by its name, by one rule for folders and globs."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tabularium.mechanisms.errors import InputRefused
from tabularium.tasks.ingest.ingest import ingest_source
from tabularium.tasks.ingest.open_source import opened
from tabularium.tasks.runtime.progress import NullReporter, reporting_to
from tabularium.validations.release_spec.load import load_spec
from tests.tasks import front
from tests.tasks.ingest.test_record_counts import SPEC, counted

Make = Callable[[Path], object]


def _csv(*sexes: str) -> str:
    return "".join(f"{value}\n" for value in ("sex", *sexes))


def _text(name: str, *sexes: str) -> Make:
    def make(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(_csv(*sexes))

    return make


def _linked_folder(folder: Path) -> None:
    _text("elsewhere/p.csv", "f", "f")(folder.parent)
    (folder / "nas").symlink_to(folder.parent / "elsewhere")


def _linked_file(folder: Path) -> None:
    _text("elsewhere/p.csv", "f", "f")(folder.parent)
    (folder / "linked.csv").symlink_to(folder.parent / "elsewhere" / "p.csv")


def _spark_output(folder: Path) -> None:
    _text("out.csv/part-0.csv", "f", "f")(folder)
    (folder / "out.csv" / "_SUCCESS").touch()
    (folder / "out.csv" / ".part-0.csv.crc").write_bytes(b"crc")


def _marks(folder: Path) -> None:
    _text("b.csv", "f", "f")(folder)
    for name in (".DS_Store", "Thumbs.db", "desktop.ini", "._b.csv", "_committed_123"):
        (folder / name).write_bytes(b"\0")


def _zipped(folder: Path) -> None:
    (folder / "b.TXT.GZ").write_bytes(gzip.compress(_csv("f", "f").encode()))


READ: dict[str, tuple[Make, str]] = {
    "a file": (_text("b.csv", "f", "f"), ""),
    "another ending that is known": (_zipped, ""),
    "a folder": (_text("deep/er/b.csv", "f", "f"), ""),
    "a link to a folder": (_linked_folder, ""),
    "a link to a file": (_linked_file, ""),
    "a folder that is called as a file": (_spark_output, ""),
    "what programs put beside data": (_marks, ""),
    "any ending where the format is written": (_text("b.csv.1", "f", "f"), ", format: csv"),
    "what is ignored": (
        lambda folder: (_text("b.csv", "f", "f")(folder), _text("old/c.csv.1", "m")(folder)),
        ", ignore: [old]",
    ),
    "what is ignored by its ending": (
        lambda folder: (_text("b.csv", "f", "f")(folder), _text("deep/README.md", "m")(folder)),
        ', ignore: ["*.md"]',
    ),
    "what is ignored by its path": (
        lambda folder: (_text("b.csv", "f", "f")(folder), _text("x/c.csv", "m")(folder)),
        ', ignore: ["x/c.*"]',
    ),
}


@pytest.mark.parametrize("glob", ["", "/*", "/**"])
@pytest.mark.parametrize("case", READ)
def test_what_lies_there_is_read(case: str, glob: str, tmp_path: Path) -> None:
    make, more = READ[case]
    _text("data/a.csv", "m")(tmp_path)
    make(tmp_path / "data")
    assert counted(tmp_path, f"data{glob}", more) == {"m": 1, "f": 2}


def _loop(folder: Path) -> None:
    (folder / "deep").mkdir()
    (folder / "deep" / "again").symlink_to(folder)


def _twice(folder: Path) -> None:
    _text("2026/b.csv", "f")(folder)
    (folder / "latest").symlink_to(folder / "2026")


BY_NAME: dict[str, tuple[Make, str]] = {
    "an ending that is not known": (_text("b.csv.1", "f"), r"b\.csv\.1: has an ending that does not say"),
    "a compression that is not known": (
        _text("b.csv.bz2", "f"),
        r"b\.csv\.bz2: has an ending that does not say",
    ),
    "no ending": (_text("deep/README", "f"), "deep/README: has an ending that does not say"),
    "a hidden file": (_text(".b.csv", "f"), r"\.b\.csv: is next to the data under a hidden name"),
    "a hidden folder": (
        _text("_delta_log/b.csv", "f"),
        "_delta_log/b.csv: is next to the data under a hidden",
    ),
    "a broken link": (
        lambda folder: (folder / "b.csv").symlink_to(folder / "nowhere.csv"),
        r"b\.csv: is a link that leads nowhere",
    ),
    "a loop": (_loop, "deep/again: is a link to a folder that it lies in"),
    "a file twice": (_twice, r"b\.csv: leads to a file that is read already"),
}


@pytest.mark.parametrize("glob", ["", "/*", "/**"])
@pytest.mark.parametrize("case", BY_NAME)
def test_what_is_not_read_is_refused_by_name(case: str, glob: str, tmp_path: Path) -> None:
    make, message = BY_NAME[case]
    _text("data/a.csv", "m")(tmp_path)
    make(tmp_path / "data")
    with pytest.raises(InputRefused, match=message) as caught:
        counted(tmp_path, f"data{glob}")
    assert "source.ignore" in str(caught.value)
    ignored = ', ignore: ["b.csv*", README, ".b.csv", _delta_log, again, latest]'
    assert counted(tmp_path, f"data{glob}", ignored).get("m") == 1


def test_how_many_files_were_read_is_noted(tmp_path: Path) -> None:
    notes: list[str] = []

    class Listener(NullReporter):
        def noted(self, text: str) -> None:
            notes.append(text)

    for number in range(3):
        _text(f"data/{number}.csv", "m")(tmp_path)
    with reporting_to(Listener()):
        counted(tmp_path, "data")
    assert notes == ["source: 3 files are read"]


# --- columns in the names of folders ---------------------------------------------------------------------


def sexes(
    folder: Path, *, kind: str, categories: str = "[m, f]", column: str = "sex"
) -> dict[str | None, int]:
    text = SPEC.format(path="data", more=f", format: {kind}").replace("[m, f]", categories)
    (folder / "spec.yaml").write_text(text.replace("{categories", f"{{from: {column}, categories"))
    loaded = load_spec(folder / "spec.yaml")
    scratch = folder / "scratch"
    scratch.mkdir(exist_ok=True, mode=0o700)
    handle = ingest_source(loaded, front.SECRET, scratch)
    with opened(loaded, handle, scratch) as source:
        return dict(Counter(source.table.to_pyarrow().column(source.raw[column]).to_pylist()))


def _part(folder: Path, kind: str, **columns: list[str]) -> None:
    folder.mkdir(parents=True)
    if kind == "parquet":
        pq.write_table(pa.table(columns), folder / "p.parquet")
        return
    rows = zip(*columns.values(), strict=True)
    lines = [",".join(columns), *(",".join(row) for row in rows)]
    (folder / "p.csv").write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("name", "value"),
    [("a=b", "a=b"), ("a%3Db", "a=b"), ("a%20b", "a b"), ("50%", "50%"), ("a+b", "a+b"), ("ü%C3%BC", "üü")],
)
def test_any_value_of_a_folder_is_read(name: str, value: str, kind: str, tmp_path: Path) -> None:
    _part(tmp_path / "data" / f"sex={name}", kind, x=["1", "2"])
    _part(tmp_path / "data" / "sex=f", kind, x=["1"])
    assert sexes(tmp_path, kind=kind, categories=f'["{value}", f]') == {value: 2, "f": 1}


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_folder_and_a_column_may_differ_in_capitals_alone(kind: str, tmp_path: Path) -> None:
    for sex, other in (("f", "m"), ("m", "x")):
        _part(tmp_path / "data" / f"sex={sex}", kind, SEX=[other, other])
    assert sexes(tmp_path, kind=kind) == {"f": 2, "m": 2}
    found = sexes(tmp_path, kind=kind, categories="[m, x]", column="SEX")
    assert found == {"m": 2, "x": 2}


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_column_in_folder_and_file_is_read_where_they_agree(kind: str, tmp_path: Path) -> None:
    _part(tmp_path / "data" / "sex=f", kind, sex=["f", "f"])
    _part(tmp_path / "data" / "sex=m", kind, sex=["m"])
    assert sexes(tmp_path, kind=kind) == {"f": 2, "m": 1}
    (tmp_path / "data" / "sex=m").rename(tmp_path / "data" / "sex=w")
    with pytest.raises(
        InputRefused, match="column 'sex' holds other values in the files than the names"
    ) as caught:
        _judged(tmp_path)
    assert caught.value.findings[0].column == "sex"


def _judged(folder: Path) -> None:
    from tabularium.tasks.validate import measure_source

    loaded = load_spec(folder / "spec.yaml")
    measure_source(loaded, ingest_source(loaded, front.SECRET, folder / "scratch"), folder / "scratch")


@pytest.mark.parametrize(
    ("folders", "message"),
    [
        ("sex=%FF", "folder sex=%FF: is no name of a column and its value"),
        ("=f", "folder =f: is no name of a column and its value"),
        ("sex=f/sex=m", "two folders of one column"),
    ],
)
def test_folders_that_say_nothing_are_refused(folders: str, message: str, tmp_path: Path) -> None:
    _part(tmp_path / "data" / folders, "csv", x=["1"])
    with pytest.raises(InputRefused, match=message):
        sexes(tmp_path, kind="csv")


def test_two_columns_of_the_very_same_name_are_called_so(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    table = pa.Table.from_arrays([pa.array(["f"]), pa.array(["m"])], names=["sex", "sex"])
    pq.write_table(table, tmp_path / "data" / "p.parquet")
    with pytest.raises(InputRefused, match=r"p\.parquet: the file has the column 'sex' twice"):
        sexes(tmp_path, kind="parquet")
