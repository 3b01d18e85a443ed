"""Universes and nested codings: what the planner makes of tables that do not all count the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tabularium.mechanisms.errors import InputError
from tabularium.tasks.plan.planned_model import PlannedModel
from tabularium.tasks.plan.planning import plan
from tabularium.validations.release_spec.load import Loaded, load_spec
from tests.tasks.plan.planned_specs import exact_variances, published, true_counts

SPEC = """\
product: groups
dataset: people
period: "1"
source: {{path: nowhere.csv}}
privacy: {{unit: record, definition: zcdp, delta: "1/1000000", budget: "1/8"}}
columns:
  age: {{from: AGEP, integer: {{from: 0, to: 7}}}}
  group: {{from: AGEP, integer: {{from: 0, to: 7, {bins}}}}}
  sex: {{categories: ["1", "2"]}}
  work: {{categories: [a, b]}}
tables:
  - {{name: ages, dimensions: [age]}}
  - {{name: groups, dimensions: [group, sex]}}
  - {{name: grown, dimensions: [group, sex], where: "work = {grown}"}}
targets:
  - {{table: ages, margin: 40}}
  - {{table: groups, margin: 60}}
  - {{table: grown, margin: 30}}
postprocessing: {{nonnegativity: {cut}, rounding: {cut}}}
"""


def loaded(folder: Path, bins: str = "width: 2", grown: str = "a", cut: str = "false") -> Loaded:
    path = folder / "spec.yaml"
    path.write_text(SPEC.format(bins=bins, grown=grown, cut=cut))
    return load_spec(path)


def variances(made: Loaded) -> dict[str, np.ndarray]:
    model = PlannedModel.of(made)
    losses = [float(made.spec.losses[each]) for each in model.linear.measurements]
    return model.variances(np.array(losses))


def test_even_codings_are_planned_exactly(tmp_path: Path) -> None:
    """Groups of two ages: the tables of all records help each other, that of a universe has nobody."""
    found = plan(loaded(tmp_path))
    assert not found.closer
    made, exact = variances(found.loaded), exact_variances(found.loaded)
    for name, each in exact.items():
        np.testing.assert_allclose(np.broadcast_to(made[name], each.shape), each, rtol=1e-6)
    rho = float(found.loaded.spec.losses["grown", ""])
    assert made["grown"][0, 0] == pytest.approx(1 / (2 * rho))
    alone = float(found.loaded.spec.losses["ages", ""])
    assert made["ages"][0, 0] < 0.99 / (2 * alone)
    assert [each.margin <= (each.wanted or 0) for each in found.margins] == [True] * 3


def test_uneven_codings_are_planned_with_margins_that_are_not_too_narrow(tmp_path: Path) -> None:
    found = plan(loaded(tmp_path, bins="edges: [1, 4]"))
    assert found.closer == ("ages", "groups")
    made, exact = variances(found.loaded), exact_variances(found.loaded)
    for name, each in exact.items():
        assert (each <= made[name] * (1 + 1e-9)).all()
    np.testing.assert_allclose(exact["grown"], np.broadcast_to(made["grown"], exact["grown"].shape))


def test_counts_are_taken_from_the_same_universe(tmp_path: Path) -> None:
    made = loaded(tmp_path, cut="true")
    counts = true_counts(made, 2_000)
    assert counts["grown"].sum() < counts["groups"].sum()
    like = published(tmp_path / "like", made, counts)
    found = plan(made, like=like)
    assert found.simulated
    assert not found.missed
    with pytest.raises(InputError, match="codes and records of table grown"):
        plan(loaded(tmp_path, grown="b"), like=like)
