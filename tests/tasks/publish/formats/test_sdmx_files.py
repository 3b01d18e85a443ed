"""SDMX: what is written is what the standard wants, and other readers find the same numbers in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest
import sdmx
import sdmx.reader.csv
from lxml import etree
from pysdmx.io import read_sdmx

from tabularium.tasks.publish.formats.base import write_formats, write_without_rows
from tabularium.tasks.publish.formats.sdmx import cubes
from tabularium.tasks.publish.formats.sdmx.cubes import original_code
from tabularium.tasks.publish.published_tables import PublishedTable
from tabularium.validations.release_spec.load import Loaded, load_spec
from tabularium.validations.release_spec.publication_formats import files_of
from tests.tasks.publish.formats.a_release import SPEC, as_published, written
from tests.tasks.publish.formats.test_without_rows import ADDED, MEASURES
from tests.validations.release_spec.spec_samples import changed, load, write_spec


def read_by_sdmx1(path: Path, structure: Any = None) -> Any:
    """Read by another library; it leaves files open that it opens itself."""
    with path.open("rb") as file:
        if structure is not None:
            return sdmx.reader.csv.Reader().convert(file, structure=structure)
        return sdmx.read_sdmx(file)


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> tuple[Loaded, dict[str, PublishedTable], Path]:
    return written(tmp_path_factory.mktemp("sdmx"))


Published = tuple[Loaded, dict[str, PublishedTable], Path]


def test_the_files_are_those_that_are_announced(published: Published) -> None:
    loaded, _, aside = published
    assert {path.name for path in aside.iterdir()} == files_of(loaded.spec)
    assert "structure.sdmx.xml" in files_of(loaded.spec)


def test_another_reader_finds_the_numbers_of_the_csv(published: Published) -> None:
    """sdmx1 reads structure and rows; its codes taken back are those of the CSV."""
    _, tables, aside = published
    message = read_by_sdmx1(aside / "structure.sdmx.xml")
    for name, dimensions in (("area_size", ["AREA", "SIZE_2"]), ("sizes", ["GR_SSE", "SIZE_2"])):
        flow = message.dataflow[f"DF_PERSONS-2_{name.upper()}"]
        data = read_by_sdmx1(aside / f"{name}.sdmx.csv", structure=flow).data[0]
        rows = pa.csv.read_csv(aside / f"{name}.csv").to_pylist()
        columns = list(tables[name].layout.table.dimensions)
        status = {"reliable": "A", "unreliable": "U", "suppressed": "Q", "unknown": "V"}
        assert len(data.obs) == len(rows) == tables[name].frame.num_rows
        for seen, row in zip(data.obs, rows, strict=True):
            key = seen.key.values
            assert [original_code(key[each].value) for each in dimensions] == [
                str(row[each]) for each in columns
            ]
            assert key["TIME_PERIOD"].value == "2026-S1"
            attributes = {each: str(value.value) for each, value in seen.attrib.items()}
            assert (int(seen.value) if seen.value else None) == row["count"]
            assert attributes["OBS_STATUS"] == status[row["quality"]]
            assert attributes["MARGIN"] == ("" if row["margin"] is None else str(row["margin"]))
            assert attributes.get("LEVEL") == row.get("level" if name == "area_size" else "no")
    assert {row["OBS_STATUS"] for row in pa.csv.read_csv(aside / "area_size.sdmx.csv").to_pylist()} >= {
        "A",
        "U",
        "Q",
    }


def test_codes_keep_label_parent_and_what_they_were(published: Published) -> None:
    loaded, _, aside = published
    message = read_by_sdmx1(aside / "structure.sdmx.xml")
    codes = message.codelist["CL_PERSONS-2_AREA"]
    domain = loaded.domains["area"]
    assert [original_code(code) for code in codes.items] == list(domain.node_codes)  # type: ignore[union-attr]
    assert [str(code.name) for code in codes] == list(domain.node_labels)  # type: ignore[union-attr]
    (nation,) = read_sdmx(aside / "structure.sdmx.xml").get_hierarchies()[0]
    assert {each.id: [place.id for place in each] for each in nation} == {
        "N$2FW": ["N1", "N$242"],
        "S": ["S$201"],
    }
    assert str(codes["S$201"].annotations[0].text) == "S 1"
    assert codes["S"].annotations == []
    assert 'xml:lang="fr"' in (aside / "structure.sdmx.xml").read_text()


def test_ids_that_meet_in_one_structure_are_refused_without_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where those of measures are drawn up apart: the writer finds it, and so the dry run."""
    text = changed("tables:\n", ADDED.replace("SHARES", MEASURES)).replace('"1/3"\n', '"7/30"\n')
    loaded = load(tmp_path, f"{text}publication: {{formats: [csv, sdmx]}}\n")
    aside = tmp_path / "aside"
    aside.mkdir()
    write_without_rows(loaded, aside)
    monkeypatch.setattr(cubes, "dimension_ids", lambda spec: cubes.component_ids(spec.columns))
    with pytest.raises(Exception, match="MEASURE_M"):
        write_without_rows(loaded, aside)


