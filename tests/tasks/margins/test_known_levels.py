"""Tables drawn towards an earlier release or the level above, beside others: they agree, and margins hold."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from numpy.typing import NDArray

from tabularium.mechanisms.noise.synthetic import generator
from tabularium.tasks.margins.known_levels import known_levels, prior_numbers
from tabularium.tasks.postprocess.table_layout import Layout
from tabularium.tasks.publish.release_folder import digest_of
from tabularium.tasks.runtime.run import without_data
from tabularium.validations.domains.known_marginals import PriorTable
from tabularium.validations.release_spec.load import Loaded, load_spec
from tests.tasks.in_memory import drawn, drawn_towards, one_release

PLACES, AGES = 30, 20
SPEC = """\
product: small
dataset: people
period: "1"
source: {{path: nowhere.csv}}
privacy: {{unit: record, relation: add-remove, budget: "1/2"}}
columns:
  area: {{hierarchy: areas.csv, levels: [nation, region, place]}}
  age: {{integer: {{from: 0, to: 19}}}}
tables:
  - name: area_age
    dimensions: [area, age]
    share: "2/3"
    levels: {{region: "1/4", place: "3/4"}}
  - {{name: ages, dimensions: [age], share: "1/3"}}
{impossible}
"""


def loaded_in(folder: Path, impossible: str = "", places: int = PLACES) -> Loaded:
    regions = [f"R{number},R{number},N" for number in range(6)]
    below = [f"P{number},P{number},R{number % 6}" for number in range(places)]
    (folder / "areas.csv").write_text("\n".join(["code,label,parent", "N,N,", *regions, *below]) + "\n")
    spec = folder / "spec.yaml"
    spec.write_text(SPEC.format(impossible=impossible))
    return load_spec(spec)


def on_tree(loaded: Loaded, leaves: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return counts at all nodes of the first table, (nodes, ages), from those of places."""
    layout = Layout.of(loaded, loaded.spec.tables[0])
    whole = np.zeros((layout.nodes, AGES), np.int64)
    whole[layout.cuts["place"]] = leaves
    for node in range(layout.nodes - 1, 0, -1):
        whole[layout.parents[node]] += whole[node]
    return whole


def test_it_agrees_with_other_tables_and_is_nearer_to_the_truth(tmp_path: Path) -> None:
    loaded = loaded_in(tmp_path)
    layout = Layout.of(loaded, loaded.spec.tables[0])
    leaves = generator(1).geometric(1 / 30, (PLACES, AGES)) - 1
    truth = on_tree(loaded, leaves)
    levels: dict[str, NDArray[Any]] = {level: truth[nodes] for level, nodes in layout.cuts.items()}
    before = on_tree(loaded, leaves + (generator(2).random((PLACES, AGES)) < 0.02) * 40)
    errors, held = {}, []
    for kind, spec in (("plain", loaded), ("drawn", drawn_towards(loaded, "area_age", before, tmp_path))):
        run = without_data(spec)
        tables, margins = one_release(run, {"area_age": levels, "ages": {"": truth[0]}}, 5)
        found = tables["area_age"].values
        np.testing.assert_array_equal(found[0], tables["ages"].values[0])
        for node in range(layout.nodes):
            children = layout.parents == node
            if children.any():
                np.testing.assert_array_equal(found[node], found[children].sum(axis=0))
        errors[kind] = np.abs(found - truth)[layout.cuts["place"]].mean()
        held.append((np.abs(found - truth) <= np.ceil(margins["area_age"].half - 1e-9)).mean())
        assert margins["ages"].about["margins"]["method"] == "simulated"
    assert errors["drawn"] < 0.6 * errors["plain"]
    assert min(held) > 0.86
    about = margins["area_age"].about
    assert about["margins"]["method"] == "prior"
    assert about["prior"]["cells"] == PLACES * AGES
    assert (
        about["margins"]["mean_squared_error"]["place"]
        < 0.5 * about["margins"]["mean_squared_error"]["region"]
    )


