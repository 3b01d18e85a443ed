"""Margins of large tables, whose simulated releases are of a part of them, beside those of whole ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from tabularium.mechanisms.inference import Hierarchy, laplace_variance
from tabularium.mechanisms.noise.synthetic import generator
from tabularium.tasks.margins import bootstrap, margins
from tabularium.tasks.margins.error_model import LevelError
from tabularium.tasks.postprocess.agreement import Agreement
from tabularium.tasks.postprocess.postprocessing import WHOLE_SIMULATIONS, PostProcessor
from tabularium.tasks.runtime.run import without_data
from tabularium.validations.certificate import Margins
from tabularium.validations.release_spec.load import Loaded, load_spec
from tests.tasks.in_memory import Truth, one_release

PROVINCES, PLACES = 12, 20
SPEC = """\
product: large
dataset: people
period: "2026"
source: {{path: people.csv}}
privacy: {{unit: record, budget: "1/2"}}
columns:
  area: {{hierarchy: areas.csv, levels: [nation, province, place]}}
  age: {{integer: {{from: 0, to: 79, width: 10}}}}
  sex: {{categories: [f, m]}}
tables:
  - {{name: ages, dimensions: [area, age], share: "1/2"}}
  - {{name: sexes, dimensions: [area, sex], share: "1/2"{second}}}
{more}
"""


@pytest.fixture(autouse=True)
def _small_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "LARGE", 1000)
    monkeypatch.setattr(bootstrap, "ENOUGH", 400)
    monkeypatch.setattr(margins, "LEAST", 4)
    monkeypatch.setattr(margins, "MOST", 4)


def loaded_in(folder: Path, second: str = "", more: str = "") -> Loaded:
    lines = ["code,label,parent", "N,N,"] + [f"P{p},P{p},N" for p in range(PROVINCES)]
    lines += [f"P{p}A{a},P{p}A{a},P{p}" for p in range(PROVINCES) for a in range(PLACES)]
    (folder / "areas.csv").write_text("\n".join(lines) + "\n")
    (folder / "spec.yaml").write_text(SPEC.format(second=second, more=more))
    return load_spec(folder / "spec.yaml")


def truth_of(loaded: Loaded) -> Truth:
    """Provinces of very different size; most cells hold little."""
    rng = generator(4)
    mean = np.repeat(8.0 / 1.4 ** np.arange(PROVINCES), PLACES)[:, None, None]
    people = rng.poisson(mean * rng.gamma(0.5, 2.0, (PROVINCES * PLACES, 8, 2)))
    people[:, 0] = 0
    places = Agreement.of(loaded).layouts["ages"]
    above = places.parents[-PROVINCES * PLACES :]
    found: dict[str, dict[str, Any]] = {}
    for name, layout in Agreement.of(loaded).layouts.items():
        cells = people.sum(axis=2 if name == "ages" else 1)
        tree, every = Hierarchy(layout.parents), np.zeros((layout.nodes, layout.cells), np.int64)
        np.add.at(every, np.flatnonzero(tree.leaf) if layout.nodes == places.nodes else above, cells)
        for block in tree.up():
            every[block.parents] = block.total(every[block.children])
        found[name] = {
            level: every[nodes].reshape(layout.shape(level)) for level, nodes in layout.cuts.items()
        }
    return found


def fits_the_schema(about: Any) -> bool:
    try:
        Margins.model_validate(about)
    except ValidationError:
        return False
    return True


def sampled(made: Any) -> bool:
    return "sampled" in made.about["margins"]


def test_margins_from_parts_are_those_from_whole_releases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = loaded_in(tmp_path)
    truth = truth_of(loaded)
    known = "invariants: [{name: people, count: COUNT, reason: known}]"
    loaded = loaded_in(tmp_path, more=known.replace("COUNT", str(truth["ages"]["place"].sum())))
    monkeypatch.setattr(margins, "MOST", 9)
    run = without_data(loaded)
    published, some = one_release(run, truth, 1)
    monkeypatch.setattr(bootstrap, "LARGE", 10**9)
    monkeypatch.setattr(margins, "replicates", lambda _: 16)
    whole = one_release(run, truth, 1)[1]
    for name, each in some.items():
        about = each.about["margins"]
        assert sampled(each)
        assert not sampled(whole[name])
        assert about["sampled"]["part_of_cells"] < 0.5
        assert about["sampled"]["standard_error"] < 0.03
        other, own = whole[name].half, each.half
        assert own.mean() == pytest.approx(other.mean(), rel=0.15)
        assert np.corrcoef(own.ravel(), other.ravel())[0, 1] > 0.9
        assert about["checked"]["held"] > 0.87
        assert fits_the_schema(about)
        assert not fits_the_schema({**about, "sampled": {"part_of_cells": 2}})
        leaves = published[name].values[-PROVINCES * PLACES :]
        error = np.abs(leaves - truth[name]["place"].reshape(leaves.shape))
        assert (error <= own[-len(leaves) :]).mean() > 0.85
        lines = sum(line["cells"] for line in about["errors"] if line["level"] == "place")
        assert lines == pytest.approx(leaves.size, rel=0.05)


def test_errors_of_parts_are_those_of_whole_releases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mean squared errors of places, with weights; those of a part do not depend on what was left out."""
    loaded = loaded_in(tmp_path)
    truth = truth_of(loaded)
    known = {name: {"place": LevelError("exact", laplace_variance(4))} for name in truth}
    found: list[dict[str, float]] = []
    run = without_data(loaded)
    values = {name: each.values for name, each in one_release(run, truth, 1)[0].items()}
    for large, releases in ((1000, 16), (10**9, 4)):
        monkeypatch.setattr(bootstrap, "LARGE", large)
        made = bootstrap.Bootstrap(run, PostProcessor.of(loaded), "one", values, known)
        assert made.sampled == (large == 1000)
        sums = {name: np.zeros(2) for name in values}
        for number in range(releases):
            for name, each in made.release(number).items():
                nodes = np.arange(len(values[name])) if each.nodes is None else each.nodes
                weights = np.ones(len(nodes)) if each.weights is None else each.weights
                square = ((each.values - values[name][nodes]) ** 2).mean(axis=1)
                places = nodes > PROVINCES
                sums[name] += (weights * square)[places].sum(), weights[places].sum()
        found.append({name: square / number for name, (square, number) in sums.items()})
    some, whole = found
    for name, square in whole.items():
        assert some[name] == pytest.approx(square, rel=0.15)


