"""Pictures of tables: every point is a number of the file, and what is not told apart is held and named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from tabularium.tasks.publish.read_release import Released
from tabularium.tasks.report.cells_chart import LABELS, WIDTH, Chart, chart_of, round_ticks
from tabularium.tasks.report.released_cells import ReleasedCells
from tabularium.tasks.report.report import charts
from tests.flows.release.scene import publish, write_scene
from tests.tasks.report.reported import copied

MEASURE = "\n    measures: {years: {mean: age, from: 0, to: 99}}\nrules"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    spec, home = write_scene(tmp_path_factory.mktemp("charted"))
    text = spec.read_text().replace("\nrules", "\n  - {name: areas, dimensions: [area]}" + "\nrules")
    text = text.replace('share: "1/3"', 'share: "1/6"').replace("[area]}", '[area], share: "1/6"}')
    spec.write_text(text.replace('    share: "1/6"\n', '    share: "1/6"' + MEASURE.removesuffix("rules"), 1))
    return Path(publish(spec, home).folder)


def of(folder: Path, table: str) -> list[Chart]:
    released = Released.open(folder)
    return charts(released, ReleasedCells(released, table))


def rows(folder: Path, table: str, **where: str) -> list[tuple[float, float]]:
    frame = pa.parquet.read_table(folder / f"{table}.parquet").to_pandas()
    for column, code in where.items():
        frame = frame[frame[column] == code]
    return list(zip(frame["count"], frame["margin"], strict=True))


def shown(chart: Chart) -> list[tuple[float, float]]:
    return [(p.number, p.margin) for row in chart.rows for p in row.points if p is not None]


def test_points_are_cells_of_the_file_of_the_whole_by_age_and_sex(folder: Path) -> None:
    (chart,) = of(folder, "area_age_sex")
    assert (chart.by, chart.series, chart.held) == ("age", ["male", "female"], "area (nation): Nation")
    assert [row.label for row in chart.rows] == ["0-19", "20-64", "65-99"]
    assert shown(chart) == rows(folder, "area_age_sex", area="N")
    for row in chart.rows:
        for point in row.points:
            assert point is not None
            assert LABELS <= point.low <= point.x <= point.high <= WIDTH  # type: ignore[operator]


def test_a_hierarchy_alone_is_shown_at_its_finest_level_that_fits(folder: Path) -> None:
    (chart,) = of(folder, "areas")
    assert (chart.by, chart.series, chart.held) == ("area (place)", [""], "")
    assert shown(chart) == [pair for code in ("A1", "A2", "B1") for pair in rows(folder, "areas", area=code)]


def test_a_table_with_a_measure_has_a_picture_of_it_too(folder: Path) -> None:
    counts, years = of(folder, "age_sex")
    frame = pa.parquet.read_table(folder / "age_sex.parquet").to_pandas()
    assert shown(counts) == rows(folder, "age_sex")
    frame = frame.dropna(subset=["years"])  # of few people there may be none
    assert shown(years) == list(zip(frame["years"], frame["years_margin"], strict=True))
    assert years.title == "age sex, years"
    assert "from " in years.alternative


def test_what_was_left_blank_has_no_point_and_what_has_no_margin_no_line(
    folder: Path, tmp_path: Path
) -> None:
    changed = copied(folder, tmp_path / "r")
    path = changed / "areas.parquet"
    table = pa.parquet.read_table(path)
    for name, gone in (("count", 3), ("margin", 4)):  # A1 and A2
        numbers = table[name].to_pylist()
        numbers[gone] = None
        at = table.schema.get_field_index(name)
        table = table.set_column(at, name, pa.array(numbers, table.schema.field(name).type))
    pa.parquet.write_table(table, path)
    (chart,) = of(changed, "areas")
    first, second, third = (row.points[0] for row in chart.rows)
    assert first is None
    assert second is not None
    assert third is not None
    assert (second.low, second.high) == (None, None)
    assert third.low is not None


def test_what_is_not_published_is_not_shown_and_doubtful_numbers_are_marked(tmp_path: Path) -> None:
    """Without consistency, of places alone: Beta is one, and Alpha has two; provinces have no rows."""
    spec, home = write_scene(tmp_path)
    (tmp_path / "areas.csv").write_text(
        "code,label,parent\nN,Nation,\nB1,Beta one,N\nA,Alpha,N\nA1,One,A\nA2,Two,A\n"
    )
    text = spec.read_text().replace(
        'levels: {nation: "1/4", province: "1/4", place: "1/2"}', 'levels: {place: "1"}'
    )
    text = text.replace("{folder: releases}", '{folder: releases, quality: {unreliable: "1%"}}')
    spec.write_text(text + "postprocessing: {consistency: false, nonnegativity: false, rounding: false}\n")
    folder = Path(publish(spec, home).folder)
    frame = pa.parquet.read_table(folder / "area_age_sex.parquet").to_pandas()
    (chart,) = of(folder, "area_age_sex")
    first = frame["area"].iloc[0]
    assert first == "B1"
    assert shown(chart) == rows(folder, "area_age_sex", area=first)
    assert all(point.doubtful for row in chart.rows for point in row.points if point is not None)
    assert "flagged as unreliable" in chart.notes


class Held(ReleasedCells):
    """A table in memory."""

    def __init__(
        self, like: ReleasedCells, counts: np.ndarray[tuple[int, int], np.dtype[np.float64]]
    ) -> None:
        self.layout, self.levels, self.present, self._counts = like.layout, like.levels, like.present, counts

    def at(self, nodes: np.ndarray[tuple[int], np.dtype[np.int64]]) -> tuple:  # type: ignore[type-arg]
        return self._counts[nodes], np.ones_like(self._counts[nodes])

    def flagged(self, nodes: np.ndarray[tuple[int], np.dtype[np.int64]]) -> np.ndarray:  # type: ignore[type-arg]
        return np.zeros(self._counts[nodes].shape, bool)


def test_of_few_numbers_or_none_the_axis_is_still_one(folder: Path) -> None:
    cells = ReleasedCells(Released.open(folder), "age_sex")
    for number in (0.0, np.nan, -3.0, 1e12, 1e17):
        chart = chart_of(Held(cells, np.full((1, 6), number)), {"age": "age", "sex": "sex"}, "t")
        assert chart is not None
        assert all(LABELS <= x <= WIDTH for _, x in chart.ticks)


def test_a_line_that_is_longer_than_the_picture_is_said_to_be(folder: Path) -> None:
    cells = ReleasedCells(Released.open(folder), "age_sex")
    for number, cut in ((100.0, False), (0.001, True)):  # with margins of 1
        chart = chart_of(Held(cells, np.full((1, 6), number)), {"age": "age", "sex": "sex"}, "t")
        assert chart is not None
        assert chart.cut is cut
        assert ("longer than the picture" in chart.notes) is cut


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [(0, 100, [0, 20, 40, 60, 80, 100]), (0, 0, [0, 0.2, 0.4, 0.6, 0.8, 1]), (37, 44, [36, 38, 40, 42, 44])],
)
def test_ticks_are_round_and_hold_everything(low: float, high: float, ticks: list[float]) -> None:
    assert round_ticks(low, high) == pytest.approx(ticks)
