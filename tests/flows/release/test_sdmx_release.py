"""A release whose hierarchy comes out of an SDMX file and whose tables are published as SDMX."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow.csv
import yaml
from csvw import CSVW

from tabularium.validations.domains.code_lists import read_code_list
from tests.flows.release.scene import AREAS, publish, write_scene

FILES = {"structure.sdmx.json", "area_age_sex.sdmx.csv", "age_sex.sdmx.csv", "codes/CL_AREA.csv"}


def test_it_is_published_and_made_anew_byte_for_byte(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    rows = [line.split(",") for line in AREAS.splitlines()[1:]]
    codes = [{"id": code, "name": label, "parent": parent} for code, label, parent in rows]
    lists = {"data": {"codelists": [{"id": "CL_AREA", "agencyID": "NSO", "codes": codes}]}}
    (tmp_path / "lists.json").write_text(json.dumps(lists))
    (tmp_path / "areas.csv").unlink()
    told = yaml.safe_load(spec.read_text())
    told["columns"]["area"]["hierarchy"] = "lists.json#CL_AREA"
    told["publication"] |= {"formats": ["csv", "sdmx"], "sdmx": {"structure": "json"}}
    spec.write_text(yaml.safe_dump(told))

    folder = Path(publish(spec, home).folder)
    certificate = json.loads((folder / "certificate.json").read_text())
    assert certificate["files"].keys() >= FILES
    assert certificate["spec"]["columns"]["area"]["hierarchy"] == "CL_AREA.csv"
    assert (folder / "codes" / "CL_AREA.csv").read_text() == AREAS
    numbers = pyarrow.csv.read_csv(folder / "area_age_sex.csv")
    observed = pyarrow.csv.read_csv(folder / "area_age_sex.sdmx.csv")
    for ours, theirs in (("count", "OBS_VALUE"), ("margin", "MARGIN"), ("area", "AREA"), ("level", "LEVEL")):
        assert observed[theirs].to_pylist() == numbers[ours].to_pylist()
    ours, _ = read_code_list(folder / "structure.sdmx.json#CL_SMALL_AREA")
    theirs, _ = read_code_list(folder / "codes" / "CL_AREA.csv")
    assert ours is not None
    assert theirs is not None
    assert ours.digest == theirs.digest

    described = CSVW(str(folder / "area_age_sex.csv-metadata.json"), validate=True)
    assert described.is_valid, described.warnings
    assert [str(table.url) for table in described.tables] == ["area_age_sex.csv", "codes/CL_AREA.csv"]

    before = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    shutil.rmtree(tmp_path / "releases")
    assert publish(spec, home).status == "already published"
    assert {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
