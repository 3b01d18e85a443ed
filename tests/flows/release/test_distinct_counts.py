"""A release with distinct counts: published, verified and asked, and nowhere added up."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tabularium as tb
from tabularium.mechanisms.errors import InputError
from tabularium.tasks.verify.subject import Subject
from tabularium.tasks.verify.verify_release import verify_release
from tabularium.validations.release_spec.measures.distinct_counts import DistinctCount
from tests.flows.release.scene import AREAS, publish, write_scene

TABLES = """\
tables:
  - name: stays
    dimensions: [area, sex]
    levels: {nation: "1/3", province: "1/3", place: "1/3"}
    measures: {hospitals: {distinct: hospital, title: Hospitals}}
  - name: areas
    dimensions: [area]
    levels: {nation: "1/2", place: "1/2"}
    measures: {hospitals: {distinct: hospital}, fees: {sum: fee, from: 0, to: 10}}
rules: []
publication: {folder: releases, formats: [csv, parquet, xlsx, px, jsonstat], quality: {unreliable: "30%"}}
"""
MARK = "Zweckverband7319"


def records() -> pd.DataFrame:
    areas, rows = ("A1", "A2", "B1"), range(900)
    return pd.DataFrame(
        {
            "area": [areas[i % 3] for i in rows],
            "age": [i * 7 % 100 for i in rows],
            "sex": [1 + i % 2 for i in rows],
            # Forty hospitals, of which each is in all places, and ten more in the first.
            "hospital": [f"{MARK} {i % 40 if i % 3 else i % 50}" for i in rows],
            "fee": [i % 11 for i in rows],
        }
    )


def scene(folder: Path, budget: str) -> Path:
    """A release of these records."""
    spec, home = write_scene(folder, budget=budget, cap=budget)
    before, _, _ = spec.read_text().partition("tables:\n")
    spec.write_text(before + TABLES)
    records().to_csv(folder / "people.csv", index=False)
    (folder / "areas.csv").write_text(AREAS)
    return Path(publish(spec, home).folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return scene(tmp_path_factory.mktemp("distinct"), "4000")


def failed(folder: Path) -> list[str]:
    return [each.said for each in verify_release(Subject(folder)) if each.outcome == "failed"]


def test_each_level_has_its_own_number_and_the_release_is_verified(folder: Path) -> None:
    """So large a budget draws no noise: numbers are those of pandas."""
    assert failed(folder) == []
    release, rows = tb.open(folder), records()
    rows = rows.assign(place=rows.area, province=rows.area.str[0], nation="N", sex=rows.sex.astype(str))
    for level in ("nation", "province", "place"):
        frame = release["stays"].to_pandas(level=level, labels=False).astype({"area": str, "sex": str})
        own = rows.groupby([level, "sex"]).hospital.nunique()
        assert frame.set_index(["area", "sex"]).hospitals.to_dict() == own.to_dict()
        assert (frame.hospitals_margin >= 0).all() and (frame.hospitals_quality == "reliable").all()
    parts = release["stays"].to_pandas(level="place").hospitals
    assert parts.sum() > 100 > release["stays"].to_pandas(level="nation").hospitals.sum()


def test_a_level_that_was_not_measured_is_blank_beside_sums_that_follow(folder: Path) -> None:
    frame = tb.open(folder)["areas"].to_pandas(level="province")
    assert frame.hospitals.isna().all() and frame.hospitals_margin.isna().all()
    assert (frame.hospitals_quality == "suppressed").all()
    assert frame.fees.notna().all() and frame["count"].sum() == 900
    whole = tb.open(folder)["areas"].to_pandas(level="nation").hospitals
    assert whole.tolist() == [50]
    unbiased = tb.open(folder)["areas"].unbiased().to_pandas(level="province")
    assert unbiased.hospitals.isna().all() and unbiased.fees.notna().all()


def test_it_is_said_that_they_do_not_add_up(folder: Path) -> None:
    measure = tb.open(folder).certificate.tables["stays"].measures["hospitals"]
    assert (measure.kind, measure.of, measure.additive, measure.total) == ("distinct", "hospital", "no", None)
    assert (measure.largest_change_by_one_record, measure.margins.method) == ("1", "exact")
    assert "must not be added up" in (folder / "stays.csv-metadata.json").read_text()


def test_no_value_of_the_column_is_published(folder: Path) -> None:
    for path in folder.rglob("*"):
        assert not path.is_file() or MARK.encode() not in path.read_bytes(), path


def test_one_cell_is_answered_and_several_are_refused(folder: Path) -> None:
    release = tb.open(folder)
    assert release.query("distinct(hospitals) where area = N and sex = 1 from stays").value == 25
    both = "distinct(hospitals) where sex = 2 and area in (A1, A2)"  # which is Alpha, and was measured
    assert release.query(both).value == release.query("distinct(hospitals) where sex = 2 and area = A").value
    answer = release.query("distinct(hospital) by place")
    assert answer.to_pandas()["value"].tolist() == [50, 40, 40]
    assert "do not add up" in answer.explanation
    for query in (
        "distinct(hospitals) by sex where area in (A1, B1)",
        "distinct(hospitals) by province from areas",
        "distinct(hospitals) by province from stays",
    ):
        with pytest.raises(InputError, match="do not make those of several cells") as refused:
            release.query(query)
        assert refused.value.hint == "ask for one published cell a row"
    with pytest.raises(
        InputError, match=r"no sum of `hospitals` was measured; ask for distinct\(hospitals\)"
    ):
        release.query("sum(hospitals) by place")
    with pytest.raises(InputError, match="is an attribute, and no measure of this kind"):
        release.query("distinct(sex)")
    with pytest.raises(InputError, match="holds no measurements that a query could be answered from"):
        release.query("distinct(hospitals) by place", source="measurements")


def test_where_noise_is_large_levels_contradict_each_other_and_stand_as_they_were_drawn(
    tmp_path: Path,
) -> None:
    made = scene(tmp_path, "1/10")
    assert failed(made) == []
    release = tb.open(made)
    for level in ("nation", "place"):
        shown = release["areas"].to_pandas(level=level)
        drawn = pd.read_parquet(made / "measurements" / f"areas-hospitals.{level}.parquet")
        assert shown.hospitals.tolist() == np.maximum(drawn["measured"], 0).tolist()
        assert (shown.hospitals_margin >= 1).all()


def test_a_sum_of_parts_in_the_place_of_the_whole_is_not_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(DistinctCount, "adds_up", True)
        made = scene(tmp_path, "1")
    areas = tb.open(made, verify=False)["stays"]
    whole, parts = (areas.to_pandas(level=level).hospitals.sum() for level in ("nation", "place"))
    assert whole == parts  # it does what it should not
    assert any("made again from the measurements" in each for each in failed(made))