def test_names_of_structures(published: Published) -> None:
    _, _, aside = published
    message = read_sdmx(aside / "structure.sdmx.xml", validate=True)  # against the schemas of SDMX 3.0
    assert [each.short_urn for each in message.get_dataflows()] == [
        "Dataflow=NSO.POP:DF_PERSONS-2_AREA_SIZE(2.1.0)",
        "Dataflow=NSO.POP:DF_PERSONS-2_SIZES(2.1.0)",
        "Dataflow=NSO.POP:DF_PERSONS-2_HOUSEHOLDS(2.1.0)",
    ]
    area, _, households = message.get_data_structure_definitions()
    assert area.name == "Persons, by area & size"
    assert [each.id for each in area.components.dimensions] == ["AREA", "SIZE_2", "TIME_PERIOD"]
    assert {each.id for each in area.components.attributes} == {"MARGIN", "OBS_STATUS", "LEVEL"}
    assert [each.id for each in households.components.dimensions] == ["SIZE", "TIME_PERIOD"]
    assert {each.id for each in households.components.attributes} == {"OBS_STATUS"}
    names = {each.id: each.name for each in message.get_concept_schemes()[0]}
    assert names["AREA"] == "Where they live"
    assert names["GR_SSE"] == "Größe"
    assert names["MARGIN"] == "Margin of error, 90 %"


def test_a_histogram_has_its_size_as_a_dimension(published: Published) -> None:
    _, _, aside = published
    lines = (aside / "households.sdmx.csv").read_text().splitlines()
    assert lines[0].replace('"', "") == "STRUCTURE,STRUCTURE_ID,ACTION,SIZE,TIME_PERIOD,OBS_VALUE,OBS_STATUS"
    assert lines[1] == "dataflow,NSO.POP:DF_PERSONS-2_HOUSEHOLDS(2.1.0),I,7,2026-S1,1,A"


def test_json_says_the_same_as_xml(published: Published, tmp_path: Path) -> None:
    """Each is valid under its schema and read by pysdmx to the same structures."""
    _, _, aside = published
    text = SPEC.replace('version: "2.1.0"', 'version: "2.1.0", structure: json')
    loaded, _, other = written(tmp_path, text)
    assert "structure.sdmx.json" in files_of(loaded.spec)
    xml, found = (
        read_sdmx(path, validate=True)
        for path in (aside / "structure.sdmx.xml", other / "structure.sdmx.json")
    )
    assert found.header.prepared == xml.header.prepared

    def told(message: object) -> dict[str, object]:
        lists = {each.id: [(c.id, c.name) for c in each] for each in message.get_codelists()}  # type: ignore[attr-defined]
        structures = {
            each.id: [(c.id, c.role, str(c.dtype)) for c in each.components]
            for each in message.get_data_structure_definitions()  # type: ignore[attr-defined]
        }
        return {"lists": lists, "structures": {name: sorted(each) for name, each in structures.items()}}

    assert told(found) == told(xml)
    codes = json.loads((other / "structure.sdmx.json").read_text())["data"]["codelists"][0]["codes"]
    assert {each["id"]: each.get("parent") for each in codes}["S$201"] == "S"
    for name in ("area_size", "sizes", "households"):
        assert (other / f"{name}.sdmx.csv").read_bytes() == (aside / f"{name}.sdmx.csv").read_bytes()


