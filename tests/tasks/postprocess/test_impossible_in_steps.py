"""Impossible cells stay exactly zero through every step, whatever was measured, and everything still adds up."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabularium.mechanisms.inference import Estimate, Hierarchy
from tabularium.tasks.postprocess.postprocessing import CONSISTENCY, PostProcessor
from tabularium.tasks.postprocess.table_layout import measured_tree
from tabularium.validations.release_spec.load import Loaded, load_spec
from tests.sizes import runs

AREAS = "code,label,parent\nN,N,\nA,A,N\nB,B,N\nA1,A1,A\nA2,A2,A\nB1,B1,B\n"
SPEC = """\
product: zeros
dataset: people
period: "2026"
source: {path: people.csv}
privacy: {unit: record, budget: "1"}
columns:
  area: {hierarchy: areas.csv, levels: [nation, region, place]}
  age: {from: years, integer: {from: 0, to: 6}}
  group: {from: years, integer: {from: 0, to: 6, edges: [2, 5]}}
  sex: {categories: [f, m]}
  veteran: {categories: ["yes", "no"]}
impossible:
  - {cells: {group: [0-1], veteran: ["yes"]}, reason: "too young"}
  - {cells: {area: [B], sex: [m]}, reason: "a convent"}
  - {cells: {area: [A1], veteran: ["no"]}, reason: "a home for veterans"}
tables:
TABLES"""
DEEP = "  - {name: deep, dimensions: [area, sex, veteran], levels: {nation: '1/4', region: '1/4', place: '1/2'}}\n"
MORE = (
    "  - {name: years, dimensions: [age, veteran]}\n  - {name: groups, dimensions: [veteran, group, sex]}\n"
)


def loaded(folder: Path, tables: str) -> Loaded:
    folder.mkdir(exist_ok=True)
    (folder / "areas.csv").write_text(AREAS)
    (folder / "spec.yaml").write_text(SPEC.replace("TABLES", tables))
    return load_spec(folder / "spec.yaml")


@pytest.fixture(scope="module", params=[DEEP, DEEP + MORE], ids=["one table", "three"])
def post(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> PostProcessor:
    return PostProcessor.of(loaded(tmp_path_factory.mktemp("spec"), request.param))


def noisy(post: PostProcessor, seed: int, size: float) -> dict[str, Estimate]:
    """Measurements that say something of every cell, the impossible ones too."""
    rng = np.random.default_rng(seed)
    made = {}
    for name, layout in post.agreement.layouts.items():
        parts = {
            level: (np.rint(rng.laplace(3, size, layout.shape(level))), float(rng.integers(1, 9)))
            for level in layout.cuts
        }
        made[name] = measured_tree(layout, parts)
    return made


@settings(max_examples=runs(25, 400), deadline=None)
@given(seed=st.integers(0, 2**32), size=st.sampled_from([0.5, 4.0, 60.0]))
def test_they_are_zero_and_sums_are_exact(post: PostProcessor, seed: int, size: float) -> None:
    estimates = noisy(post, seed, size)
    for step in post.steps:
        agreed = post.apply(step, estimates)
        estimates = agreed.estimates
        for name, layout in post.agreement.layouts.items():
            assert layout.impossible is not None
            assert not estimates[name].values[layout.impossible].any()
            spread = np.broadcast_to(estimates[name].variances, layout.impossible.shape)
            assert not spread[layout.impossible].any()
    tables = {name: each.values for name, each in estimates.items()}
    assert not agreed.notes.get("named")
    for name, layout in post.agreement.layouts.items():
        assert (tables[name] >= 0).all() and (tables[name] == np.rint(tables[name])).all()
        for node in np.flatnonzero(layout.parents >= 0):
            parent = layout.parents[node]
            assert (tables[name][layout.parents == parent].sum(axis=0) == tables[name][parent]).all()
    assert post.agreement.differences(tables) == 0


def test_the_others_are_the_least_squares_of_what_is_left(tmp_path: Path) -> None:
    post = PostProcessor.of(loaded(tmp_path, DEEP))
    layout, estimate = post.agreement.layouts["deep"], noisy(post, 7, 4.0)["deep"]
    found = post.apply(CONSISTENCY, {"deep": estimate}).estimates["deep"]
    leaves = np.flatnonzero(Hierarchy(layout.parents).leaf)
    assert layout.impossible is not None
    for cell in range(layout.cells):
        free = [leaf for leaf in leaves if not layout.impossible[leaf, cell]]
        rows, weights, wanted = [], [], []
        for node in range(layout.nodes):
            if layout.impossible[node, cell]:
                continue
            below = [leaf for leaf in free if node in (leaf, layout.parents[leaf], 0)]
            rows.append([float(leaf in below) for leaf in free])
            weights.append(estimate.variances[node, cell] ** -0.5)
            wanted.append(estimate.values[node, cell])
        scaled = np.array(rows) * np.array(weights)[:, None]
        best = np.linalg.lstsq(scaled, np.array(wanted) * np.array(weights), rcond=None)[0]
        assert found.values[free, cell] == pytest.approx(best)
