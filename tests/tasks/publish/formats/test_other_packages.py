"""A format of another package: written, listed, described, verified, and its absence said."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tabularium.mechanisms.errors import InputError, PublicationError
from tabularium.tasks.report.report import downloads
from tabularium.tasks.verify.subject import Finding, Subject
from tabularium.tasks.verify.verify_release import verify_release
from tabularium.validations.certificate import Certificate
from tabularium.validations.release_spec import publication_formats
from tabularium.validations.release_spec.json_schema import json_schema
from tests.tasks.publish.formats.a_release import a_release
from tests.tasks.verify.damages import fix_up
from tests.validations.release_spec.spec_samples import changed, problems_of

FORMAT = """
import csv
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.csv

from tabularium.tasks.publish.formats.base import TableFormat
from tabularium.validations.public_files import Unreadable
from tabularium.validations.release_spec.publication_formats import FileKind


class Tabs(TableFormat):
    name = "tabs"
    summary = "`<table>.tsv`: rows with tabs between columns"
    kinds = (FileKind(".tsv", "rows with tabs", "TSV", "text/tab-separated-values", "TSV"),)
    same = "rows with tabs are those of the first format"

    def check(self, draft):
        if draft.document.data.get("period") == "2027":
            draft.add(("period",), "cannot be written with tabs", "write 2028")

    @contextmanager
    def writer(self, loaded, name, table, folder):
        with (folder / f"{name}.tsv").open("w", newline="") as file:
            lines = csv.writer(file, "excel-tab")
            lines.writerow(table.frame.schema.names)
            yield lambda rows: lines.writerows(zip(*(each.to_pylist() for each in rows.itercolumns())))

    def read(self, loaded, folder, shape, rows, columns=None):
        types = {**dict.fromkeys(shape.texts, pa.string()), **dict.fromkeys(shape.numbers, pa.float64())}
        try:
            yield from pa.csv.read_csv(
                folder / f"{shape.name}.tsv",
                parse_options=pa.csv.ParseOptions(delimiter="\t"),
                convert_options=pa.csv.ConvertOptions(column_types=types),
            ).to_batches()
        except pa.ArrowException:
            raise Unreadable(f"{shape.name}.tsv is not rows with tabs") from None


class Misnamed(Tabs):
    name = "tabulators"


class Kindless(Tabs):
    name = "kindless"
    kinds = ()


class Thief(Tabs):
    name = "thief"
    kinds = (FileKind(".csv", "CSV"),)


class Forger(Tabs):
    name = "forger"
    kinds = (FileKind(".json", "JSON", stem="certificate"),)


class Silent(Tabs):
    name = "silent"
    kinds = (FileKind(".silent", "rows"),)
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Lay the files of an installed distribution where imports and entry points are looked for."""
    place = tmp_path / "site"
    about = place / "agency_formats-1.0.dist-info"
    about.mkdir(parents=True)
    (place / "agency_formats.py").write_text(FORMAT)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: agency-formats\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[tabularium.formats]\ntabs = agency_formats:Tabs\nbroken = agency_formats:Gone\n"
        "other = agency_formats:Misnamed\ncsv = agency_formats:Tabs\n"
        "kindless = agency_formats:Kindless\nthief = agency_formats:Thief\n"
        "forger = agency_formats:Forger\nsilent = agency_formats:Silent\n"
    )
    monkeypatch.syspath_prepend(str(place))
    _forget()
    yield place
    monkeypatch.undo()
    _forget()
    sys.modules.pop("agency_formats", None)


def _forget() -> None:
    publication_formats._plugins.cache_clear()
    publication_formats._format.cache_clear()


def judged(folder: Path) -> dict[str, Finding]:
    return {finding.what: finding for finding in verify_release(Subject(folder))}


def test_it_is_written_described_and_verified(installed: Path, tmp_path: Path) -> None:
    folder = a_release(tmp_path / "made", "csv, tabs, catalogue")
    lines = (folder / "age_sex.tsv").read_text().splitlines()
    assert lines[0].split("\t") == [
        "age",
        "sex",
        "sex_label",
        "kind",
        "kind_label",
        "quality",
        "count",
        "margin",
    ]
    assert len(lines) == len((folder / "age_sex.csv").read_text().splitlines())
    told = Certificate.read((folder / "certificate.json").read_bytes())
    assert {each.name: each.what for each in downloads(folder, told)}["age_sex.tsv"] == "rows with tabs"
    assert "tab-separated-values" in (folder / "catalogue.jsonld").read_text()
    what = "rows with tabs are those of the first format"
    assert judged(folder)[what].outcome == "checked"
    (folder / "age_sex.tsv").write_text("\n".join([*lines[:-1], lines[-1] + "0"]) + "\n")
    fix_up(folder)
    assert "age_sex.tsv: margin is not what it should be" in str(judged(folder)[what].said)


def test_it_says_what_it_cannot_write(installed: Path, tmp_path: Path) -> None:
    text = changed('period: "2026"', 'period: "2027"') + "publication: {formats: [csv, tabs]}\n"
    assert "cannot be written with tabs" in str(problems_of(tmp_path, text))
    items = json_schema()["$defs"]["Publication"]["properties"]["formats"]["items"]
    assert items["enum"][:2] == ["csv", "parquet"] and "tabs" in items["enum"]


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("broken", "`broken` cannot be loaded"),
        ("other", "`other` is not a TableFormat"),
        ("kindless", "with a summary and its kinds of files"),
        ("thief", "writes <table>.csv, which is a file of others"),
        ("forger", "writes certificate.json, which is a file of others"),
    ],
)
def test_a_broken_one_is_named(name: str, what: str, installed: Path) -> None:
    with pytest.raises(InputError, match=what):
        publication_formats.FORMATS[name]


def test_one_that_writes_other_files_than_it_names_is_refused_before_a_charge(
    installed: Path, tmp_path: Path
) -> None:
    with pytest.raises(PublicationError, match="a format writes other files than it names"):
        a_release(tmp_path / "made", "csv, silent")


def test_ours_cannot_be_replaced(installed: Path) -> None:
    assert type(publication_formats.FORMATS["csv"]).__name__ == "Csv"


def test_a_reader_without_it_says_so_and_reads_the_rest(installed: Path, tmp_path: Path) -> None:
    folder = a_release(tmp_path / "made", "csv, tabs")
    (installed / "agency_formats-1.0.dist-info" / "entry_points.txt").unlink()
    _forget()
    found = judged(folder)
    assert "tabs" in str(found["tabs holds the same as the first format"].said)
    assert not [each for each in found.values() if each.outcome == "failed"]
