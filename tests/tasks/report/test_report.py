"""The report: every number from the release, the same bytes for the same release, nothing trusted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from tabularium.tasks.publish.read_release import Released
from tabularium.tasks.report.released_cells import ReleasedCells
from tabularium.tasks.report.report import LARGEST_PAGE, report
from tabularium.tasks.report.since_last_period import ComparedTable, compared
from tabularium.validations.certificate import Certificate
from tests.flows.release.scene import AREAS, publish, write_scene
from tests.tasks.report.reported import HOSTILE, copied, describe_measure, rendered, two_periods


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return two_periods(tmp_path_factory.mktemp("reported"))


def changed(before: list[str], after: list[str]) -> tuple[list[str], list[str]]:
    return [line for line in before if line not in after], [line for line in after if line not in before]


def test_every_release_has_it_and_it_is_made_again_byte_for_byte(releases: tuple[Path, Path]) -> None:
    last, now = releases
    page = (now / "report.html").read_bytes()
    assert report(now, Certificate.of(describe_measure(now)), last) == page
    assert len(page) <= LARGEST_PAGE
    for needed in (b"<script", b'http-equiv="refresh"', b"src=", b"@import", b"url(http"):
        assert needed not in page
    assert b"default-src &#39;none&#39;" in page


def test_sections_stand_in_their_order(releases: tuple[Path, Path]) -> None:
    text = releases[1].joinpath("report.html").read_text()
    order = ["published", "exact", "privacy", "accuracy", "moved", "last", "use"]
    places = [text.index(f'<h2 id="{name}"') for name in order]
    assert places == sorted(places)


def test_a_count_that_changes_is_seen_to_change(releases: tuple[Path, Path], tmp_path: Path) -> None:
    folder = copied(releases[1], tmp_path / "r")
    path = folder / "age_sex.parquet"
    frame = pa.parquet.read_table(path)
    counts = frame["count"].to_pylist()
    before, old = rendered(folder), counts[0]
    counts[0] = 4321
    at = frame.schema.get_field_index("count")
    pa.parquet.write_table(frame.set_column(at, "count", pa.array(counts)), path)
    gone, new = changed(before, rendered(folder))
    margin = frame["margin"][0].as_py()
    assert any(line.endswith(f" {old} {margin}") for line in gone)
    assert any(line.endswith(f" 4,321 {margin}") for line in new)
    assert any(line.startswith("1,000+ 1 ") for line in new)  # it is in another class of sizes
    assert not [line for line in new if "ε" in line]


def test_a_margin_that_changes_is_seen_to_change(releases: tuple[Path, Path], tmp_path: Path) -> None:
    folder = copied(releases[1], tmp_path / "r")
    path = folder / "age_sex.parquet"
    frame = pa.parquet.read_table(path)
    before = rendered(folder)
    at = frame.schema.get_field_index("margin")
    margins = [777, *frame["margin"].to_pylist()[1:]]
    pa.parquet.write_table(frame.set_column(at, "margin", pa.array(margins)), path)
    _, new = changed(before, rendered(folder))
    assert any(line.endswith(f"{frame['count'][0].as_py()} 777") for line in new)
    assert any(" 777 " in line and "%" in line for line in new)  # the 95th percentile of its class


def test_an_amount_that_changes_is_seen_to_change(releases: tuple[Path, Path]) -> None:
    told = describe_measure(releases[1])
    before = rendered(releases[1], told)
    told["privacy"]["epsilon"] = "7/8"
    told["account"] |= {"name": "people", "cap": "10"}
    told["account"]["reserved"]["amount"] = "7/8"
    told["account"]["cumulative"] |= {"used": "9/4", "releases_before": 1}
    told["ledger"]["tally_charges"] = [
        {"number": number, "release_id": f"t{number}", "amount": "1/8", "attempts": 1} for number in (0, 1)
    ]
    _, new = changed(before, rendered(releases[1], told))
    assert "ε = 0.875 for this release" in new
    said = " ".join(new)
    assert "its charges add up to ε = 2.25 ." in said
    assert "is bounded by its cap, which is never passed: ε = 10 ;" in said
    assert {"used before: 1.125", "this release: 1.125", "left: 7.75"} <= set(new)
    assert "ε = 7.75 was left (77.5 %)" in said


def test_measurements_and_the_last_period_are_compared(releases: tuple[Path, Path], tmp_path: Path) -> None:
    last, now = releases
    folder = copied(last, tmp_path / "last")
    path = folder / "age_sex.parquet"
    frame = pa.parquet.read_table(path)
    counts, margins = frame["count"].to_pylist(), frame["margin"].to_pylist()
    counts[0] = 5000
    at = frame.schema.get_field_index("count")
    pa.parquet.write_table(frame.set_column(at, "count", pa.array(counts)), path)
    own = pa.parquet.read_table(now / "age_sex.parquet")
    margin = (margins[0] ** 2 + own["margin"][0].as_py() ** 2) ** 0.5
    change = own["count"][0].as_py() - 5000
    found = [line for line in rendered(now, last=folder) if f"−{-change:,}" in line]
    assert found
    assert f"{margin:.2f}" in found[0] or f"{margin:.1f}" in found[0]
    assert found[0].endswith("yes")


def test_margins_of_a_difference_are_left_out_where_errors_are_no_independent_noise(
    releases: tuple[Path, Path],
) -> None:
    last, now = releases
    told = describe_measure(now)
    for about in told["tables"].values():
        about["margins"] = {"method": "risk"}
    found = rendered(now, told, last)
    assert sum("not only independent noise" in line for line in found) == 2
    assert any(line.endswith("not given not given") for line in found)
    told = describe_measure(now) | {"measurements": describe_measure(last)["measurements"]}
    assert any("the same measurements" in line for line in rendered(now, told, last))


@pytest.mark.parametrize(
    ("place", "value", "why"),
    [
        (
            ("spec", "columns", "sex"),
            {"categories": {"1": "male", "2": "female"}, "nulls": "other", "other": "1"},
            "nulls or values outside",
        ),
        (("privacy", "unit", "entity"), "household", "the privacy unit is another"),
        (("privacy", "max_contributions"), 2, "another part of each unit's records"),
        (("tables", "age_sex", "counted"), "two records of each", "another part of each unit's records"),
    ],
)
def test_a_table_that_counts_others_is_not_compared(
    releases: tuple[Path, Path], tmp_path: Path, place: tuple[str, ...], value: Any, why: str
) -> None:
    last = copied(releases[0], tmp_path / "last")
    certificate = json.loads((last / "certificate.json").read_text())
    holder = certificate
    for step in place[:-1]:
        holder = holder[step]
    holder[place[-1]] = value
    (last / "certificate.json").write_text(json.dumps(certificate))
    found = rendered(releases[1], last=last)
    (table,) = {line for line in found if f"because {why}" in line}
    assert table.startswith("It is not compared with the last release")
    assert not [line for line in found if line.startswith("Age sex: 2026 less 2025")]


def test_cells_with_another_label_are_not_compared(releases: tuple[Path, Path], tmp_path: Path) -> None:
    last = copied(releases[0], tmp_path / "last")
    certificate = json.loads((last / "certificate.json").read_text())
    certificate["spec"]["columns"]["sex"]["categories"] = {"1": "male", "2": "other"}
    (last / "certificate.json").write_text(json.dumps(certificate))
    (last / "codes" / "areas.csv").write_text(AREAS.replace("Beta one", "Beta two"))
    now = Released.open(releases[1])
    sexes = compared(now, ReleasedCells(now, "age_sex"), Released.open(last))
    assert isinstance(sexes, ComparedTable)
    assert (sexes.levels[0].cells, sexes.left_out) == (3, 3)
    assert all("female" not in each.what for each in sexes.largest)
    areas = compared(now, ReleasedCells(now, "area_age_sex"), Released.open(last))
    assert isinstance(areas, ComparedTable)
    assert [each.cells for each in areas.levels] == [3, 6, 6]


def test_withheld_measurements_are_not_compared(releases: tuple[Path, Path]) -> None:
    told = describe_measure(releases[1])
    again = "It makes the published tables again from the noisy measurements."
    assert any(again in line for line in rendered(releases[1], told))
    told["measurements"] = {**told["measurements"], "withheld": "a court asked so"}
    found = rendered(releases[1], told)
    assert any("withheld : a court asked so" in line for line in found)
    assert not any(again in line for line in found)
    assert any("cannot be made again, because the noisy measurements are withheld" in line for line in found)
    assert any("without it the release is unsigned" in line for line in found)


def test_titles_and_labels_are_not_trusted(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    text = spec.read_text().replace('"1": male', f'"1": {json.dumps(HOSTILE)}')
    spec.write_text(text + f"about: {{title: {json.dumps(HOSTILE)}}}\n")
    page = (Path(publish(spec, home).folder) / "report.html").read_text()
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)" in page
