"""What lies in a drop is read, or the drop is refused with the name of the file."""

from __future__ import annotations

import gzip
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tabularium.mechanisms.errors import DataRefused
from tabularium.tasks.arrival import drop_outcomes
from tabularium.tasks.arrival.inboxes import Inbox
from tabularium.tasks.runtime.home import Home
from tests.flows.release.scene import publish, states
from tests.tasks.arrival.drops import PRODUCT, TEXT, drops_of, seen, why, write_drop, write_inbox


def folder_inbox(folder: Path, source: str = "{path: data}") -> tuple[Home, Inbox]:
    """Write an inbox whose spec names a folder, so that only endings say how its files are written."""
    home, inbox = write_inbox(folder)
    spec = Path(inbox.spec)
    text = spec.read_text().replace("source: {path: people.csv, max_rejected: 0}", f"source: {source}")
    assert source in text
    spec.write_text(text)
    return home, inbox


@pytest.mark.parametrize(
    ("files", "line"),
    [
        ({"people.csv": TEXT, "people.csv.1": TEXT}, "people.csv.1: has an ending that does not say how"),
        ({"people.csv": TEXT, "people.csv.bz2": b"BZh"}, "people.csv.bz2: has an ending"),
        ({"people.dat": TEXT}, "people.dat: has an ending"),
        ({"people.csv": TEXT, "people.parquet": b"PAR1"}, "drop.json: lists CSV files and Parquet files"),
        ({"desktop.ini": b"x"}, "drop.json: lists no file that would be read"),
        ({"people.csv": b""}, "people.csv: is empty"),
        ({"people.csv": b"PAR1"}, "people.csv: is a Parquet file, not a CSV file"),
        ({"people.csv": b"PK\3\4 xl/"}, "people.csv: is a spreadsheet or an archive, not a CSV file"),
        ({"people.parquet": TEXT}, "people.parquet: is not a Parquet file"),
    ],
)
def test_a_listed_file_that_would_not_be_read_is_named(
    tmp_path: Path, files: dict[str, bytes], line: str
) -> None:
    home, inbox = folder_inbox(tmp_path)
    write_drop(inbox, files=files)
    assert [drop.state for drop in seen(home, inbox)] == ["quarantined"]
    assert why(inbox, "first").startswith(line)


@pytest.mark.parametrize("source", ["{path: data, format: csv}", "{path: people.csv}"])
def test_where_the_spec_says_how_files_are_written_any_ending_does(tmp_path: Path, source: str) -> None:
    home, inbox = folder_inbox(tmp_path, source)
    write_drop(inbox, files={"people.2026": TEXT})
    assert [drop.state for drop in seen(home, inbox)] == ["arrived"]


BESIDE: dict[str, Callable[[Path], object]] = {
    "more.csv": lambda path: path.write_bytes(TEXT),
    ".more.csv": lambda path: path.write_bytes(TEXT),
    "_more.csv": lambda path: path.write_bytes(TEXT),
    "more%20and%20more.csv": lambda path: path.with_name("more and more.csv").write_bytes(TEXT),
    "link.csv": lambda path: path.symlink_to("people.csv"),
    "broken.csv": lambda path: path.symlink_to("nowhere"),
    "folder": lambda path: path.mkdir(),
    "folder.csv": lambda path: path.mkdir(),
}


@pytest.mark.parametrize("name", BESIDE)
def test_what_lies_there_and_is_not_listed_is_named(tmp_path: Path, name: str) -> None:
    home, inbox = write_inbox(tmp_path)
    BESIDE[name](write_drop(inbox) / name)
    assert [drop.state for drop in seen(home, inbox)] == ["quarantined"]
    assert why(inbox, "first").startswith(f"{name}: is not listed in the manifest")


def test_a_long_odd_name_is_one_short_line(tmp_path: Path) -> None:
    home, inbox = write_inbox(tmp_path)
    (write_drop(inbox) / ("\n\x1b[2J" + "ü" * 120)).write_bytes(b"x")
    seen(home, inbox)
    line = why(inbox, "first")
    assert line.isascii()
    assert line.count("\n") == 1
    assert len(line) < 250


