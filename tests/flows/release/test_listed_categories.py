"""A release whose categories stand in code lists: one CSV without parents, one out of an SDMX file."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
import yaml
from csvw import CSVW

import tabularium as tb
from tabularium.tasks.verify.subject import Subject
from tabularium.tasks.verify.verify_release import verify_release
from tests.flows.release.scene import publish, write_scene

SEXES = "label,code,note\nmale,1,ours\nfemale,2,ours\n"
PUBLISHED = "code,label,parent\n1,male,\n2,female,\n"
PROVINCES = [
    {"id": "A1", "names": {"de": "Alpha eins", "en": "Alpha one"}},
    {"id": "A2", "names": {"en": "Alpha two"}},
    {"id": "B1", "names": {"de": "Beta eins"}},
]


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    spec, home = write_scene(tmp_path_factory.mktemp("listed"), rows=60)
    lists = spec.parent / "lists"
    lists.mkdir()
    (lists / "sexes.csv").write_text(SEXES)
    message = {"data": {"codelists": [{"id": "CL_PLACE", "agencyID": "NSO", "codes": PROVINCES}]}}
    (lists / "lists.json").write_text(json.dumps(message))
    told = yaml.safe_load(spec.read_text())
    told["columns"]["sex"] = {"categories": "lists/sexes.csv"}
    told["columns"]["area"] = {"categories": "lists/lists.json#NSO:CL_PLACE"}
    told["tables"][0].pop("levels")
    told["about"] = {"language": "de"}
    told["publication"] |= {"formats": ["csv", "parquet", "sdmx"], "sdmx": {"structure": "json"}}
    spec.write_text(yaml.safe_dump(told, sort_keys=False))
    return Path(publish(spec, home).folder)


def test_lists_are_published_with_their_digests_and_named_without_folders(release: Path) -> None:
    certificate = json.loads((release / "certificate.json").read_text())
    digest = hashlib.sha256(PUBLISHED.encode()).hexdigest()
    assert (release / "codes" / "sexes.csv").read_text() == PUBLISHED
    assert certificate["code_lists"].keys() == {"sexes.csv", "CL_PLACE.csv"}
    assert certificate["code_lists"]["sexes.csv"] == certificate["files"]["codes/sexes.csv"] == digest
    columns = certificate["spec"]["columns"]
    assert [columns[name]["categories"] for name in ("sex", "area")] == ["sexes.csv", "CL_PLACE.csv"]


def test_cells_have_the_codes_and_labels_of_the_lists_in_their_order(release: Path) -> None:
    frame = pd.read_csv(release / "area_age_sex.csv", dtype=str)
    pairs = frame[["area", "area_label"]].drop_duplicates().to_numpy().tolist()
    assert pairs == [["A1", "Alpha eins"], ["A2", "Alpha two"], ["B1", "Beta eins"]]
    assert frame["sex_label"].drop_duplicates().tolist() == ["male", "female"]


def test_it_is_verified_read_again_and_fails_with_another_list(release: Path, tmp_path: Path) -> None:
    verdict = verify_release(Subject(release))
    assert not [finding for finding in verdict if finding.outcome == "failed"]
    assert tb.open(release).query("count where sex = female").value > 0
    copy = tmp_path / "copy"
    shutil.copytree(release, copy)
    for path in (copy, copy / "codes", copy / "codes" / "sexes.csv"):
        path.chmod(0o755)
    (copy / "codes" / "sexes.csv").write_text(PUBLISHED.replace("female", "woman"))
    assert not tb.verify(copy)


def test_the_formats_refer_to_the_lists_and_name_foreign_labels(release: Path) -> None:
    described = CSVW(str(release / "area_age_sex.csv-metadata.json"), validate=True)
    assert described.is_valid, described.warnings
    assert [str(table.url) for table in described.tables] == [
        *("area_age_sex.csv", "codes/CL_PLACE.csv", "codes/sexes.csv")
    ]
    assert "A2,Alpha two,,en" in (release / "codes" / "CL_PLACE.csv").read_text()
    structure = json.loads((release / "structure.sdmx.json").read_text())
    codes = next(each["codes"] for each in structure["data"]["codelists"] if each["id"] == "CL_SMALL_AREA")
    assert [each.get("names") for each in codes] == [None, {"en": "Alpha two"}, None]