def test_a_lost_folder_is_written_again_byte_for_byte(published: Published, tmp_path: Path) -> None:
    _, _, aside = published
    _, _, again = written(tmp_path)
    for path in aside.iterdir():
        assert (again / path.name).read_bytes() == path.read_bytes()


def test_numbers_that_are_not_whole(tmp_path: Path) -> None:
    text = SPEC.replace("about:", "postprocessing: {rounding: false}\nabout:")
    _, tables, aside = written(tmp_path, text, whole=False)
    area = read_sdmx(aside / "structure.sdmx.xml").get_data_structure_definitions()[0]
    assert str(area.components["OBS_VALUE"].dtype) == str(area.components["MARGIN"].dtype) == "Double"
    found = pa.csv.read_csv(aside / "area_size.sdmx.csv")
    assert found["OBS_VALUE"].to_pylist() == tables["area_size"].frame.whole()["count"].to_pylist()
    assert found["MARGIN"].to_pylist() == tables["area_size"].frame.whole()["margin"].to_pylist()


@pytest.mark.audit
def test_two_million_cells_take_at_most_four_seconds(tmp_path: Path) -> None:
    import time

    places = 60_000
    lists = "code,label,parent\n0,All,\n" + "".join(f"MB{i},Place {i},0\n" for i in range(places))
    text = """\
product: p
dataset: d
period: 2026
source: {path: p.csv}
privacy: {unit: record, budget: 1}
columns: {area: {hierarchy: areas.csv, levels: [all, place]}, age: {integer: {from: 0, to: 16}}, sex: {categories: [m, f]}}
tables: [{name: t, dimensions: [area, age, sex]}]
publication: {formats: [csv, sdmx]}
"""
    loaded = load_spec(write_spec(tmp_path, text, {"areas.csv": lists}))
    tables = as_published(loaded)
    assert tables["t"].frame.num_rows > 2_000_000
    began = time.process_time()
    write_formats(loaded, tables, tmp_path)
    took = time.process_time() - began
    assert (tmp_path / "t.sdmx.csv").read_bytes().count(b"\n") == tables["t"].frame.num_rows + 1
    print(f"{tables['t'].frame.num_rows} cells, structure included: {took:.1f} s")
    assert took < 4


@pytest.mark.parametrize("form", ["xml", "json"])
def test_each_name_says_in_which_language_it_is(tmp_path: Path, form: str) -> None:
    """Titles and labels in the language of the release; what has no name in it, and what we name, in theirs."""
    text = SPEC.replace('version: "2.1.0"}', f'version: "2.1.0", structure: {form}}}')
    areas = "code,label,parent,label_language\n0,Pays,,\nN/W,North,0,en-GB\nS,Sud,0,\n"
    text = text.replace("[nation, region, place]", "[nation, region]")
    loaded = load_spec(write_spec(tmp_path, text, {"areas.csv": areas}))
    write_formats(loaded, as_published(loaded), tmp_path)
    found: dict[str, str] = {}
    if form == "xml":
        root = etree.fromstring((tmp_path / "structure.sdmx.xml").read_bytes())
        for name in root.iter("{*}Name"):
            found[name.text] = name.get("{http://www.w3.org/XML/1998/namespace}lang")
    else:
        message = json.loads((tmp_path / "structure.sdmx.json").read_text())
        assert message["meta"]["contentLanguages"] == ["fr", "en-GB", "en"]
        schemes = [*message["data"]["codelists"], *message["data"]["conceptSchemes"]]
        for named in (
            *schemes,
            *(item for each in schemes for item in each.get("codes", each.get("concepts"))),
        ):
            found[named["name"]] = next(iter(named.get("names", {"fr": ""})))
    assert {name: found[name] for name in ("Pays", "Sud", "North", "Where they live", "small")} == {
        "Pays": "fr",
        "Sud": "fr",
        "North": "en-GB",
        "Where they live": "fr",
        "small": "fr",
    }
    ours = {
        "Normal value",
        "Status of an observation",
        "Reference period",
        "Number",
        "Level of the hierarchy",
    }
    assert {found[name] for name in ours} == {"en"}
    described = json.loads((tmp_path / "area_size.csv-metadata.json").read_text())
    codes = next(each for each in described["tables"] if each["url"] == "codes/areas.csv")
    assert [each["name"] for each in codes["tableSchema"]["columns"]][-1] == "label_language"
