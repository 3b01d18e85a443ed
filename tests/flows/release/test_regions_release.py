"""Tables measured per region: published, charged as other tables are, and made again by verify."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tabularium.mechanisms import restore
from tabularium.mechanisms.accounting.transcript import Event
from tabularium.tasks.publish.measurement_files import read_measurement
from tabularium.tasks.runtime.home import Home
from tabularium.tasks.verify.subject import Subject
from tabularium.tasks.verify.verify_release import verify_release
from tests.flows.release.scene import publish, write_scene

# One worker for the whole file: what its tests look at is made once.
pytestmark = pytest.mark.xdist_group("regions")
WORDS = {
    "area_age_sex": "mechanism: denoise\n    per: area",
    "age_sex": "mechanism: dawa\n    per: sex",
}


def write_regions(folder: Path) -> tuple[Path, Home]:
    """Write one table measured by one draw for all regions, the other by a scope with a branch for each."""
    spec, home = write_scene(folder, rows=3000, budget="2")
    text = spec.read_text()
    for name, words in WORDS.items():
        text = text.replace(f"- name: {name}\n", f"- name: {name}\n    {words}\n")
    spec.write_text(text)
    return spec, home


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(publish(*write_regions(tmp_path_factory.mktemp("regions"))).folder)


@pytest.fixture(scope="module")
def certificate(release: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((release / "certificate.json").read_text())
    return found


def test_one_draw_does_for_all_regions_of_a_level(certificate: dict[str, Any]) -> None:
    own = [Event.from_dict(each) for each in certificate["transcript"] if "area_age_sex" in each["purpose"]]
    # 2 · 2/3 · (1/4, 1/4, 1/2): areas × ages × sexes, every area with the whole loss of its level
    assert [(event.purpose, event.loss, event.shape, event.branches) for event in own] == [
        ("area_age_sex/nation/cells", Fraction(1, 3), (1, 3, 2), ()),
        ("area_age_sex/province/cells", Fraction(1, 3), (2, 3, 2), ()),
        ("area_age_sex/place/cells", Fraction(2, 3), (3, 3, 2), ()),
    ]


def test_other_mechanisms_run_side_by_side(certificate: dict[str, Any]) -> None:
    own = [
        Event.from_dict(each) for each in certificate["transcript"] if "age_sex/regions" in each["purpose"]
    ]
    assert {event.loss for event in own} == {
        Fraction(2, 3) * Fraction(19, 20) / 4,
        Fraction(2, 3) * Fraction(19, 20) * 3 / 4,
    }
    assert sum(event.alike for event in own) == 2 * 2, "a cut and its sums, of two regions"
    (parallel,) = certificate["composition"]["parallel"]
    assert parallel == {"measurement": "age_sex", "scopes": 1, "branches": 2}


def test_what_is_published_of_a_region_is_made_of_its_own_measurements(release: Path) -> None:
    measured = read_measurement(release, "area_age_sex", "place")
    values = restore(measured).finish(measured).values
    noisy = measured.arrays["cells"]
    for region in range(3):
        others = noisy + 1000
        others[region] = noisy[region]
        changed = type(measured)(**{**vars(measured), "arrays": {"cells": others}})
        assert np.array_equal(restore(changed).finish(changed).values[region], values[region])


def test_margins_and_counts_are_published(release: Path, certificate: dict[str, Any]) -> None:
    found = pd.read_csv(release / "area_age_sex.csv")
    assert len(found) == 6 * 3 * 2 and (found["count"] >= 0).all() and (found["margin"] > 0).all()
    assert certificate["tables"]["area_age_sex"]["mechanism"] == "denoise"
    assert certificate["tables"]["area_age_sex"]["margins"]["method"] == "risk"
    assert certificate["tables"]["age_sex"]["margins"]["method"] == "measured"


def test_verify_makes_it_again(release: Path) -> None:
    assert [each for each in verify_release(Subject(release)) if each.outcome == "failed"] == []
