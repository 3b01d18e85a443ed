"""Sums, means and medians beside those of the last period: real releases, and measures that became others."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from tabularium.tasks.publish.read_release import Released
from tabularium.tasks.report.released_cells import ReleasedCells
from tabularium.tasks.report.since_last_period import ComparedMeasure, ComparedTable, compared_measures
from tests.flows.release.scene import publish
from tests.flows.release.test_measures import with_measures
from tests.tasks.report.reported import copied, rendered


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    spec, home = with_measures(
        tmp_path_factory.mktemp("periods"),
        budget="4",
        edit=lambda text: text.replace("[csv, parquet, xlsx, sdmx], sdmx: {agency: TEST}", "[parquet]"),
    )
    last, now = (Path(publish(spec, home, period=period).folder) for period in ("2025", "2026"))
    return last, now


def found_in(last: Path, now: Path, table: str = "area_age_sex") -> dict[str, ComparedMeasure]:
    here = Released.open(now)
    return {
        each.name: each for each in compared_measures(here, ReleasedCells(here, table), Released.open(last))
    }


def test_measures_are_compared_by_the_roots_of_their_squared_margins(releases: tuple[Path, Path]) -> None:
    last, now = (pa.parquet.read_table(each / "area_age_sex.parquet").to_pylist() for each in releases)
    found = found_in(*releases)
    assert list(found) == [
        *("income", "balance", "mean_income", "typical"),
        *("upper", "fine", "first", "chosen"),
    ]
    for name in ("first", "chosen"):  # what is chosen has no noise of a known distribution
        chosen = found.pop(name).found
        assert isinstance(chosen, ComparedTable)
        assert chosen.not_given is not None
    for name, measure in found.items():
        assert isinstance(measure.found, ComparedTable)
        blank = sum(new[name] is None or old[name] is None for old, new in zip(last, now, strict=True))
        assert (measure.found.not_given, measure.found.left_out) == (None, blank)
        changes: dict[str, list[tuple[float, float]]] = {}
        for old, new in zip(last, now, strict=True):
            if new[name] is None or old[name] is None:
                continue
            change = abs(new[name] - old[name])
            margin = math.hypot(new[f"{name}_margin"], old[f"{name}_margin"])
            changes.setdefault(new["level"], []).append((change, margin))
        for line in measure.found.levels:
            own = changes[line.level]
            assert (line.cells, line.compared) == (len(own), len(own))
            assert line.beyond == sum(change > margin for change, margin in own)
            assert line.median_change == pytest.approx(sorted(c for c, _ in own)[(len(own) - 1) // 2])
        first = measure.found.largest[0]
        ranks = [change / max(margin, 1e-9) for each in changes.values() for change, margin in each]
        assert first.margin is not None
        assert abs(first.change) / first.margin == pytest.approx(max(ranks))


def test_the_page_shows_them(releases: tuple[Path, Path]) -> None:
    last, now = releases
    page = rendered(now, last=last)
    assert "Area age sex: mean income" in {line.capitalize() for line in page}
    assert any(line.startswith("area age sex, typical: 2026 less 2025") for line in page)


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("to", 2000, "because its to is another"),
        ("step", "5", "because its step is another"),
        ("weight", {"column": "weight", "to": 4}, "because its weight is another"),
        ("sum", "wages", "because its sum is another"),
    ],
)
def test_a_measure_that_became_another_is_not_compared(
    releases: tuple[Path, Path], tmp_path: Path, field: str, value: object, why: str
) -> None:
    last = copied(releases[0], tmp_path / "last")
    certificate = json.loads((last / "certificate.json").read_text())
    certificate["spec"]["tables"][0]["measures"]["income"][field] = value
    (last / "certificate.json").write_text(json.dumps(certificate))
    found = found_in(last, releases[1])
    said = found["income"].found
    assert isinstance(said, str)
    assert said == f"It is not compared with the last release, {why}."
    assert isinstance(found["mean_income"].found, ComparedTable)
    assert said in rendered(releases[1], last=last)


def test_a_measure_that_is_new_and_one_at_another_level(releases: tuple[Path, Path], tmp_path: Path) -> None:
    last = copied(releases[0], tmp_path / "last")
    certificate = json.loads((last / "certificate.json").read_text())
    del certificate["spec"]["tables"][0]["measures"]["balance"]
    certificate["confidence"] = "19/20"
    (last / "certificate.json").write_text(json.dumps(certificate))
    found = found_in(last, releases[1])
    assert found["balance"].found == "The last release has no measure of this name."
    assert isinstance(found["income"].found, ComparedTable)
    assert found["income"].found.not_given == "the two releases state their margins at different levels"
    assert all(each.margin is None for each in found["income"].found.largest)
