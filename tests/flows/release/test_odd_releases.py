"""Small releases of kinds that nothing else publishes: they verify, and are made anew byte for byte."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tabularium.tasks.verify.subject import Subject
from tabularium.tasks.verify.verify_release import verify_release
from tabularium.validations.release_spec.publication_formats import FORMATS
from tests.flows.release.scene import publish, write_scene

pytestmark = pytest.mark.xdist_group("odd")
ALL = {
    "formats": list(FORMATS),
    "quality": {"unreliable": "20%", "suppress": "60%", "at_least": 5},
}


def unfinished(told: dict[str, Any]) -> None:
    told["postprocessing"] = {"consistency": False, "nonnegativity": False, "rounding": False}


def without_measured_errors(told: dict[str, Any]) -> None:
    told["tables"][1] |= {"mechanism": "noise_first", "margin_share": 0}


def of_sizes(told: dict[str, Any]) -> None:
    told["histograms"] = [{"name": "sizes", "of": "area", "share": "1/10"}]


def half_a_year_called_history(told: dict[str, Any]) -> None:
    told["period"] = "2026-H1"
    told["tables"] = [
        {"name": "area", "dimensions": ["area"], "mechanism": "ahp"},
        {"name": "history", "dimensions": ["age", "sex"], "mechanism": "dawa"},
    ]


def concentrated(told: dict[str, Any]) -> None:
    told["publication"]["sdmx"] = {"structure": "json", "agency": "A.B", "version": "2.0.1"}


@pytest.mark.parametrize(
    "change", [unfinished, without_measured_errors, of_sizes, half_a_year_called_history, concentrated]
)
def test_it_verifies_and_is_made_anew(tmp_path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    kind = {"definition": "zcdp", "budget": "1/10"} if change is concentrated else {"budget": "1"}
    spec, home = write_scene(tmp_path, **kind)
    told = yaml.safe_load(spec.read_text())
    told["publication"] |= ALL
    change(told)
    spec.write_text(yaml.safe_dump(told))
    folder = Path(publish(spec, home).folder)
    assert not [each for each in verify_release(Subject(folder, None, None)) if each.outcome == "failed"]
    before = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    shutil.rmtree(tmp_path / "releases")
    assert publish(spec, home).status == "already published"
    assert before == {
        path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }
