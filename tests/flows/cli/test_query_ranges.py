"""``tabularium query`` on releases of tables made for ranges, and where noise is always 0."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tabularium.mechanisms.queries.sources import LinearTable
from tabularium.tasks.query.query_release import open_release
from tests.flows.cli.test_query import Z, asked, certificate_of, publish

pytestmark = pytest.mark.xdist_group("query")


def test_a_tree_over_the_cells_answers_by_least_squares_and_its_published_cells_are_added_up(
    tmp_path: Path,
) -> None:
    folder = publish(tmp_path, ("    dimensions:", "    mechanism: boost\n    dimensions:"), rows=3000)
    (best,) = asked(folder, "count where sex = 1", "--table", "age_sex")["rows"]
    drawn = open_release(folder).tables[1].noisy
    assert isinstance(drawn, LinearTable)
    (level,) = drawn.levels
    value, variance = level.measured.estimate(np.broadcast_to([True, False], drawn.axes.shape))
    assert (best["value"], best["standard_error"]) == pytest.approx((value, math.sqrt(variance)))
    by_area = asked(folder, "count by province where sex = 1", "--table", "area_age_sex")
    lowest = open_release(folder).tables[0].noisy
    assert isinstance(lowest, LinearTable)
    assert by_area["method"] == "least squares"
    assert len(lowest.levels) == 3
    about = certificate_of(folder)
    assert about["margins"]["method"] == "simulated"
    answer = asked(folder, "count where sex = 1", "--table", "age_sex", "--from", "tables")
    assert answer["method"] == "added up"
    frame = pd.read_parquet(folder / "age_sex.parquet")
    own = frame[frame["sex"] == "1"]
    (row,) = answer["rows"]
    assert row["value"] == own["count"].sum()
    spread = math.sqrt(about["noise_variance"][""])
    assert row["high"] - row["value"] == pytest.approx(np.maximum(own["margin"], Z * spread).sum())
    assert row["standard_error"] == pytest.approx(3 * spread)


def test_a_vast_budget_is_answered_exactly(tmp_path: Path) -> None:
    """Noise of scale 1/4000 has a variance of 0: an answer is exact, and its interval one number."""
    folder = publish(tmp_path, rows=300, budget="4000", cap="10000")
    people = pd.read_csv(tmp_path / "people.csv", dtype=str)
    (row,) = asked(folder, "count where sex = 1")["rows"]
    assert row["value"] == row["published"] == (people["sex"] == "1").sum()
    assert (row["standard_error"], row["low"], row["high"]) == (0, row["value"], row["value"])
    for text in ("count by province where age < 20", "average(age)", "count by age where sex = 2"):
        assert {each["standard_error"] for each in asked(folder, text)["rows"]} == {0}