@pytest.mark.parametrize(
    ("second", "more", "part"),
    [
        ("", "impossible: [{cells: {area: [P0, P3], age: [0-9]}, reason: law}]", True),
        (', levels: {province: "1"}', "", True),
        (', levels: {place: "1"}', "", True),
        (", mechanism: privelet", "", False),
        ("", "postprocessing: {consistency: true, nonnegativity: false, rounding: true}", True),
    ],
)
def test_what_can_be_sampled(tmp_path: Path, second: str, more: str, part: bool) -> None:
    """Noise that is drawn for all cells together cannot be drawn for some of them."""
    loaded = loaded_in(tmp_path, second, more)
    truth = truth_of(loaded)
    run = without_data(loaded)
    published, made = one_release(run, truth, 2)
    if "province" in second:
        again = one_release(run, truth, 2)[1]
        assert all((each.half == again[name].half).all() for name, each in made.items())
    assert sampled(made["ages"]) == part or made["ages"].about["margins"]["method"] == "exact"
    for name, each in made.items():
        assert np.isfinite(each.half).all()
        layout = Agreement.of(loaded).layouts[name]
        for level, nodes in layout.cuts.items():
            error = np.abs(published[name].values[nodes] - truth[name][level].reshape(len(nodes), -1))
            if error.size > 100:
                assert (error <= each.half[nodes] + 1e-9).mean() > 0.8


def test_an_older_release_is_remade_from_whole_simulations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = loaded_in(tmp_path)

    def seen(*arguments: Any, **options: Any) -> None:
        made = bootstrap.Bootstrap(*arguments, **options)
        assert not made.sampled
        assert not made.few
        raise StopIteration

    def older(*arguments: Any) -> Any:
        return margins.margins_of(*arguments, version=WHOLE_SIMULATIONS)

    monkeypatch.setattr(margins, "Bootstrap", seen)
    monkeypatch.setattr("tests.tasks.in_memory.margins_of", older)
    run = without_data(loaded)
    with pytest.raises(StopIteration):
        one_release(run, truth_of(loaded), 1)
