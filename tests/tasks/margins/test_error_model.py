"""What is known of errors, level by level, and the numbers that margins are about."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tabularium.mechanisms import build
from tabularium.mechanisms.channel import SeededChannel
from tabularium.mechanisms.inference import Estimate
from tabularium.mechanisms.measured import Release
from tabularium.tasks.margins.error_model import LevelError, level_error, margin_base, noise_variance
from tabularium.tasks.measure import Finished
from tabularium.tasks.postprocess.table_layout import Layout, measured_tree
from tabularium.tasks.publish.published_tables import published_table
from tabularium.validations.release_spec.load import load_spec
from tests.validations.release_spec.spec_samples import AREAS, changed, write_spec


def layout(folder: Path, levels: str, lists: dict[str, str] | None = None) -> Layout:
    """Area × sex of the sample spec, measured at ``levels``; nodes 0, N, S, N1, N2, S1."""
    text = changed('levels: {nation: "1/6", region: "1/3", place: "1/2"}', f"levels: {levels}")
    text = changed("dimensions: [area, age, sex]", "dimensions: [area, sex]", text)
    loaded = load_spec(write_spec(folder, text, lists))
    return Layout.of(loaded, loaded.spec.tables[0])


def finished(variances: Any = None, **diagnostics: Any) -> Finished:
    measured = build("sreb_gca").measure(np.arange(8), SeededChannel(Fraction(1), seed=1))
    release = Release(
        values=np.arange(8.0),
        transcript=measured.transcript,
        variances=variances,
        insecure=True,
        diagnostics=dict(diagnostics),
    )
    return Finished(measured, release, None)


def test_the_least_noise_of_a_transcript() -> None:
    """SReB_GCA at ε = 1: scales 10/9 and 10."""
    part = finished()
    assert noise_variance(part.release.transcript) == pytest.approx(2 * (10 / 9) ** 2)
    assert noise_variance(()) == 1.0


def test_known_variances_are_taken_as_they_are() -> None:
    assert level_error(finished(7.0, risk=3.0)) == LevelError("exact", 7.0)
    each = np.arange(1.0, 9.0)
    found = level_error(finished(each))
    assert found.method == "exact"
    assert np.array_equal(found.variance, each)
    assert found.mean == 4.5


def test_risks_are_bounded_from_below_and_above() -> None:
    least = 2 * (10 / 9) ** 2 / 8
    assert level_error(finished(risk=3.0)) == LevelError("risk", 3.0)
    assert level_error(finished(risk=-3.0)) == LevelError("risk", pytest.approx(least))
    assert level_error(finished(risk=3.0, risk_standard_error=2.0)).mean == pytest.approx(3 + 2)
    assert level_error(finished(risk=math.nan)).method == "unknown"
    assert level_error(finished()).method == "unknown"


def test_bases_of_all_levels_worked_by_hand(tmp_path: Path) -> None:
    """Places are measured with error 4, the nation with 9; regions have the sums of their places."""
    table = layout(tmp_path, '{nation: "1/2", place: "1/2"}')
    places = np.array([[1.0, 2], [3, 4], [5, 6]])
    nation = np.array([[10.0, 20]])
    base = margin_base(
        table, {"place": (places, LevelError("risk", 4.0)), "nation": (nation, LevelError("risk", 9.0))}
    )
    assert base.values.tolist() == [[10, 20], [4, 6], [5, 6], [1, 2], [3, 4], [5, 6]]
    assert base.variances[:, 0].tolist() == pytest.approx([9, 16, 4, 4, 4, 4])


def test_a_leaf_above_the_deepest_level_has_the_weighted_mean(tmp_path: Path) -> None:
    """S is a leaf here, measured with regions (error 1) and with places (error 4): weights 4/5 and 1/5."""
    areas = AREAS.replace("S1,Southbridge,S\n", "")
    table = layout(tmp_path, '{region: "1/2", place: "1/2"}', {"areas.csv": areas})
    assert table.cuts["place"].tolist() == [2, 3, 4]
    region = (np.array([[0.0, 0], [10, 20]]), LevelError("risk", 1.0))
    place = (np.array([[20.0, 10], [0, 0], [0, 0]]), LevelError("risk", 4.0))
    base = margin_base(table, {"region": region, "place": place})
    assert base.values[2].tolist() == pytest.approx([12, 18])
    assert base.variances[2, 0] == pytest.approx((0.8 * 1 + 0.2 * 2) ** 2)
    again = margin_base(table, {"place": place, "region": region})
    assert np.allclose(again.values, base.values)
    assert np.allclose(again.variances, base.variances)


def test_variances_of_single_cells_are_weights_of_single_cells(tmp_path: Path) -> None:
    areas = AREAS.replace("S1,Southbridge,S\n", "")
    table = layout(tmp_path, '{region: "1/2", place: "1/2"}', {"areas.csv": areas})
    parts = {
        "region": (np.array([[0.0, 0], [10, 20]]), np.array([[1.0, 1], [1, 3]])),
        "place": (np.array([[20.0, 10], [0, 0], [0, 0]]), 4.0),
    }
    tree = measured_tree(table, parts)
    assert tree.variances.shape == (5, 2)
    assert tree.values[2].tolist() == pytest.approx([12, (20 / 3 + 10 / 4) / (1 / 3 + 1 / 4)])
    assert tree.variances[2].tolist() == pytest.approx([0.8, 12 / 7])


def test_margins_are_published_whole_beside_whole_counts_and_null_where_unknown(tmp_path: Path) -> None:
    table = layout(tmp_path, '{place: "1"}')
    published = Estimate(np.arange(12.0).reshape(6, 2), np.ones((6, 1)))
    half = np.where(np.arange(12) % 2, 2.5, 3.0).reshape(6, 2)
    half[0, 0] = np.inf
    frame = published_table(table, published, half, whole=True).whole().to_pandas()
    assert frame["count"].tolist() == list(range(12))
    assert frame["margin"].isna().tolist() == [True] + [False] * 11
    assert frame["margin"].tolist()[1:4] == [3, 3, 3]
    frame = published_table(table, published, half, whole=False).whole().to_pandas()
    assert frame["margin"].tolist()[1:4] == [2.5, 3.0, 2.5]


def test_errors_that_are_stated_by_level_are_taken_by_level() -> None:
    """Released were 0 to 7. Of no class the error is below that of the table."""
    apart = [
        {"above": 0.0, "cells": 3, "risk": 1.0, "standard_error": 0.5},
        {"above": 2.5, "cells": 2, "risk": 9.0, "standard_error": 2.0},
        {"above": 5.0, "cells": 3, "risk": -4.0, "standard_error": 1.0},
    ]
    error = level_error(finished(risk=3.0, risk_standard_error=1.0, risk_by_level=apart))
    assert error.mean == 4.0
    assert error.per_cell is not None
    assert error.per_cell.tolist() == [4, 4, 4, 11, 11, 4, 4, 4]


def test_classes_with_larger_residuals_have_larger_errors() -> None:
    """1 000 cells released as they are, but for the 256 largest, which are 50 away from what was measured."""
    counts = np.arange(1000)
    measured = build("noise_first").measure(counts, SeededChannel(Fraction(1), seed=1))
    cells = measured.arrays["cells"].astype(float)
    top = np.argsort(cells, kind="stable")[-256:]
    values = cells.copy()
    values[top] += 50.0
    release = Release(
        values=values, transcript=measured.transcript, insecure=True, diagnostics={"risk": 700.0}
    )
    error = level_error(Finished(measured, release, None))
    assert (error.method, error.mean) == ("risk", 700.0)
    assert error.per_cell is not None
    # Residuals: 2 500 in the class, 640 on average; so 700 + 2 500 - 640 there, and no less anywhere.
    assert error.per_cell[top] == pytest.approx(np.full(256, 2560.0))
    assert (np.delete(error.per_cell, top) == 700.0).all()


def test_residuals_that_are_all_alike_leave_no_margin_unknown() -> None:
    """Rounding may leave their variance just below zero: no release may fail of that, nor lose a margin."""
    measured = build("noise_first").measure(np.arange(1000), SeededChannel(Fraction(1), seed=1))
    for less in (12.846511627906977, 13.63546798029557, 0.1, 1 / 3):
        values = measured.arrays["cells"] - less
        release = Release(
            values=values, transcript=measured.transcript, insecure=True, diagnostics={"risk": 200.0}
        )
        error = level_error(Finished(measured, release, None))
        assert error.per_cell is not None
        assert error.per_cell == pytest.approx(np.full(1000, 200.0))


def test_bases_have_the_errors_of_their_cells(tmp_path: Path) -> None:
    table = layout(tmp_path, '{place: "1"}')
    each = np.array([1.0, 4, 9, 16, 25, 36])
    base = margin_base(table, {"place": (np.zeros((3, 2)), LevelError("measured", 15.0, each))})
    assert base.variances[3:].ravel().tolist() == pytest.approx(each.tolist())
    # N has N1 and N2: root mean squares add up.
    assert base.variances[1].tolist() == pytest.approx([(1 + 3) ** 2, (2 + 4) ** 2])
