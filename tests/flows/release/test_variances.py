"""A release with a variance and a standard deviation: published, verified and asked."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pyarrow.csv
import pytest

import tabularium as tb
from tabularium.mechanisms.errors import InputError
from tabularium.tasks.verify.subject import Subject
from tabularium.tasks.verify.verify_release import verify_release
from tests.flows.release.scene import publish, write_scene

MEASURES = """\
    measures:
      spread: {variance: income, from: 0, to: 1000, step: 10, share: "1/4"}
      grouped: {variance: income, from: 0, to: {by: sex, values: {"1": 500, "2": 900}}, step: 10, share: "1/8"}
      deviation: {standard_deviation: income, from: 0, to: 1000, step: 10, share: "1/4"}
"""


def test_they_are_published_verified_and_asked(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path, budget="400", cap="1000")
    text = spec.read_text().replace('    share: "2/3"\n', '    share: "2/3"\n' + MEASURES)
    spec.write_text(text)
    with (tmp_path / "people.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("area", "age", "sex", "income"))
        for i in range(900):
            writer.writerow((("A1", "A2", "B1")[i % 3], str(i * 7 % 100), str(1 + i % 2), str(i * 37 % 1200)))
    folder = Path(publish(spec, home).folder)
    found = list(verify_release(Subject(folder)))
    assert [each for each in found if each.outcome == "failed"] == []
    release = tb.open(folder)
    name = "area_age_sex"
    table = pyarrow.csv.read_csv(folder / f"{name}.csv").to_pandas()
    shown = table[table["spread"].notna() & table["deviation"].notna()]
    assert len(shown) > 3
    gap = np.abs(np.sqrt(shown["spread"]) - shown["deviation"])
    assert (gap <= 5 + shown["deviation_margin"]).all()
    measures = release.certificate.tables[name].measures
    assert measures["spread"].kind == "variance"
    assert measures["spread"].largest_change_by_one_record == "10000"
    incomes = np.minimum([i * 37 % 1200 for i in range(900)], 1000)
    assert measures["spread"].total == pytest.approx(np.var(10 * np.rint(incomes / 10)), rel=0.02)
    assert release.query("average(spread)").value == pytest.approx(incomes.mean(), rel=0.05)
    assert measures["grouped"].total is None
    with pytest.raises(
        InputError, match="no average of `grouped` was measured; read it in its published table"
    ):
        release.query("average(grouped)")
