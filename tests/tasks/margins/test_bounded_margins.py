"""Margins lie within the bounds of the values, zeros have no sign, and what is exact was not measured."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from numpy.typing import NDArray

from tabularium.mechanisms.noise.synthetic import generator
from tabularium.tasks.margins.margins import of_known
from tabularium.tasks.postprocess.agreement import Agreement
from tabularium.tasks.publish.published_tables import frame_of
from tabularium.tasks.runtime.run import without_data
from tabularium.validations.release_spec.load import load_spec
from tests.tasks.in_memory import one_release

SPEC = """\
product: bounds
dataset: made-up
period: "1"
source: {path: nowhere.csv}
privacy: {unit: record, budget: "2"}
columns:
  cell: {integer: {from: 0, to: 79}}
  sex: {categories: [f, m]}
impossible:
  - {cells: {cell: ["0"], sex: [m]}, reason: only women are asked}
tables:
  - name: quarters
    dimensions: [cell]
    measures:
      low: {quantile: v, at: "1/4", from: 20, to: 100, method: choice}
      middle: {median: v, from: 20, to: 100, method: choice}
      high: {quantile: v, at: "3/4", from: 20, to: 100, method: choice}
  - name: cells
    dimensions: [cell, sex]
    measures:
      balance: {sum: w, from: -10, to: 10}
      average: {mean: w, from: -10, to: 10}
      share_ill: {percent: "sex = f"}
publication: {quality: {unreliable: "30%"}}
"""
BOUNDS = dict.fromkeys(("low", "middle", "high"), (20, 100)) | {"average": (-10, 10), "share_ill": (0, 100)}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pa.Table]:
    folder = tmp_path_factory.mktemp("bounds")
    (folder / "spec.yaml").write_text(SPEC)
    loaded = load_spec(folder / "spec.yaml")
    layouts, rng = Agreement.of(loaded).layouts, generator(4)
    truth: dict[str, dict[str, NDArray[np.int64]]] = {}
    for name, layout in layouts.items():
        shape, measure = layout.shape(""), layout.table.measured
        if measure is not None and not measure.adds_up:
            shape = (*shape[:1], measure.width + 1)
        counts = rng.poisson(0.2 if measure is None or measure.parts != 2 else 300.0, shape)
        if layout.impossible is not None:
            counts[0, 1] = 0
        truth[name] = {"": counts}
    run = without_data(loaded)
    estimates, margins = one_release(run, truth, 1)
    half = {name: each.half for name, each in of_known(run, margins, estimates, {}).items()}
    return {
        table.name: frame_of(loaded, layouts, table, estimates, half).whole() for table in loaded.spec.tables
    }


@pytest.mark.parametrize("name", BOUNDS)
def test_no_margin_reaches_beyond_the_farther_bound(tables: dict[str, pa.Table], name: str) -> None:
    published = tables["quarters" if name in tables["quarters"].column_names else "cells"]
    low, high = BOUNDS[name]
    numbers, margins = (
        published[column].cast(pa.float64()).fill_null(np.nan).to_numpy()
        for column in (name, f"{name}_margin")
    )
    shown = np.isfinite(numbers)
    assert shown.sum() > 20
    farther = np.maximum(numbers - low, high - numbers)
    assert (margins[shown] <= farther[shown]).all()
    assert (margins[shown] > 0).all()


def test_no_zero_has_a_sign(tables: dict[str, pa.Table]) -> None:
    zeros = 0
    for published in tables.values():
        for name in published.column_names:
            if pa.types.is_floating(published[name].type):
                numbers = published[name].drop_null().to_numpy()
                zeros += int((numbers == 0).sum())
                assert not np.signbit(numbers[numbers == 0]).any(), name
    assert zeros


def test_a_zero_that_was_measured_is_none_that_is_known(tables: dict[str, pa.Table]) -> None:
    """One cell of 160 is impossible; the others are measured, and most are published as 0."""
    published = tables["cells"]
    flags = published["quality"].cast(pa.string())
    exact = pc.equal(flags, "exact")
    assert pc.sum(exact).as_py() == 1
    assert published.filter(exact)["margin"].to_pylist() == [0]
    zero = published.filter(pc.equal(flags, "zero"))
    assert zero.num_rows > 20
    assert set(zero["count"].to_pylist()) == {0}
    assert pc.min(zero["margin"]).as_py() >= 1
    assert pc.equal(pc.equal(published["count"], 0), pc.or_(exact, pc.equal(flags, "zero"))).to_pylist() == [
        True
    ] * len(published)
