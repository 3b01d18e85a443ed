"""A release of several codings of one column, of cases and recodes: it agrees, and verify makes it again."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.csv
import pytest

from tabularium.tasks.verify.subject import Subject
from tabularium.tasks.verify.verify_release import verify_release
from tabularium.validations.certificate import CERTIFICATE
from tests.flows.release.scene import publish, write_scene

COLUMNS = """\
columns:
  area: {hierarchy: areas.csv, levels: [nation, province, place]}
  decade: {from: age, integer: {from: 0, to: 99, width: 10}}
  phase: {from: age, integer: {from: 0, to: 99, edges: [20, 60]}}
  gender: {from: sex, map: {"1": m, "2": f}, categories: [f, m]}
  who: {cases: [{when: "phase = 0-19", then: young}], else: grown, categories: [young, grown]}
tables:
  - {name: decades, dimensions: [area, decade], levels: {province: "1/2", place: "1/2"}}
  - {name: phases, dimensions: [area, phase, gender], levels: {province: "1"}}
  - {name: whos, dimensions: [who, gender]}
"""


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    spec, home = write_scene(tmp_path_factory.mktemp("codings"))
    text = spec.read_text()
    spec.write_text(text[: text.index("columns:")] + COLUMNS + text[text.index("rules:") :])
    return Path(publish(spec, home).folder)


def test_the_published_tables_agree_on_the_coarser_coding(release: Path) -> None:
    decades, phases, whos = (
        pyarrow.csv.read_csv(release / f"{name}.csv").to_pylist() for name in ("decades", "phases", "whos")
    )
    bounds = {"0-19": range(2), "20-59": range(2, 6), "60-99": range(6, 10)}
    for province in ("A", "B"):
        for phase, tens in bounds.items():
            fine = sum(
                row["count"]
                for row in decades
                if row["area"] == province and int(row["decade"].partition("-")[0]) // 10 in tens
            )
            coarse = sum(r["count"] for r in phases if (r["area"], r["phase"]) == (province, phase))
            assert fine == coarse, (province, phase)
    for gender in "fm":
        shown = sum(r["count"] for r in phases if r["gender"] == gender and r["level"] == "province")
        assert shown == sum(r["count"] for r in whos if r["gender"] == gender)
    certificate = json.loads((release / CERTIFICATE).read_bytes())
    shared = certificate["agreement"]["consistency"]["shared_marginals"]
    assert ["area x phase", "decades", "phases"] in [[each[0], *sorted(each[1:])] for each in shared]


def test_verify_makes_it_again(release: Path) -> None:
    found = list(verify_release(Subject(release)))
    assert found and not [each for each in found if each.outcome == "failed"]