@pytest.mark.parametrize(
    "levels", ['region: "1/4", place: "3/4"', 'nation: "1/8", region: "1/8", place: "3/4"']
)
def test_drawn_towards_the_level_above_it_is_nearer_to_the_truth(tmp_path: Path, levels: str) -> None:
    """Places that are made up like their region, but one: that one is seen to differ."""
    plain = loaded_in(tmp_path, places=4 * PLACES)
    sizes = generator(3).geometric(1 / 12, 4 * PLACES)
    leaves = generator(4).poisson(sizes[:, None] * np.linspace(2, 0.1, AGES))
    leaves[7] = np.where(np.arange(AGES) == AGES - 1, 900, 0)
    truth = on_tree(plain, leaves)
    errors, held = {}, {}
    for kind in ("plain", "drawn"):
        text = SPEC.format(impossible="").replace('region: "1/4", place: "3/4"', levels)
        if kind == "drawn":
            text = text.replace("    share:", "    prior: above\n    share:")
        (tmp_path / "spec.yaml").write_text(text)
        loaded = load_spec(tmp_path / "spec.yaml")
        layout = Layout.of(loaded, loaded.spec.tables[0])
        counts: dict[str, NDArray[Any]] = {level: truth[nodes] for level, nodes in layout.cuts.items()}
        errors[kind], held[kind] = [], []
        for seed in range(4):
            run = without_data(loaded)
            tables, margins = one_release(run, {"area_age": counts, "ages": {"": truth[0]}}, seed)
            found = tables["area_age"].values
            np.testing.assert_array_equal(found[0], tables["ages"].values[0])
            places = layout.cuts["place"]
            errors[kind].append(np.abs(found - truth)[places].mean())
            held[kind].append(
                (np.abs(found - truth) <= np.ceil(margins["area_age"].half - 1e-9))[places].mean()
            )
            assert abs(found[places][7, -1] - 900) < 150
    assert np.mean(errors["drawn"]) < 0.87 * np.mean(errors["plain"])
    assert min(np.mean(each) for each in held.values()) > 0.88
    about = margins["area_age"].about
    assert about["margins"]["method"] == "above"
    assert (about["above"]["level"], about["above"]["cells"]) == ("region", 4 * PLACES * AGES)
    shown = [each["shown"] for each in about["above"]["differences"]]
    assert 0 <= shown[0] < shown[-1] < 1.1


def drawn_to_above(folder: Path, levels: str = 'region: "1/4", place: "3/4"') -> Loaded:
    text = SPEC.format(impossible="").replace('region: "1/4", place: "3/4"', levels)
    (folder / "spec.yaml").write_text(text.replace("    share:", "    prior: above\n    share:"))
    return load_spec(folder / "spec.yaml")


def test_noise_of_a_level_that_has_little_budget_does_not_flow_down(tmp_path: Path) -> None:
    few = 'region: "1/100", place: "99/100"'
    plain = loaded_in(tmp_path, places=4 * PLACES)
    text = SPEC.format(impossible="").replace('region: "1/4", place: "3/4"', few)
    (tmp_path / "spec.yaml").write_text(text)
    plain, drawn = load_spec(tmp_path / "spec.yaml"), drawn_to_above(tmp_path, few)
    leaves = generator(4).poisson(generator(3).geometric(1 / 12, 4 * PLACES)[:, None] * np.ones(AGES))
    truth, errors = on_tree(plain, leaves), []
    for loaded in (plain, drawn):
        layout, found = Layout.of(loaded, loaded.spec.tables[0]), []
        counts: dict[str, NDArray[Any]] = {level: truth[nodes] for level, nodes in layout.cuts.items()}
        for seed in range(4):
            run = without_data(loaded)
            tables, _ = one_release(run, {"area_age": counts, "ages": {"": truth[0]}}, seed)
            found.append(np.abs(tables["area_age"].values - truth)[layout.cuts["place"]].mean())
        errors.append(np.mean(found))
    assert errors[1] < errors[0]


