"""A census of ten tables over four levels of areas: planned in seconds, and as its releases turn out."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from tabularium.mechanisms.noise.synthetic import generator
from tabularium.tasks.plan.planning import plan
from tabularium.validations.release_spec.load import Loaded, load_spec
from tests.sizes import full
from tests.tasks.plan.planned_specs import PURE, ZCDP, errors_of_releases, published, rows_of, true_counts

SECONDS = 120  # of a processor, where it takes three to ten: what grows without bound takes hours
LEVELS = ("nation", "state", "county", "tract")
MARGINS = (60, 40, 25, 18)
FLAT = {"sex": 2, "marital": 5, "education": 12, "work": 6, "tenure": 4, "kin": 10, "job": 9, "sector": 12}
TABLES = (  # the columns, and how many levels of areas are published; 0: no areas
    ("age, sex", 4),
    ("sex, marital", 4),
    ("work, sex", 4),
    ("tenure", 4),
    ("sex, education", 3),
    ("kin, sex", 3),
    ("education, work", 2),
    ("age, work, sex", 0),
    ("job, sector", 0),
    ("marital, age", 0),
)


def census(folder: Path, privacy: str) -> Loaded:
    """Six states of uneven counties of uneven tracts."""
    draw = generator(3)
    areas = ["code,label,parent", "N,Nation,"]
    for state in (f"S{number}" for number in range(6)):
        areas.append(f"{state},{state},N")
        for county in (f"{state}C{number}" for number in range(int(draw.integers(5, 14)))):
            areas.append(f"{county},{county},{state}")
            areas += [f"{county}T{number},tract,{county}" for number in range(int(draw.integers(3, 9)))]
    (folder / "areas.csv").write_text("\n".join(areas) + "\n")
    lines = ["product: census", "dataset: people", 'period: "1"', "source: {path: nowhere.csv}"]
    lines += [f"privacy: {{unit: record, {privacy}}}", "columns:"]
    lines += [f"  area: {{hierarchy: areas.csv, levels: [{', '.join(LEVELS)}]}}"]
    lines += ["  age: {integer: {from: 0, to: 89, width: 5}}"]
    lines += [f"  {name}: {{integer: {{from: 1, to: {size}}}}}" for name, size in FLAT.items()]
    lines += ["tables:"]
    targets = ["targets:"]
    for number, (columns, levels) in enumerate(TABLES):
        level = f"area, {columns}], levels: {{{LEVELS[levels - 1]}: 1}}" if levels else f"{columns}]"
        lines.append(f"  - {{name: table_{number}, dimensions: [{level}}}")
        for depth in range(levels):
            each = f"level: {LEVELS[depth]}, margin: {MARGINS[depth]}"
            targets.append(f"  - {{table: table_{number}, {each}}}")
        if not levels:
            targets.append(f"  - {{table: table_{number}, margin: 40}}")
    (folder / "spec.yaml").write_text("\n".join(lines + targets) + "\n")
    return load_spec(folder / "spec.yaml")


@pytest.mark.parametrize("privacy", [PURE, ZCDP])
def test_it_is_planned_in_seconds(tmp_path: Path, privacy: str) -> None:
    made = census(tmp_path, privacy)
    start = time.process_time()
    found = plan(made)
    assert time.process_time() - start < SECONDS
    assert len(found.margins) == sum(max(levels, 1) for _, levels in TABLES)
    assert not found.missed
    assert found.gap is None or found.gap < 5e-3


@pytest.mark.skipif(not full(), reason="200 releases of ten tables take minutes")
@pytest.mark.parametrize("privacy", [PURE, ZCDP])
def test_its_margins_are_those_of_200_releases(tmp_path: Path, privacy: str) -> None:
    made = census(tmp_path, privacy)
    counts = true_counts(made, 400_000)
    like = published(tmp_path / "like", made, counts)
    start = time.process_time()
    found = plan(made, like=like)
    assert time.process_time() - start < 4 * SECONDS
    errors = list(errors_of_releases(found.loaded, counts, 200))
    for each in found.margins:
        rows = rows_of(found.loaded, each.table, each.level)
        some = counts[each.table][rows] > 0
        apart = np.array([np.abs(error[each.table][rows][some]) for error in errors])
        wanted = max(np.quantile(apart, 0.9), 1.645 * np.sqrt((apart**2).mean()))
        assert each.margin == pytest.approx(wanted, rel=0.1), each
