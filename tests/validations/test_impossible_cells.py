"""Which cells are impossible: those of which every record that could be in them lies in some fact."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tabularium.validations.release_spec.load import Loaded, load_spec
from tabularium.validations.release_spec.tables import Impossible
from tabularium.validations.universes.impossible_cells import impossible_in
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
  age: {from: years, integer: {from: 0, to: 5}}
  pairs: {from: years, integer: {from: 0, to: 5, width: 2}}
  halves: {from: years, integer: {from: 0, to: 5, width: 3}}
  sex: {categories: [f, m]}
tables:
  - {name: deep, dimensions: [sex, area, pairs], levels: {nation: "1/2", place: "1/2"}}
  - {name: shallow, dimensions: [area, sex], levels: {region: "1"}}
  - {name: ages, dimensions: [age, sex]}
  - {name: paired, dimensions: [pairs, sex], measures: {m: {mean: income, from: 0, to: 9}}}
  - {name: halved, dimensions: [sex, halves]}
"""
LEAVES = {"A1": ("A1", "A", "N"), "A2": ("A2", "A", "N"), "B1": ("B1", "B", "N")}
VALUES = {
    "area": ["N", "A", "B", "A1", "A2", "B1"],
    "age": [str(year) for year in range(6)],
    "pairs": ["0-1", "2-3", "4-5"],
    "halves": ["0-2", "3-5"],
    "sex": ["f", "m"],
}
RECORDS = [
    {"area": LEAVES[leaf], "age": (str(age),), "pairs": (VALUES["pairs"][age // 2],)}
    | {"halves": (VALUES["halves"][age // 3],), "sex": (sex,)}
    for leaf, age, sex in product(LEAVES, range(6), "fm")
]


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    folder = tmp_path_factory.mktemp("zeros")
    (folder / "areas.csv").write_text(AREAS)
    (folder / "spec.yaml").write_text(SPEC)
    return load_spec(folder / "spec.yaml")


def facts() -> Any:
    some = {
        name: st.lists(st.sampled_from(values), min_size=1, unique=True) for name, values in VALUES.items()
    }
    cells = st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3, unique=True).flatmap(
        lambda names: st.fixed_dictionaries({name: some[name] for name in names})
    )
    return st.lists(cells, min_size=1, max_size=4)


def brute(told: list[dict[str, list[str]]], axes: list[tuple[str, list[str]]]) -> NDArray[np.bool_]:
    """Of every cell, whether all records that could be in it are in a fact."""
    found = []
    for cell in product(*(codes for _, codes in axes)):
        here = [
            r for r in RECORDS if all(code in r[name] for (name, _), code in zip(axes, cell, strict=True))
        ]
        found.append(
            all(any(all(set(r[n]) & set(v) for n, v in fact.items()) for fact in told) for r in here)
        )
    return np.array(found)


#: Of each table its rows and columns, and the columns that its cells decide: pairs and halves cut each other.
TABLES: dict[str, tuple[list[tuple[str, list[str]]], set[str]]] = {
    "deep": ([("area", VALUES["area"]), ("sex", ["f", "m"]), ("pairs", VALUES["pairs"])], {"area", "sex"}),
    "shallow": ([("area", ["N", "A", "B"]), ("sex", ["f", "m"])], {"area", "sex"}),
    "ages": ([("age", VALUES["age"]), ("sex", ["f", "m"])], {"age", "pairs", "halves", "sex"}),
    "paired": ([("pairs", VALUES["pairs"]), ("sex", ["f", "m"])], {"age", "pairs", "sex"}),
    "halved": ([("sex", ["f", "m"]), ("halves", VALUES["halves"])], {"age", "halves", "sex"}),
}
DECIDED = {
    name: columns | ({"age", "pairs"} if name == "deep" else set()) for name, (_, columns) in TABLES.items()
}


@settings(max_examples=runs(120, 1000), deadline=None)
@given(written=facts())
def test_a_cell_is_impossible_if_all_its_records_are(spec: Loaded, written: Any) -> None:
    parts = tuple(Impossible(cells=each, reason="because") for each in written)
    model = spec.spec.model_copy(update={"impossible": parts})
    for array in model.arrays:
        axes, _ = TABLES[array.name.partition("-")[0]]
        told = [each for each in written if set(each) <= DECIDED[array.name.partition("-")[0]]]
        expected = brute(told, axes)
        found = impossible_in(model, spec.domains, array)
        if found is None:
            assert not expected.any()
            continue
        if array.measured is not None:
            assert (found.reshape(1, -1, 2)[..., 0] == found.reshape(1, -1, 2)[..., 1]).all()
            found = found[:, ::2]
        assert found.ravel().tolist() == expected.tolist()


def test_a_node_is_impossible_only_with_all_its_leaves(spec: Loaded) -> None:
    one = Impossible(cells={"area": ("A1",), "sex": ("m",)}, reason="because")
    other = Impossible(cells={"area": ("A2",), "sex": ("m",)}, reason="because")
    shallow = spec.spec.tables[1]
    for parts, number in (((one,), 0), ((one, other), 1)):
        model = spec.spec.model_copy(update={"impossible": parts})
        found = impossible_in(model, spec.domains, shallow)
        assert (0 if found is None else int(found.sum())) == number


def test_without_facts_nothing_is_impossible(spec: Loaded, tmp_path: Path) -> None:
    assert all(spec.impossible_in(array) is None for array in spec.spec.arrays)
    assert spec.measured_cells(spec.spec.tables[0]) == spec.level_cells(spec.spec.tables[0])
    (tmp_path / "areas.csv").write_text(AREAS)
    fact = 'impossible: [{cells: {area: [B], sex: [m]}, reason: "no men in B"}]\n'
    (tmp_path / "spec.yaml").write_text(SPEC + fact)
    loaded = load_spec(tmp_path / "spec.yaml")
    assert loaded.level_cells(loaded.spec.tables[0]) == {"nation": 6, "place": 18}
    assert loaded.measured_cells(loaded.spec.tables[0]) == {"nation": 6, "place": 15}
    assert loaded.digest != spec.digest