@pytest.mark.parametrize(
    "name", ["Thumbs.db", "desktop.ini", ".DS_Store", "._people.csv", "_SUCCESS", ".people.csv.crc"]
)
def test_what_programs_put_beside_data_may_lie_there(tmp_path: Path, name: str) -> None:
    home, inbox = write_inbox(tmp_path)
    (write_drop(inbox) / name).write_bytes(b"x")
    assert [drop.state for drop in seen(home, inbox)] == ["arrived"]


@pytest.mark.parametrize("name", ["Drop.json", "DROP.JSON"])
def test_a_manifest_in_capitals_is_read(tmp_path: Path, name: str) -> None:
    home, inbox = write_inbox(tmp_path)
    drop = write_drop(inbox)
    (drop / "drop.json").rename(drop / name)
    assert [drop.state for drop in seen(home, inbox)] == ["arrived"]


@pytest.mark.parametrize(
    ("name", "keep", "line"),
    [
        ("Drop.json", True, "drop.json: lies there twice"),
        ("drop.json.txt", False, "drop.json: is called drop.json.txt"),
    ],
)
def test_a_manifest_that_cannot_be_told_is_named(tmp_path: Path, name: str, keep: bool, line: str) -> None:
    home, inbox = write_inbox(tmp_path)
    drop = write_drop(inbox)
    shutil.copy(drop / "drop.json", drop / name)
    if not keep:
        (drop / "drop.json").unlink()
    assert [drop.state for drop in seen(home, inbox)] == ["quarantined"]
    assert why(inbox, "first").startswith(line)


UNREADABLE = {
    "no text": ("people.csv", os.urandom(500)),
    "cut off": ("people.csv", gzip.compress(TEXT)[:-20]),
    "no columns": ("people.csv", b"a;b\n1;2\n"),
    "damaged": ("people.parquet", b"PAR1" + os.urandom(500)),
}


@pytest.mark.parametrize("what", UNREADABLE)
def test_a_drop_that_cannot_be_read_goes_to_quarantine_and_its_period_is_free(
    tmp_path: Path, what: str
) -> None:
    home, inbox = folder_inbox(tmp_path)
    write_drop(inbox, "bad", dict([UNREADABLE[what]]))
    (drop,) = seen(home, inbox)
    source = f"drop:{drop.id}"
    drop_outcomes.started(home, source)
    with pytest.raises(DataRefused) as refused, drop_outcomes.recorded(home, source):
        publish(Path(inbox.spec), home, source=source, period="2026")
    assert str(home.path) not in refused.value.what + refused.value.where
    write_drop(inbox, "corrected")
    assert {drop.place: drop.state for drop in seen(home, inbox)} == {
        "quarantine/bad": "refused",
        "corrected": "arrived",
    }
    assert why(inbox, "bad").startswith("refused: data rules")
    assert states(home) == []
    assert {drop.product for drop in drops_of(home)} == {PRODUCT}


@pytest.mark.parametrize(
    "what",
    [
        "people.dat: has an ending that does not say how it is written",
        "the drop: the endings do not say how the files are written",
    ],
)
def test_what_only_ingestion_sees_of_a_drop_is_refused_data(
    tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of files that changed their meaning with the spec, after the drop had arrived."""
    home, inbox = folder_inbox(tmp_path)
    monkeypatch.setattr("tabularium.tasks.arrival.look.see_that_all_is_read", lambda *_: None)
    files = {"people.dat": TEXT} if "people.dat" in what else {"people.csv": TEXT, "people.parquet": b"PAR1"}
    write_drop(inbox, "bad", files)
    (drop,) = seen(home, inbox)
    with pytest.raises(DataRefused) as refused:
        publish(Path(inbox.spec), home, source=f"drop:{drop.id}", period="2026")
    assert refused.value.line().startswith(what)
