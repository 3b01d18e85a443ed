"""A release in every format, read back by readers that are not ours to equal numbers."""

from __future__ import annotations

import csv
import hashlib
import json
import warnings
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow.parquet as pq
import pytest
from csvw import CSVW
from rdflib import DCAT, DCTERMS, RDF, Graph, Namespace, URIRef

from tabularium.tasks.publish.dcat import language_address
from tabularium.tasks.publish.formats.base import first_format, formats_of
from tabularium.tasks.verify.subject import Subject
from tabularium.tasks.verify.verify_release import verify_release
from tabularium.validations.release_spec.publication_formats import FORMATS
from tests.tasks.publish.formats.a_release import a_release, with_all_measures

TABLES = ("area_age_sex", "age_sex", "sizes_of_areas")
Rows = list[tuple[Any, ...]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return a_release(tmp_path_factory.mktemp("formats"))


def numbers(value: str, column: str) -> Any:
    if column in ("count", "margin", "size", "number"):
        return int(value) if value else None
    return value


def rows(folder: Path, name: str) -> tuple[list[str], Rows]:
    """Read the CSV with the library of Python."""
    with (folder / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        header, *lines = csv.reader(file)
    return header, [
        tuple(numbers(value, column) for value, column in zip(line, header, strict=True)) for line in lines
    ]


def is_valid(path: Path) -> bool:
    """Ask the library, which warns of some of what is wrong, and read every row strictly."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            described = CSVW(str(path), validate=True)
            read = [list(table.iterdicts(strict=True)) for table in described.tables]
            return bool(read and described.is_valid)
    except ValueError:
        return False


def test_every_kind_of_flag_is_there_and_suppressed_cells_are_blank(folder: Path) -> None:
    header, found = rows(folder, "age_sex")
    assert header == ["age", "sex", "sex_label", "kind", "kind_label", "quality", "count", "margin"]
    assert {row[5] for row in found} == {"reliable", "unreliable", "suppressed"}
    for row in found:
        assert (row[6] is None) == (row[7] is None) == (row[5] == "suppressed")
    assert rows(folder, "sizes_of_areas")[0] == ["size", "number"]


@pytest.mark.parametrize("name", TABLES)
def test_csvw(folder: Path, name: str) -> None:
    described = CSVW(str(folder / f"{name}.csv-metadata.json"), validate=True)
    assert described.is_valid, described.warnings
    header, expected = rows(folder, name)
    table = described.tables[0]
    names = [column.name for column in table.tableSchema.columns]
    assert [each.titles.getfirst() for each in table.tableSchema.columns] == header
    found = [tuple(row[each] for each in names) for row in table.iterdicts(strict=True)]
    assert found == expected


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("age", "age"),
        ('"=1+1","plus"', '"=1+2","plus"'),  # no code of the list
        ('"1","=1+1"', '"3","=1+1"'),
        ('"reliable",', '"reliable",x'),  # no number
        ('"20-64"', '"0-19"'),  # the key twice
    ],
)
def test_csvw_finds_what_is_wrong(folder: Path, tmp_path: Path, old: str, new: str) -> None:
    text = (folder / "age_sex.csv").read_text(encoding="utf-8")
    assert old in text
    (tmp_path / "age_sex.csv").write_text(text.replace(old, new, 2), encoding="utf-8")
    about = folder / "age_sex.csv-metadata.json"
    (tmp_path / about.name).write_bytes(about.read_bytes())
    assert is_valid(tmp_path / about.name) is (old == new)


def test_a_code_that_is_not_in_the_code_list_breaks_a_foreign_key(folder: Path, tmp_path: Path) -> None:
    name = "area_age_sex"
    (tmp_path / "codes").mkdir()
    (tmp_path / "codes/areas.csv").write_bytes((folder / "codes/areas.csv").read_bytes())
    about = folder / f"{name}.csv-metadata.json"
    (tmp_path / about.name).write_bytes(about.read_bytes())
    text = (folder / f"{name}.csv").read_text(encoding="utf-8")
    for change, good in ((text, True), (text.replace('"A1"', '"A9"'), False)):
        (tmp_path / f"{name}.csv").write_text(change, encoding="utf-8")
        assert is_valid(tmp_path / about.name) is good


def test_csvw_says_what_the_spec_says(folder: Path) -> None:
    about = json.loads((folder / "age_sex.csv-metadata.json").read_bytes())["tables"][0]
    assert about["dc:title"] == "Ages and sexes"
    assert about["dc:license"] == {"@id": "https://creativecommons.org/licenses/by/4.0/"}
    columns = {column["name"]: column for column in about["tableSchema"]["columns"]}
    assert columns["sex"]["titles"] == ["sex", "Sex, as registered"]
    assert columns["count"]["schema:unitText"] == "records"
    assert "at a level of 90 %" in columns["margin"]["dc:description"]["@value"]
    assert "because they are unreliable" in columns["quality"]["dc:description"]["@value"]


@pytest.mark.parametrize("name", TABLES)
def test_parquet(folder: Path, name: str) -> None:
    path = folder / f"{name}.parquet"
    header, expected = rows(folder, name)
    assert pq.read_schema(path).names == header
    assert duckdb.sql(f"select * from '{path}'").fetchall() == expected
    frame = pd.read_parquet(path)
    assert list(frame.columns) == header
    assert [
        tuple(None if pd.isna(v) else v for v in row) for row in frame.itertuples(index=False)
    ] == expected


def test_parquet_says_what_its_columns_mean(folder: Path) -> None:
    schema = pq.read_schema(folder / "age_sex.parquet")
    assert schema.metadata[b"title"] == b"Ages and sexes"
    assert schema.field("sex").metadata[b"title"] == b"Sex, as registered"
    assert schema.field("count").metadata[b"unit"] == b"records"
    assert schema.field("margin").metadata[b"confidence"] == b"9/10"


@pytest.mark.filterwarnings("ignore:ConjunctiveGraph is deprecated")  # by rdflib's own reader
def test_the_catalogue_names_every_file_with_size_and_digest(folder: Path) -> None:
    base = "https://example.org/data/release/"
    graph = Graph().parse(folder / "catalogue.jsonld", format="json-ld", publicID=f"{base}catalogue.jsonld")
    spdx = Namespace("http://spdx.org/rdf/terms#")
    (dataset,) = graph.subjects(RDF.type, DCAT.Dataset)
    found = set()
    for each in graph.objects(dataset, DCAT.distribution):
        name = str(graph.value(each, DCAT.downloadURL)).removeprefix(base)
        content = (folder / name).read_bytes()
        assert int(graph.value(each, DCAT.byteSize)) == len(content)
        check = graph.value(each, spdx.checksum)
        assert str(graph.value(check, spdx.checksumValue)) == hashlib.sha256(content).hexdigest()
        found.add(name)
    languages = "http://publications.europa.eu/resource/authority/language/"
    assert str(graph.value(dataset, DCTERMS.language)) == f"{languages}ENG"
    assert language_address("pt-BR") == f"{languages}POR"
    assert language_address("gsw") == f"{languages}GSW"
    assert found == {f"{name}.{ending}" for name in TABLES for ending in ("csv", "parquet")}
    assert not [
        node
        for triple in graph
        for node in triple
        if not isinstance(node, URIRef) and node.n3().startswith("_:")
    ]
    query = """select ?title ?who ?from ?to ?email { ?d a dcat:Dataset ; dct:title ?title ;
      dct:publisher/foaf:name ?who ; dct:temporal [dcat:startDate ?from ; dcat:endDate ?to] ;
      dcat:contactPoint/vcard:hasEmail ?email }"""
    names = {"dct": "http://purl.org/dc/terms/", "vcard": "http://www.w3.org/2006/vcard/ns#"}
    (row,) = graph.query(query, initNs=names | {"dcat": DCAT, "foaf": "http://xmlns.com/foaf/0.1/"})
    assert [str(value) for value in row] == [
        "Persons by age and sex, 2026",
        "Office",
        "2026-01-01",
        "2026-12-31",
        "mailto:data@example.org",
    ]


def test_every_format_of_rows_holds_the_margins_and_flags_of_measures(tmp_path: Path) -> None:
    subject = Subject(with_all_measures(tmp_path, ", ".join(FORMATS)))
    shape = subject.released.shape("area_age_sex")
    assert {"mean_income_margin", "upper_margin"} < {*shape.numbers} and "upper_quality" in shape.flags
    formats = formats_of(subject.released.spec)
    held = [each.shape(shape) for each in formats if each.same]
    assert all((each.numbers, each.flags) == (shape.numbers, shape.flags) for each in held)
    judged = {each.what: each.outcome for each in verify_release(subject) if each.group == "Formats"}
    first = first_format(subject.released.spec)
    assert {each.same for each in formats if each.same and each is not first} < judged.keys()
    assert set(judged.values()) == {"checked"}
