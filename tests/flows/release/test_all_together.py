"""Impossible cells, rates, bounds by group, a joined universe and a look-up of the unit, in one release."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pandas as pd
import pytest

from tabularium.ledger import Ledger
from tabularium.tasks.runtime.home import Home
from tabularium.validations.release_spec.load import load_spec
from tabularium.validations.release_spec.problems import SpecProblems
from tests.flows.release.scene import publish
from tests.flows.release.test_measures import require_verified

SPEC = """\
product: homes
dataset: people
period: "2026"
source: {path: people.csv}
lookups: {homes: {path: homes.csv, unit: person, key: home}}
privacy: {unit: {entity: person, column: person}, max_contributions: 1, budget: "1"}
columns:
  age: {integer: {from: 0, to: 9, edges: [3, 7]}}
  status: {categories: [employed, idle]}
  sex: {categories: [f, m]}
  tenure: {from: homes.tenure, categories: [own, rent]}
tables:
  - name: everybody
    dimensions: [age, status, tenure]
    measures:
      rent: {sum: homes.cost, from: 0, to: 9}
      women: {percent: "sex = f"}
  - name: workers
    dimensions: [tenure]
    where: "age >= 3 and status = employed"
    measures:
      rent: {sum: homes.cost, from: 0, to: 9}
      by_tenure: {mean: homes.cost, from: 0, to: {by: tenure, values: {own: 2, rent: 9}}}
impossible:
  - {cells: {age: [0-2], status: [employed]}, reason: "children are not asked"}
publication: {folder: releases, formats: [csv, parquet]}
"""


def test_what_is_equal_in_the_data_is_equal_in_the_release(tmp_path: Path) -> None:
    rows = [
        (f"p{i}", f"h{i // 2}", i % 10, ("idle", "employed")[i % 10 > 4], "fm"[i % 3 > 0]) for i in range(400)
    ]
    people = pd.DataFrame(rows, columns=["person", "home", "age", "status", "sex"])
    homes = people[["person", "home"]].assign(
        tenure=["own" if i // 2 % 3 else "rent" for i in range(400)], cost=[i // 2 % 10 for i in range(400)]
    )
    people.to_csv(tmp_path / "people.csv", index=False)
    homes.to_csv(tmp_path / "homes.csv", index=False)
    (tmp_path / "spec.yaml").write_text(SPEC)
    home = Home.at(tmp_path / "home")
    with Ledger.connect(home.ledger_url) as books:
        books.open_account("people", unit="person", relation="add-remove", definition="pure", cap=Fraction(9))
    folder = Path(publish(tmp_path / "spec.yaml", home).folder)
    require_verified(folder)
    every, workers = pd.read_csv(folder / "everybody.csv"), pd.read_csv(folder / "workers.csv")
    none = every[(every.age == "0-2") & (every.status == "employed")]
    zeros = none[["count", "margin", "rent", "rent_margin"]]
    assert (
        len(none) == 2
        and (zeros == 0).all(axis=None)
        and none[["women", "women_margin"]].isna().all(axis=None)
    )
    inside = (
        every[(every.age != "0-2") & (every.status == "employed")].groupby("tenure")[["count", "rent"]].sum()
    )
    assert (workers.set_index("tenure")[["count", "rent"]] == inside).all(axis=None)
    assert (workers.margin > 0).all() and (workers.rent_margin > 0).all()
    certificate = json.loads((folder / "certificate.json").read_bytes())
    assert certificate["tables"]["everybody"]["impossible"] == 2


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("to: 9}\n      women", "to: {by: tenure, values: {own: 2, rent: 9}}}\n      women"),
        ("dimensions: [tenure]", "dimensions: [tenure, status]"),
    ],
)
def test_bounds_by_group_beside_exact_zeros_are_refused_by_check(old: str, new: str, tmp_path: Path) -> None:
    """Their array lies flat without the zeros, and knows its groups no more."""
    (tmp_path / "spec.yaml").write_text(SPEC.replace(old, new))
    with pytest.raises(SpecProblems, match=r"bounds that differ by group, and some cells .* exactly zero"):
        load_spec(tmp_path / "spec.yaml")


def test_choices_beside_exact_zeros_are_refused_by_check(tmp_path: Path) -> None:
    """They look at the whole histogram of a cell."""
    chosen = "rent: {median: homes.cost, method: choice, from: 0, to: 9}\n      women"
    text = SPEC.replace("rent: {sum: homes.cost, from: 0, to: 9}\n      women", chosen)
    assert text != SPEC
    (tmp_path / "spec.yaml").write_text(text)
    with pytest.raises(SpecProblems, match=r"method: is chosen in every cell, and some .* exactly zero"):
        load_spec(tmp_path / "spec.yaml")