def test_a_leaf_above_the_deepest_level_stays_as_it_was_measured(tmp_path: Path) -> None:
    """It is counted with both levels, and its own noisy count is nothing to expect of it."""
    loaded_in(tmp_path, places=PLACES)
    with (tmp_path / "areas.csv").open("a") as file:
        file.writelines(f"L{each},L{each},N\n" for each in range(5))
    loaded = drawn_to_above(tmp_path)
    layout = Layout.of(loaded, loaded.spec.tables[0])
    counts = {level: np.full(layout.shape(level), 40) for level in layout.cuts}
    run = without_data(loaded)
    parts = drawn(run, {"area_age": counts, "ages": {"": np.full(AGES, 900)}}, 3)["area_age"]
    values, _ = known_levels(loaded, layout, parts).levels["place"]
    alone = np.isin(layout.cuts["place"], layout.cuts["region"])
    noisy = np.asarray(parts["place"].release.values)
    assert alone.sum() == 5
    np.testing.assert_array_equal(values[alone], noisy[alone])
    assert (values[~alone] != noisy[~alone]).mean() > 0.5


def test_impossible_cells_stay_zero(tmp_path: Path) -> None:
    none = 'impossible: [{cells: {area: [P3], age: ["0", "1", "2", "3", "4"]}, reason: "no school"}]'
    loaded = loaded_in(tmp_path, none)
    layout = Layout.of(loaded, loaded.spec.tables[0])
    leaves = np.full((PLACES, AGES), 25)
    leaves[np.asarray(layout.impossible)[layout.cuts["place"]]] = 0
    truth = on_tree(loaded, leaves)
    levels = {}
    for level, nodes in layout.cuts.items():
        possible = layout.possible(level)
        levels[level] = truth[nodes] if possible is None else truth[nodes][possible]
    above = loaded.spec.tables[0].model_copy(update={"prior": "above"})
    for spec in (
        drawn_towards(loaded, "area_age", np.full(truth.shape, 25), tmp_path),
        replace(loaded, spec=loaded.spec.model_copy(update={"tables": (above, *loaded.spec.tables[1:])})),
    ):
        run = without_data(spec)
        tables, margins = one_release(run, {"area_age": levels, "ages": {"": truth[0]}}, 6)
        assert layout.impossible is not None
        assert layout.impossible.sum() == 5
        assert (tables["area_age"].values[layout.impossible] == 0).all()
        assert (margins["area_age"].half[layout.impossible] == 0).all()


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_cells_are_found_by_their_codes(tmp_path: Path, kind: str) -> None:
    """Rows in any order, codes that are gone, new ones, and blanks."""
    loaded = loaded_in(tmp_path)
    layout = Layout.of(loaded, loaded.spec.tables[0])
    rows = pa.table(
        {
            "level": ["place", "place", "region", "place", "place"],
            "area": ["P29", "P0", "R0", "gone", "P1"],
            "age": ["19", "0", "0", "0", "7"],
            "count": pa.array([12, 3, 99, 50, None], pa.int64()),
        }
    )
    file = tmp_path / f"area_age.{kind}"
    if kind == "csv":
        pa.csv.write_csv(rows, file)
    else:
        pa.parquet.write_table(rows, file)
    prior = PriorTable("0" * 32, tmp_path, "0" * 64, file.suffix[1:], file.name, digest_of(file))
    found = prior_numbers(prior, layout, "place")
    codes = [layout.along.node_codes[node] for node in layout.cuts["place"]] if layout.along else []
    assert found[codes.index("P29"), 19] == 12
    assert found[codes.index("P0"), 0] == 3
    assert int((~np.isnan(found)).sum()) == 2
